package main

import (
	"github.com/flavoso/flavoso-go/outbox"
)

// kind is a sort of operation.
type kind uint8

const (
	transition kind = iota // moves an order: repeat-safe, derived key, can be read back
	booking                // makes a booking: not repeat-safe, derived key, can be read back
	call                   // NewCall on POST: not repeat-safe, random key, nothing reads it back
	put                    // replaces a document: repeat-safe, no key, can be read back
)

var kindNames = [...]string{"transition", "booking", "call", "put"}

// op is one operation that somebody decides on.
type op struct {
	kind     kind
	till     uint8
	lane     uint8 // within the till
	key      uint8 // operations with one number have one derived key; of different tills only
	content  uint8 // equal bytes, and equal wishes, have one number
	resource uint8
	expires  bool // it has an expiry, which may pass at any moment
	calm     bool // two fewer of its attempts may meet faults
}

func (o *op) repeatSafe() bool { return o.kind == transition || o.kind == put }
func (o *op) derived() bool    { return o.kind == transition || o.kind == booking }
func (o *op) keyless() bool    { return o.kind == put }
func (o *op) canFind() bool    { return o.kind != call }

// record is the frozen part.
func (o *op) record() *outbox.Record {
	rec := &outbox.Record{ID: "operation", Connection: "store-42", Lane: "lane", Kind: kindNames[o.kind], Created: epoch,
		KeyDerived: o.derived(), RepeatSafe: o.repeatSafe(), Fingerprint: []byte{o.content}}
	if !o.keyless() {
		rec.Key = "key"
	}
	return rec
}

// fault is something that may happen at any moment that fits.
type fault uint32

const (
	refuseDial  fault = 1 << iota // a connection that never comes about
	loseRequest                   // the request is lost on its way
	breakConn                     // the connection dies while the request is on its way or running
	loseAnswer                    // what Flavoso did is not heard of
	cutAnswer                     // a success breaks off in its body
	before5xx                     // 5xx, nothing was done; not held (F10)
	after5xx                      // 5xx, although it was done; not held (F10)
	abortBefore                   // the running request dies; its key is free after 2 min (F9)
	abortAfter                    // the same, after its effect (D17)
	sayConflict                   // 409 conflict (the table is taken now and may be free later)
	sayInvalid                    // 422, held where there is a key (what was right in the morning is past by now)
	early                         // 429 before anything is looked at
	early401                      // 401
	early403                      // 403
	portal                        // somebody else answers
	blind                         // reading back fails
	clockless                     // no clock tells how old the mark is
	unsent                        // the claim is given back unsent: paused, no token, an unknown commit
	crash                         // a process dies
	restore                       // the outbox is replaced by an older copy of itself
	cancel                        // somebody withdraws it while that is possible
	sendAgain                     // an operator finds out that an uncertain one was not done and has it sent again
	others                        // somebody else moves the resource on
	lapse                         // what it asks for ends by itself, and is refused from then on
	undo                          // somebody moves it on to where the wish contradicts it, after it came true

	network  = refuseDial | loseRequest | breakConn | loseAnswer | cutAnswer | portal
	breaches = after5xx | abortAfter // an effect that no held answer tells of
	server   = before5xx | abortBefore | early | early401 | early403
	local    = blind | clockless | unsent | crash
	all      = network | server | local | breaches | sayConflict | sayInvalid
)

// scenario is one exploration.
type scenario struct {
	name  string
	about string
	ops   []op
	// workers are the processes, each with the till whose outbox it works on. Two of one till share it under
	// leases; one alone has it to itself.
	workers []uint8
	faults  fault
	// attempts is how many attempts of an operation may meet faults, 0 = two. Later ones meet none.
	attempts uint8
	late     uint8  // how long a request may be on its way when its connection is gone
	runs     uint8  // how long Flavoso may take for one
	punctual bool   // neither takes any time
	holes    []hole // the named ones that must be met, and no others
}

// bound is how many attempts of an operation may meet faults.
func (sc *scenario) bound(o int) uint8 {
	if sc.ops[o].calm {
		return sc.attempts - min(sc.attempts, 2)
	}
	return sc.attempts
}

func (sc *scenario) shared(till uint8) bool {
	n := 0
	for _, t := range sc.workers {
		if t == till {
			n++
		}
	}
	return n > 1
}

// holdTime is how long Flavoso holds an answer (F5): longer than the client's window by more than a request
// can take that was begun within it. The gap is 15 minutes really.
func (sc *scenario) holdTime() uint8 { return windowTime + staleTime + attemptTime + sc.late }

// scenarios returns them all. more is how many attempts may meet faults beyond the usual ones.
func scenarios(more uint8) []scenario {
	one, two, shared := []uint8{0}, []uint8{0, 1}, []uint8{0, 0}
	few := breakConn | loseAnswer | breaches | abortBefore
	fewer := breakConn | loseAnswer | after5xx
	list := []scenario{
		{name: "transition", about: "an order is moved on, and others move it too",
			ops: []op{{kind: transition, expires: true}}, workers: one, faults: all | cancel | others},
		{name: "transition undone", about: "somebody moves the order back before anybody has seen it",
			ops: []op{{kind: transition}}, workers: one, faults: network | local | undo, holes: []hole{undone}},
		{name: "booking", about: "a table is booked",
			ops: []op{{kind: booking, expires: true}}, workers: one, faults: all | cancel, holes: []hole{between}},
		{name: "booking, Flavoso keeps F10", about: "no 5xx and no abort hides an effect",
			ops: []op{{kind: booking, expires: true}}, workers: one, faults: all&^breaches | cancel},
		{name: "booking, refused for long", about: "requests come late while a refusal is not believed",
			ops: []op{{kind: booking}}, workers: one, faults: breakConn | sayConflict | early403, attempts: 4},
		{name: "call", about: "a POST that nothing reads back",
			ops: []op{{kind: call, expires: true}}, workers: one, faults: all | cancel | sendAgain, holes: []hole{unreadable, refusedAfter}},
		{name: "call, Flavoso keeps F10", about: "no 5xx and no abort hides an effect",
			ops: []op{{kind: call, expires: true}}, workers: one, faults: all&^breaches | cancel | sendAgain},
		{name: "put", about: "a document is replaced",
			ops: []op{{kind: put, expires: true}}, workers: one, faults: all | cancel},
		{name: "put that lapses", about: "a pause, which ends by itself",
			ops: []op{{kind: put}}, workers: one, faults: all | lapse},
		{name: "puts", about: "it is replaced again, in one lane",
			ops: []op{{kind: put}, {kind: put, content: 1}}, workers: one, faults: all &^ sayInvalid, holes: []hole{lateWrite}},
		{name: "puts, in time", about: "no request comes later than an attempt lasts",
			ops: []op{{kind: put}, {kind: put, content: 1}}, workers: one, faults: all &^ sayInvalid, punctual: true},
		{name: "lane", about: "a booking behind a call",
			ops: []op{{kind: call}, {kind: booking, key: 1, resource: 1}}, workers: one, faults: few | crash | clockless | sayConflict | unsent,
			holes: []hole{unreadable, between}},
		{name: "restored transition", about: "the outbox is replaced by an older copy of itself",
			ops: []op{{kind: transition}}, workers: one, faults: all | restore},
		{name: "restored booking", ops: []op{{kind: booking}}, workers: one, faults: all | restore, holes: []hole{between}},
		{name: "restored call", ops: []op{{kind: call}}, workers: one, faults: all | restore, holes: []hole{unreadable, refusedAfter}},
		{name: "shared transition", about: "two workers on one outbox, under leases",
			ops: []op{{kind: transition}}, workers: shared, faults: few | crash | sayInvalid | early403},
		{name: "shared booking", ops: []op{{kind: booking}}, workers: shared, faults: few | crash | sayConflict | sayInvalid, holes: []hole{between}},
		{name: "shared call", ops: []op{{kind: call}}, workers: shared, faults: few | crash | clockless | sayConflict, holes: []hole{unreadable}},
		{name: "shared call, sent again", about: "an operator has an uncertain one sent again",
			ops: []op{{kind: call}}, workers: shared, faults: loseAnswer | clockless | sayConflict | sendAgain},
		{name: "shared put", ops: []op{{kind: put}}, workers: shared, faults: all},
		{name: "two tills, one order", about: "two tills with outboxes of their own want the same",
			ops: []op{{kind: transition}, {kind: transition, till: 1, calm: true}}, workers: two, faults: fewer | abortAfter},
		{name: "two tills, one booking", ops: []op{{kind: booking}, {kind: booking, till: 1, calm: true}}, workers: two, faults: fewer | sayConflict,
			holes: []hole{otherTill, dayAfter, between}},
		{name: "two tills, two bookings", about: "under one reference they want different ones",
			ops: []op{{kind: booking}, {kind: booking, till: 1, content: 1, calm: true}}, workers: two, faults: fewer | sayConflict,
			holes: []hole{otherTill, dayAfter, between, tooSoon}},
	}
	for i := range list {
		sc := &list[i]
		if sc.attempts == 0 {
			sc.attempts = 2
		}
		sc.attempts += more
		if sc.late, sc.runs = 1, abortTime; sc.punctual {
			sc.late, sc.runs = 0, 0
		} else if more == 0 && sc.ops[len(sc.ops)-1].till > 0 {
			sc.runs = 1 // two tills have many states
		}
	}
	return list
}
