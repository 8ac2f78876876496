// Command model explores the promise: a small model of the client's and Flavoso's state machines together, in
// which every order of steps and every fault is tried, until no new state is found.
//
//	go run ./dev/model                       the table: scenarios, states, what holds, which holes are met
//	go run ./dev/model -ways                 with the shortest way to each hole
//	go run ./dev/model -deep -only booking   one more attempt may meet faults; of two tills that is too much to be whole
//	go run ./dev/model -only call -mutant "makes a new key per attempt"
//
// # What is real and what is modelled
//
// The outbox's state machine is the product's: each step turns the compact record of the model into an
// outbox.Record, and calls NewRecord, ApplyClaim, ApplySettlement, ApplyChange, ApplySuspect, Decide and Check on
// it. What an answer means is wire.Judge's word. What the dispatcher makes of it is private to the product, and
// is written down once more, as the table in policy.go; TestPolicyIsTheProducts runs the real client through its
// public API over each of the 1848 rows of that table and compares what it saves, and that it sends once, or
// not at all, as the table says. TestKeysAreTheServers does the same for Flavoso's keys and package idempotency.
// A change of the product that the model does not follow fails a test here. What the tables of the model itself must hold
// (a state, a reason or a token has its number) ends the program by a panic: it is a mistake in the model, and no finding.
//
// Modelled are one or two operations, one or two tills with outboxes of their own or two workers on one
// under leases, Flavoso's keys (free, running, dead and leased, held, forgotten) and resources, and a clock.
// An attempt is a chain of steps between which anything else can happen: save, claim and mark, look,
// send, arrive, begin, end, hear, look again, save the verdict. A process can die at each. Requests whose
// connection is gone still arrive and are still executed, for a while.
//
// # What is judged
//
// The judge (judge.go) sees what no client sees. In every state and at every step:
//
//  1. An operation that must happen once happens once.
//  2. Nothing that was accepted is forgotten, and from every state a way without further faults leads to
//     where nothing waits any more, or all that waits stands behind what waits for people.
//  3. Succeeded, rejected and 'never sent' are true. Uncertain is said only of what may have been sent, and
//     what neither its key nor reading it back can settle; never of what was seen to succeed.
//  4. Effects come in the order of their lane.
//  5. A claim puts one request on the wire at most.
//  6. A mark goes only by the claim that set it, and only if nothing has left.
//  7. Deciding again on what was done makes no second operation (outbox.Decide).
//
// # Holes
//
// Where the promise is missed the judge must be able to say why, by name, or the exploration fails; and
// each scenario lists the names it expects, so that none appears or disappears unnoticed.
//
// Of Flavoso's making (F10, F9, D17: an effect behind a 5xx or an abort, which no held answer tells of):
// 'unheld effect, nothing reads it back' is the only way in which a call is done twice. The scenarios
// 'Flavoso keeps F10' have all faults but that, and no holes. 'Unheld effect between look and repeat' is the same for
// what can be read back: it was made after the repeat had looked, and before it arrived. 'Unheld effect of another
// till' cannot be known here. 'Refused after an unheld effect': done, and its repeat then refused, where nothing reads it back.
//
// Of the world's: 'another till after the key is forgotten' (W8: one reference for two bookings, a day
// apart), 'keyless write comes late' (later than any attempt lasts), 'undone before it was seen', and 'next key while
// another till tries again': two bookings under one reference. Both tills want the key with different bytes; one was refused
// without Flavoso holding it, and tries again just when the other one has waited two and a half minutes for its first request to
// end. 422 idempotency_key_reused does not tell a request that runs from a held answer, so that no look can.
//
// None is of the client's making.
//
// # Limits
//
// Faults are unbounded in number and kind, but meet the first two attempts of an operation (with -deep three);
// later ones meet none; in 'booking, refused for long' it is the first four. Of two tills the second one's meet none. Times keep their order and not their length: an attempt
// 1 step, a worker's lease 1, an aborted request's 2, the wait after a surprise 4, the client's window 5, Flavoso's
// memory 8. A request whose connection is gone arrives within 1 step and runs for 2 at most (1 with two tills); one that comes after Flavoso has forgotten its key
// is out of the question here, as it is for the promise. Bookings are in lists at once (A20). What is refused
// as invalid was right once and stays refused. Whoever has an operation sent again is right. Not modelled: bytes,
// disks (outbox/bolt has its own tests), superseding, Config.Reconcile, lanes of more than two.
//
// # Figures
//
// One core, all scenarios: 2.6 million states, 8.3 million steps, about 15 seconds. No state is farther than 79 steps. Each of the
// 32 mutants, clients that are wrong in one way, is found, most of them within ten thousand states.
// This is what the explorer has to say of one, a new key per attempt:
//
//	 1  till 0 saves operation call 0
//	 2  worker A claims call 0 and marks it
//	 3  worker A sends call 0
//	 4  worker A dies and is started again
//	 5  worker A claims call 0 and marks it
//	 6  worker A goes on with the repeat of call 0
//	 7  worker A sends call 0
//	 8  Flavoso begins to execute call 0
//	 9  Flavoso has done call 0: success
//	10  Flavoso begins to execute call 0 (nobody waits for it any more)
//	11  Flavoso has done call 0 (nobody waits for it any more): success
//	    it is done a second time
package main
