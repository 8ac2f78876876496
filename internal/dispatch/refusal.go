package dispatch

import (
	"context"
	"net/http"
	"time"

	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// What a refusal says of an operation that was tried before: an earlier attempt may have been done, or may still
// be running.

// lapseSlack is how much the clocks of two servers may differ when one says that a moment is over.
const lapseSlack = time.Minute

// readThenJudge decides a refusal that an earlier attempt of this very operation may have caused.
func (t *try) readThenJudge(ctx context.Context, x wire.Exchange, v wire.Verdict, last *outbox.Attempt) outbox.Settlement {
	if !t.d.cfg.Policy.CanFind(t.rec) {
		r := t.result(x, v)
		r.Reason = "refused_after_unknown_attempt"
		return outbox.Settlement{To: outbox.Uncertain, Last: last, Result: r}
	}
	switch f := t.d.find(ctx, t.c, t.rec); f.Wish {
	case Fulfilled:
		return t.final(outbox.Settlement{To: outbox.Succeeded, Last: last, Result: t.found("read_back", f)})
	case Unreadable:
		return t.again(outbox.Settlement{Last: last})
	case GivenUp:
		return t.final(outbox.Settlement{To: outbox.Abandoned, Last: last, Result: t.found("given_up", f)})
	case Impossible:
		if !t.rec.RepeatSafe {
			return t.differs(f, last)
		}
	case Open:
		if t.d.cfg.Policy.Asks(t.rec) {
			break // whoever decides it knows better than a second look
		}
		if wait := t.surprised(v); wait > 0 {
			return t.lookAgain(wait, last)
		}
		if t.lapsed(f) {
			// It may have been done, and nothing will ever tell. There is nothing to decide about it either, for which
			// its lane would have to be held.
			r := t.result(x, v)
			r.Reason, r.Note = "lapsed", "what it asked for was over before Flavoso's answer was heard"
			return t.final(outbox.Settlement{To: outbox.Abandoned, Last: last, Result: r})
		}
	}
	return t.rejected(x, v, last)
}

// refusedNow settles a refusal of the request itself. It is about now, or about the first attempt that was refused: an
// earlier one may have been done while it was still allowed, if nothing but its own answer tells. What a key protects
// and nothing can read back stays refused: for that an effect behind an answer that Flavoso does not hold (F10) would
// be needed.
func (t *try) refusedNow(ctx context.Context, x wire.Exchange, v wire.Verdict, last *outbox.Attempt) outbox.Settlement {
	switch {
	case t.clean || t.onlyAnswer(v):
	case t.d.cfg.Policy.CanFind(t.rec), t.rec.WireKey == "", t.d.pastWindow(ctx, t.c, t.rec):
		return t.readThenJudge(ctx, x, v, last)
	}
	return t.rejected(x, v, last)
}

// onlyAnswer reports whether v is the held answer to the one attempt that was made before, under a key that nobody
// else makes: it says what became of everything that was sent.
func (t *try) onlyAnswer(v wire.Verdict) bool {
	return v.Replayed && t.rec.Attempts == 2 && t.counted() && !t.rec.KeyDerived
}

// counted reports whether the attempts of the record are all that were made: not in a copy, nor after somebody had it
// sent again.
func (t *try) counted() bool {
	return !t.rec.Suspect && t.rec.Exposure != nil && t.rec.Exposure.Claim != ""
}

// lapsed reports whether what was not found may have come true and be over by now.
func (t *try) lapsed(f Finding) bool {
	if f.Until.IsZero() {
		return false
	}
	now := t.d.clock.now()
	return now.IsZero() || f.Until.Before(now.Add(lapseSlack))
}

// differs settles an operation that must not be done twice and whose place something else has: that is shown.
//
// What is there may be older than an earlier request of this operation that is still running.
func (t *try) differs(f Finding, last *outbox.Attempt) outbox.Settlement {
	if wait := t.ownMayStillRun(""); wait > 0 {
		return t.lookAgain(wait, last)
	}
	r := t.found("differs", f)
	r.Code, r.Message = outbox.CodeConflict, "what is there under this reference differs from what was asked for"
	return t.final(outbox.Settlement{To: outbox.Rejected, Result: r, Last: last})
}

// over reports whether the request that v answers is over, so that nothing can come of it any more. Of another one
// that runs InProgress tells, and a gateway may have answered in the place of one that goes on.
func over(v wire.Verdict) bool {
	return v.Authored && v.Class != wire.InProgress && v.Status != http.StatusBadGateway && v.Status != http.StatusGatewayTimeout
}

// unanswered returns the number of the latest attempt before this one after which a request may still have been under
// way; 0 = there is none. What nobody saved the end of is one.
func (t *try) unanswered() int {
	last := t.rec.Last
	switch {
	case t.clean:
		return 0
	case last == nil || last.N != t.rec.Attempts-1:
		return t.rec.Attempts - 1
	}
	return last.Unanswered
}

// unansweredAfter is unanswered for the attempt that comes next.
func (t *try) unansweredAfter() int {
	if t.open {
		return t.rec.Attempts
	}
	return t.unanswered()
}
