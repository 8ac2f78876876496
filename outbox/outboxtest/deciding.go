package outboxtest

import (
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// decidingCases are the rules of what ends, parks or holds an operation: settlements, and changes from outside.
var decidingCases = []rule{
	{"a late settlement gets ErrClaimLost and the rest of the wave is saved", func(t *testing.T, b *bench) {
		b.add(rec("a", "a"))
		b.add(rec("b", "b"))
		var ss []outbox.Settlement
		for _, r := range b.claim(2) {
			ss = append(ss, outbox.Settlement{ID: r.ID, Claim: r.Claim.Token, Now: b.now, To: outbox.Succeeded})
		}
		late := ss[0]
		late.To = outbox.Rejected
		gone := outbox.Settlement{ID: "nobody", Claim: "x", Now: b.now, To: outbox.Succeeded}
		out, err := b.Settle(ctx, ss[0], late, gone, ss[1])
		b.ok(err, "Settle")
		b.ok(out[0].Err, "first")
		b.is(out[1].Err, outbox.ErrClaimLost, "late")
		b.is(out[2].Err, outbox.ErrNotFound, "unknown")
		b.ok(out[3].Err, "last")
		b.want(b.counts().States, map[outbox.State]int{outbox.Succeeded: 2}, "states")
	}},
	{"a parked head holds its lane, a resolved one lets it go on", func(t *testing.T, b *bench) {
		b.add(rec("a1", "a"))
		b.add(rec("a2", "a"))
		b.claim(1)
		b.settle("a1", outbox.Uncertain)
		b.want(b.claimIDs(9), []string{}, "held")
		b.want(b.counts().HeldLanes, 1, "held lanes")
		_, err := b.set("a1", outbox.ResolveDone)
		b.ok(err, "Set")
		b.want(b.counts().HeldLanes, 0, "held lanes")
		b.want(b.claimIDs(9), []string{"a2"}, "goes on")
		r := b.get("a1")
		b.want(r.State, outbox.Succeeded, "state")
		b.want(r.Revision, 2, "revision: parked and resolved are two outcomes")
	}},
	{"a rejected operation stops its lane when it asked for that", func(t *testing.T, b *bench) {
		head := rec("a1", "a")
		head.Record.StopLaneOnReject = true
		b.add(head)
		b.add(rec("a2", "a"))
		b.add(rec("a3", "a"))
		b.claim(1)
		out := b.settle("a1", outbox.Rejected)
		b.want(out.Blocked, 2, "blocked")
		b.want(b.get("a3").State, outbox.Blocked, "state")
		b.want(b.get("a3").Result.Reason, outbox.ReasonLaneStopped, "reason")
		b.add(rec("a4", "a"))
		b.want(b.claimIDs(9), []string{}, "held")
		_, err := b.Set(ctx, outbox.Change{Connection: "store-1", Lane: "a", Action: outbox.ResolveSendAgain, Now: b.now})
		b.ok(err, "resume the lane")
		b.want(b.claimIDs(9), []string{"a2"}, "goes on in order")
		_, err = b.Set(ctx, outbox.Change{Connection: "store-1", Lane: "a", Action: outbox.ResolveSendAgain, Now: b.now})
		b.is(err, outbox.ErrNotFound, "nothing left to resume")
	}},
	{"operators change only what they may", func(t *testing.T, b *bench) {
		b.add(rec("q", "q"))
		b.add(rec("s", "s"))
		b.claim(1, "s")
		for _, a := range []outbox.Action{outbox.Cancel, outbox.RetryNow, outbox.ResolveDone, outbox.ResolveAbandon, outbox.Park} {
			_, err := b.set("s", a)
			b.is(err, outbox.ErrState, "%s of a claimed record", a)
		}
		b.settle("s", outbox.Queued, func(s *outbox.Settlement) { s.Due = b.now.Add(time.Hour) })
		_, err := b.set("s", outbox.Cancel)
		b.is(err, outbox.ErrState, "cancel what may have been sent")
		r, err := b.set("s", outbox.RetryNow)
		b.ok(err, "retry now")
		b.want(r.Due, b.now, "due")
		r, err = b.set("q", outbox.Cancel)
		b.ok(err, "cancel")
		b.want(r.State, outbox.Canceled, "state")
		_, err = b.set("q", outbox.ResolveSendAgain)
		b.is(err, outbox.ErrState, "send what is over")
		_, err = b.set("nobody", outbox.Cancel)
		b.is(err, outbox.ErrNotFound, "unknown")
		r, err = b.Set(ctx, outbox.Change{ID: "s", Action: outbox.Park, To: outbox.Uncertain, Now: b.now, Result: &outbox.Result{Reason: "window_passed"}})
		b.ok(err, "park")
		b.want(r.State, outbox.Uncertain, "state")
		r, err = b.set("s", outbox.ResolveSendAgain)
		b.ok(err, "send again")
		b.want(r.State, outbox.Sent, "it may have been sent")
		b.want(r.Unacked(), false, "the parked outcome is withdrawn")
		again := b.claim(1)[0]
		b.want(again.Exposure.At, b.now, "the window starts anew")
		b.settle("s", outbox.Queued, neverSent)
		b.want(b.get("s").State, outbox.Sent, "no claim can prove that it was never sent")
	}},
}
