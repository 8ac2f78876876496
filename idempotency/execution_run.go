package idempotency

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// execution is one run of a handler under a claim. It is the context the handler's context is made from.
type execution struct {
	context.Context // the request's values without its cancellation

	m       *middleware
	claim   Claim
	outcome atomic.Int32
	effect  atomic.Bool // the handler's MarkEffect is durable
	spilled bool        // an answer that counts is on its way to the client before the end
	ctx     context.Context
	cancel  context.CancelCauseFunc // of ctx
	rec     recorder                // part of the execution, as body is: a short request must not cost many allocations
	body    bodyReader              // what the handler reads
	saving  deadlineCtx             // of the first attempt to save
	stored  Result                  // what is to be saved

	beat      sync.Mutex // held while a heartbeat runs
	timer     *time.Timer
	beatCtx   context.Context
	stopped   bool
	leaseEnds time.Time // on this process's clock, from before the claim: never later than the engine's
}

func newExecution(base context.Context, m *middleware, c Claim, leaseEnds time.Time) *execution {
	x := &execution{Context: base, m: m, claim: c, leaseEnds: leaseEnds}
	x.ctx, x.cancel = context.WithCancelCause(x)
	return x
}

func (x *execution) Value(key any) any {
	if key == (executionKey{}) {
		return x
	}
	return x.Context.Value(key)
}

func (x *execution) markEffect(ctx context.Context) error {
	err := x.m.engine.MarkEffect(ctx, x.claim)
	if err == nil {
		x.effect.Store(true)
	}
	return err
}

// reply is what the first client gets once the record is settled.
type reply struct {
	result  Result
	problem *Problem
	sent    bool // streamed already
}

// run lets the handler run and settles the record. It does not return if the handler panics or calls
// runtime.Goexit: both are seen by the missing return, not by recover, and go on as they would without a middleware.
func (x *execution) run(next http.Handler, r *http.Request, body []byte) reply {
	ctx := x.ctx
	defer x.cancel(nil)
	if t := x.m.opts.HandlerTimeout; t > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, t, ErrHandlerTimeout)
		defer stop()
	}
	if x.m.opts.Heartbeat > 0 {
		x.startHeartbeat(ctx)
	} else {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, x.leaseEnds, ErrLeaseEnded)
		defer stop()
	}
	r2 := r.WithContext(ctx)
	setBody(r2, &x.body, body)

	returned, started := false, x.m.clock()
	defer func() {
		if returned {
			return
		}
		x.stopHeartbeat()
		x.rec.close()
		x.m.observe(Event{Kind: EventPanic, Operation: x.claim.Scope.Operation, Duration: since(started)})
		x.abandon()
	}()
	next.ServeHTTP(&x.rec, r2)
	returned = true

	ended := ctx.Err() != nil
	x.stopHeartbeat()
	x.rec.close()
	x.m.observe(Event{Kind: EventRun, Operation: x.claim.Scope.Operation, Duration: since(started)})
	return x.settle(ended)
}

// abandon settles the record of a handler that did not return.
func (x *execution) abandon() {
	said := Outcome(x.outcome.Load())
	mayHaveHappened := said == Committed || said == Unknown ||
		said == Unspecified && (x.effect.Load() || x.spilled || x.m.opts.OnLeaseLost == Uncertain)
	var err error
	if mayHaveHappened {
		err = x.markUncertain("the handler did not return")
	} else {
		err = x.save(step{to: release})
	}
	if err != nil && !errors.Is(err, ErrFinished) {
		x.m.log(x, "idempotency.not_settled", err)
	}
}

type action int

const (
	complete action = iota
	fail
	release
	park
	markEffect
)

// step is one step of the engine, as a value: a closure would be one more object of every request.
type step struct {
	to   action
	note string // of park
}

func (x *execution) take(ctx context.Context, s step) error {
	switch s.to {
	case fail:
		return x.m.engine.Fail(ctx, x.claim, x.stored)
	case release:
		return x.m.engine.Release(ctx, x.claim)
	case park:
		return x.m.engine.MarkUncertain(ctx, x.claim, s.note)
	case markEffect:
		return x.m.engine.MarkEffect(ctx, x.claim)
	default:
		return x.m.engine.Complete(ctx, x.claim, x.stored)
	}
}

// classify says what becomes of the record (S13). What the handler said comes first, then its effect mark, then
// Hold. ended: the handler's context was over before it returned.
func (x *execution) classify(ended bool, answer Result) (a action, said Outcome) {
	said = Outcome(x.outcome.Load())
	switch said {
	case NoEffect:
		return release, said
	case Rejected:
		return fail, said
	case Committed:
		return complete, said
	case Unknown:
		return park, said
	}
	switch {
	case x.effect.Load() && (answer.Status >= 500 || ended && answer.Status >= 400):
		return park, said
	case !x.m.opts.Hold(answer.Status, answer.Header, answer.Body):
		return release, said
	case answer.Status >= 400:
		return fail, said
	}
	return complete, said
}

func (x *execution) settle(ended bool) reply {
	var answer Result
	answer, x.stored = x.rec.answer()
	if x.stored.Omitted {
		x.m.observe(Event{Kind: EventOversize, Operation: x.claim.Scope.Operation})
	}
	ok := reply{result: answer, sent: x.rec.tooLate}
	act, said := x.classify(ended, answer)
	var err error
	switch act {
	case complete, fail:
		started := x.m.clock()
		err = x.save(step{to: act})
		if err == nil {
			x.m.observe(Event{Kind: EventSave, Operation: x.claim.Scope.Operation, Duration: since(started)})
		}
	case release:
		err = x.save(step{to: release})
	case park:
		err = x.markUncertain("the handler could not tell whether the effect happened")
		if said != Unknown { // its answer claims a failure that nobody can vouch for
			ok = x.unknown(nil)
		}
	}
	switch {
	case err == nil, errors.Is(err, ErrFinished): // finished in the handler's own transaction: what is stored stands
		if x.rec.mode == discarding {
			return x.unknown(nil)
		}
		return ok
	case errors.Is(err, ErrOwnershipLost):
		x.m.observe(Event{Kind: EventOwnershipLost, Operation: x.claim.Scope.Operation, Err: err})
		x.m.log(x, "idempotency.ownership_lost", err)
		return x.unknown(err)
	case act == release:
		// The answer is true all the same; the key is free again when the lease has ended.
		x.m.log(x, "idempotency.not_released", err)
		return ok
	case act == park:
		x.m.log(x, "idempotency.not_marked_uncertain", err)
		return ok
	}
	x.m.log(x, "idempotency.not_saved", err)
	if err := x.markUncertain("the result could not be saved"); err != nil {
		x.m.log(x, "idempotency.not_marked_uncertain", err)
	}
	return x.unknown(err)
}

func (x *execution) unknown(err error) reply {
	p := x.m.unknown(err)
	return reply{problem: &p, sent: x.rec.tooLate}
}

func (x *execution) markUncertain(note string) error {
	err := x.save(step{to: park, note: note})
	if err == nil {
		x.m.observe(Event{Kind: EventUncertain, Operation: x.claim.Scope.Operation})
		x.m.log(x, "idempotency.uncertain", nil, "note", note)
	}
	return err
}

// spill decides, when an answer has grown too large to be stored, whether it may go to the client before the
// handler returns: only if a repeat cannot run the operation again in any case.
func (x *execution) spill() bool {
	said := Outcome(x.outcome.Load())
	freed := said == NoEffect || said == Unspecified && !x.effect.Load() &&
		!x.m.opts.Hold(x.rec.status, x.rec.sent, x.rec.buf)
	if freed {
		return true // nothing of this answer is stored anyway
	}
	err := x.save(step{to: markEffect})
	if err != nil && !errors.Is(err, ErrFinished) {
		x.m.log(x, "idempotency.held_back", err)
		return false
	}
	x.spilled = true
	return true
}

// save repeats a step until it succeeds, is refused, or Options.SaveTimeout is over. It does not depend on the client.
func (x *execution) save(s step) error {
	began := time.Now()
	err := x.attempt(x.Context, began, s)
	if err == nil || isFinal(err) {
		return err
	}
	return x.saveAgain(began, s, err)
}

// saveAgain goes on after a first attempt that has failed.
func (x *execution) saveAgain(began time.Time, s step, err error) error {
	ctx, cancel := context.WithDeadline(x.Context, began.Add(x.m.opts.SaveTimeout))
	defer cancel()
	first := true
	return backoff.Retry(func() error {
		if !first {
			err = x.attempt(ctx, time.Now(), s)
		}
		first = false
		if isFinal(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(newBackOff(20*time.Millisecond, time.Second), ctx))
}

func isFinal(err error) bool {
	return errors.Is(err, ErrOwnershipLost) || errors.Is(err, ErrFinished)
}

// attempt makes one attempt; one that hangs leaves time for others.
func (x *execution) attempt(ctx context.Context, now time.Time, s step) error {
	c := &x.saving
	if c.Context != nil { // an engine may still have it
		c = new(deadlineCtx)
	}
	c.Context, c.deadline = ctx, now.Add(x.m.opts.SaveTimeout/3)
	defer c.stop()
	err := x.take(c, s)
	if err != nil && !isFinal(err) {
		x.m.observe(Event{Kind: EventEngineError, Operation: x.claim.Scope.Operation, Err: err})
	}
	return err
}

// newBackOff grows from first to most with jitter (S17); its owner bounds it by a context.
func newBackOff(first, most time.Duration) backoff.BackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(first), backoff.WithMaxInterval(most),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0))
}
