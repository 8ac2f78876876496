package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

const (
	// staleClaim is how old a claim may get before its first byte. A machine that slept in between would
	// otherwise send what its window, its order or its owner no longer allow.
	staleClaim = time.Minute
	// freshRead bounds the read after a success that may show the past.
	freshRead = 5 * time.Second
	// slowTries and slowFor are how often and how long answers in a row that are not Flavoso's are met
	// before the operation is blocked.
	slowTries = 10
	slowFor   = 30 * time.Minute
	// briefly bounds the growth of the delay while the first request still runs (F8): about four seconds.
	briefly = 3
	// cutTries is how often a success whose body breaks off is asked for again; then it is taken as it is.
	cutTries = 10
	// maxGenerations bounds how often a derived key that others use moves on.
	maxGenerations = 8
	// afterPanic is the pause after the application's code panicked inside an attempt.
	afterPanic = 30 * time.Second
)

// attempt makes the one try that a claim allows and settles what came of it.
func (d *Dispatcher) attempt(p *place, rec outbox.Record, asked asked) {
	ctx, cancel := context.WithDeadline(d.ctx, d.deadline(&rec, asked))
	defer cancel()
	finished := false
	defer func() {
		if finished {
			return
		}
		// The application's code (a token source, a delay policy, a transport) panicked or ended the
		// goroutine. The claim must not stay behind: it would hold the lane.
		cause := recover()
		d.log.Error("flavoso.attempt_panicked", "operation", rec.ID, "kind", rec.Kind, "panic", fmt.Sprint(cause))
		d.leave(p)
		now := d.cfg.Now()
		d.settle(ctx, rec, outbox.Settlement{ID: rec.ID, Claim: rec.Claim.Token, Now: now, To: outbox.Queued,
			Due:  now.Add(afterPanic),
			Last: &outbox.Attempt{N: rec.Attempts, Start: asked.at, End: now, Err: "the attempt panicked", Unanswered: rec.Attempts}})
	}()
	ctx = d.cfg.Observer.attemptStart(ctx, &rec)
	t := &try{d: d, c: p.conn, rec: &rec, start: asked.at, asked: asked.Now,
		clean: !rec.Suspect && rec.Exposure != nil && rec.Exposure.Claim == rec.Claim.Token}
	s := t.run(ctx)
	s.ID, s.Claim, s.Now = rec.ID, rec.Claim.Token, d.cfg.Now()
	if s.Last != nil {
		s.Last.Unanswered = t.unansweredAfter()
	}
	finished = true
	d.leave(p)
	d.settle(ctx, rec, s)
}

// deadline is when an attempt has to be over: after its timeout, and well before its lease ends.
func (d *Dispatcher) deadline(rec *outbox.Record, asked asked) time.Time {
	end := time.Now().Add(d.cfg.AttemptTimeout(len(rec.Request.Body)))
	if span, leased := leaseSpan(rec); leased && asked.at.Add(span).Before(end) {
		return asked.at.Add(span)
	}
	return end
}

// leaseSpan is how long after a claim was asked for its attempt has to be over for its lease; false = it has none.
// It is counted from before it was asked for, and as a span: the storage has a clock of its own.
func leaseSpan(rec *outbox.Record) (time.Duration, bool) {
	until := rec.Claim.Until
	return until.Sub(rec.Claim.At) - leaseSpare, !until.IsZero()
}

// try is one attempt at one operation.
type try struct {
	d     *Dispatcher
	c     *connection
	rec   *outbox.Record
	start time.Time // when the claim was asked for, on the monotonic clock
	asked time.Time // the wall clock then
	// clean says that no earlier attempt can have reached Flavoso.
	clean bool
	// open says that a request may still be under way after this attempt: its own, or one that it heard of.
	open bool
}

func (t *try) run(ctx context.Context) outbox.Settlement {
	d, c, rec := t.d, t.c, t.rec
	if known, ok := d.waiters.unsavedRecord(rec.ID); ok {
		// The lease ended before it could be saved. Who waited was told, and another answer may be another.
		return t.final(outbox.Settlement{To: known.State, Result: known.Result})
	}
	if !d.cfg.Policy.Known(rec.Kind) {
		return t.unsent(outbox.Settlement{To: outbox.Blocked, Result: t.reason("unknown_kind",
			"this version does not know the call "+rec.Kind+"; a newer one may have saved it")})
	}
	if until := d.paused(c); !until.IsZero() {
		return t.unsent(outbox.Settlement{To: outbox.Queued, Due: until, Last: t.givenBack()})
	}
	if t.clean && !d.shared && d.timeOver(rec) {
		return t.unsent(outbox.Settlement{To: outbox.Expired, Result: t.reason(outbox.ReasonExpired, "")})
	}
	if !t.clean {
		if s, over := t.beforeRepeat(ctx); over {
			return t.withEvidence(s)
		}
	}
	token, err := c.tokens.get(ctx)
	if err != nil {
		return t.noToken("the token source gave no token")
	}
	if t.stale() {
		return t.unsent(outbox.Settlement{To: outbox.Queued, Due: t.d.cfg.Now(), Last: t.givenBack()})
	}
	x := d.cfg.Sender.SendGated(ctx, rec.Request, rec.WireKey, token, func() bool { return !t.stale() })
	switch {
	case errors.Is(x.Err, wire.ErrWithheld):
		last := t.answered(x, wire.Verdict{})
		last.Verdict = ""
		return outbox.Settlement{To: outbox.Queued, Due: t.d.cfg.Now(), Last: last}
	case errors.Is(x.Err, wire.ErrBadToken):
		return t.noToken("the token source gave a token that no header can carry")
	case errors.Is(x.Err, wire.ErrBadRequest):
		return t.unsent(outbox.Settlement{To: outbox.Blocked, Result: t.reason("unsendable", x.Err.Error())})
	}
	v := d.judge(c, rec.Lane, x, wire.Facts{Clean: t.clean})
	t.open = !x.NeverSent && !over(v)
	if v.Authored {
		d.foreign.forget(rec.ID)
	}
	return t.withEvidence(t.decide(ctx, x, v, token))
}

// stale reports whether too much time has passed since the claim, on the monotonic or the wall clock. A machine
// that slept shows it on the wall clock alone, and its lease may be over.
func (t *try) stale() bool {
	most := staleClaim
	if span, leased := leaseSpan(t.rec); leased {
		most = min(most, span)
	}
	wall := t.d.cfg.Now().Round(0).Sub(t.asked.Round(0))
	return time.Since(t.start) > most || wall > most || wall < -staleClaim
}

// beforeRepeat settles what must not simply be sent again: an earlier attempt may have arrived.
//
// Within the window a key protects the repeat, except that Flavoso would execute it again after a 5xx or
// an aborted lease (F9, F10); what is not repeat-safe is read back first for that reason. Past the window
// the key protects nothing.
func (t *try) beforeRepeat(ctx context.Context) (outbox.Settlement, bool) {
	rec := t.rec
	keyless := rec.WireKey == ""
	past := t.d.pastWindow(ctx, t.c, rec)
	if rec.RepeatSafe && (keyless || !past) {
		return outbox.Settlement{}, false
	}
	if !t.d.cfg.Policy.CanFind(rec) {
		if past && !rec.RepeatSafe {
			return outbox.Settlement{To: outbox.Uncertain, Result: t.reason("window_passed",
				"it may have been done, Flavoso has forgotten its key, and nothing can be read back")}, true
		}
		return outbox.Settlement{}, false
	}
	if t.evidence() != nil && t.d.cfg.Policy.Asks(rec) {
		return outbox.Settlement{}, false // nobody needs to decide what is known to be done
	}
	f := t.d.find(ctx, t.c, rec)
	switch {
	case f.Wish == Fulfilled:
		r := t.found("read_back", f)
		r.ByOther = t.wasTaken()
		return outbox.Settlement{To: outbox.Succeeded, Result: r}, true
	case f.Wish == GivenUp:
		return outbox.Settlement{To: outbox.Abandoned, Result: t.found("given_up", f)}, true
	case f.Wish == Impossible && !rec.RepeatSafe:
		return t.differs(f, nil), true
	case f.Wish == Unreadable:
		return t.again(outbox.Settlement{Last: t.last("the resource could not be read back before repeating")}), true
	}
	return outbox.Settlement{}, false
}

// decide turns a verdict into a settlement.
func (t *try) decide(ctx context.Context, x wire.Exchange, v wire.Verdict, token string) outbox.Settlement {
	d, rec := t.d, t.rec
	last := t.answered(x, v)
	switch v.Class {
	case wire.Success:
		return t.final(outbox.Settlement{To: outbox.Succeeded, Last: last, Result: t.success(ctx, x, v)})

	case wire.SuccessCut:
		// It is done; only the body is missing, and a repeat brings it.
		if rec.Attempts >= cutTries && t.evidence() != nil {
			return t.takeEvidence(last)
		}
		return t.again(outbox.Settlement{Last: last, Result: t.result(x, v)})

	case wire.InProgress:
		delay := max(d.cfg.Delay(min(rec.Attempts-1, briefly)), upward(v.RetryAfter))
		return outbox.Settlement{To: outbox.Queued, Due: t.d.cfg.Now().Add(delay), Last: last}

	case wire.Conflict:
		if t.clean || t.onlyAnswer(v) {
			return t.rejected(x, v, last)
		}
		return t.readThenJudge(ctx, x, v, last)

	case wire.KeyReused:
		switch {
		case !t.clean && !rec.RepeatSafe && !rec.KeyDerived:
			// An earlier attempt may have been executed before somebody else used the key.
			return t.readThenJudge(ctx, x, v, last)
		case !rec.KeyDerived || !d.cfg.Policy.CanFind(rec):
			return t.rejected(x, v, last)
		}
		f := d.find(ctx, t.c, rec)
		switch {
		case f.Wish == Fulfilled:
			r := t.found("by_other", f)
			r.ByOther, r.RequestID = true, v.RequestID
			if !t.clean && !t.wasTaken() { // an earlier attempt may have done it before somebody else had the key
				r.ByOther, r.Reason = false, "read_back"
			}
			return t.final(outbox.Settlement{To: outbox.Succeeded, Last: last, Result: r})
		case f.Wish == Unreadable:
			return t.again(outbox.Settlement{Last: last})
		case f.Wish == Impossible && !rec.RepeatSafe:
			return t.differs(f, last)
		case f.Wish == Impossible || f.Wish == GivenUp || rec.Generation >= maxGenerations:
			return t.rejected(x, v, last)
		}
		if wait := t.surprised(v); wait > 0 {
			return t.lookAgain(wait, last)
		}
		d.surprises.forget(rec.ID) // the next key has its own
		return outbox.Settlement{To: outbox.Queued, Due: t.d.cfg.Now(), NextGeneration: true, Last: last}

	case wire.Rejected:
		return t.refusedNow(ctx, x, v, last)

	case wire.Unauthorized:
		d.refused(ctx, t.c, token)
		return t.notHeard(x, last)

	case wire.Forbidden:
		// The token may be refused as a whole, or only for this call: a read that it must be good for tells.
		switch control := d.controlRead(ctx, t.c); control.Class {
		case wire.Unauthorized, wire.Forbidden:
			d.refused(ctx, t.c, token)
			return t.notHeard(x, last)
		case wire.Success, wire.SuccessCut, wire.Conflict, wire.Rejected:
			if t.clean {
				return t.rejected(x, v, last)
			}
			// It is decided before the key is looked at (D10), and says nothing about the earlier attempt (D11).
			return t.readThenJudge(ctx, x, v, last)
		}
		return t.again(outbox.Settlement{Last: last})

	case wire.Retry:
		delay := max(d.cfg.Delay(rec.Attempts-1), upward(v.RetryAfter))
		return outbox.Settlement{To: outbox.Queued, Due: t.d.cfg.Now().Add(delay), Last: last}

	case wire.NotAuthored:
		if run := d.foreign.met(rec.ID); run.count >= slowTries && time.Since(run.since) >= slowFor && d.controlRead(ctx, t.c).Authored {
			d.foreign.forget(rec.ID)
			return outbox.Settlement{To: outbox.Blocked, Last: last, Result: t.reason("not_from_flavoso",
				"something between here and Flavoso answers in its place")}
		}
		// Whatever stands in the way will not be gone in a moment.
		d.failed(t.c, rec.Lane, false)
		delay := max(d.cfg.Delay(rec.Attempts+4), upward(v.RetryAfter))
		return outbox.Settlement{To: outbox.Queued, Due: t.d.cfg.Now().Add(delay), Last: last}
	}
	d.failed(t.c, rec.Lane, x.NeverSent)
	return t.again(outbox.Settlement{NeverSent: x.NeverSent, Last: last})
}

// success is the result of an authored 2xx. An answer that may show the past is replaced by the present
// (W9): a replay, or one that came after an attempt of unknown fate.
func (t *try) success(ctx context.Context, x wire.Exchange, v wire.Verdict) *outbox.Result {
	r := t.result(x, v)
	if t.clean && !v.Replayed {
		return r
	}
	r.ByOther = t.clean // nothing of this operation was sent before: the first answer was somebody else's
	if !t.d.cfg.Policy.CanFind(t.rec) || t.d.cfg.Policy.Asks(t.rec) {
		r.Stale = v.Replayed
		return r
	}
	// The attempt may have used up its own time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freshRead)
	defer cancel()
	defer context.AfterFunc(t.d.ctx, cancel)()
	if f := t.d.find(ctx, t.c, t.rec); f.Body != nil && sameResource(r.Body, f.Body) {
		r.Body, r.Resource = f.Body, f.Resource
	} else {
		r.Stale = true
	}
	return r
}

// notHeard settles an attempt that was turned away for its token: it did not happen. Where it was the one
// request of its claim, the operation is as unsent as it was before.
func (t *try) notHeard(x wire.Exchange, last *outbox.Attempt) outbox.Settlement {
	return outbox.Settlement{To: outbox.Queued, Due: t.d.cfg.Now(), NeverSent: x.Single, Last: last}
}

// evidence is what an earlier attempt is known to have come to: a success whose body broke off. nil =
// nothing is known.
func (t *try) evidence() *outbox.Result {
	if r := t.rec.Result; r != nil && r.Status >= 200 && r.Status < 300 {
		return r
	}
	return nil
}

// takeEvidence ends an operation that is known to be done as succeeded, with what there is of the answer.
func (t *try) takeEvidence(last *outbox.Attempt) outbox.Settlement {
	r := t.evidence().Clone()
	r.Truncated = true
	return t.final(outbox.Settlement{To: outbox.Succeeded, Result: r, Last: last})
}

// withEvidence keeps what a repeat meets from contradicting a success that was already seen.
func (t *try) withEvidence(s outbox.Settlement) outbox.Settlement {
	if t.evidence() == nil || s.To == outbox.Succeeded || s.To.Waiting() && !s.NextGeneration {
		return s
	}
	return t.takeEvidence(s.Last)
}

func (t *try) rejected(x wire.Exchange, v wire.Verdict, last *outbox.Attempt) outbox.Settlement {
	r := t.result(x, v)
	r.Clean = t.clean
	return t.final(outbox.Settlement{To: outbox.Rejected, Last: last, Result: r})
}

// final completes a settlement that ends the operation. When an attempt of a keyless write may still be
// on its way, the lane's next write waits, so that the late one does not overwrite it.
func (t *try) final(s outbox.Settlement) outbox.Settlement {
	if t.rec.WireKey == "" && !t.clean {
		s.LaneNotBefore = t.d.cfg.Now().Add(min(t.d.cfg.AttemptTimeout(len(t.rec.Request.Body)), outbox.MaxHold))
	}
	return s
}

// again completes a settlement that tries the operation later.
func (t *try) again(s outbox.Settlement) outbox.Settlement {
	s.To = outbox.Queued
	s.Due = t.d.cfg.Now()
	if t.d.ctx.Err() == nil { // what Close broke off is due again at once
		s.Due = s.Due.Add(t.d.cfg.Delay(t.rec.Attempts - 1))
	}
	return s
}

// unsent completes a settlement of a claim whose request was never started.
func (t *try) unsent(s outbox.Settlement) outbox.Settlement {
	s.NeverSent = true
	return s
}

// noToken handles an attempt that could not begin for want of a token: the connection is as good as
// offline until the token source works again.
func (t *try) noToken(why string) outbox.Settlement {
	t.d.failed(t.c, t.rec.Lane, true)
	last := t.last(why)
	last.NeverSent = true
	return t.again(t.unsent(outbox.Settlement{Last: last}))
}

// givenBack is an attempt whose claim came to nothing; nil where none before it matters any more.
func (t *try) givenBack() *outbox.Attempt {
	if t.clean {
		return nil
	}
	last := t.last("given back before it was sent")
	last.NeverSent = true
	return last
}

// last is an attempt that got no answer.
func (t *try) last(why string) *outbox.Attempt {
	return &outbox.Attempt{N: t.rec.Attempts, Start: t.start, End: t.d.cfg.Now(), Err: why}
}

// answered is the attempt as data.
func (t *try) answered(x wire.Exchange, v wire.Verdict) *outbox.Attempt {
	a := &outbox.Attempt{N: t.rec.Attempts, Start: x.Start, End: x.End, Status: x.Status, Code: v.Code,
		RequestID: v.RequestID, NeverSent: x.NeverSent, RetryAfter: v.RetryAfter, Verdict: v.Class.String()}
	if x.Err != nil {
		a.Err = x.Err.Error()
	}
	return a
}

// result is what an answer says of the outcome.
func (t *try) result(x wire.Exchange, v wire.Verdict) *outbox.Result {
	r := &outbox.Result{Status: x.Status, Code: v.Code, Message: v.Message, RequestID: v.RequestID,
		Header: x.Kept(), Body: x.Body, Truncated: x.Oversize, Replayed: v.Replayed, At: t.d.cfg.Now()}
	if v.Class == wire.Success {
		r.Resource = resourceID(x.Body)
	}
	return r
}

// found is an outcome that was read back rather than answered.
func (t *try) found(reason string, f Finding) *outbox.Result {
	return &outbox.Result{Reason: reason, Body: f.Body, Resource: f.Resource, Note: f.Note, At: t.d.cfg.Now()}
}

// reason is an outcome that no answer explains.
func (t *try) reason(reason, message string) *outbox.Result {
	return &outbox.Result{Reason: reason, Message: message, At: t.d.cfg.Now()}
}
