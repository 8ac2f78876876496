package flavoso

import (
	"context"
	"fmt"
	"sync"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// Hooks are functions that are told what happens, for metrics and traces; package otelflavoso of the telemetry
// module fills them for OpenTelemetry. They are called while the work waits for them, with no lock held, and
// must return soon; nil = off. They must not call Close or Shutdown, which wait for the work. A panic inside is
// logged and changes nothing. What they are given may hold guests' data in its bodies, and never holds a token.
//
// Of one operation, Saved comes first (unless it takes longer than an attempt may), AttemptStart and AttemptEnd
// alternate, and Finished follows the AttemptEnd that decided it. Hooks of different operations run at the same
// time.
type Hooks struct {
	// Saved is called when a new operation is durable, with the caller's context. It is not called for EnqueueTx,
	// where the transaction decides, nor after a SaveError, even if the operation turns out to be there.
	Saved func(ctx context.Context, o Outcome)
	// AttemptStart is called before each attempt. The request's context has the values of the context it
	// returns, so that a transport can continue a trace; its deadline and end stay the client's own.
	AttemptStart func(ctx context.Context, o Outcome) context.Context
	// AttemptEnd is called after each attempt is settled, with AttemptStart's context. a is nil when the
	// claim ended without one, e.g. because the wish was found fulfilled. a.Verdict says what the answer
	// meant: success, success_cut (the body broke off), in_progress (F8), conflict, key_reused, rejected,
	// unauthorized, forbidden, retry (408, 425, 429, 5xx), not_authored (somebody between here and Flavoso
	// answered), broken (nobody did), or "" when no request was made. It is not called when the storage did
	// not take what came of the attempt until the client closed.
	AttemptEnd func(ctx context.Context, o Outcome, a *Attempt)
	// Finished is called when an operation has become final or parked, by an answer or otherwise. It is
	// called twice for a verdict that could not be saved at first: with Durable false, and when it is.
	Finished func(o Outcome)
	// StatusChange is called when the connection went offline, came back, was paused or lost its token.
	StatusChange func(s Status)
}

// observer connects the dispatcher to the hooks and to the delivery of outcomes.
func (c *core) observer() dispatch.Observer {
	h := c.cfg.Hooks
	o := dispatch.Observer{
		Outcome: func(rec *outbox.Record, durable bool) {
			if h.Finished != nil {
				c.savings.wait(c.ctx, rec.ID)
				c.hook("Finished", func() { h.Finished(outcomeOf(rec, durable)) })
			}
			if durable {
				c.delivered(rec)
			}
		},
	}
	if h.AttemptStart != nil {
		o.AttemptStart = func(ctx context.Context, rec *outbox.Record) context.Context {
			c.savings.wait(ctx, rec.ID)
			var values context.Context
			c.hook("AttemptStart", func() { values = h.AttemptStart(ctx, outcomeOf(rec, true)) })
			if values == nil {
				return ctx
			}
			return valuesOf{ctx, values}
		}
	}
	if h.AttemptEnd != nil {
		o.AttemptEnd = func(ctx context.Context, rec *outbox.Record, a *outbox.Attempt) {
			c.savings.wait(ctx, rec.ID)
			c.hook("AttemptEnd", func() { h.AttemptEnd(ctx, outcomeOf(rec, true), a) })
		}
	}
	if h.StatusChange != nil {
		o.Condition = func(connection string) {
			c.hook("StatusChange", func() { h.StatusChange(c.client(connection).Status()) })
		}
	}
	return o
}

// submit hands an operation to the dispatcher, and tells Hooks.Saved of a new one before any other hook.
func (c *Client) submit(ctx context.Context, a outbox.Addition, urgent bool) (outbox.Added, error) {
	saved := c.cfg.Hooks.Saved
	if saved == nil || a.Tx != nil {
		return c.dispatcher.Submit(ctx, a, urgent)
	}
	defer c.savings.begin(a.Record.ID)()
	added, err := c.dispatcher.Submit(ctx, a, urgent)
	if err == nil && added.Decision == outbox.AddedNew {
		c.hook("Saved", func() { saved(ctx, outcomeOf(&added.Record, true)) })
	}
	return added, err
}

// savings are the operations that are being saved: an attempt may start while Hooks.Saved is still to be
// told.
type savings struct {
	mu   sync.Mutex
	byID map[string]*saving
}

type saving struct {
	callers int // of the same call, which may be done by many goroutines
	done    chan struct{}
}

// begin notes that an operation is being saved, until the returned function is called.
func (s *savings) begin(id string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*saving{}
	}
	x := s.byID[id]
	if x == nil {
		x = &saving{done: make(chan struct{})}
		s.byID[id] = x
	}
	x.callers++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if x.callers--; x.callers == 0 {
			delete(s.byID, id)
			close(x.done)
		}
	}
}

// wait waits until the operation is not being saved any more, or ctx ends.
func (s *savings) wait(ctx context.Context, id string) {
	s.mu.Lock()
	x := s.byID[id]
	s.mu.Unlock()
	if x != nil {
		select {
		case <-x.done:
		case <-ctx.Done():
		}
	}
}

// hook calls a hook and waits for it. It has a goroutine of its own, so that neither its panic nor
// runtime.Goexit inside it (a failed test's way out) ends work of the client's.
func (c *core) hook(name string, call func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		finished := false
		defer func() {
			if !finished {
				c.cfg.Logger.Error("flavoso.hook_panicked", "hook", name, "panic", fmt.Sprint(recover()))
			}
		}()
		call()
		finished = true
	}()
	<-done
}

// valuesOf is a context with another's values.
type valuesOf struct {
	context.Context
	values context.Context
}

func (c valuesOf) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}
