package main

import (
	"fmt"
	"slices"

	"github.com/flavoso/flavoso-go/outbox"
)

// The judge: the promise as checks on states and steps. It sees what no client sees.

// hole is a way in which the promise can be missed that is Flavoso's doing, or that is documented as a
// limit. Each has a name, and each occurrence must be explained by the judge's own notes.
type hole uint8

const (
	noHole       hole = iota
	unreadable        // twice: an effect that no held answer tells of, of a call that nothing reads back
	between           // twice: such an effect, made after the repeat had looked and before it arrived
	otherTill         // another till's effect that no held answer tells of: this one cannot know of it
	dayAfter          // two under one reference: another till's, and Flavoso had forgotten the key by then
	refusedAfter      // called rejected: such an effect, and a repeat that Flavoso then refused
	lateWrite         // a keyless write that came later than any attempt lasts changed what a newer one had set
	tooSoon           // two under one reference: the next key was taken while the other till, after a refusal, was trying again
	undone            // called rejected: it was done, and undone by somebody before it could be seen
)

var holeNames = [...]string{"", "unheld effect, nothing reads it back", "unheld effect between look and repeat", "unheld effect of another till",
	"another till after the key is forgotten", "refused after an unheld effect",
	"keyless write comes late", "next key while another till tries again", "undone before it was seen"}

func (h hole) String() string { return holeNames[h] }

// twice judges an effect of an operation that must have one at most.
func (m *model) twice(n *state, r *request) note {
	op, o := &m.ops[r.op], int(r.op)
	if op.repeatSafe() {
		return note{}
	}
	if had := n.effects[o]; had > 0 {
		switch {
		case n.bare[o] < had:
			return note{bad: "it is done a second time"}
		case !op.canFind():
			return note{hole: unreadable}
		case had > r.saw:
			return note{hole: between}
		}
		return note{bad: "it is done a second time, although looking would have shown the first"}
	}
	for p := range m.ops {
		if other := &m.ops[p]; p == o || other.kind != op.kind || other.resource != op.resource || n.effects[p] == 0 {
			continue
		}
		switch {
		case n.bare[p] == n.effects[p]:
			return note{hole: otherTill}
		case n.forgot[op.key]:
			return note{hole: dayAfter}
		case n.mixed[o] || n.mixed[p]:
			return note{hole: tooSoon}
		}
		return note{bad: "two are made under one reference"}
	}
	return note{}
}

// stillFirst reports whether another operation's request that had the key when the worker first found it taken is
// still running.
func (m *model) stillFirst(n *state, o int, t *try) bool {
	return slices.ContainsFunc(n.requests[:], func(r request) bool {
		return r.used && r.running && int(r.op) != o && m.ops[r.op].key == m.ops[o].key && r.age+1 >= t.taken
	})
}

// overtaken judges the order of effects in a lane.
func (m *model) overtaken(n *state, r *request) note {
	op, o := &m.ops[r.op], int(r.op)
	for p := range m.ops {
		switch other := &m.ops[p]; {
		case other.till != op.till || other.lane != op.lane:
		case p > o && n.effects[p] > 0 && op.keyless() && r.conn == 0:
			return note{hole: lateWrite}
		case p > o && n.effects[p] > 0, p < o && n.recs[p].unfinished() && !n.restored:
			return note{bad: "the order of the lane is not kept"}
		}
	}
	return note{}
}

// onlyOne judges that a claim put no more than one request on the wire.
func onlyOne(s, n *state) string {
	count := func(s *state) (c int) {
		for _, r := range s.requests {
			if r.used {
				c++
			}
		}
		return c
	}
	if count(n) > count(s)+1 {
		return "one claim puts two requests on the wire"
	}
	return ""
}

// provenUnsent judges that a mark goes only when its own claim proves that nothing was sent.
func (m *model) provenUnsent(n *state, before *record, o int, t *try) string {
	after := &n.recs[o]
	if before.exposure == 0 || after.exposure != 0 || after.gen != before.gen {
		return ""
	}
	switch {
	case before.exposure != t.token:
		return "a claim removes the mark of another"
	case n.effects[o] > 0 || n.out(o, before.gen):
		return "a mark is removed although the request had left"
	}
	return ""
}

// justified judges that an operation is given up to people only when nothing else can tell.
func (m *model) justified(t *try, o int, r ruling, l label) string {
	op := &m.ops[o]
	switch r.to.state() {
	case outbox.Uncertain:
		old := t.rec.suspect || t.rec.age >= windowTime || l.odd
		refusal := !t.clean && (t.answer.class == conflict || l.do == doRefuseConflict || l.do == doEarly403 || l.do == doReplyReused)
		switch {
		case t.rec.evidence:
			return "uncertain, although its success was seen"
		case t.clean || t.rec.neverSent():
			return "uncertain, although nothing can have been sent before"
		case op.canFind() || op.repeatSafe():
			return "uncertain, although reading or repeating would tell"
		case !old && !refusal:
			return "uncertain, although the key still protects a repeat"
		}
	case outbox.Abandoned:
		if t.clean || l.do != doJudge || wish(l.x) != wishLapsed {
			return "given up, although reading would tell"
		}
	case outbox.Blocked:
		if l.do != doPortalLong {
			return "blocked, although Flavoso itself answered"
		}
	}
	return ""
}

// state judges what must hold at every moment.
func (m *model) state(s *state) (why note) {
	for o := range m.ops {
		if n := m.operation(s, o); n.bad != "" {
			return note{bad: fmt.Sprintf("%s %d: %s", kindNames[m.ops[o].kind], o, n.bad)}
		} else if n.hole != noHole {
			why = n
		}
	}
	return why
}

func (m *model) operation(s *state, o int) note {
	r, op := &s.recs[o], &m.ops[o]
	if r.state == 0 {
		if s.effects[o] > 0 || s.out(o, 1) {
			return note{bad: "it is not known any more, and was sent"}
		}
		return note{}
	}
	rec := r.real(op)
	if err := rec.Check(); err != nil && m.wrong != mutMarkLate {
		return note{bad: err.Error()}
	}
	if rec.State.Final() && !op.repeatSafe() && s.effects[o] > 0 && rec.State != outbox.Rejected {
		t := rec.Tombstone()
		a := outbox.Addition{Record: *op.record(), Now: epoch}
		if outbox.Decide(&t, &a).Decision == outbox.AddedNew {
			return note{bad: "it was done, and deciding on it again would make another operation"}
		}
	}
	switch rec.State {
	case outbox.Queued, outbox.Expired, outbox.Canceled, outbox.Superseded:
		if s.effects[o] > 0 {
			return note{bad: fmt.Sprintf("it is %s, which says that it was never sent, and it was done", rec.State)}
		}
		if s.out(o, r.gen) && r.claim == 0 {
			return note{bad: fmt.Sprintf("it is %s, which says that it was never sent, and a request of it is under way", rec.State)}
		}
	case outbox.Succeeded:
		if !m.cameTrue(s, o) {
			return note{bad: "it is called succeeded, and nothing was done"}
		}
		if r.byOther && s.effects[o] > 0 {
			return note{bad: "it is called somebody else's doing, and was its own"}
		}
	case outbox.Rejected:
		if s.effects[o] > 0 {
			return m.falseRefusal(s, o)
		}
	}
	return note{}
}

// falseRefusal judges an operation that is called rejected and was done.
func (m *model) falseRefusal(s *state, o int) note {
	op := &m.ops[o]
	switch {
	case m.bareOther(s, o):
		return note{hole: otherTill}
	case slices.Contains(s.mixed[:], true):
		return note{hole: tooSoon}
	case op.kind == put && s.status[op.resource] != open && s.status[op.resource] != uint8(o)+1:
		return note{hole: lateWrite}
	case s.bare[o] == s.effects[o] && !op.canFind():
		return note{hole: refusedAfter}
	case op.kind == transition && s.status[op.resource] == gone:
		return note{hole: undone}
	}
	return note{bad: "it is called rejected, and it was done"}
}

// bareOther reports whether another operation on the resource has an effect that no held answer tells of.
func (m *model) bareOther(s *state, o int) bool {
	for p := range m.ops {
		if p != o && m.ops[p].kind == m.ops[o].kind && m.ops[p].resource == m.ops[o].resource && s.bare[p] > 0 {
			return true
		}
	}
	return false
}

// cameTrue reports whether a wish holds, or held once.
func (m *model) cameTrue(s *state, o int) bool {
	op := &m.ops[o]
	if op.kind == transition && s.status[op.resource] != open {
		return true
	}
	for p := range m.ops {
		if other := &m.ops[p]; s.effects[p] > 0 && (p == o || other.kind == op.kind && other.kind != call &&
			other.resource == op.resource && other.content == op.content) {
			return true
		}
	}
	return false
}

// rests reports whether every operation is over, or waits for people.
func (m *model) rests(s *state) bool {
	for o := range m.ops {
		if r := &s.recs[o]; r.state == 0 || r.waiting() && m.head(s, o) {
			return false
		}
	}
	return true
}
