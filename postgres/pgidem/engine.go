package pgidem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go/idempotency"
)

// Engine is an idempotency.Engine on PostgreSQL. Safe for concurrent use; it holds a connection of its pool only
// while a statement runs.
type Engine struct {
	pool     *pgxpool.Pool
	sql      statements
	counters idempotency.LiveCounters
}

var _ idempotency.Engine = (*Engine)(nil)

// Option configures New, Migrate and InTx. Use the same options for all of them.
type Option func(*config)

type config struct {
	schema string
	tx     pgx.TxOptions
}

func newConfig(opts []Option) config {
	var c config
	for _, o := range opts {
		o(&c)
	}
	return c
}

// WithSchema puts the tables into a schema, which Migrate makes if it is missing. Default: the first schema of the
// connection's search path.
func WithSchema(name string) Option { return func(c *config) { c.schema = name } }

// New returns an engine on a pool. The tables must exist: see Migrate. The pool stays the caller's.
func New(pool *pgxpool.Pool, opts ...Option) *Engine {
	return &Engine{pool: pool, sql: newStatements(newConfig(opts).schema)}
}

// querier is a pool or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// again repeats a statement that the server refused for the sake of isolation: where the pool's default is above READ
// COMMITTED, or after a deadlock. It was rolled back, so nothing is done twice.
func again(ctx context.Context, f func() error) error {
	var err error
	for try := range 10 {
		if err = f(); !isSerialization(err) {
			return err
		}
		pause := time.NewTimer(time.Duration(rand.Int64N(int64(time.Millisecond) << min(try, 6))))
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
	}
	return err
}

func isSerialization(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.Code == "40001" || pe.Code == "40P01")
}

// Claim implements idempotency.Engine: one statement for a repeat, two for a new key.
func (e *Engine) Claim(ctx context.Context, req idempotency.ClaimRequest) (res idempotency.ClaimResult, err error) {
	if err := req.Validate(); err != nil {
		return res, err
	}
	id := req.Scope.ID()
	err = again(ctx, func() error {
		var next string
		res, next, err = e.look(ctx, id, req)
		if err == nil && next == e.sql.insert {
			if res, err = e.claim(ctx, next, id, req); errors.Is(err, pgx.ErrNoRows) {
				next, err = e.sql.claim, nil
			}
		}
		if err == nil && next == e.sql.claim {
			res, err = e.claim(ctx, next, id, req)
		}
		return err
	})
	if err != nil {
		return idempotency.ClaimResult{}, fmt.Errorf("pgidem: claim: %w", err)
	}
	e.counters.Decision(res.Decision)
	return res, nil
}

// look decides by what is there, without writing. If that does not decide it returns the statement to go on with.
func (e *Engine) look(ctx context.Context, id idempotency.ID, req idempotency.ClaimRequest) (res idempotency.ClaimResult, next string, err error) {
	var (
		now    pgtype.Timestamptz
		stored []byte
		row    recordRow
	)
	err = e.pool.QueryRow(ctx, e.sql.look, id[:]).Scan(row.stateTargets(&now, &stored)...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return res, e.sql.insert, nil
	case err != nil:
		return res, "", err
	case row.lapsed(now.Time), row.gone(now.Time):
		return res, e.sql.claim, nil
	}
	kind := kindReplay
	switch {
	case !bytes.Equal(row.fingerprint, req.Fingerprint[:]):
		kind = kindMismatch
	case row.state == stateProcessing:
		kind = kindInProgress
	case row.state == stateUncertain:
		kind = kindUncertain
	}
	return row.result(kind, req.Scope, stored), "", nil
}

// The kinds of decisions as the claim function names them.
const (
	kindNew        = "n"
	kindTakenOver  = "t"
	kindReplay     = "r"
	kindInProgress = "i"
	kindMismatch   = "m"
	kindUncertain  = "u"
	kindParked     = "p" // uncertain from now on
)

func (e *Engine) claim(ctx context.Context, sql string, id idempotency.ID, req idempotency.ClaimRequest) (idempotency.ClaimResult, error) {
	var (
		kind   string
		stored []byte
		row    recordRow
	)
	owner := idempotency.NewOwner()
	err := e.pool.QueryRow(ctx, sql, id[:], owner[:], req.Fingerprint[:], micros(req.Lease), micros(req.Retention),
		policyCode(req.OnLeaseLost), holdCode(req.HoldFrom), clean(req.Scope.Tenant), clean(req.Scope.Operation), clean(req.Scope.Key)).
		Scan(row.stateTargets(&kind, &stored)...)
	if err != nil {
		return idempotency.ClaimResult{}, err
	}
	res := row.result(kind, req.Scope, stored)
	switch kind {
	case kindNew, kindTakenOver:
		res.Claim = idempotency.Claim{Scope: req.Scope, Owner: owner, Generation: res.Record.Generation, LeaseUntil: res.Record.LeaseUntil}
	case kindParked:
		e.counters.MarkedUncertain.Add(1)
	}
	return res, nil
}

// result turns a decision about the row into the engine's answer. The columns of the scope are for readers; the id
// decides.
func (x *recordRow) result(kind string, scope idempotency.Scope, stored []byte) (res idempotency.ClaimResult) {
	res.Record = x.record()
	res.Record.Scope, res.Record.Size = scope, int64(len(stored))
	switch kind {
	case kindNew:
		res.Decision = idempotency.New
	case kindTakenOver:
		res.Decision = idempotency.TakenOver
	case kindMismatch:
		res.Decision = idempotency.Mismatch
	case kindInProgress:
		res.Decision = idempotency.InProgress
	case kindUncertain, kindParked:
		res.Decision = idempotency.Uncertain
	case kindReplay:
		replay(&res, stored)
	}
	return res
}

// replay turns a stored result into the decision.
func replay(res *idempotency.ClaimResult, stored []byte) {
	res.Decision = idempotency.Replay
	if res.Err = res.Result.UnmarshalBinary(stored); res.Err != nil || res.Result.Omitted {
		res.Decision, res.Result = idempotency.ResultGone, idempotency.Result{}
	}
}

// Complete implements idempotency.Engine.
func (e *Engine) Complete(ctx context.Context, c idempotency.Claim, r idempotency.Result) error {
	return again(ctx, func() error { return e.finish(ctx, e.pool, c, r, stateCompleted) })
}

// Fail implements idempotency.Engine.
func (e *Engine) Fail(ctx context.Context, c idempotency.Claim, r idempotency.Result) error {
	return again(ctx, func() error { return e.finish(ctx, e.pool, c, r, stateFailed) })
}

// CompleteTx is Complete inside the caller's transaction: effect and result commit together (S7). On
// ErrOwnershipLost the caller must roll back. ErrSerialization (SQLSTATE 40001 or 40P01, above READ COMMITTED)
// says: roll back and run the transaction again; it says nothing about ownership. A lost COMMIT leaves the
// result unknown like any other; a repeat of the request gets the truth.
func (e *Engine) CompleteTx(ctx context.Context, tx pgx.Tx, c idempotency.Claim, r idempotency.Result) error {
	return serialization(e.finish(ctx, tx, c, r, stateCompleted))
}

// FailTx is Fail inside the caller's transaction. See CompleteTx.
func (e *Engine) FailTx(ctx context.Context, tx pgx.Tx, c idempotency.Claim, r idempotency.Result) error {
	return serialization(e.finish(ctx, tx, c, r, stateFailed))
}

// serialization marks the errors after which the caller's transaction may run again.
func serialization(err error) error {
	if isSerialization(err) {
		return fmt.Errorf("%w: %w", idempotency.ErrSerialization, err)
	}
	return err
}

func (e *Engine) finish(ctx context.Context, q querier, c idempotency.Claim, r idempotency.Result, to int16) error {
	data, err := r.MarshalBinary()
	if err != nil {
		return fmt.Errorf("pgidem: encoding the result: %w", err)
	}
	id := c.Scope.ID()
	var late bool
	err = q.QueryRow(ctx, e.sql.finish, id[:], c.Owner[:], c.Generation, to, int16(r.Status), data).Scan(&late)
	if errors.Is(err, pgx.ErrNoRows) {
		return e.whyNot(ctx, q, c, to)
	}
	if err != nil {
		return fmt.Errorf("pgidem: storing the result: %w", err)
	}
	e.counters.Finished(states[to], late)
	return nil
}

// whyNot tells why a step of an owner changed no row. to is the state the step led to, 0 = none.
func (e *Engine) whyNot(ctx context.Context, q querier, c idempotency.Claim, to int16) error {
	id := c.Scope.ID()
	var state int16
	err := q.QueryRow(ctx, e.sql.own, id[:], c.Owner[:], c.Generation).Scan(&state)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		e.counters.OwnershipLost.Add(1)
		return idempotency.ErrOwnershipLost
	case err != nil:
		return fmt.Errorf("pgidem: reading the owner: %w", err)
	case state == to:
		return nil // the answer of an earlier attempt was lost
	}
	return idempotency.ErrFinished
}

// step runs a statement that changes the one row a claim owns.
func (e *Engine) step(ctx context.Context, what, sql string, c idempotency.Claim, args ...any) error {
	id := c.Scope.ID()
	return again(ctx, func() error {
		tag, err := e.pool.Exec(ctx, sql, append([]any{id[:], c.Owner[:], c.Generation}, args...)...)
		if err != nil {
			return fmt.Errorf("pgidem: %s: %w", what, err)
		}
		if tag.RowsAffected() == 0 {
			return e.whyNot(ctx, e.pool, c, 0)
		}
		return nil
	})
}

// Release implements idempotency.Engine.
func (e *Engine) Release(ctx context.Context, c idempotency.Claim) error {
	err := e.step(ctx, "release", e.sql.release, c)
	if err == nil {
		e.counters.Released.Add(1)
	}
	return err
}

// Extend implements idempotency.Engine.
func (e *Engine) Extend(ctx context.Context, c idempotency.Claim, lease time.Duration) (until time.Time, err error) {
	id := c.Scope.ID()
	err = again(ctx, func() error {
		err := e.pool.QueryRow(ctx, e.sql.extend, id[:], c.Owner[:], c.Generation, micros(lease)).Scan(&until)
		if errors.Is(err, pgx.ErrNoRows) {
			return e.whyNot(ctx, e.pool, c, 0)
		}
		if err != nil {
			return fmt.Errorf("pgidem: extend: %w", err)
		}
		return nil
	})
	return until, err
}

// MarkEffect implements idempotency.Engine.
func (e *Engine) MarkEffect(ctx context.Context, c idempotency.Claim) error {
	return e.step(ctx, "mark effect", e.sql.markEffect, c)
}

// MarkUncertain implements idempotency.Engine.
func (e *Engine) MarkUncertain(ctx context.Context, c idempotency.Claim, note string) error {
	err := e.step(ctx, "mark uncertain", e.sql.markUncertain, c, clean(note))
	if err == nil {
		e.counters.MarkedUncertain.Add(1)
	}
	return err
}

// clean makes text storable: PostgreSQL refuses NUL and invalid UTF-8.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// Reconcile implements idempotency.Engine.
func (e *Engine) Reconcile(ctx context.Context, id idempotency.ID, generation int64, r idempotency.Reconciliation) error {
	sql, args := e.sql.reconcileDelete, []any{id[:], generation}
	switch r.Verdict {
	case idempotency.Happened, idempotency.Refused:
		data, err := r.Result.MarshalBinary()
		if err != nil {
			return fmt.Errorf("pgidem: encoding the result: %w", err)
		}
		state := int16(stateCompleted)
		if r.Verdict == idempotency.Refused {
			state = stateFailed
		}
		sql, args = e.sql.reconcile, append(args, state, int16(r.Result.Status), data, max(micros(r.Retention), 0))
	case idempotency.DidNotHappen:
	default:
		return idempotency.ErrState
	}
	return again(ctx, func() error {
		tag, err := e.pool.Exec(ctx, sql, args...)
		if err != nil {
			return fmt.Errorf("pgidem: reconcile: %w", err)
		}
		if tag.RowsAffected() > 0 {
			e.counters.Reconciled.Add(1)
			return nil
		}
		var one int
		switch err := e.pool.QueryRow(ctx, e.sql.exists, id[:]).Scan(&one); {
		case errors.Is(err, pgx.ErrNoRows):
			return idempotency.ErrNotFound
		case err != nil:
			return fmt.Errorf("pgidem: reconcile: %w", err)
		}
		return idempotency.ErrState
	})
}
