package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// connectTimeout is how long to wait for a database that does not answer, unless its URL says otherwise.
const connectTimeout = 10 * time.Second

// connect opens the outbox in a database. It makes no tables where there are none.
func (f *outboxFlags) connect(ctx context.Context, url string) (*pgoutbox.Engine, func() error, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, usagef("%v", err)
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "flavoso outbox"
	cfg.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	engine := pgoutbox.New(pool, pgoutbox.Options{Schema: f.schema, PollOnly: true, Poll: time.Hour})
	closeAll := func() error {
		err := engine.Close()
		pool.Close()
		return err
	}
	if _, err = engine.Counts(ctx, ""); err != nil {
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == undefinedTable {
			err = errors.New("there is no outbox in this database: its tables are missing; --schema says where else to look")
		}
		return nil, nil, errors.Join(fmt.Errorf("the database: %w", err), closeAll())
	}
	return engine, closeAll, nil
}

// undefinedTable is PostgreSQL's code for a table that does not exist.
const undefinedTable = "42P01"
