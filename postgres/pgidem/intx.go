package pgidem

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go/idempotency"
)

// ErrCommitUnknown says that the connection was lost at the commit and the database could not be asked again in
// time. The work is there whole or not at all; the same request finds out.
var ErrCommitUnknown = errors.New("pgidem: result of the commit is unknown; repeat the same request to find out")

// TxFunc does the work of one operation inside tx and returns the answer that repeats get. An error rolls
// everything back and the key is free at once. It must not commit or roll back tx itself, and it may
// be called again for a later attempt.
type TxFunc func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error)

// InTx is the strongest form of the promise (S7): a try-lock, the effect and the finished record are ONE transaction.
// There is no running record and no lease: a crash before the commit leaves nothing, and a crash after it
// leaves everything. It holds one connection of the pool while fn runs: fn must be quick and local.
//
// The Decision of the answer is New (fn ran and is committed; Result is what it returned), Replay, ResultGone,
// Mismatch, or InProgress (the same key is being worked on; two keys may, very rarely, share a lock).
// req.Lease is not used. A result with a status from 400 on makes the record failed, any other completed.
//
// A connection lost at the commit is looked into: InTx waits for the server to end the transaction and reads what
// became of it, for up to 10 s; then ErrCommitUnknown. Above READ COMMITTED (see WithTxOptions) a lost race is
// idempotency.ErrSerialization: call InTx again.
func InTx(ctx context.Context, pool *pgxpool.Pool, req idempotency.ClaimRequest, fn TxFunc, opts ...Option) (idempotency.ClaimResult, error) {
	return newConfig(opts).inTx(ctx, pool, req, fn)
}

// WithTxOptions sets the isolation of InTx. Default: the pool's.
func WithTxOptions(o pgx.TxOptions) Option { return func(c *config) { c.tx = o } }

// inTxRun is one call of InTx.
type inTxRun struct {
	pool  *pgxpool.Pool
	sql   statements
	req   idempotency.ClaimRequest
	id    idempotency.ID
	owner idempotency.Owner
	tx    pgx.TxOptions
}

func (c config) inTx(ctx context.Context, pool *pgxpool.Pool, req idempotency.ClaimRequest, fn TxFunc) (idempotency.ClaimResult, error) {
	if req.Lease == 0 {
		req.Lease = time.Second // there is none
	}
	if err := req.Validate(); err != nil {
		return idempotency.ClaimResult{}, err
	}
	r := inTxRun{pool: pool, sql: newStatements(c.schema), req: req, id: req.Scope.ID(), owner: idempotency.NewOwner(), tx: c.tx}
	res, err := r.once(ctx, fn)
	var lost *commitError
	if errors.As(err, &lost) {
		return r.settle(ctx, res, lost)
	}
	return res, serialization(err)
}

// commitError is an error of COMMIT after which the transaction may be committed.
type commitError struct{ err error }

func (e *commitError) Error() string { return "pgidem: commit: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

func (r *inTxRun) once(ctx context.Context, fn TxFunc) (res idempotency.ClaimResult, err error) {
	tx, err := r.pool.BeginTx(ctx, r.tx)
	if err != nil {
		return res, fmt.Errorf("pgidem: begin: %w", err)
	}
	done := false
	defer func() {
		if !done { // an error, a decision without work, or fn has panicked
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = tx.Rollback(undo) // a failed rollback closes the connection, which rolls back too
		}
	}()
	res, found, err := r.look(ctx, tx)
	if err != nil || res.Decision != idempotency.New {
		return res, err
	}
	result, err := fn(ctx, tx)
	if err != nil {
		return idempotency.ClaimResult{}, err
	}
	rec, err := r.store(ctx, tx, result, found)
	if err != nil {
		return idempotency.ClaimResult{}, err
	}
	res.Result, res.Record = result, rec
	done = true
	if err := tx.Commit(ctx); err != nil {
		var refused *pgconn.PgError
		if errors.As(err, &refused) && !strings.HasPrefix(refused.Code, "57P") || errors.Is(err, pgx.ErrTxCommitRollback) {
			return idempotency.ClaimResult{}, fmt.Errorf("pgidem: commit: %w", err) // the server says it is rolled back
		}
		return res, &commitError{err}
	}
	return res, nil
}

// look takes the lock and reads the record, in one round trip. The lock is a statement of its own, so that the
// snapshot of the second is younger than the end of the lock's last holder. found is the generation of a record
// that may be replaced.
func (r *inTxRun) look(ctx context.Context, tx pgx.Tx) (res idempotency.ClaimResult, found int64, err error) {
	var (
		locked             bool
		same, gone, lapsed bool
		policy             int16
		owner              []byte
		stored             []byte
		row                recordRow
	)
	batch := &pgx.Batch{}
	batch.Queue("SELECT pg_try_advisory_xact_lock($1::bigint)", int64(binary.BigEndian.Uint64(r.id[:8])))
	batch.Queue(r.sql.read, r.id[:], r.req.Fingerprint[:])
	answers := tx.SendBatch(ctx, batch)
	err = answers.QueryRow().Scan(&locked)
	if err == nil {
		err = answers.QueryRow().Scan(append([]any{&same, &gone, &lapsed, &policy, &owner, &stored}, row.targets()...)...)
	}
	missing := errors.Is(err, pgx.ErrNoRows)
	if closed := answers.Close(); err == nil || missing {
		err = closed
	}
	if err != nil {
		return res, 0, fmt.Errorf("pgidem: lock and read: %w", err)
	}
	if !missing {
		res.Record = row.record()
	}
	res.Record.Scope = r.req.Scope
	switch {
	case missing && !locked:
		res.Decision = idempotency.InProgress
	case missing:
		res.Decision = idempotency.New
	case gone && locked, lapsed && locked && same && policy == 0 && !row.r.Effect, lapsed && locked && policy == 2 && !row.r.Effect:
		res.Decision, found = idempotency.New, row.r.Generation
	case gone:
		res.Decision = idempotency.InProgress
	case !same:
		res.Decision = idempotency.Mismatch
	case row.state == stateUncertain, lapsed && (policy == 1 || row.r.Effect):
		res.Decision = idempotency.Uncertain
	case row.state == stateProcessing:
		res.Decision = idempotency.InProgress
	default:
		replay(&res, stored)
	}
	return res, found, nil
}

func (r *inTxRun) store(ctx context.Context, tx pgx.Tx, result idempotency.Result, found int64) (idempotency.Record, error) {
	data, err := result.MarshalBinary()
	if err != nil {
		return idempotency.Record{}, fmt.Errorf("pgidem: encoding the result: %w", err)
	}
	state := int16(stateCompleted)
	if result.Status >= 400 {
		state = stateFailed
	}
	var row recordRow
	err = tx.QueryRow(ctx, r.sql.insertFinished, r.id[:], r.owner[:], r.req.Fingerprint[:], micros(r.req.Retention), holdCode(r.req.HoldFrom),
		clean(r.req.Scope.Tenant), clean(r.req.Scope.Operation), clean(r.req.Scope.Key), state, int16(result.Status), data, found).
		Scan(row.targets()...)
	if errors.Is(err, pgx.ErrNoRows) {
		// Somebody claimed the key without the lock: the work must not be committed.
		return idempotency.Record{}, idempotency.ErrOwnershipLost
	}
	if err != nil {
		return idempotency.Record{}, fmt.Errorf("pgidem: storing the result: %w", err)
	}
	rec := row.record()
	rec.Scope = r.req.Scope
	return rec, nil
}

// settle finds out what became of a transaction whose COMMIT was not answered. As long as the lock is held the server
// has not ended it; once the lock is free, the record with this call's owner token is there or never will be.
func (r *inTxRun) settle(ctx context.Context, res idempotency.ClaimResult, lost *commitError) (idempotency.ClaimResult, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ended, committed, err := r.inspect(ctx)
		switch {
		case err == nil && ended && committed:
			return res, nil
		case err == nil && ended:
			return idempotency.ClaimResult{}, fmt.Errorf("pgidem: nothing was committed: %w", lost.err)
		}
		timer := time.NewTimer(pause/2 + time.Duration(rand.Int64N(int64(pause))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return idempotency.ClaimResult{}, fmt.Errorf("%w: %w", ErrCommitUnknown, lost.err)
		}
	}
}

func (r *inTxRun) inspect(ctx context.Context) (ended, committed bool, err error) {
	err = pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1::bigint)", int64(binary.BigEndian.Uint64(r.id[:8]))).Scan(&ended)
		if err != nil || !ended {
			return err
		}
		return tx.QueryRow(ctx, r.sql.mine, r.id[:], r.owner[:]).Scan(&committed)
	})
	return ended, committed, err
}
