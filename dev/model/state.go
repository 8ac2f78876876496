package main

import (
	"hash/maphash"
	"slices"
)

// Bounds of what one state can hold.
const (
	maxOps      = 2
	maxWorkers  = 2
	maxRequests = 6
	maxKeys     = 3 // generations of one logical key
)

// Times, in steps of the model's clock. Their order is that of the real ones; the gaps are shortened.
const (
	attemptTime = 1 // an attempt gives up: 30 s
	staleTime   = 1 // a claim is too old to be sent: 1 min
	workerLease = 1 // a claim on shared storage may be taken over: 1 min, twice that without a key
	abortTime   = 2 // the key of an aborted request is free again (F9): 2 min
	overTime    = 4 // whoever was surprised stops waiting for an unfinished request: 2 min 30
	windowTime  = 5 // the client stops trusting a key: 24 h less 15 min
)

// A state is everything at one moment: what the outboxes hold, what the processes know, what is under way,
// and what Flavoso has. The fields marked 'ghost' are the judge's notes; nobody in the model reads them. It
// holds no pointers, so that equal states are equal bytes.
type state struct {
	recs     [maxOps]record
	copies   [maxOps]record // a copy of the outbox, taken once
	copied   bool
	restored bool
	asked    bool          // an operator has had the uncertain one sent again
	rest     [maxOps]bool  // not to be claimed before the clock goes on
	hold     [maxOps]uint8 // how long the lane is held back, by its number
	tries    [maxWorkers][maxOps]try

	requests [maxRequests]request // in canonical order; unused ones last
	keys     [maxOps][maxKeys]key
	status   [maxOps]uint8 // of the resources
	invalid  [maxOps]bool  // what the operation asks for was right once, and is not any more
	over     [maxOps]bool  // what the operation asks for would have ended by now
	forgot   [maxOps]bool  // ghost: Flavoso has forgotten a held answer to one of the key's requests

	mixed   [maxOps]bool  // ghost: the next key was taken when the request that was waited for was over
	effects [maxOps]uint8 // ghost: what an operation has really changed, counted up to 3
	bare    [maxOps]uint8 // ghost: how many of them no held answer tells of (F9, F10)
}

// stage is how far a worker's attempt is.
type stage uint8

const (
	idle     stage = iota
	claimed        // the claim is saved, and nothing was decided yet
	ready          // about to be sent
	onWire         // sent, and no answer
	answered       // there is an answer, and something must be read to judge it
	decided        // what is to be saved is known
)

// try is one worker's attempt at one operation, and what its process remembers between attempts.
type try struct {
	stage  stage
	token  uint8
	age    uint8  // since the claim
	wire   uint8  // since it was sent
	rec    record // as the claim gave it out
	clean  bool
	saw    uint8 // ghost: how many effects there were when it was looked at or known to be unsent
	sent   bool  // a request of this claim is, or was, on the wire
	answer answer
	ruling ruling

	memory
}

// memory is what a process remembers of an operation's surprising refusals.
type memory struct {
	surprised uint8 // since the first, or since a later one that told of a later open request of its own, plus one; 0 = none
	surprises uint8 // how many
	counted   uint8 // the latest attempt that the wait counts in
	taken     uint8 // since when, without a break, the key was found taken, plus one; 0 = it was not
	gen       uint8 // the key's generation that all this is about
}

// request is a write somewhere between a client and Flavoso's end of it.
type request struct {
	used    bool
	op, gen uint8
	conn    uint8 // the worker whose connection it came on, plus one; 0 = the connection is gone
	running bool  // Flavoso executes it
	age     uint8 // since it was sent, or since it was begun when it is running
	saw     uint8 // ghost: of the attempt
}

// keyState is where an idempotency key stands at Flavoso.
type keyState uint8

const (
	free keyState = iota
	processing
	held
)

type key struct {
	state   keyState
	alive   bool // the request that has it is running
	content uint8
	refused bool  // the held answer is a refusal
	age     uint8 // since the last sign of life, or since the held request was received (D13 at its strictest)
}

// Statuses of a resource that moves.
const (
	open uint8 = iota
	done
	gone
)

// out reports whether a request of the operation is still under way under the key's generation.
func (s *state) out(o int, gen uint8) bool {
	return slices.ContainsFunc(s.requests[:], func(r request) bool { return r.used && int(r.op) == o && r.gen == gen })
}

// put adds a request; false = the model has no place for more.
func (s *state) put(r request) bool {
	for i := range s.requests {
		if !s.requests[i].used {
			s.requests[i] = r
			return true
		}
	}
	return false
}

// cut breaks a worker's connections: for one operation, or for all with o < 0.
func (s *state) cut(w, o int) {
	for i := range s.requests {
		if r := &s.requests[i]; r.used && int(r.conn) == w+1 && (o < 0 || int(r.op) == o) {
			r.conn = 0
		}
	}
}

// token returns a name for a claim that nothing in the state refers to.
func (s *state) token() uint8 {
	var used [32]bool
	for o := range s.recs {
		for _, r := range []record{s.recs[o], s.copies[o]} {
			used[r.claim&31], used[r.exposure&31] = true, true
		}
		for w := range s.tries {
			used[s.tries[w][o].token&31] = true
		}
	}
	for t := uint8(1); t < ownerless; t++ {
		if !used[t] {
			return t
		}
	}
	panic("model: no token is free")
}

// canonical gives states that differ in nothing that can matter the same bytes.
func (s *state) canonical(m *model) {
	for o := range m.ops {
		if k := m.ops[o].key; !m.needed(s, k) {
			s.keys[k] = [maxKeys]key{}
		}
	}
	slices.SortFunc(s.requests[:], func(a, b request) int { return int(b.order()) - int(a.order()) })
}

// needed reports whether anything can still meet the key.
func (m *model) needed(s *state, key uint8) bool {
	for o := range m.ops {
		r := &s.recs[o]
		switch {
		case m.ops[o].key != key:
		case r.state == 0, r.unfinished(), s.copied && !s.restored, s.out(o, 1), s.out(o, 2), s.out(o, 3):
			return true
		}
		for w := range m.workers {
			if s.tries[w][o].stage != idle {
				return true
			}
		}
	}
	return false
}

func (r request) order() uint32 {
	if !r.used {
		return 0
	}
	n := uint32(1)
	for _, v := range []uint8{r.op, r.gen, r.conn, r.age, r.saw} {
		n = n<<4 | uint32(v&15)
	}
	n <<= 1
	if r.running {
		n |= 1
	}
	return n
}

// seeds of the two hashes that together name a state.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// name is 128 bits of hash: among a hundred million states two share one with a chance of 10^-23.
type name [2]uint64

func (s *state) name() name {
	return name{maphash.Comparable(seeds[0], *s), maphash.Comparable(seeds[1], *s)}
}
