package dispatch

import (
	"context"

	"github.com/flavoso/flavoso-go/outbox"
)

// Observer is told what happens. Its functions are called from the goroutine that does the work, with no
// lock held, and must return soon; a nil function is skipped.
type Observer struct {
	// AttemptStart is called before an attempt; the context it returns is the request's.
	AttemptStart func(ctx context.Context, rec *outbox.Record) context.Context
	// AttemptEnd is called with the record as it is settled and the attempt, which is nil when nothing
	// was tried.
	AttemptEnd func(ctx context.Context, rec *outbox.Record, a *outbox.Attempt)
	// Outcome is called when an operation has become final or parked, durably or not.
	Outcome func(rec *outbox.Record, durable bool)
	// Condition is called when a connection went off line, came back, was paused or lost its token.
	Condition func(connection string)
}

func (o Observer) attemptStart(ctx context.Context, rec *outbox.Record) context.Context {
	if o.AttemptStart != nil {
		return o.AttemptStart(ctx, rec)
	}
	return ctx
}

func (o Observer) attemptEnd(ctx context.Context, rec *outbox.Record, a *outbox.Attempt) {
	if o.AttemptEnd != nil {
		o.AttemptEnd(ctx, rec, a)
	}
}

func (o Observer) outcome(rec *outbox.Record, durable bool) {
	if o.Outcome != nil {
		o.Outcome(rec, durable)
	}
}

func (o Observer) condition(connection string) {
	if o.Condition != nil {
		o.Condition(connection)
	}
}
