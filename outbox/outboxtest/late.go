package outboxtest

import (
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// lateCases are the rules for what comes late: requests that may still be on their way, and verdicts whose
// claim is gone.
var lateCases = []rule{
	{"a lane is held back after an ambiguous end, also when it was empty", func(t *testing.T, b *bench) {
		b.add(rec("a1", "a"))
		b.add(rec("a2", "a"))
		b.claim(1)
		until := b.now.Add(30 * time.Second)
		hold := func(s *outbox.Settlement) { s.LaneNotBefore = until }
		b.settle("a1", outbox.Succeeded, hold)
		b.want(b.claimIDs(1), []string{}, "held back")
		_, err := b.set("a2", outbox.Cancel)
		b.ok(err, "cancel")
		b.reopen()
		a := rec("a3", "a")
		m := b.mark()
		a.Claim = &m
		b.want(b.add(a).Record.Claim.Token, "", "added to the empty lane")
		b.want(b.claimIDs(1), []string{}, "held back")
		b.now = until
		b.want(b.claimIDs(1), []string{"a3"}, "goes on")
	}},
	{"nothing shortens a lane's hold", func(t *testing.T, b *bench) {
		for _, id := range []string{"a1", "a2", "a3"} {
			b.add(rec(id, "a"))
		}
		until := b.now.Add(30 * time.Second)
		b.claim(1)
		b.settle("a1", outbox.Succeeded, func(s *outbox.Settlement) { s.LaneNotBefore = until })
		hurried := func(first ...string) []string {
			out, err := b.Claim(ctx, outbox.ClaimRequest{Mark: b.mark(), Limit: 9, DueBy: b.now.Add(3 * time.Hour), First: first})
			b.ok(err, "Claim")
			return idsOf(out)
		}
		b.want(hurried(), []string{}, "ahead of its time")
		b.want(hurried("a2"), []string{}, "ahead of its time, by its ID")
		r, err := b.set("a2", outbox.RetryNow)
		b.ok(err, "retry now")
		b.want(r.Due, until, "due when the hold ends")
		b.want(b.claimIDs(9, "a2"), []string{}, "after a retry now")
		due, ok, err := b.NextDue(ctx, outbox.Scope{})
		b.ok(err, "NextDue")
		b.want(ok && due.Equal(until), true, "next due")
		_, err = b.set("a2", outbox.Cancel)
		b.ok(err, "cancel")
		b.want(hurried(), []string{}, "the one behind it")
		b.add(rec("b1", "b"))
		b.want(hurried("a3"), []string{"b1"}, "another lane goes on")
		b.reopen()
		b.want(b.get("a3").Due, until, "due")
		b.now = until
		b.want(b.claimIDs(9, "a3")[0], "a3", "when the hold has ended")
	}},
	{"a hold from before the clock was set back is ignored", func(t *testing.T, b *bench) {
		b.add(rec("a1", "a"))
		b.add(rec("a2", "a"))
		b.claim(1)
		b.settle("a1", outbox.Succeeded, func(s *outbox.Settlement) { s.LaneNotBefore = b.now.Add(30 * time.Second) })
		b.now = b.now.Add(-24 * time.Hour)
		out, err := b.Claim(ctx, outbox.ClaimRequest{Mark: b.mark(), Limit: 1, DueBy: b.now.Add(25 * time.Hour)})
		b.ok(err, "Claim")
		b.want(len(out), 1, "claimed")
	}},
	{"giving up what may have been sent holds its lane back", func(t *testing.T, b *bench) {
		for _, c := range []struct {
			lane   string
			action outbox.Action
			sent   bool
		}{
			{"abandon", outbox.ResolveAbandon, true}, {"done", outbox.ResolveDone, true}, {"never", outbox.Cancel, false},
		} {
			b.add(rec(c.lane+"1", c.lane))
			if c.sent {
				b.claim(1)
				b.settle(c.lane+"1", outbox.Queued, func(s *outbox.Settlement) { s.Due = b.now.Add(time.Minute) })
			}
			b.add(rec(c.lane+"2", c.lane))
			until := b.now.Add(30 * time.Second)
			_, err := b.Set(ctx, outbox.Change{ID: c.lane + "1", Action: c.action, Now: b.now, LaneNotBefore: until})
			b.ok(err, "Set")
			if !c.sent {
				b.want(b.claimIDs(9), []string{"never2"}, "what was never sent cannot arrive late")
				continue
			}
			b.want(b.get(c.lane+"2").Due, until, "due")
			b.want(b.claimIDs(9, c.lane+"2"), []string{}, "held back")
		}
	}},
	{"a success is taken as evidence although its claim is gone, and nothing else is", func(t *testing.T, b *bench) {
		for _, c := range []struct {
			id       string
			now      outbox.State // where the record stands when the verdict comes
			again    int          // later attempts
			claimed  bool         // somebody works on it
			to       outbox.State
			accepted bool
		}{
			{id: "success", now: outbox.Queued, to: outbox.Succeeded, accepted: true},
			{id: "success after a later attempt", now: outbox.Queued, again: 1, to: outbox.Succeeded, accepted: true},
			{id: "success of what is uncertain", now: outbox.Uncertain, to: outbox.Succeeded, accepted: true},
			{id: "rejection", now: outbox.Queued, to: outbox.Rejected},
			{id: "somebody works on it", now: outbox.Queued, again: 1, claimed: true, to: outbox.Succeeded},
			{id: "over already", now: outbox.Rejected, to: outbox.Succeeded},
			{id: "no verdict", now: outbox.Queued, to: outbox.Uncertain},
		} {
			b.add(rec(c.id, c.id))
			first := b.claim(1, c.id)[0]
			b.settle(c.id, c.now)
			for n := range c.again {
				b.claim(1, c.id)
				if !c.claimed || n+1 < c.again {
					b.settle(c.id, c.now)
				}
			}
			out, err := b.Settle(ctx, outbox.Settlement{
				ID: c.id, Claim: first.Claim.Token, Now: b.now, To: c.to,
				Last: &outbox.Attempt{N: 1, Start: b.now, End: b.now, Status: 200}, Result: &outbox.Result{Status: 200, ByOther: true},
			})
			b.ok(err, "Settle")
			if !c.accepted {
				b.is(out[0].Err, outbox.ErrClaimLost, "%s", c.id)
				continue
			}
			b.ok(out[0].Err, "%s", c.id)
			b.want(b.get(c.id).State, c.to, "%s: state", c.id)
			b.want(b.get(c.id).Result.ByOther, false, "%s: a later claim may have done it", c.id)
			b.want(listIDs(b, outbox.Query{Lane: c.id, ByOutcome: true}), []string{c.id}, "%s: outcomes", c.id)
		}
	}},
}
