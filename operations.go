package flavoso

import "github.com/flavoso/flavoso-go/outbox"

// State is where an operation stands; see the constants.
type State = outbox.State

// The states of an operation. Queued and Sent are waiting; Uncertain, Blocked and Damaged are parked; the
// rest are final.
const (
	StateQueued     = outbox.Queued
	StateSent       = outbox.Sent
	StateSucceeded  = outbox.Succeeded
	StateRejected   = outbox.Rejected
	StateExpired    = outbox.Expired
	StateCanceled   = outbox.Canceled
	StateSuperseded = outbox.Superseded
	StateUncertain  = outbox.Uncertain
	StateBlocked    = outbox.Blocked
	StateDamaged    = outbox.Damaged
	StateAbandoned  = outbox.Abandoned
)
