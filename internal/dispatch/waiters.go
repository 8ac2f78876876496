package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Report is what is known of an operation when a wait for it ends.
type Report struct {
	Record outbox.Record
	// Durable is false while a verdict could not be saved: it is known, kept in memory and saved as soon
	// as the storage allows.
	Durable bool
}

// waiters lets callers wait until operations are final or parked.
type waiters struct {
	mu      sync.Mutex
	byID    map[string]map[chan struct{}]struct{}
	unsaved map[string]outbox.Record // verdicts that could not be saved yet
}

func newWaiters() waiters {
	return waiters{byID: map[string]map[chan struct{}]struct{}{}, unsaved: map[string]outbox.Record{}}
}

// add registers a wait; the returned function ends it.
func (w *waiters) add(id string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[id] == nil {
		w.byID[id] = map[chan struct{}]struct{}{}
	}
	w.byID[id][ch] = struct{}{}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byID[id], ch)
		if len(w.byID[id]) == 0 {
			delete(w.byID, id)
		}
	}
}

// wake lets the waits for id look again.
func (w *waiters) wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.byID[id] {
		signal(ch)
	}
}

// wakeAll lets every wait look again: something changed and it is not known whose.
func (w *waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, chans := range w.byID {
		for ch := range chans {
			signal(ch)
		}
	}
}

// keepUnsaved keeps a verdict, and reports whether it was not kept before.
func (w *waiters) keepUnsaved(rec outbox.Record) bool {
	w.mu.Lock()
	_, kept := w.unsaved[rec.ID]
	w.unsaved[rec.ID] = rec
	w.mu.Unlock()
	w.wake(rec.ID)
	return !kept
}

// dropUnsaved forgets a verdict, and reports whether there was one.
func (w *waiters) dropUnsaved(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, kept := w.unsaved[id]
	delete(w.unsaved, id)
	return kept
}

func (w *waiters) unsavedRecord(id string) (outbox.Record, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec, ok := w.unsaved[id]
	return rec, ok
}

// signal tells a channel of capacity one; a signal that is not taken yet serves for both.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// ContextError is the error of a context that has ended, as callers compare it: its own, and the cause it was
// given if that is another.
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// A wait looks what other processes have done: the longer it has waited already, the less often, so that a thousand
// waits during an outage ask the storage little.
const (
	lookSoonest = 500 * time.Millisecond
	lookLatest  = 5 * time.Second
)

// untilLook returns when a wait that has taken so long looks again.
func untilLook(waited time.Duration) time.Duration {
	d := min(max(waited/2, lookSoonest), lookLatest)
	return d - d/8 + rand.N(d/4)
}

// Await waits until the operation is final or parked. When it returns an error the report holds the
// operation as it is then: the context's cause, or ErrStopped after Close.
func (d *Dispatcher) Await(ctx context.Context, id string) (Report, error) {
	changed, done := d.waiters.add(id)
	defer done()
	defer d.noLongerFresh(id)
	noted := false
	began := time.Now()
	elsewhere := time.NewTimer(untilLook(0)) // it may be another process that ends it
	defer elsewhere.Stop()
	if !d.shared {
		elsewhere.Stop()
	}
	for {
		rep, err := d.Look(context.WithoutCancel(ctx), id)
		if err != nil {
			return rep, err
		}
		if rep.Record.State.Final() || rep.Record.State.Parked() {
			return rep, nil
		}
		if !noted {
			noted = true
			d.expiries.add(&rep.Record)
			d.Kick()
		}
		select {
		case <-changed:
		case <-elsewhere.C:
			elsewhere.Reset(untilLook(time.Since(began)))
		case <-ctx.Done():
			return rep, ContextError(ctx)
		case <-d.ctx.Done():
			return rep, ErrStopped
		}
	}
}

// Look returns the operation as it is now.
func (d *Dispatcher) Look(ctx context.Context, id string) (Report, error) {
	if rec, ok := d.waiters.unsavedRecord(id); ok {
		return Report{Record: rec}, nil
	}
	rec, err := d.engine.Get(ctx, id)
	return Report{Record: rec, Durable: err == nil}, err
}
