package main

// The server: Flavoso's idempotency layer and what its operations change, and the way there and back.

// flavoso emits what can become of every request that is under way.
func (m *model) flavoso(s *state) {
	for i := range s.requests {
		r := &s.requests[i]
		switch {
		case !r.used:
		case r.running:
			m.execute(s, i)
		default:
			m.arrive(s, i)
		}
	}
}

func (m *model) at(r *request, do do) label { return label{do: do, w: r.conn, o: r.op} }

// arrive brings a request to Flavoso: it begins to run, or is answered from its key.
func (m *model) arrive(s *state, i int) {
	r := s.requests[i]
	op := &m.ops[r.op]
	begin := func(n *state) {
		q := &n.requests[i]
		q.running, q.age = true, 0
		m.emit(n, m.at(&r, doBegin), note{})
	}
	n := *s
	if op.keyless() {
		begin(&n)
		return
	}
	k := &n.keys[op.key][r.gen-1]
	switch {
	case k.state == held && k.age >= m.holdTime():
		*k = key{}
		n.forgot[op.key] = true
	case k.state == processing && !k.alive && k.age >= abortTime:
		*k = key{}
	}
	same := k.content == op.content
	switch {
	case k.state == free:
		*k = key{state: processing, alive: true, content: op.content}
		begin(&n)
	case !same:
		m.reply(&n, i, answer{class: keyReused}, doReplyReused, note{})
	case k.state == processing:
		m.reply(&n, i, answer{class: inProgress}, doReplyRunning, note{})
	case k.refused:
		m.reply(&n, i, answer{class: refused, replayed: true}, doReplay, note{})
	default:
		m.reply(&n, i, answer{class: success, replayed: true}, doReplay, note{})
	}
}

// reply ends a request with an answer, which may get lost, or with none.
func (m *model) reply(n *state, i int, a answer, do do, why note) {
	r := n.requests[i]
	n.requests[i] = request{}
	if r.conn == 0 {
		l := m.at(&r, do)
		m.emit(n, l, why)
		return
	}
	w, o := int(r.conn-1), int(r.op)
	t := &n.tries[w][o]
	hear := func(a answer, x uint8) {
		c := *n
		l := m.at(&r, do)
		l.x = x
		m.hearing(&c, w, o, received(a, t.clean), l, why)
	}
	hear(a, heard)
	if !m.faulty(t, o) {
		return
	}
	if m.can(loseAnswer) {
		hear(answer{}, lost)
	}
	if a.class == success && m.can(cutAnswer) {
		hear(answer{class: successCut, replayed: a.replayed}, halfHeard)
	}
}

// How an answer arrives.
const (
	heard uint8 = iota
	lost
	halfHeard
)

// execute emits every way in which a running request can end.
func (m *model) execute(s *state, i int) {
	r := s.requests[i]
	op := &m.ops[r.op]
	benign := r.conn != 0 && !m.faulty(&s.tries[r.conn-1][r.op], int(r.op))
	can := func(f fault) bool { return m.can(f) && !benign }
	turns := false
	end := func(do do, effect, bare bool, to key, a answer) {
		n := *s
		n.invalid[r.op] = s.invalid[r.op] || turns
		var why note
		if effect {
			why = m.effect(&n, &r, bare)
		}
		if !op.keyless() {
			k := &n.keys[op.key][r.gen-1]
			to.content = op.content
			if to.state == free {
				to = key{}
			}
			*k = to
		}
		m.reply(&n, i, a, do, why)
	}
	hold := key{state: held, age: r.age}
	if op.kind == transition && s.status[op.resource] == gone {
		end(doRefuseConflict, false, false, key{}, answer{class: conflict})
	} else if s.invalid[r.op] {
		hold.refused = true
		end(doRefuseInvalid, false, false, hold, answer{class: refused})
	} else {
		end(doExecute, true, false, hold, answer{class: success})
		if can(after5xx) {
			end(doAfter5xx, true, true, key{}, answer{class: retry})
		}
		if can(abortAfter) {
			end(doAbortAfter, true, true, key{state: processing}, answer{})
		}
		if can(sayConflict) && op.kind != transition && op.kind != put {
			end(doRefuseConflict, false, false, key{}, answer{class: conflict})
		}
		if can(sayInvalid) {
			hold.refused, turns = true, true
			end(doRefuseInvalid, false, false, hold, answer{class: refused})
			turns = false
		}
	}
	if can(before5xx) {
		end(doBefore5xx, false, false, key{}, answer{class: retry})
	}
	if can(abortBefore) {
		end(doAbortBefore, false, false, key{state: processing}, answer{})
	}
}

// effect makes the change that a request asks for; bare = no held answer tells of it.
func (m *model) effect(n *state, r *request, bare bool) note {
	op, o := &m.ops[r.op], int(r.op)
	switch op.kind {
	case transition:
		if n.status[op.resource] == done {
			return note{} // it comes back unchanged (F13)
		}
		n.status[op.resource] = done
	case put:
		if n.status[op.resource] == r.op+1 {
			return note{} // twice is the same as once (F15)
		}
		n.status[op.resource] = r.op + 1
	}
	why := m.twice(n, r)
	if why == (note{}) {
		why = m.overtaken(n, r)
	}
	if n.effects[o] < 3 {
		n.effects[o]++
		if bare && !op.keyless() {
			n.bare[o]++
		}
	}
	return why
}

// read is what reading the operation's resource tells of its wish.
func (m *model) read(s *state, o int) wish {
	op := &m.ops[o]
	switch op.kind {
	case transition:
		return [...]wish{open: wishOpen, done: wishFulfilled, gone: wishImpossible}[s.status[op.resource]]
	case put:
		switch {
		case s.status[op.resource] == uint8(o)+1:
			return wishFulfilled
		case s.over[o]:
			return wishLapsed
		}
		return wishOpen
	case booking:
		found := wishOpen
		for p := range m.ops {
			switch other := &m.ops[p]; {
			case other.kind != booking || other.resource != op.resource || s.effects[p] == 0:
			case other.content == op.content:
				return wishFulfilled
			default:
				found = wishImpossible
			}
		}
		return found
	}
	return wishUnreadable
}

// tick lets the clock go on by a step, where nothing has to happen first.
func (m *model) tick(s *state) {
	n := *s
	older := func(age *uint8, most uint8) { *age = min(*age+1, most) }
	for i := range n.requests {
		r := &n.requests[i]
		switch {
		case !r.used:
		case r.running && r.age >= m.runs:
			return // it ends first
		case !r.running && r.conn == 0 && r.age >= m.late:
			*r = request{} // it never arrives
		default:
			r.age++
		}
	}
	for w := range n.tries {
		for o := range n.tries[w] {
			t := &n.tries[w][o]
			if t.stage == onWire {
				if t.wire >= attemptTime || !m.faulty(t, o) {
					return // it gives up first, or is answered in time
				}
				t.wire++
			}
			switch shared := m.shared(m.workers[w%len(m.workers)]); t.stage {
			case claimed, answered:
				return // reading later is claiming, or hearing, later
			case decided:
				if !shared || !m.faulty(t, o) {
					return // and so is saving later where nobody else can touch it
				}
			case ready:
				if !m.faulty(t, o) {
					return
				}
				older(&t.age, staleTime+1)
			}
			if t.stage != idle && m.ages(&t.rec, o) {
				older(&t.rec.age, m.oldest())
			}
			if t.surprised > 0 {
				older(&t.surprised, overTime+1)
			}
			if t.taken > 0 {
				older(&t.taken, overTime+1)
			}
		}
	}
	for o := range m.ops {
		r := &n.recs[o]
		if m.ages(r, o) {
			older(&r.age, m.oldest())
		}
		if r.claim != 0 && m.shared(m.ops[o].till) {
			older(&r.claimAge, 2*workerLease)
		}
		for g := range n.keys[o] {
			switch k := &n.keys[o][g]; {
			case k.state == held:
				older(&k.age, m.holdTime())
			case k.state == processing && !k.alive:
				older(&k.age, abortTime)
			}
		}
		if n.hold[o] > 0 {
			n.hold[o]--
		}
		n.rest[o] = n.rest[o] && m.wrong == mutNeverTry
	}
	m.emit(&n, label{do: doTick}, note{})
}

// ages reports whether the age of a record's mark can matter.
func (m *model) ages(r *record, o int) bool {
	return r.exposure != 0 && r.exposure != renewed && r.waiting() && !m.ops[o].keyless() && (!r.suspect || m.wrong == mutNotSuspect)
}

// oldest is where the age of a mark stops counting.
func (m *model) oldest() uint8 {
	if m.wrong == mutNoMargin {
		return m.holdTime() + 1
	}
	return windowTime
}
