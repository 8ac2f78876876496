package idempotency

import (
	"context"
	"errors"
	"time"
)

// startHeartbeat extends the lease from time to time until stopHeartbeat or the end of ctx. It uses a timer, so
// that a short operation pays for no goroutine.
func (x *execution) startHeartbeat(ctx context.Context) {
	x.beat.Lock()
	defer x.beat.Unlock()
	x.beatCtx = ctx
	x.timer = time.AfterFunc(x.m.opts.Heartbeat, x.heartbeat)
}

// stopHeartbeat returns when no heartbeat runs and none will.
func (x *execution) stopHeartbeat() {
	if x.timer == nil {
		return
	}
	if !x.timer.Stop() {
		x.cancel(nil) // a heartbeat that hangs in the engine must not delay the result
	}
	x.beat.Lock()
	defer x.beat.Unlock()
	x.stopped = true
	x.timer.Stop()
}

func (x *execution) heartbeat() {
	x.beat.Lock()
	defer x.beat.Unlock()
	if x.stopped || x.beatCtx.Err() != nil {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithDeadline(x.beatCtx, x.leaseEnds)
	_, err := x.m.engine.Extend(ctx, x.claim, x.m.opts.Lease)
	cancel()
	switch {
	case err == nil:
		x.leaseEnds = began.Add(x.m.opts.Lease)
		x.timer.Reset(x.m.opts.Heartbeat)
	case errors.Is(err, ErrFinished): // in the handler's own transaction: nothing is left to keep
	case errors.Is(err, ErrOwnershipLost):
		x.m.observe(Event{Kind: EventOwnershipLost, Operation: x.claim.Scope.Operation, Err: err})
		x.cancel(ErrOwnershipLost)
	case x.beatCtx.Err() != nil:
	case !time.Now().Before(x.leaseEnds):
		x.m.log(x, "idempotency.lease_ended", err)
		x.cancel(ErrLeaseEnded)
	default:
		x.m.observe(Event{Kind: EventEngineError, Operation: x.claim.Scope.Operation, Err: err})
		x.timer.Reset(min(x.m.opts.Heartbeat/4, time.Until(x.leaseEnds)))
	}
}
