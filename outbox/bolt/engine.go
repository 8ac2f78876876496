package bolt

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Engine is an outbox in a file. Its methods are those of [outbox.Engine].
type Engine struct {
	path string
	opts Options
	lock *lockFile

	// handle guards file against being replaced while somebody reads from it. Whoever holds role
	// replaces it; nil = closed.
	handle sync.RWMutex
	file   *file

	// Of whoever holds role.
	tokens    tokens
	commits   uint64    // number of the last durable commit
	tried     uint64    // number of the commit that was tried last
	broken    error     // why nothing is saved at the moment; nil = all is well
	retry     time.Time // when saving may be tried again
	moved     bool      // the file at path is newer than the open handle
	opened    bool      // and it was opened when it got its name
	salvaged  *Report   // and it is what was salvaged: to be told when it is in use
	salvages  int       // files that went into use that way
	id        string    // the outbox's own
	mark      mark      // what stands beside the file
	markDue   bool      // the writer is to bring it up when it comes to rest
	ballast   ballast
	diskFull  bool      // the last addition found the disk full
	lookAt    time.Time // when it may be looked whether there is room again
	compactAt uint64    // the commit from which on compacting is thought about again
	purged    uint64    // the outcome where the last purge stopped

	changed chan struct{}

	mu      sync.Mutex
	queue   []*step
	closed  bool
	wake    chan struct{} // one signal: there is something in queue, or closed is set
	role    chan struct{} // holds one token: the right to commit
	done    chan struct{} // closed when the writer has ended
	reports []Report

	checking  sync.WaitGroup // the check in the background
	stopCheck atomic.Bool    // it is to end
	closeOnce sync.Once
	err       error // what Close returns
}

var _ outbox.Engine = (*Engine)(nil)

// Add implements [outbox.Engine]. An addition to a transaction of the application is refused with
// [outbox.ErrTxUnsupported]: the file is the engine's alone.
func (e *Engine) Add(ctx context.Context, a outbox.Addition) (out outbox.Added, err error) {
	if a.Tx != nil {
		return out, outbox.ErrTxUnsupported
	}
	if err := checkTexts(&a.Record); err != nil {
		return out, err
	}
	var stepErr error
	err = e.do(ctx, &step{
		id: a.Record.ID, size: len(a.Record.Request.Body) + len(a.Record.Sealed), adds: true,
		run: func(t *txn) { out, stepErr = t.add(&a) },
	})
	if err == nil && stepErr == nil && out.Decision == outbox.AddedNew {
		e.signal()
	}
	return out, first(err, stepErr)
}

func checkTexts(r *outbox.Record) error {
	for _, f := range []struct{ name, value string }{
		{"ID", r.ID}, {"Connection", r.Connection}, {"Lane", r.Lane}, {"Key", r.Key},
	} {
		if err := checkText(f.name, f.value); err != nil {
			return err
		}
	}
	return nil
}

// Claim implements [outbox.Engine].
func (e *Engine) Claim(ctx context.Context, q outbox.ClaimRequest) (out []outbox.Record, err error) {
	err = e.do(ctx, &step{run: func(t *txn) { out = t.claim(&q) }})
	if err != nil {
		return nil, err
	}
	for i := range out {
		if out[i].State == outbox.Expired {
			e.signal()
			break
		}
	}
	return out, nil
}

// Settle implements [outbox.Engine].
func (e *Engine) Settle(ctx context.Context, ss ...outbox.Settlement) (out []outbox.Settled, err error) {
	size := 0
	for i := range ss {
		if ss[i].Result != nil {
			size += len(ss[i].Result.Body)
		}
	}
	err = e.do(ctx, &step{size: size, run: func(t *txn) {
		out = make([]outbox.Settled, len(ss))
		for i := range ss {
			out[i] = t.settle(&ss[i])
		}
	}})
	if err != nil {
		return nil, err
	}
	e.signal()
	return out, nil
}

// Set implements [outbox.Engine].
func (e *Engine) Set(ctx context.Context, c outbox.Change) (out outbox.Record, err error) {
	var stepErr error
	err = e.do(ctx, &step{id: c.ID, run: func(t *txn) { out, stepErr = t.set(&c) }})
	if err != nil {
		return outbox.Record{}, err
	}
	e.signal()
	return out, stepErr
}

// Ack implements [outbox.Engine].
func (e *Engine) Ack(ctx context.Context, id string, revision int) error {
	var stepErr error
	err := e.do(ctx, &step{id: id, run: func(t *txn) { stepErr = t.ack(id, revision) }})
	return first(err, stepErr)
}

// Purge implements [outbox.Engine].
func (e *Engine) Purge(ctx context.Context, p outbox.PurgeRequest) (n int, err error) {
	err = e.do(ctx, &step{run: func(t *txn) { n, e.purged = t.purge(&p, e.purged) }})
	return n, err
}

// SaveState implements [outbox.Engine].
func (e *Engine) SaveState(ctx context.Context, connection, name string, value []byte) error {
	if err := checkText("state name", connection+name); err != nil {
		return err
	}
	value = clone(value)
	return e.do(ctx, &step{size: len(value), run: func(t *txn) { t.saveState(connection, name, value) }})
}

// LoadState implements [outbox.Engine].
func (e *Engine) LoadState(ctx context.Context, connection, name string) (out []byte, err error) {
	err = e.view(ctx, func(t *reader) (err error) {
		out, err = t.loadState(connection, name)
		return err
	})
	return out, err
}

// Get implements [outbox.Engine].
func (e *Engine) Get(ctx context.Context, id string) (out outbox.Record, err error) {
	err = e.view(ctx, func(t *reader) error {
		r := t.find(id, true)
		if r == nil {
			return outbox.ErrNotFound
		}
		out = r.Record
		return nil
	})
	return out, err
}

// NextDue implements [outbox.Engine].
func (e *Engine) NextDue(ctx context.Context, s outbox.Scope) (due time.Time, ok bool, err error) {
	err = e.view(ctx, func(t *reader) error {
		due, ok = t.nextDue(s)
		return nil
	})
	return due, ok, err
}

// Counts implements [outbox.Engine].
func (e *Engine) Counts(ctx context.Context, connection string) (out outbox.Counts, err error) {
	err = e.view(ctx, func(t *reader) error {
		c, err := t.counts(connection)
		if err != nil {
			return err
		}
		out = outbox.Counts{
			States: map[outbox.State]int{}, Bytes: c.bytes, HeldLanes: int(c.held), Unacked: int(c.unacked), LastSeq: t.h.seq,
		}
		for i, s := range stateLetters {
			if c.states[i] != 0 {
				out.States[s] = int(c.states[i])
			}
		}
		if out.Waiting() > 0 {
			out.Oldest = t.oldest(connection)
		}
		return nil
	})
	return out, err
}

// Changed implements [outbox.Engine].
func (e *Engine) Changed() <-chan struct{} { return e.changed }

func (e *Engine) signal() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
