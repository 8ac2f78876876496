package main

import "github.com/flavoso/flavoso-go/outbox"

// people emits what users, operators and other apps do about one operation.
func (m *model) people(s *state, o int) {
	op, r := &m.ops[o], &s.recs[o]
	change := func(a outbox.Action, do do, after func(n *state)) {
		rec := r.real(op)
		if m.wrong == mutCancelSent && a == outbox.Cancel && !rec.Claimed() && rec.State.Waiting() {
			rec.Exposure, rec.State = nil, outbox.Queued
		}
		if rec.ApplyChange(&outbox.Change{ID: rec.ID, Action: a, Now: epoch, Overdue: true}) != nil {
			return
		}
		n := *s
		n.recs[o] = abstract(rec)
		if after != nil {
			after(&n)
		}
		m.emit(&n, label{do: do, o: uint8(o)}, note{})
	}
	if m.can(cancel) && r.waiting() {
		change(outbox.Cancel, doCancel, nil)
	}
	if op.expires && r.waiting() {
		rec := r.real(op)
		rec.Expires = epoch
		if rec.ApplyChange(&outbox.Change{ID: rec.ID, Action: outbox.Expire, Now: epoch, Overdue: true}) == nil {
			n := *s
			n.recs[o] = abstract(rec)
			m.emit(&n, label{do: doExpire, o: uint8(o)}, note{})
		}
	}
	// The operator is right: it was not done, and nothing of it is under way.
	if m.can(sendAgain) && !s.asked && r.state.state() == outbox.Uncertain && s.effects[o] == 0 && !s.out(o, r.gen) && m.settledOrIdle(s, o) {
		change(outbox.ResolveSendAgain, doSendAgain, func(n *state) { n.asked = true })
	}
	if op.kind == transition && m.can(others) && s.status[op.resource] == open {
		for _, to := range []uint8{done, gone} {
			n := *s
			n.status[op.resource] = to
			m.emit(&n, label{do: doMove, o: uint8(o), x: to}, note{})
		}
	}
	if op.kind == transition && m.can(undo) && s.status[op.resource] == done {
		n := *s
		n.status[op.resource] = gone
		m.emit(&n, label{do: doMove, o: uint8(o), x: gone}, note{})
	}
}

// lapse emits that what a write asks for ends by itself: it does not show any more, and is refused from then on.
func (m *model) lapse(s *state, o int) {
	if op := &m.ops[o]; op.kind == put && m.can(lapse) && s.recs[o].state != 0 && !s.over[o] {
		n := *s
		n.over[o], n.invalid[o] = true, true
		if n.status[op.resource] == uint8(o)+1 {
			n.status[op.resource] = open
		}
		m.emit(&n, label{do: doLapse, o: uint8(o)}, note{})
	}
}

// settledOrIdle reports whether no worker can still send the operation under a claim that it has.
func (m *model) settledOrIdle(s *state, o int) bool {
	for w := range m.workers {
		if st := s.tries[w][o].stage; st != idle && st != decided {
			return false
		}
	}
	return true
}

// copyAndRestore emits taking a copy of the first till's outbox, once it has accepted everything, and putting
// it in the place of the outbox.
func (m *model) copyAndRestore(s *state) {
	if !m.can(restore) || s.restored {
		return
	}
	waits := false
	for o := range m.ops {
		if m.ops[o].till == 0 {
			if s.recs[o].state == 0 {
				return
			}
			waits = waits || s.recs[o].waiting()
		}
	}
	n := *s
	if !s.copied {
		if !waits {
			return
		}
		n.copied = true
		for o := range m.ops {
			if m.ops[o].till == 0 {
				n.copies[o] = s.recs[o]
				n.copies[o].claim, n.copies[o].claimAge = 0, 0
				if n.copies[o].exposure != 0 {
					n.copies[o].exposure, n.copies[o].age = ownerless, 0 // its claim is over by the time anybody reads it
				}
			}
		}
		m.emit(&n, label{do: doCopy}, note{})
		return
	}
	n.restored = true
	for w := range m.workers {
		if m.workers[w] == 0 {
			m.die(&n, w)
		}
	}
	for o := range m.ops {
		if m.ops[o].till != 0 {
			continue
		}
		rec := s.copies[o].real(&m.ops[o])
		if m.wrong != mutNotSuspect {
			rec.ApplySuspect()
		}
		n.recs[o], n.copies[o] = abstract(rec), record{}
	}
	n.rest, n.hold = [maxOps]bool{}, [maxOps]uint8{}
	m.emit(&n, label{do: doRestore}, note{})
}
