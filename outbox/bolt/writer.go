package bolt

import (
	"context"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/outbox"
)

// Bounds of one wave. They keep a transaction's memory and the wait of its first step small.
const (
	waveSteps = 1024
	waveBytes = 4 << 20
)

// step is one method call on its way through the writer.
type step struct {
	id   string     // the operation it is about, for SaveError
	size int        // bytes it brings
	adds bool       // it accepts something new: refused when the disk is full
	run  func(*txn) // may run more than once; the last run counts
	done chan error // receives exactly one answer: nil = durable
}

// do hands a step to the writer and waits for its definite answer.
func (e *Engine) do(ctx context.Context, s *step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.done = make(chan error, 1)
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return outbox.ErrClosed
	}
	e.queue = append(e.queue, s)
	e.mu.Unlock()
	e.poke()
	return <-s.done
}

func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// write is the engine's one writer. It takes everything that has arrived since the last commit into the
// next one: callers share a commit exactly when they would have had to wait for each other anyway, and
// a lone caller waits for nobody.
func (e *Engine) write() {
	defer close(e.done)
	for {
		<-e.wake
		for {
			wave, closed := e.takeWave()
			if len(wave) > 0 {
				e.commit(wave)
				continue
			}
			if closed {
				return
			}
			break
		}
	}
}

func (e *Engine) takeWave() (wave []*step, closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, size := 0, 0
	for n < len(e.queue) && n < waveSteps && (n == 0 || size+e.queue[n].size <= waveBytes) {
		size += e.queue[n].size
		n++
	}
	wave = e.queue[:n:n]
	e.queue = e.queue[n:]
	if len(e.queue) == 0 {
		e.queue = nil // let the finished steps go
	}
	return wave, e.closed
}

// commit runs a wave in one transaction and answers every step of it.
func (e *Engine) commit(wave []*step) {
	err := e.transact(wave)
	for _, s := range wave {
		s.done <- err
	}
}

func (e *Engine) transact(wave []*step) error {
	err := guard(func() error {
		tx, err := e.db.Begin(true)
		if err != nil {
			return err
		}
		t, err := newTxn(tx, e.claims.instance, &e.claims)
		if err == nil {
			t.h.commits++
			for _, s := range wave {
				s.run(t)
			}
			if err = t.err; err == nil && t.dirty {
				if err = t.finish(); err == nil {
					return tx.Commit()
				}
			}
		}
		if rerr := tx.Rollback(); err == nil {
			err = rerr
		}
		return err
	})
	if err != nil {
		e.claims.rollback()
		return err
	}
	e.claims.commit()
	return nil
}

// view runs fn in a read transaction. Readers see what is committed and wait for no writer.
func (e *Engine) view(ctx context.Context, fn func(*reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.handle.RLock()
	defer e.handle.RUnlock()
	if e.db == nil {
		return outbox.ErrClosed
	}
	return guard(func() error {
		return e.db.View(func(tx *bbolt.Tx) error {
			t, err := newReader(tx, e.claims.instance)
			if err != nil {
				return err
			}
			return fn(&t)
		})
	})
}

// fault is a panic of bbolt or of the memory mapping: the file is not what it should be.
type fault struct{ cause any }

func (f *fault) Error() string { return fmt.Sprintf("reading the file failed: %v", f.cause) }

// guard turns a panic inside fn, page faults included, into a *fault. bbolt keeps its locks after one, so
// the handle must not be used again.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &fault{p}
		}
	}()
	return fn()
}

// Close implements [outbox.Engine]. Steps that were handed over are finished first.
func (e *Engine) Close() error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	e.poke()
	<-e.done
	e.handle.Lock()
	defer e.handle.Unlock()
	if first {
		e.err = e.release()
	}
	return e.err
}

func (e *Engine) release() error {
	err := guard(e.db.Close)
	e.db = nil
	if lerr := e.lock.release(); err == nil {
		err = lerr
	}
	return err
}
