package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

const (
	// tries bounds how often a step runs again that the server has refused or whose connection was dead.
	tries = 10
	// patience bounds the wait for the answer to a COMMIT, and then for what became of it.
	patience = 15 * time.Second
)

// step is a transaction of the engine's own: statements that read and lock, rules in Go, statements that write together
// with the COMMIT.
type step struct {
	e     *Engine
	s     session
	off   time.Duration // of the clock
	stamp int64         // written into every row that the step writes
	sync  string        // synchronous_commit of the connection
	at    time.Time     // the database's clock when it began
}

// errUnknown says that a COMMIT was not answered.
type errUnknown struct{ err error }

func (e *errUnknown) Error() string { return "result of the commit is unknown: " + e.err.Error() }
func (e *errUnknown) Unwrap() error { return e.err }

// clockCall tells what a step in the application's transaction must know of its connection.
func (st *step) clockCall() call {
	return call{sql: st.e.sql.clock, row: func(scan scanner) error { return scan(&st.at, &st.sync) }}
}

// plannerCall is clockCall for a transaction of the engine's own; see plannerSQL.
func (st *step) plannerCall(sql string) call {
	var set string
	return call{sql: sql, row: func(scan scanner) error { return scan(&st.at, &st.sync, &set) }}
}

// begin opens the transaction and reads, in one round trip.
func (st *step) begin(ctx context.Context, calls ...call) error {
	return st.first(ctx, append([]call{{sql: "BEGIN ISOLATION LEVEL READ COMMITTED"}, st.plannerCall(st.e.sql.planner)}, calls...)...)
}

// first runs the first statements, clockCall or plannerCall among them.
func (st *step) first(ctx context.Context, calls ...call) error {
	before := st.e.clock.now()
	err := st.s.do(ctx, calls...)
	if err == nil {
		st.e.clock.saw(before, st.at, st.e.clock.now())
		st.at = st.at.UTC()
	}
	return err
}

// commit writes and commits, in one round trip. It does not stop when the caller's context ends.
func (st *step) commit(ctx context.Context, calls ...call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if st.sync == "off" && len(calls) > 0 {
		calls = append([]call{{sql: durable}}, calls...)
	}
	err := st.s.do(ctx, append(calls, call{sql: "COMMIT"})...)
	if err == nil || !mayBeDone(err) {
		return err
	}
	return &errUnknown{err}
}

// durable makes this transaction's commit wait for the disk, whatever the connection is set to.
const durable = "SET LOCAL synchronous_commit = on"

// task names a step for its errors.
type task struct {
	what string
	id   string // of its operation
	lost error  // an earlier COMMIT of the same was not answered
}

// run runs f in a transaction of the engine's own, again when the server refused it or the connection had died before
// anything was sent to be committed. What a lost COMMIT has done is asked for by inspect, which returns whether the step
// was committed; nil = f itself finds out when it runs again.
func (e *Engine) run(ctx context.Context, t task, f func(context.Context, *step) error, inspect func(context.Context, *step) (bool, error)) error {
	for try := 0; ; try++ {
		st := &step{e: e, off: e.clock.off(), stamp: rand.Int64()}
		err := e.once(ctx, st, f)
		if err == nil {
			return nil
		}
		var unknown *errUnknown
		switch {
		case errors.As(err, &unknown) && inspect != nil:
			done, failed := e.findOut(ctx, st, inspect)
			if failed != nil {
				return &outbox.SaveError{ID: t.id, Err: wrap(t.what, unknown.err)}
			}
			if done {
				return nil
			}
			err = unknown.err
		case errors.As(err, &unknown) && t.lost == nil:
			t.lost = unknown.err
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
		}
		again := try < tries && (isRefused(err) || errors.Is(err, errRaced)) || try < 2 && isBroken(err) || t.lost != nil && isBroken(err)
		if again && e.pause(ctx, try+1) {
			continue
		}
		if t.lost != nil {
			return &outbox.SaveError{ID: t.id, Err: wrap(t.what, t.lost)}
		}
		return wrap(t.what, err)
	}
}

// errRaced says that somebody else has saved the same key meanwhile. Nothing was done.
var errRaced = errors.New("the key was saved by somebody else meanwhile")

func wrap(what string, err error) error { return fmt.Errorf("pgoutbox: %s: %w", what, err) }

// pause waits a little longer after each try.
func (e *Engine) pause(ctx context.Context, try int) bool {
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(time.Millisecond) << min(try, 7))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *Engine) once(ctx context.Context, st *step, f func(context.Context, *step) error) error {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // closes a connection that is not idle
	st.s = pgxSession{conn}
	err = f(ctx, st)
	if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_, _ = conn.Exec(undo, "ROLLBACK") // if that fails, the connection is closed, which rolls back too
	}
	return err
}

// findOut asks what became of a step whose COMMIT was not answered, until the database answers.
func (e *Engine) findOut(ctx context.Context, lost *step, inspect func(context.Context, *step) (bool, error)) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for try := 3; ; try++ {
		var done bool
		st := &step{e: e, off: lost.off, stamp: lost.stamp}
		err := e.once(ctx, st, func(ctx context.Context, st *step) (err error) {
			done, err = inspect(ctx, st)
			return err
		})
		if err == nil {
			return done, nil
		}
		if !isBroken(err) && !isRefused(err) || !e.pause(ctx, try) {
			return false, err
		}
	}
}
