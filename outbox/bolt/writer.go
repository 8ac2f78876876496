package bolt

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Bounds of one wave. They keep a transaction's memory and the wait of its first step small.
const (
	waveSteps = 1024
	waveBytes = 4 << 20
)

// step is one method call on its way through the writer.
type step struct {
	id    string       // the operation it is about, for SaveError
	size  int          // bytes it brings
	adds  bool         // it accepts something new: refused when the disk is full
	run   func(*txn)   // inside the wave's transaction; may run more than once, the last run counts
	alone func() error // instead of run: work on the file itself, outside any transaction
	err   error
	done  chan error // receives err, exactly once: nil = durable
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
	select {
	case <-e.role:
		// Nobody commits now: the caller does it itself, without a change of goroutines.
		wave, _ := e.takeWave()
		if len(wave) > 0 {
			e.commit(wave)
		}
		more := e.commits >= e.compactAt // the caller does not wait for that
		e.role <- struct{}{}
		if more || e.waiting() {
			e.poke()
		}
	default:
		e.poke()
	}
	return <-s.done
}

func (e *Engine) waiting() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queue) > 0
}

func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// write is the engine's writer. Whoever holds e.role is the only one to commit: a lone caller for its own
// step, and this goroutine as soon as callers come together. It takes everything that has arrived since
// the last commit into the next one: callers share a commit exactly when they would have had to wait for
// each other anyway, and nobody waits for a timer. A while after commits began, when nobody waits, it brings
// up the mark.
func (e *Engine) write() {
	defer close(e.done)
	quiet := time.NewTimer(markQuiet)
	quiet.Stop()
	defer quiet.Stop()
	running := false
	for {
		rest := false
		select {
		case <-e.wake:
		case <-quiet.C:
			rest, running = true, false
		}
		<-e.role
		for {
			wave, closed := e.takeWave()
			if len(wave) > 0 {
				rest = false
				e.commit(wave)
				e.letIn(len(wave))
			} else if closed {
				return // with the role: nobody commits any more
			}
			e.compactIfWorthwhile()
			if len(wave) == 0 {
				break
			}
		}
		if rest {
			e.markDue = false
			e.bringMarkUp()
		}
		if e.markDue && !running {
			running = true
			quiet.Reset(markQuiet)
		}
		e.role <- struct{}{}
	}
}

// letIn lets those who were just answered hand in their next step, or two halves of the callers would for
// ever take turns in waves of half the size. It yields until all of them are there or the queue has stopped growing,
// and waits for no timer: that is a few microseconds when nobody comes.
func (e *Engine) letIn(answered int) {
	if answered == 1 {
		return
	}
	first, last := -1, -1
	for idle := 0; idle < patience; idle++ {
		e.mu.Lock()
		n := len(e.queue)
		e.mu.Unlock()
		if first < 0 {
			first = n
		}
		if n >= first+answered {
			return
		}
		if n > last {
			last, idle = n, 0
		}
		runtime.Gosched()
	}
}

// patience is how many times in a row the writer yields in vain.
const patience = 64

func (e *Engine) takeWave() (wave []*step, closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, size := 0, 0
	for n < len(e.queue) && n < waveSteps && (n == 0 || size+e.queue[n].size <= waveBytes) {
		if e.queue[n].alone != nil {
			if n == 0 {
				n = 1
			}
			break
		}
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

// commit runs a wave and answers every step of it.
func (e *Engine) commit(wave []*step) {
	if s := wave[0]; s.alone != nil {
		s.done <- s.alone()
		return
	}
	if err := e.ready(); err != nil {
		answer(wave, err)
	} else {
		e.save(wave)
	}
	for _, s := range wave {
		s.done <- named(s.err, s)
	}
}

// named puts the operation's ID into an error that says that its result is unknown.
func named(err error, s *step) error {
	if se, ok := err.(*outbox.SaveError); ok {
		return &outbox.SaveError{ID: s.id, Err: se.Err}
	}
	return err
}

// transact runs a wave in one transaction.
func (e *Engine) transact(wave []*step, thin bool) error {
	err := guard(func() error {
		if err := e.at(PointCommitBegin); err != nil {
			return err
		}
		tx, err := e.file.db.Begin(true)
		if err != nil {
			return err
		}
		t, err := newTxn(tx, &e.tokens, e.file)
		if err == nil {
			t.thin = thin
			t.h.commits++
			e.tried = t.h.commits
			for _, s := range wave {
				s.run(t)
			}
			if err = t.err; err == nil && t.dirty {
				if err = t.finish(); err == nil {
					if err = tx.Commit(); err != nil {
						return &commitError{err}
					}
					e.commits = e.tried
					t.keep(e.file)
					return nil
				}
			}
		}
		if rerr := tx.Rollback(); err == nil {
			err = rerr
		}
		return err
	})
	if err != nil {
		_ = e.at(PointCommitFailed)
		return err
	}
	_ = e.at(PointCommitDone)
	return nil
}

// view runs fn in a read transaction. Readers see what is committed and wait for no writer. When the
// file turns out to be damaged it is salvaged, and fn runs once more.
func (e *Engine) view(ctx context.Context, fn func(*reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := e.viewOnce(fn)
	if f == nil || !isDamage(err) {
		return err
	}
	if err := e.do(ctx, &step{alone: func() error { return e.salvageInUse(f, err) }}); err != nil {
		return err
	}
	_, err = e.viewOnce(fn)
	return err
}

func (e *Engine) viewOnce(fn func(*reader) error) (*file, error) {
	e.handle.RLock()
	defer e.handle.RUnlock()
	if e.file == nil {
		return nil, outbox.ErrClosed
	}
	return e.file, guard(func() error {
		// Not View: after a fault the transaction must be left as it is.
		tx, err := e.file.db.Begin(false)
		if err != nil {
			return err
		}
		t, err := newReader(tx, e.tokens.instance, e.file)
		if err == nil {
			if err = fn(&t); t.err != nil {
				err = t.err
			}
		}
		if rerr := tx.Rollback(); err == nil {
			err = rerr
		}
		return err
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
	e.closed = true
	e.mu.Unlock()
	e.stopCheck.Store(true)
	e.poke()
	<-e.done
	e.checking.Wait()
	e.closeOnce.Do(func() {
		e.handle.Lock()
		defer e.handle.Unlock()
		e.err = e.release()
	})
	return e.err
}

func (e *Engine) release() error {
	e.bringMarkUp()
	err := e.file.close()
	e.file = nil
	if lerr := e.lock.release(); err == nil {
		err = lerr
	}
	return err
}
