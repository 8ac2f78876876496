package outbox

import (
	"fmt"
	"slices"
)

// Check reports the first rule of the state machine that the record breaks; nil = it is consistent.
// Engines' tests call it after every step.
func (r *Record) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("outbox: record %s (%s): %s", r.ID, r.State, fmt.Sprintf(format, args...))
	}
	switch {
	case !slices.Contains(States(), r.State):
		return bad("unknown state")
	case r.ID == "" || r.Seq == 0:
		return bad("no identity")
	case r.Unfinished() && r.State != Damaged && r.Lane == "":
		return bad("no lane")
	case r.State == Queued && !r.NeverSent():
		return bad("queued, but it may have been sent")
	case r.State == Sent && r.Exposure == nil:
		return bad("sent without an exposure")
	case r.Claimed() && r.State != Sent:
		return bad("claimed, but not sent")
	case (r.State == Canceled || r.State == Expired || r.State == Superseded) && !r.NeverSent():
		return bad("ended as never sent, but it may have been")
	case r.State.Waiting() && (r.OutcomeSeq != 0 || !r.Finished.IsZero()):
		return bad("waiting with an outcome")
	case !r.State.Waiting() && (r.OutcomeSeq == 0 || r.Revision == 0 || r.Finished.IsZero()):
		return bad("over or parked without an outcome")
	case r.Acked > r.Revision:
		return bad("revision %d acknowledged of %d", r.Acked, r.Revision)
	case r.State != Damaged && r.WireKey != WireKey(r.Key, r.Generation):
		return bad("wire key %q of key %q generation %d", r.WireKey, r.Key, r.Generation)
	}
	return nil
}
