package dispatch

import (
	"context"
	"time"

	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// What a refusal says of an operation that was tried before: an earlier attempt may have been done, or may still
// be running.

const (
	// secondLook is how long after a surprising refusal what is not repeat-safe is looked for again: the
	// request that explains it may still be running. Each further look waits twice as long.
	secondLook = 10 * time.Second
	// leaseOver is when such a request is over for certain: what Flavoso aborted holds its key for two
	// minutes (F9).
	leaseOver = 2*time.Minute + 30*time.Second
)

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
	}
	return t.rejected(x, v, last)
}

// refusedNow settles a refusal that was not held from before. It is about now: an earlier attempt may have been
// done while it was still allowed, if nothing but its own answer tells. What a key protects and nothing can read
// back stays refused: for that an effect behind an answer that Flavoso does not hold (F10) would be needed.
func (t *try) refusedNow(ctx context.Context, x wire.Exchange, v wire.Verdict, last *outbox.Attempt) outbox.Settlement {
	switch {
	case t.clean || v.Replayed:
	case t.d.cfg.Policy.CanFind(t.rec), t.rec.WireKey == "", t.d.pastWindow(ctx, t.c, t.rec):
		return t.readThenJudge(ctx, x, v, last)
	}
	return t.rejected(x, v, last)
}

// differs settles an operation that must not be done twice and whose place something else has: that is shown.
//
// What is there may be older than an earlier request of this operation that is still running.
func (t *try) differs(f Finding, last *outbox.Attempt) outbox.Settlement {
	if wait := t.ownMayStillRun(); wait > 0 {
		return t.lookAgain(wait, last)
	}
	r := t.found("differs", f)
	r.Code, r.Message = outbox.CodeConflict, "what is there under this reference differs from what was asked for"
	return t.final(outbox.Settlement{To: outbox.Rejected, Result: r, Last: last})
}

// surprised returns how long to wait before looking again after a refusal that an unfinished request could
// explain, or that says nothing about one; 0 = that request is over by now. The time since the first surprise
// decides, so that looks which Wake made early do not count as waiting.
func (t *try) surprised(v wire.Verdict) time.Duration {
	switch {
	case v.Class == wire.Forbidden: // decided before the key is looked at (D10)
		return t.ownMayStillRun()
	case t.rec.RepeatSafe || v.Code != wire.CodeConflict && v.Code != wire.CodeKeyReused:
		return 0
	}
	return t.mayStillRun()
}

// ownMayStillRun is mayStillRun for this operation's own earlier requests; one that was answered is over.
func (t *try) ownMayStillRun() time.Duration {
	last := t.rec.Last
	if t.clean || last != nil && last.N == 1 && t.rec.Attempts == 2 && last.RequestID != "" && last.Code != wire.CodeInProgress {
		return 0
	}
	return t.mayStillRun()
}

// mayStillRun returns how long to wait before looking again while an earlier request, under whatever key leads to
// the same, may still be running.
func (t *try) mayStillRun() time.Duration {
	waited := time.Since(t.d.surprises.met(t.rec.ID).since)
	return max(min(leaseOver-waited, max(secondLook, waited)), 0)
}

func (t *try) lookAgain(wait time.Duration, last *outbox.Attempt) outbox.Settlement {
	return outbox.Settlement{To: outbox.Queued, Due: t.d.cfg.Now().Add(wait), Last: last}
}

// wasTaken reports whether every attempt so far found the key taken: what is there was somebody else's doing.
func (t *try) wasTaken() bool {
	last := t.rec.Last
	if last == nil || last.Code != wire.CodeKeyReused {
		return false
	}
	return last.N == 1 && t.rec.Attempts == 2 || t.d.surprises.count(t.rec.ID) == t.rec.Attempts-1
}
