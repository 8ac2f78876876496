package dispatch

import (
	"time"

	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// Refusals that surprise: a request that is still under way could explain them, one of the operation itself or one of
// another sender. They are not believed before that request must be over.

const (
	// secondLook is how long after a surprising refusal what is not repeat-safe is looked for again: the
	// request that explains it may still be running. Each further look waits twice as long.
	secondLook = 10 * time.Second
	// leaseOver is when such a request is over for certain: what Flavoso aborted holds its key for two
	// minutes (F9).
	leaseOver = 2*time.Minute + 30*time.Second
)

// surprise is what is known of a run of them, besides how many there were and since when the wait counts: since the
// first one, or since the one that came first after an attempt of the operation's own that may still run.
type surprise struct {
	// generation and marked say which count of attempts the rest belongs to. Another process may have begun a new one.
	generation int
	marked     time.Time
	// unanswered is the latest attempt that the wait counts in.
	unanswered int
	// taken is since when, without a break, the key was found taken by another request; zero = the last time it was not.
	taken time.Time
}

// of reports whether the run is about the record as its attempts are counted now.
func (s *surprise) of(rec *outbox.Record) bool {
	return s.generation == rec.Generation && s.marked.Equal(marked(rec))
}

func marked(rec *outbox.Record) time.Time {
	if rec.Exposure == nil {
		return time.Time{}
	}
	return rec.Exposure.At
}

// surprised returns how long to wait before looking again after a refusal that an unfinished request could
// explain, or that says nothing about one; 0 = that request is over by now.
func (t *try) surprised(v wire.Verdict) time.Duration {
	switch {
	case v.Class == wire.Forbidden: // decided before the key is looked at (D10)
		return t.ownMayStillRun(v.Code)
	case t.rec.RepeatSafe || v.Code != wire.CodeConflict && v.Code != wire.CodeKeyReused:
		return 0
	}
	return t.mayStillRun(v.Code)
}

// ownMayStillRun is mayStillRun for this operation's own earlier requests. Those that were answered do not.
func (t *try) ownMayStillRun(code string) time.Duration {
	if t.clean || t.unanswered() == 0 && t.counted() {
		return 0
	}
	return t.mayStillRun(code)
}

// mayStillRun returns how long to wait before looking again while an earlier request, under whatever key leads to
// the same, may still be running. Looks that Wake made early do not count as waiting, and looks that were answered
// do not make it longer.
func (t *try) mayStillRun(code string) time.Duration {
	rec, own := t.rec, t.unanswered()
	at := t.d.surprises.note(rec.ID, func(at *run) {
		now, s := time.Now(), &at.surprise
		if !s.of(rec) {
			*at = run{since: now, surprise: surprise{generation: rec.Generation, marked: marked(rec)}}
		}
		if own > s.unanswered {
			at.since, s.unanswered = now, own
		}
		// A conflict shows that the key was free, so that the request that takes it now came later.
		if code == wire.CodeConflict || rec.Last != nil && rec.Last.Code == wire.CodeConflict {
			s.taken = time.Time{}
		}
		if code == wire.CodeKeyReused && s.taken.IsZero() {
			s.taken = now
		}
	})
	since := at.since
	if taken := at.surprise.taken; code == wire.CodeKeyReused && taken.After(since) {
		since = taken
	}
	waited := time.Since(since)
	return max(min(leaseOver-waited, max(secondLook, waited)), 0)
}

// lookAgain settles an attempt that leaves everything as it was for a while.
func (t *try) lookAgain(wait time.Duration, last *outbox.Attempt) outbox.Settlement {
	if last == nil {
		last = t.last("something else is there, and an earlier request may still be under way")
	}
	return outbox.Settlement{To: outbox.Queued, Due: t.d.cfg.Now().Add(wait), Last: last}
}

// wasTaken reports whether every attempt so far found the key taken: what is there was somebody else's doing.
func (t *try) wasTaken() bool {
	last := t.rec.Last
	if last == nil || last.N != t.rec.Attempts-1 || last.Code != wire.CodeKeyReused || !t.counted() {
		return false
	}
	at := t.d.surprises.get(t.rec.ID)
	return last.N == 1 || at.surprise.of(t.rec) && at.count == last.N
}
