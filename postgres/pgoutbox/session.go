package pgoutbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// call is one statement of a transaction and what is done with its rows; row nil = it has none.
type call struct {
	sql  string
	args []any
	row  func(scan scanner) error
}

// session runs statements one after the other in one transaction, in as few round trips as it can.
type session interface {
	do(ctx context.Context, calls ...call) error
}

// batcher is what pgx sends statements with: a connection, or the application's transaction.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// pgxSession sends all statements in one round trip.
type pgxSession struct{ b batcher }

func (s pgxSession) do(ctx context.Context, calls ...call) (err error) {
	batch := &pgx.Batch{}
	for _, c := range calls {
		batch.Queue(c.sql, c.args...)
	}
	answers := s.b.SendBatch(ctx, batch)
	defer func() {
		if closed := answers.Close(); err == nil {
			err = closed
		}
	}()
	for _, c := range calls {
		if c.row == nil {
			if _, err := answers.Exec(); err != nil {
				return err
			}
			continue
		}
		rows, err := answers.Query()
		if err != nil {
			return err
		}
		for rows.Next() {
			if err := c.row(rows.Scan); err != nil {
				rows.Close()
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}

// sqlSession works in a transaction of database/sql.
type sqlSession struct{ tx *sql.Tx }

func (s sqlSession) do(ctx context.Context, calls ...call) error {
	for _, c := range calls {
		if err := s.one(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (s sqlSession) one(ctx context.Context, c call) error {
	if c.row == nil {
		_, err := s.tx.ExecContext(ctx, c.sql, c.args...)
		return err
	}
	rows, err := s.tx.QueryContext(ctx, c.sql, c.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := c.row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// isRefused reports whether the server rolled the transaction back for the sake of isolation, or after a deadlock.
// Nothing was done and it may run again.
func isRefused(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.Code == "40001" || pe.Code == "40P01")
}

// isBroken reports whether the connection is gone, or the server is ending: what a COMMIT under way has done is
// unknown then, and anything else is rolled back.
func isBroken(err error) bool {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return strings.HasPrefix(pe.Code, "57P") || strings.HasPrefix(pe.Code, "08")
	}
	return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// mayBeDone reports whether the transaction whose COMMIT was sent may be committed in spite of the error.
func mayBeDone(err error) bool {
	var pe *pgconn.PgError
	return err != nil && (!errors.As(err, &pe) || isBroken(err))
}
