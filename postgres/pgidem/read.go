package pgidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/flavoso/flavoso-go/idempotency"
)

// micros rounds up, so that a positive duration never becomes none.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func policyCode(p idempotency.LeasePolicy) int16 {
	switch p {
	case idempotency.Uncertain:
		return 1
	case idempotency.FreeKey:
		return 2
	}
	return 0
}

func holdCode(h idempotency.HoldFrom) int16 {
	if h == idempotency.FromReceipt {
		return 1
	}
	return 0
}

var states = map[int16]idempotency.State{stateProcessing: idempotency.Processing, stateCompleted: idempotency.Completed,
	stateFailed: idempotency.Failed, stateUncertain: idempotency.Uncertain}

// recordRow takes the columns of recordColumns. Times are pgx's own: it reads those without detours.
type recordRow struct {
	r                                 idempotency.Record
	state, status                     int16
	fingerprint                       []byte
	created, lease, finished, expires pgtype.Timestamptz
}

func (x *recordRow) targets() []any {
	return x.stateTargets(&x.r.Scope.Tenant, &x.r.Scope.Operation, &x.r.Scope.Key, &x.r.Size)
}

// stateTargets take the columns of stateColumns behind others.
func (x *recordRow) stateTargets(before ...any) []any {
	return append(before, &x.state, &x.r.Generation, &x.fingerprint, &x.r.Effect, &x.r.Note, &x.status, &x.created, &x.lease,
		&x.finished, &x.expires)
}

// lapsed reports whether the lease of a running record has ended.
func (x *recordRow) lapsed(now time.Time) bool {
	return x.state == stateProcessing && !x.lease.Time.After(now)
}

// gone reports whether the time is over for which a finished record is held.
func (x *recordRow) gone(now time.Time) bool {
	return (x.state == stateCompleted || x.state == stateFailed) && x.expires.Valid && !x.expires.Time.After(now)
}

func (x *recordRow) record() idempotency.Record {
	x.r.State, x.r.Status = states[x.state], int(x.status)
	copy(x.r.Fingerprint[:], x.fingerprint)
	// What is NULL is the zero time.
	x.r.CreatedAt, x.r.LeaseUntil, x.r.FinishedAt, x.r.ExpiresAt = x.created.Time, x.lease.Time, x.finished.Time, x.expires.Time
	return x.r
}

// Get implements idempotency.Engine. A result that cannot be decoded is an error wrapping idempotency.ErrResultFormat; the
// record is returned all the same.
func (e *Engine) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, idempotency.Result, error) {
	var (
		row    recordRow
		stored []byte
		res    idempotency.Result
	)
	err := e.pool.QueryRow(ctx, e.sql.get, id[:]).Scan(append([]any{&stored}, row.targets()...)...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return idempotency.Record{}, res, idempotency.ErrNotFound
	case err != nil:
		return idempotency.Record{}, res, fmt.Errorf("pgidem: get: %w", err)
	}
	if stored != nil {
		err = res.UnmarshalBinary(stored)
	}
	return row.record(), res, err
}

// List implements idempotency.Engine. Without a filter for open states it reads along the primary key: meant for
// operators. Running and uncertain records are found by index.
func (e *Engine) List(ctx context.Context, f idempotency.Filter) ([]idempotency.Record, error) {
	var codes []int16
	open := len(f.States) > 0
	for _, want := range f.States {
		for code, s := range states {
			if s == want {
				codes = append(codes, code)
				open = open && (code == stateProcessing || code == stateUncertain)
			}
		}
	}
	if len(f.States) > 0 && codes == nil {
		return nil, nil // no such state
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	sql := e.sql.list
	if open {
		sql = e.sql.listOpen
	}
	rows, err := e.pool.Query(ctx, sql, f.After[:], f.Tenant, codes, limit)
	if err != nil {
		return nil, fmt.Errorf("pgidem: list: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (idempotency.Record, error) {
		var x recordRow
		err := row.Scan(x.targets()...)
		return x.record(), err
	})
	if err != nil {
		return nil, fmt.Errorf("pgidem: list: %w", err)
	}
	return out, nil
}

// Sweep implements idempotency.Engine: one batch, by index, in one statement. Batches of 1000 to 5000 keep locks short.
// Several sweeps at once share the work.
func (e *Engine) Sweep(ctx context.Context, limit int) (rep idempotency.SweepReport, err error) {
	err = again(ctx, func() error {
		return e.pool.QueryRow(ctx, e.sql.sweep, limit).Scan(&rep.Deleted, &rep.Bytes)
	})
	if err != nil {
		return idempotency.SweepReport{}, fmt.Errorf("pgidem: sweep: %w", err)
	}
	rep.More = limit > 0 && rep.Deleted == limit
	e.counters.Sweep(rep.Deleted, rep.Bytes)
	return rep, nil
}

// countedBytes is the size of a table up to which its rows are counted rather than estimated.
const countedBytes = 8 << 20

// Stats implements idempotency.Engine. It reads by index; the number of all records is an estimate once the
// table is larger than 8 MiB. Counters are this process's.
func (e *Engine) Stats(ctx context.Context) (idempotency.Stats, error) {
	st := idempotency.Stats{Counters: e.counters.Load()}
	var (
		processing, uncertain, held, backlog *float64
		heap                                 int64
		density                              float64
	)
	err := e.pool.QueryRow(ctx, e.sql.stats).Scan(&st.Processing, &st.Uncertain, &st.Lapsed, &processing, &uncertain, &held,
		&st.Backlog, &backlog, &st.Bytes, &heap, &density)
	if err != nil {
		return idempotency.Stats{}, fmt.Errorf("pgidem: stats: %w", err)
	}
	for dst, src := range map[*time.Duration]*float64{&st.OldestProcessing: processing, &st.OldestUncertain: uncertain,
		&st.OldestHeld: held, &st.BacklogAge: backlog} {
		if src != nil {
			*dst = time.Duration(*src * float64(time.Second))
		}
	}
	if heap <= countedBytes {
		err = e.pool.QueryRow(ctx, e.sql.count).Scan(&st.Records)
		if err != nil {
			return idempotency.Stats{}, fmt.Errorf("pgidem: stats: %w", err)
		}
		return st, nil
	}
	if density < 0 {
		density = 20 // never analysed: about what a page holds of small records
	}
	st.Records, st.Estimated = int64(density*float64(heap/8192)), true
	return st, nil
}
