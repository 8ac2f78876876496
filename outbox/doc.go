// Package outbox is where operations are kept from the moment they are accepted until their fate is known and taken
// over: the [Record] of an operation, the rules of its state machine, and the contract of an [Engine] that keeps records
// durably. The SDK's client uses it for its writes; whoever only uses the client needs nothing of it but the errors.
//
//	         Claim: marked, then sent     Settle: an answer
//	Add ──► queued ─────────────────► sent ──────────────────► succeeded, rejected
//	         │  ▲                     │ ▲ │                    uncertain, blocked, damaged
//	     Set │  └─────────────────────┘ └─┘                       │
//	         ▼   provably never left    rescheduled               │ Set: a decision
//	canceled, expired,                                            ▼
//	superseded                                 succeeded, abandoned, or waiting again
//
// [State] has the states. 'Queued' is a promise: provably never sent. The mark 'may have been sent' ([Exposure]) is durable
// before a claim is handed out; only that claim may remove it, and only with proof. What was accepted is in exactly one
// state at any moment, and nothing is forgotten before it was taken over.
//
// # Who decides
//
// Engines decide nothing: [Decide] says what an addition is under a key that is known, the Apply methods of Record what a
// step makes of it, and every engine calls them inside its own atomic steps. So all engines behave alike, and
// package outboxtest can prove each. docs/outbox.md lists what is left to an engine.
//
// # Engines
//
// [NewMemory] keeps records while the process lives; package bolt in one file, for one process at a time; package pgoutbox
// of the module postgres in PostgreSQL, for many. [Seal] makes another engine unreadable without a key.
//
// # Units, defaults, errors
//
// Times are wall-clock times that the caller gives ([Addition].Now and its like); an engine shared by several machines goes
// by its own clock instead. Sizes are bytes. The zero value of [Limits] bounds nothing. An error means that nothing happened,
// but for a [*SaveError]: the step may have happened, and adding the same record again gives the definite answer. Engines may be
// used by many goroutines.
package outbox
