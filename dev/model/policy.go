package main

import (
	"github.com/flavoso/flavoso-go/outbox"
)

// The dispatcher's decisions, as a table of their own: what an attempt does before it repeats, and what an
// answer means. They are private to the product's internal/dispatch, so that they are written down here once
// more; TestPolicyIsTheProducts runs the real client over every row and compares.

// class is what an answer is taken for; see wire.Class.
type class uint8

const (
	broken class = iota
	success
	successCut
	inProgress
	conflict
	keyReused
	refused // a rejection
	unauthorized
	forbidden
	retry
	notAuthored
)

var classNames = [...]string{"nothing", "success", "a success whose body broke off", "409 idempotency_in_progress", "409 conflict (replayed: 404)",
	"422 idempotency_key_reused", "a refusal", "401", "403", "5xx or 429", "a portal's page"}

// answer is what an attempt's one exchange came to.
type answer struct {
	class     class
	replayed  bool
	neverSent bool    // provably no peer was reached
	control   control // what the read says that a 403 asks for
	forLong   bool    // it is the last of ten such answers over half an hour
}

// conflict reports whether it is a 409 conflict.
func (a answer) conflict() bool { return a.class == conflict && !a.replayed }

type control uint8

const (
	controlFine control = iota
	controlRefused
	controlBroken
)

// wish is what was found when the resource was read; see dispatch.Wish.
type wish uint8

const (
	wishOpen wish = iota
	wishFulfilled
	wishImpossible
	wishUnreadable
	wishLapsed
)

var wishNames = [...]string{"it has not come true", "it has come true", "something else is there", "it could not be read",
	"it may have come true, and is over"}

// facts is all that a decision depends on, besides the answer and the look.
type facts struct {
	repeatSafe, derived, keyless, canFind bool

	clean      bool // no earlier attempt can have been sent
	past       bool // the key may have been forgotten
	evidence   bool // a success whose body broke off was seen
	attempts   int
	generation int
	counted    bool // the attempts are all that were made
	lastN      int  // the last attempt that was saved
	lastReused bool
	// lastConflict: that one met a conflict
	lastConflict bool
	unanswered   int  // the last attempt before this one after which a request may still have been under way
	surprises    int  // before this answer
	waited       bool // long enough since the first, or since one after the last such attempt
	waitedTaken  bool // long enough since the key was first found taken, too
}

// ruling is a settlement as far as it is decided.
type ruling struct {
	to     outboxState
	unsent bool // Settlement.NeverSent
	next   bool // Settlement.NextGeneration
	holds  bool // the lane's next write waits
	last   bool // it says what the attempt was
	reused bool // … and that it found its key in use
	// conflicted: … or a conflict
	conflicted bool
	unanswered int  // the last attempt up to this one after which a request may still be under way
	result     bool // it has a Result
	evidence   bool // which shows a success
	byOther    bool
	clean      bool
	conflict   bool
	barred     bool // refused with 403
	because    reason
	surprise   bool // another refusal that an unfinished request could explain
	forget     bool // the surprises are those of a key that is given up
	pause      bool // it is useless to try again at once
}

const (
	cutTries       = 10
	maxGenerations = 8
)

func queued(r ruling) ruling    { r.to = number(outbox.Queued); return r }
func succeeded(r ruling) ruling { r.to, r.result = number(outbox.Succeeded), true; return r }

// beforeRepeat decides what must not simply be sent again; false = send it.
func (f *facts) beforeRepeat(look func() wish) (ruling, bool) {
	if f.repeatSafe && (f.keyless || !f.past) {
		return ruling{}, false
	}
	if !f.canFind {
		if f.past && !f.repeatSafe {
			return f.keepEvidence(ruling{to: number(outbox.Uncertain), result: true, because: reasonNumber("window_passed")}), true
		}
		return ruling{}, false
	}
	switch look() {
	case wishFulfilled:
		return succeeded(ruling{byOther: f.taken(), because: reasonNumber("read_back")}), true
	case wishImpossible:
		if !f.repeatSafe {
			r := f.differs()
			r.last, r.unanswered = r.to.state().Waiting(), f.unanswered
			if !r.last {
				r.unanswered = 0
			}
			return f.keepEvidence(r), true
		}
	case wishUnreadable:
		return queued(ruling{last: true, unanswered: f.unanswered}), true
	}
	return ruling{}, false
}

// taken reports whether every attempt so far found the key taken.
func (f *facts) taken() bool {
	return f.lastReused && f.counted && f.lastN == f.attempts-1 && (f.lastN == 1 || f.surprises == f.lastN)
}

// judge turns an answer into what is to be saved.
func (f *facts) judge(a answer, look func() wish) ruling {
	r := f.decide(a, look)
	f.note(&r, a)
	return f.keepEvidence(r)
}

// note says what the attempt was.
func (f *facts) note(r *ruling, a answer) {
	r.last, r.reused, r.conflicted, r.unanswered = true, a.class == keyReused && !a.replayed, a.conflict(), f.unanswered
	if a.class == inProgress || a.class == notAuthored || a.class == broken && !a.neverSent {
		r.unanswered = f.attempts
	}
}

func (f *facts) decide(a answer, look func() wish) ruling {
	switch a.class {
	case success:
		return f.final(succeeded(ruling{evidence: true, byOther: f.clean && a.replayed}))
	case successCut:
		if f.attempts >= cutTries && f.evidence {
			return f.final(succeeded(ruling{evidence: true}))
		}
		return queued(ruling{result: true, evidence: true})
	case inProgress:
		return queued(ruling{pause: true})
	case conflict:
		if f.clean || f.onlyAnswer(a) {
			return f.rejected(a)
		}
		return f.readThenJudge(a, look)
	case keyReused:
		switch {
		case !f.clean && !f.repeatSafe && !f.derived:
			return f.readThenJudge(a, look)
		case !f.derived || !f.canFind:
			return f.rejected(a)
		}
		switch w := look(); {
		case w == wishFulfilled:
			if !f.clean && !f.taken() {
				return f.final(succeeded(ruling{because: reasonNumber("read_back")}))
			}
			return f.final(succeeded(ruling{byOther: true, because: reasonNumber("by_other")}))
		case w == wishUnreadable:
			return queued(ruling{})
		case w == wishImpossible && !f.repeatSafe:
			return f.differs()
		case w == wishImpossible || f.generation >= maxGenerations:
			return f.rejected(a)
		}
		if f.surprised(a) {
			return queued(ruling{surprise: true, pause: true})
		}
		return queued(ruling{next: true, forget: true})
	case refused:
		if f.clean || f.onlyAnswer(a) || !f.canFind && !f.keyless && !f.past {
			return f.rejected(a)
		}
		return f.readThenJudge(a, look) // an earlier attempt may have been done while it was still allowed
	case unauthorized:
		return queued(ruling{unsent: true})
	case forbidden:
		switch {
		case a.control == controlRefused:
			return queued(ruling{unsent: true})
		case a.control == controlBroken:
			return queued(ruling{})
		case f.clean:
			return f.rejected(a)
		}
		return f.readThenJudge(a, look)
	case retry:
		return queued(ruling{})
	case notAuthored:
		if a.forLong {
			return ruling{to: number(outbox.Blocked), result: true, because: reasonNumber("not_from_flavoso")}
		}
		return queued(ruling{})
	}
	return queued(ruling{unsent: a.neverSent})
}

// readThenJudge decides a refusal that an earlier attempt of the same operation may have caused.
func (f *facts) readThenJudge(a answer, look func() wish) ruling {
	if !f.canFind {
		return ruling{to: number(outbox.Uncertain), result: true, conflict: a.conflict(), barred: a.class == forbidden,
			because: reasonNumber("refused_after_unknown_attempt")}
	}
	switch w := look(); w {
	case wishFulfilled:
		return f.final(succeeded(ruling{because: reasonNumber("read_back")}))
	case wishUnreadable:
		return queued(ruling{})
	case wishImpossible:
		if !f.repeatSafe {
			return f.differs()
		}
	case wishOpen, wishLapsed:
		if f.surprised(a) {
			return queued(ruling{surprise: true, pause: true})
		}
		if w == wishLapsed {
			return f.final(ruling{to: number(outbox.Abandoned), result: true, conflict: a.conflict(), barred: a.class == forbidden,
				because: reasonNumber("lapsed")})
		}
	}
	return f.rejected(a)
}

// onlyAnswer reports whether the answer is the held one to all that was sent before.
func (f *facts) onlyAnswer(a answer) bool {
	return a.replayed && f.attempts == 2 && f.counted && !f.derived
}

// surprised reports whether to look again later: the request that explains the refusal may still be running, or
// the refusal says nothing about one.
func (f *facts) surprised(a answer) bool {
	switch {
	case a.class == forbidden:
		return f.ownMayRun() && !f.waited
	case f.repeatSafe:
		return false
	case a.conflict():
		return !f.waited
	}
	return a.class == keyReused && !a.replayed && !f.waitedTaken
}

// ownMayRun reports whether an earlier request of the operation may still be under way.
func (f *facts) ownMayRun() bool { return !f.clean && (f.unanswered > 0 || !f.counted) }

func (f *facts) rejected(a answer) ruling {
	return f.final(ruling{to: number(outbox.Rejected), result: true, clean: f.clean, conflict: a.conflict(), barred: a.class == forbidden})
}

// differs settles what must not be done twice and whose place something else has. That may be older than an
// earlier request that still runs.
func (f *facts) differs() ruling {
	if f.ownMayRun() && !f.waited {
		return queued(ruling{surprise: true, pause: true})
	}
	return f.final(ruling{to: number(outbox.Rejected), result: true, conflict: true, because: reasonNumber("differs")})
}

// final holds the lane back behind a keyless write of which an attempt may still be on its way.
func (f *facts) final(r ruling) ruling {
	r.holds = f.keyless && !f.clean
	return r
}

// keepEvidence keeps what a repeat meets from contradicting a success that was seen.
func (f *facts) keepEvidence(r ruling) ruling {
	s := r.to.state()
	if !f.evidence || s == outbox.Succeeded || s.Waiting() && !r.next {
		return r
	}
	return f.final(succeeded(ruling{evidence: true, last: r.last, reused: r.reused, conflicted: r.conflicted, unanswered: r.unanswered}))
}
