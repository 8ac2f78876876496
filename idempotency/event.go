package idempotency

import "time"

// Event is something the middleware did, for metrics.
type Event struct {
	Kind      EventKind
	Operation string
	Decision  Decision      // EventClaim
	Duration  time.Duration // EventClaim, EventSave: of the engine call; EventRun: of the handler
	Err       error         // EventEngineError, EventOwnershipLost
}

// EventKind names what happened.
type EventKind string

const (
	EventClaim         EventKind = "claim"          // the engine decided
	EventRun           EventKind = "run"            // a handler returned, panicked or called Goexit
	EventSave          EventKind = "save"           // a result was saved
	EventPassed        EventKind = "passed"         // a protected method without a key ran unprotected
	EventRefused       EventKind = "refused"        // refused before a claim: key, tenant, body
	EventEngineError   EventKind = "engine_error"   // an engine call failed; it may be repeated
	EventFailedOpen    EventKind = "failed_open"    // a handler ran unprotected because the engine was down
	EventOwnershipLost EventKind = "ownership_lost" // a worker's result was refused
	EventUncertain     EventKind = "uncertain"      // an operation became uncertain
	EventOversize      EventKind = "oversize"       // an answer was too large to be stored
	EventPanic         EventKind = "panic"          // a handler did not return: panic or Goexit
)
