package main

import (
	"errors"

	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// model is a scenario being explored, perhaps with something wrong on purpose.
type model struct {
	*scenario
	wrong mutant
	emit  func(next *state, l label, n note)
}

// note is what the judge has to say of a step.
type note struct {
	bad  string // a property that does not hold
	hole hole   // a double or false outcome that Flavoso's own breach explains
}

// clients emits every step that the tills' processes and people can make.
func (m *model) clients(s *state) {
	for o := range m.ops {
		m.accept(s, o)
		for w := range m.workers {
			if m.workers[w] == m.ops[o].till {
				m.work(s, w, o)
			}
		}
		m.people(s, o)
		m.lapse(s, o)
	}
	for w := range m.workers {
		m.crash(s, w)
	}
	m.copyAndRestore(s)
}

// accept saves an operation. Those of one till are decided on in their order.
func (m *model) accept(s *state, o int) {
	if s.recs[o].state != 0 || o > 0 && m.ops[o-1].till == m.ops[o].till && s.recs[o-1].state == 0 {
		return
	}
	n := *s
	a := outbox.Addition{Record: *m.ops[o].record(), Now: epoch}
	choice := outbox.Decide(nil, &a)
	n.recs[o] = abstract(outbox.NewRecord(&a, choice.Generation, 1))
	m.emit(&n, label{do: doAccept, o: uint8(o)}, note{})
}

// work emits the steps of one worker on one operation.
func (m *model) work(s *state, w, o int) {
	t := &s.tries[w][o]
	l := label{w: uint8(w), o: uint8(o)}
	if t.stage != idle && m.faulty(t, o) && m.can(unsent) && (t.stage == claimed || t.stage == ready) {
		m.rule(s, w, o, m.givenBack(s, w, o), label{do: doGiveBack, w: l.w, o: l.o})
	}
	if op := &m.ops[o]; op.expires && t.stage == ready && t.clean && !m.shared(op.till) {
		m.rule(s, w, o, ruling{to: number(outbox.Expired), unsent: true, result: true, because: reasonNumber(outbox.ReasonExpired)},
			label{do: doExpireClaimed, w: l.w, o: l.o})
	}
	switch t.stage {
	case idle:
		m.claim(s, w, o)
	case claimed:
		m.prepare(s, w, o)
	case ready:
		m.send(s, w, o)
	case onWire:
		if late := t.wire >= attemptTime; late || m.faulty(t, o) && m.can(breakConn) {
			n := *s
			n.cut(w, o)
			m.hear(&n, w, o, answer{}, label{do: doBreak, w: l.w, o: l.o, odd: !late})
		}
	case answered:
		f := m.facts(s, w, o)
		m.looks(s, o, m.faulty(t, o), func(look wish) {
			r := m.judge(f, t.answer, func() wish { return look })
			m.rule(s, w, o, r, label{do: doJudge, w: l.w, o: l.o, x: uint8(look)})
		})
	case decided:
		m.settle(s, w, o)
	}
}

// givenBack is a claim that came to nothing.
func (m *model) givenBack(s *state, w, o int) ruling {
	f := m.facts(s, w, o)
	return queued(ruling{unsent: true, last: !f.clean, unanswered: f.unanswered})
}

func (m *model) can(f fault) bool { return m.faults&f != 0 }

// faulty reports whether the attempt may still meet faults.
func (m *model) faulty(t *try, o int) bool { return t.rec.attempts <= m.bound(o) }

// head reports whether the operation is the first of its lane that is not over.
func (m *model) head(s *state, o int) bool {
	for p := range o {
		if m.ops[p].till == m.ops[o].till && m.ops[p].lane == m.ops[o].lane && s.recs[p].unfinished() {
			return m.wrong == mutIgnoreLane && !s.recs[p].waiting()
		}
	}
	return true
}

// claim takes an operation for sending and marks it: one durable step.
func (m *model) claim(s *state, w, o int) {
	r, op := &s.recs[o], &m.ops[o]
	if !r.waiting() || !m.head(s, o) || s.hold[op.lane] > 0 || s.rest[o] {
		return
	}
	takeover := r.claim != 0
	lease := uint8(workerLease)
	if op.keyless() {
		lease *= 2
	}
	if takeover && (!m.shared(op.till) || r.claimAge < lease || m.wrong == mutNoTakeover) {
		return
	}
	rec := r.real(op)
	if takeover {
		rec.Claim = outbox.Claim{}
		if m.wrong == mutTakeoverUnsent {
			rec.Exposure = nil
		}
	}
	token := s.token()
	rec.ApplyClaim(tokens[token], outbox.Mark{Now: epoch})
	n := *s
	n.recs[o] = abstract(rec)
	if m.wrong == mutMarkLate {
		n.recs[o].exposure, n.recs[o].age, n.recs[o].state = r.exposure, r.age, r.state
	}
	t := &n.tries[w][o]
	*t = try{stage: claimed, token: token, rec: n.recs[o], memory: t.memory}
	t.clean = !t.rec.suspect && (t.rec.exposure == token || m.wrong == mutMarkLate && t.rec.exposure == 0)
	if t.clean {
		t.stage, t.saw = ready, 0
	}
	do := doClaim
	if takeover {
		do = doTakeOver
	}
	m.emit(&n, label{do: do, w: uint8(w), o: uint8(o)}, note{})
}

// facts is what a worker's attempt knows. The copy of the record is the claim's, and the age is the mark's.
func (m *model) facts(s *state, w, o int) facts {
	t, op := &s.tries[w][o], &m.ops[o]
	f := facts{repeatSafe: op.repeatSafe(), derived: op.derived(), keyless: op.keyless(), canFind: op.canFind(),
		clean: t.clean, past: m.past(&t.rec), evidence: t.rec.evidence, attempts: int(t.rec.attempts), generation: int(t.rec.gen),
		lastN: int(t.rec.last), lastReused: t.rec.reused, lastConflict: t.rec.conflict, counted: t.rec.counted()}
	if !t.clean {
		f.unanswered = int(t.rec.unanswered())
	}
	if t.gen == t.rec.gen {
		f.surprises = int(t.surprises)
		f.waited = t.surprised > overTime && (f.unanswered <= int(t.memory.counted) || m.wrong == mutWaitFromFirst)
		f.waitedTaken = f.waited && t.taken > overTime && !f.lastConflict
	}
	if m.wrong == mutForgetEvidence {
		f.evidence = false
	}
	return f
}

// past reports whether Flavoso may have forgotten the record's key.
func (m *model) past(r *record) bool {
	switch m.wrong {
	case mutNoWindow:
		return false
	case mutNoMargin:
		return r.suspect || r.exposure == 0 || r.age > m.holdTime()
	case mutNotSuspect:
		return r.exposure == 0 || r.age >= windowTime
	}
	return r.suspect || r.exposure == 0 || r.age >= windowTime
}

// prepare is what an attempt does before it repeats what may have been sent.
func (m *model) prepare(s *state, w, o int) {
	t := &s.tries[w][o]
	try := func(f facts, odd bool) {
		looked := false
		r, over := m.beforeRepeat(f, func() wish { looked = true; return wishUnreadable })
		if !looked {
			m.prepared(s, w, o, r, over, label{do: doPrepare, w: uint8(w), o: uint8(o), odd: odd})
			return
		}
		m.looks(s, o, m.faulty(t, o), func(found wish) {
			r, over := m.beforeRepeat(f, func() wish { return found })
			m.prepared(s, w, o, r, over, label{do: doLook, w: uint8(w), o: uint8(o), x: uint8(found), odd: odd})
		})
	}
	f := m.facts(s, w, o)
	try(f, false)
	if !f.past && m.faulty(t, o) && m.can(clockless) {
		f.past = true
		try(f, true)
	}
}

func (m *model) prepared(s *state, w, o int, r ruling, over bool, l label) {
	if over {
		m.rule(s, w, o, r, l)
		return
	}
	n := *s
	n.tries[w][o].stage, n.tries[w][o].saw = ready, n.effects[o]
	m.emit(&n, l, note{})
}

// looks calls found with everything that reading the operation's resource may come to now.
func (m *model) looks(s *state, o int, faulty bool, found func(wish)) {
	found(m.read(s, o))
	if faulty && m.can(blind) {
		found(wishUnreadable)
	}
}

// send puts the request on the wire, or meets what keeps it from there.
func (m *model) send(s *state, w, o int) {
	t := &s.tries[w][o]
	at := func(do do) label { return label{do: do, w: uint8(w), o: uint8(o)} }
	if t.age > staleTime {
		f := m.facts(s, w, o)
		m.rule(s, w, o, queued(ruling{last: true, unanswered: f.unanswered}), at(doWithhold))
		return
	}
	n := *s
	nt := &n.tries[w][o]
	r := request{used: true, op: uint8(o), gen: t.rec.gen, conn: uint8(w) + 1, saw: t.saw}
	if m.wrong == mutKeyPerAttempt {
		r.gen = min(t.rec.attempts, maxKeys)
	}
	nt.stage, nt.age, nt.sent = onWire, 0, true
	if n.put(r) {
		if m.wrong == mutSilentResend {
			r.conn = 0
			n.put(r)
		}
		m.emit(&n, at(doSend), note{bad: onlyOne(s, &n)})
	}
	if !m.faulty(t, o) {
		return
	}
	unheard := func(f fault, a answer, l label) {
		if m.can(f) {
			n := *s
			n.tries[w][o].stage, n.tries[w][o].sent = onWire, f != refuseDial
			m.hear(&n, w, o, received(a, t.clean), l)
		}
	}
	unheard(refuseDial, answer{neverSent: true}, at(doRefuse))
	unheard(loseRequest, answer{}, at(doLose))
	unheard(portal, answer{class: notAuthored}, at(doPortal))
	unheard(portal, answer{class: notAuthored, forLong: true}, at(doPortalLong))
	unheard(early, answer{class: retry}, at(doEarly))
	unheard(early401, answer{class: unauthorized}, at(doEarly401))
	for _, c := range []control{controlFine, controlRefused, controlBroken} {
		unheard(early403, answer{class: forbidden, control: c}, label{do: doEarly403, w: uint8(w), o: uint8(o), x: uint8(c)})
	}
}

// hear hands a worker what came of its request. What needs no look is judged at once.
func (m *model) hear(n *state, w, o int, a answer, l label) {
	m.hearing(n, w, o, a, l, note{})
}

func (m *model) hearing(n *state, w, o int, a answer, l label, why note) {
	f, looked := m.facts(n, w, o), false
	r := m.judge(f, a, func() wish { looked = true; return wishUnreadable })
	if !looked {
		m.ruled(n, w, o, r, l, why)
		return
	}
	n.tries[w][o].stage, n.tries[w][o].answer = answered, a
	m.emit(n, l, why)
}

// rule notes what is to be saved; it is not saved yet.
func (m *model) rule(s *state, w, o int, r ruling, l label) {
	n := *s
	m.ruled(&n, w, o, r, l, note{})
}

func (m *model) ruled(n *state, w, o int, r ruling, l label, why note) {
	t := &n.tries[w][o]
	if why.bad == "" {
		why.bad = m.justified(t, o, r, l)
	}
	if r.surprise {
		t.surprise(r)
	}
	if r.forget {
		n.mixed[o] = n.mixed[o] || !m.stillFirst(n, o, t)
		t.memory = memory{}
	}
	r.surprise, r.forget = false, false
	*t = try{stage: decided, token: t.token, rec: record{attempts: t.rec.attempts}, sent: t.sent, ruling: r, memory: t.memory}
	m.emit(n, l, why)
}

// surprise notes another refusal that is not believed yet.
func (t *try) surprise(r ruling) {
	if t.gen != t.rec.gen {
		t.memory = memory{gen: t.rec.gen}
	}
	t.surprises++
	own := uint8(0)
	if !t.clean {
		own = t.rec.unanswered()
	}
	if t.surprised == 0 || own > t.memory.counted {
		t.surprised, t.memory.counted = 1, max(own, t.memory.counted)
	}
	if r.conflicted || t.rec.conflict {
		t.taken = 0
	}
	if r.reused {
		t.taken = max(t.taken, 1)
	}
}

// settle saves it: one durable step.
func (m *model) settle(s *state, w, o int) {
	t, op := &s.tries[w][o], &m.ops[o]
	r := t.ruling
	before := s.recs[o]
	rec := before.real(op)
	if m.shared(op.till) && rec.Claimed() && rec.Claim.Token != tokens[t.token] && before.claimAge >= workerLease {
		rec.Claim = outbox.Claim{} // nobody works on it any more
	}
	st := outbox.Settlement{ID: rec.ID, Claim: tokens[t.token], Now: epoch, To: r.to.state(), Due: epoch, NeverSent: r.unsent, NextGeneration: r.next}
	if r.last {
		st.Last = &outbox.Attempt{N: int(t.rec.attempts), Code: lastCode(r.reused, r.conflicted), Unanswered: r.unanswered}
	}
	if r.result {
		st.Result = &outbox.Result{Reason: r.because.String(), ByOther: r.byOther, Clean: r.clean}
		if r.evidence {
			st.Result.Status = 201
		}
		if r.conflict {
			st.Result.Code = outbox.CodeConflict
		}
		if r.barred {
			st.Result.Code = wire.CodeForbidden
		}
	}
	n := *s
	l := label{do: doSettle, w: uint8(w), o: uint8(o), x: uint8(r.to)}
	switch err := m.apply(rec, &st); {
	case errors.Is(err, outbox.ErrClaimLost):
		l.do = doTooLate
	case err != nil:
		m.emit(&n, l, note{bad: "the product's own state machine refuses the settlement: " + err.Error()})
		return
	default:
		n.recs[o] = abstract(rec)
		if m.wrong == mutMarkLate && t.sent && !r.unsent && n.recs[o].waiting() {
			n.recs[o].exposure, n.recs[o].state = ownerless, number(outbox.Sent)
		}
		if r.holds && m.wrong != mutNoHold {
			n.hold[op.lane] = attemptTime
		}
		n.rest[o] = r.pause && n.recs[o].waiting() && (t.rec.attempts >= m.bound(o) || m.wrong == mutNeverTry)
	}
	nt := &n.tries[w][o]
	*nt = try{memory: t.memory}
	if !n.recs[o].waiting() {
		*nt = try{}
	}
	m.emit(&n, l, note{bad: m.provenUnsent(&n, &before, o, t)})
}

// apply is the product's ApplySettlement.
func (m *model) apply(rec *outbox.Record, st *outbox.Settlement) error {
	switch {
	case m.wrong == mutAnyMark && st.NeverSent && rec.Claim.Token == st.Claim && rec.Exposure != nil:
		rec.Exposure.Claim = st.Claim
	case m.wrong == mutNoFence:
		st.Claim = rec.Claim.Token
		if st.Claim == "" {
			rec.Claim.Token, st.Claim = "any", "any"
		}
	}
	return rec.ApplySettlement(st)
}

// crash ends a process: what it knew is gone, its connections break, and where it had the outbox to itself
// its claims end with it. It is started again at once; time passes all the same.
func (m *model) crash(s *state, w int) {
	if !m.can(crash) {
		return
	}
	something := false
	for o := range m.ops {
		t := &s.tries[w][o]
		if t.stage != idle && !m.faulty(t, o) {
			return
		}
		something = something || *t != try{}
	}
	if something {
		n := *s
		m.die(&n, w)
		m.emit(&n, label{do: doCrash, w: uint8(w)}, note{})
	}
}

func (m *model) die(n *state, w int) {
	n.cut(w, -1)
	till := m.workers[w]
	for o := range m.ops {
		n.tries[w][o] = try{}
		if m.ops[o].till == till && !m.shared(till) {
			n.recs[o].claim, n.recs[o].claimAge = 0, 0
		}
	}
}
