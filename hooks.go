package flavoso

import (
	"context"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// Hooks are functions that are told what happens, for metrics and traces. They are called from the
// goroutine that does the work, with no lock held, and must return soon; nil = off. What they are given
// may hold guests' data in its bodies, and never holds a token.
type Hooks struct {
	// Saved is called when a new operation is durable.
	Saved func(ctx context.Context, o Outcome)
	// AttemptStart is called before each attempt. The context it returns is the request's, so that a
	// transport can continue a trace.
	AttemptStart func(ctx context.Context, o Outcome) context.Context
	// AttemptEnd is called after each attempt is settled, with AttemptStart's context. a is nil when the
	// claim ended without one, e.g. because the wish was found fulfilled.
	AttemptEnd func(ctx context.Context, o Outcome, a *Attempt)
	// Finished is called when an operation has become final or parked.
	Finished func(o Outcome)
	// StatusChange is called when the connection went offline, came back, was paused or lost its token.
	StatusChange func(s Status)
}

// observer connects the dispatcher to the hooks and to the delivery of outcomes.
func (c *Client) observer() dispatch.Observer {
	h := c.cfg.Hooks
	o := dispatch.Observer{
		Outcome: func(rec *outbox.Record, durable bool) {
			if h.Finished != nil {
				h.Finished(outcomeOf(rec, durable))
			}
			if durable {
				c.outcomes.wake()
			}
		},
	}
	if h.AttemptStart != nil {
		o.AttemptStart = func(ctx context.Context, rec *outbox.Record) context.Context {
			return h.AttemptStart(ctx, outcomeOf(rec, true))
		}
	}
	if h.AttemptEnd != nil {
		o.AttemptEnd = func(ctx context.Context, rec *outbox.Record, a *outbox.Attempt) {
			h.AttemptEnd(ctx, outcomeOf(rec, true), a)
		}
	}
	if h.StatusChange != nil {
		o.Condition = func(string) { h.StatusChange(c.Status()) }
	}
	return o
}
