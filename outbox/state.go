package outbox

// State is where an operation stands. Queued and Sent together are called waiting; the nine others are
// final (the operation is over) or parked (it is kept, shown, and not sent until somebody decides).
//
//	Add ──► queued ──Claim──► sent ──Settle──► succeeded | rejected            (final)
//	          ▲  │             │ ▲              expired                        (final)
//	          │  │             └─┘ rescheduled  uncertain | blocked | damaged  (parked)
//	          │  └─Set──► canceled | expired | superseded                      (final, provably never sent)
//	          └── the mark of the claim that set it is cleared: provably never reached a peer
//
//	uncertain | blocked | damaged ──Set──► succeeded | abandoned | waiting again
//
// At every moment, whatever happened: accepted = waiting + the nine others.
type State string

// The states of an operation.
const (
	Queued     State = "queued"     // saved; provably never sent
	Sent       State = "sent"       // saved; may have reached Flavoso
	Succeeded  State = "succeeded"  // done, exactly once
	Rejected   State = "rejected"   // Flavoso decided against it
	Expired    State = "expired"    // its time ran out before it was ever sent
	Canceled   State = "canceled"   // withdrawn before it was ever sent
	Superseded State = "superseded" // replaced by a newer write before it was ever sent
	Uncertain  State = "uncertain"  // may have been done, and nothing can tell any more by itself
	Blocked    State = "blocked"    // not sent by itself any more: something between here and Flavoso, or its lane, is in the way
	Damaged    State = "damaged"    // its record cannot be read whole; counts as sent, is never sent again
	Abandoned  State = "abandoned"  // given up: by a decision, or because its time was over and nothing could tell any more
)

// States lists every state, in the order in which they are documented.
func States() []State {
	return []State{Queued, Sent, Succeeded, Rejected, Expired, Canceled, Superseded, Uncertain, Blocked, Damaged, Abandoned}
}

// Waiting reports whether the operation is still to be decided by sending it: queued or sent.
func (s State) Waiting() bool { return s == Queued || s == Sent }

// Parked reports whether the operation is kept for a decision and holds its lane meanwhile.
func (s State) Parked() bool { return s == Uncertain || s == Blocked || s == Damaged }

// Final reports whether the operation is over.
func (s State) Final() bool {
	switch s {
	case Succeeded, Rejected, Expired, Canceled, Superseded, Abandoned:
		return true
	}
	return false
}
