package main

import (
	"strconv"
	"time"

	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// record is the part of an [outbox.Record] that the state machine changes, in a form that can be compared.
// It is turned into a real one for every step, so that it is the product's own state machine that runs.
type record struct {
	state    outboxState // 0 = the operation was not accepted yet
	attempts uint8
	gen      uint8
	claim    uint8 // the token's number; 0 = none
	claimAge uint8
	exposure uint8 // the token of the claim that set the mark; 0 = none
	age      uint8 // of the mark
	suspect  bool
	evidence bool  // a success whose body broke off was seen
	last     uint8 // the number of the last attempt that was saved; 0 = none of this count
	reused   bool  // … which found its key in use
	conflict bool  // … or a conflict; of a rejection, its code
	open     uint8 // the last attempt up to that one after which a request may still have been under way
	byOther  bool
	clean    bool // of a rejection
	barred   bool // … or this code: 403
	because  reason
}

// Marks that are no claim's: of a suspect record, and of one that somebody had sent again.
const (
	ownerless uint8 = 30
	renewed   uint8 = 31
)

// outboxState is an outbox.State as a number, from 1.
type outboxState uint8

var states = outbox.States()

func number(s outbox.State) outboxState {
	for i, t := range states {
		if s == t {
			return outboxState(i + 1)
		}
	}
	panic("model: unknown state " + string(s))
}

func (n outboxState) state() outbox.State {
	if n == 0 {
		return ""
	}
	return states[n-1]
}

// reason is an outbox.Result's Reason as a number.
type reason uint8

var reasons = []string{"", "read_back", "by_other", "window_passed", "refused_after_unknown_attempt", "differs", "lapsed", "not_from_flavoso",
	outbox.ReasonExpired, outbox.ReasonCanceled}

func reasonNumber(s string) reason {
	for i, t := range reasons {
		if s == t {
			return reason(i)
		}
	}
	panic("model: unknown reason " + s)
}

func (n reason) String() string { return reasons[n] }

// epoch is the present as real records see it.
var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func ago(steps uint8) time.Time { return epoch.Add(-time.Duration(steps) * time.Minute) }

func stepsSince(t time.Time) uint8 { return uint8(epoch.Sub(t) / time.Minute) }

var tokens = func() (names [32]string) {
	for i := range names {
		if i > 0 {
			names[i] = "claim-" + strconv.Itoa(i)
		}
	}
	return names
}()

func tokenNumber(name string) uint8 {
	for i, t := range tokens {
		if t == name {
			return uint8(i)
		}
	}
	panic("model: unknown token " + name)
}

// real is the record as the product has it.
func (r record) real(o *op) *outbox.Record {
	rec := o.record()
	rec.Seq, rec.State, rec.Attempts = 1, r.state.state(), int(r.attempts)
	rec.Generation, rec.WireKey = int(r.gen), outbox.WireKey(rec.Key, int(r.gen))
	rec.Suspect = r.suspect
	if r.claim != 0 {
		rec.Claim = outbox.Claim{Token: tokens[r.claim], At: ago(r.claimAge)}
	}
	switch r.exposure {
	case 0:
	case renewed:
		rec.Exposure = &outbox.Exposure{}
	case ownerless:
		rec.Exposure = &outbox.Exposure{At: ago(r.age)}
	default:
		rec.Exposure = &outbox.Exposure{Claim: tokens[r.exposure], At: ago(r.age)}
	}
	if r.last > 0 {
		rec.Last = &outbox.Attempt{N: int(r.last), Code: lastCode(r.reused, r.conflict), Unanswered: int(r.open)}
	}
	if r.evidence || !rec.State.Waiting() {
		rec.Result = &outbox.Result{Reason: r.because.String(), ByOther: r.byOther, Clean: r.clean}
		if r.evidence {
			rec.Result.Status = 201
		}
		if r.conflict && !rec.State.Waiting() {
			rec.Result.Code = outbox.CodeConflict
		}
		if r.barred {
			rec.Result.Code = wire.CodeForbidden
		}
	}
	if !rec.State.Waiting() {
		rec.Revision, rec.OutcomeSeq, rec.Finished = 1, 1, epoch
	}
	return rec
}

const codeReused = "idempotency_key_reused"

func lastCode(reused, conflict bool) string {
	switch {
	case reused:
		return codeReused
	case conflict:
		return outbox.CodeConflict
	}
	return ""
}

// abstract is the inverse of real.
func abstract(rec *outbox.Record) record {
	r := record{state: number(rec.State), attempts: uint8(rec.Attempts), gen: uint8(rec.Generation), suspect: rec.Suspect}
	if rec.Claimed() {
		r.claim, r.claimAge = tokenNumber(rec.Claim.Token), stepsSince(rec.Claim.At)
	}
	if e := rec.Exposure; e != nil {
		switch {
		case e.At.IsZero():
			r.exposure = renewed
		case e.Claim == "":
			r.exposure, r.age = ownerless, stepsSince(e.At)
		default:
			r.exposure, r.age = tokenNumber(e.Claim), stepsSince(e.At)
		}
	}
	if l := rec.Last; l != nil && l.N > 0 {
		r.last, r.reused, r.conflict, r.open = uint8(l.N), l.Code == codeReused, l.Code == outbox.CodeConflict, uint8(l.Unanswered)
	}
	if !rec.State.Waiting() {
		r.last, r.reused, r.conflict, r.open = 0, false, false, 0
	}
	if res := rec.Result; res != nil {
		r.because, r.byOther, r.clean = reasonNumber(res.Reason), res.ByOther, res.Clean
		r.evidence = rec.State.Waiting() && res.Status >= 200 && res.Status < 300
		r.barred = res.Code == wire.CodeForbidden
		if !rec.State.Waiting() {
			r.conflict = res.Code == outbox.CodeConflict
		}
	}
	return r.settled()
}

// settled drops what cannot matter any more of an operation that is over.
func (r record) settled() record {
	if r.state != 0 && r.state.state().Final() {
		r.age, r.attempts, r.because = 0, 0, 0
		if r.exposure != 0 {
			r.exposure = ownerless
		}
	}
	return r
}

func (r *record) waiting() bool { return r.state != 0 && r.state.state().Waiting() }

// unfinished reports whether the record stands in its lane.
func (r *record) unfinished() bool {
	return r.state != 0 && (r.state.state().Waiting() || r.state.state().Parked())
}

// unanswered is the last attempt before the present one after which a request may still have been under way.
func (r *record) unanswered() uint8 {
	if r.last != r.attempts-1 {
		return r.attempts - 1 // nobody saved what came of it
	}
	return r.open
}

// counted reports whether the attempts are all that were made.
func (r *record) counted() bool { return !r.suspect && r.exposure != 0 && r.exposure < ownerless }

func (r *record) neverSent() bool { return r.exposure == 0 && !r.suspect }
