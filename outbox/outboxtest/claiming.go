package outboxtest

import (
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// claimingCases are the rules of what is sent when, and by whom: claims, lanes, due times, expiry.
var claimingCases = []rule{
	{"a lane goes one at a time in order, others go on beside it", func(t *testing.T, b *bench) {
		for _, id := range []string{"a1", "a2", "b1"} {
			b.add(rec(id, id[:1]))
		}
		b.want(b.claimIDs(9), []string{"a1", "b1"}, "first claim")
		b.want(b.claimIDs(9), []string{}, "second claim")
		b.settle("a1", outbox.Succeeded)
		b.want(b.claimIDs(9), []string{"a2"}, "third claim")
	}},
	{"due lanes are served in turn", func(t *testing.T, b *bench) {
		for _, id := range []string{"a1", "a2", "b1", "b2", "c1"} {
			b.add(rec(id, id[:1]))
		}
		var order []string
		for range 5 {
			ids := b.claimIDs(1)
			order = append(order, ids...)
			b.settle(ids[0], outbox.Succeeded)
			b.now = b.now.Add(time.Millisecond)
		}
		b.want(order, []string{"a1", "b1", "c1", "a2", "b2"}, "order")
	}},
	{"a due head asked for first comes first, in that order", func(t *testing.T, b *bench) {
		for _, id := range []string{"a1", "b1", "c1", "c2", "d1"} {
			b.add(rec(id, id[:1]))
		}
		b.want(b.claimIDs(3, "c2", "d1", "nobody", "c1"), []string{"d1", "c1", "a1"}, "order")
	}},
	{"a scope limits what is claimed and what is due", func(t *testing.T, b *bench) {
		for _, c := range []string{"x", "y", "z"} {
			a := rec(c, "lane")
			a.Record.Connection = c
			b.add(a)
			b.now = b.now.Add(time.Second)
		}
		due, ok, err := b.NextDue(ctx, outbox.Scope{Connections: []string{"y", "z"}, Except: []string{"y"}})
		b.ok(err, "NextDue")
		b.want(ok && due.Equal(b.now.Add(-time.Second)), true, "z is due")
		out, err := b.Claim(ctx, outbox.ClaimRequest{Scope: outbox.Scope{Except: []string{"x"}}, Mark: b.mark(), Limit: 1})
		b.ok(err, "Claim")
		b.want(out[0].ID, "y", "claimed")
		none, err := b.Claim(ctx, outbox.ClaimRequest{Scope: outbox.Scope{Connections: []string{}}, Mark: b.mark(), Limit: 9})
		b.ok(err, "Claim")
		b.want(len(none), 0, "an empty list of connections selects none")
	}},
	{"a claim takes so many of one connection and then of others", func(t *testing.T, b *bench) {
		for _, id := range []string{"x1", "x2", "x3", "y1"} {
			a := rec(id, "lane "+id)
			a.Record.Connection = id[:1]
			b.add(a)
			b.now = b.now.Add(time.Second)
		}
		for _, want := range [][]string{{"x3", "y1"}, {"x1"}, {"x2"}} {
			out, err := b.Claim(ctx, outbox.ClaimRequest{Mark: b.mark(), Limit: 9, PerConnection: 1, First: []string{"x3"}})
			b.ok(err, "Claim")
			b.want(idsOf(out), want, "claimed")
		}
	}},
	{"what is rescheduled is due then, and not before", func(t *testing.T, b *bench) {
		b.add(rec("a", "lane"))
		b.claim(1)
		b.settle("a", outbox.Queued, func(s *outbox.Settlement) { s.Due = b.now.Add(time.Minute) })
		b.want(b.get("a").State, outbox.Sent, "state")
		b.want(b.claimIDs(1), []string{}, "not due yet")
		due, ok, err := b.NextDue(ctx, outbox.Scope{})
		b.ok(err, "NextDue")
		b.want(ok && due.Equal(b.now.Add(time.Minute)), true, "next due")
		b.now = due
		b.want(b.claim(1)[0].Attempts, 2, "attempts")
	}},
	{"only the claim that set the mark can remove it", func(t *testing.T, b *bench) {
		b.add(rec("a", "lane"))
		b.claim(1)
		b.settle("a", outbox.Queued, neverSent)
		b.want(b.get("a").State, outbox.Queued, "own mark removed")
		b.claim(1)
		b.settle("a", outbox.Queued)
		b.claim(1)
		b.settle("a", outbox.Queued, neverSent)
		b.want(b.get("a").State, outbox.Sent, "another claim's mark stays")
	}},
	{"a claim of an earlier process is free again, its mark stays", func(t *testing.T, b *bench) {
		b.add(rec("a", "lane"))
		old := b.claim(1)[0]
		if !b.reopen() || b.storage.Shared {
			return
		}
		b.want(b.get("a").Claim, outbox.Claim{}, "claim")
		again := b.claim(1)
		b.want(len(again), 1, "claimed at once")
		b.want(again[0].Exposure, old.Exposure, "exposure")
		b.want(again[0].Attempts, 2, "attempts")
		out, err := b.Settle(ctx, outbox.Settlement{ID: "a", Claim: old.Claim.Token, Now: b.now, To: outbox.Succeeded})
		b.ok(err, "Settle")
		b.is(out[0].Err, outbox.ErrClaimLost, "the earlier claim")
	}},
	{"an operation that was never sent expires when its time is over", func(t *testing.T, b *bench) {
		a := rec("a", "a")
		a.Record.Expires = b.now.Add(time.Minute)
		b.add(a)
		b.add(rec("a2", "a"))
		s := rec("s", "s")
		s.Record.Expires = b.now.Add(time.Minute)
		b.add(s)
		b.claim(1, "s")
		b.settle("s", outbox.Queued)
		_, err := b.set("a", outbox.Expire)
		b.is(err, outbox.ErrState, "too early")
		b.now = b.now.Add(time.Minute)
		out := b.claim(1, "a")
		b.want(out[0].State, outbox.Expired, "state")
		b.want(out[0].Claimed(), false, "claimed")
		b.want(b.claimIDs(2, "s", "a2"), []string{"s", "a2"}, "what may have been sent does not expire")
	}},
	{"whoever has a better clock judges what expires", func(t *testing.T, b *bench) {
		if outbox.Shared(b.Engine) {
			return // its own clock is the one that counts
		}
		for _, id := range []string{"a", "b", "sent"} {
			a := rec(id, id)
			a.Record.Expires = b.now.Add(time.Minute)
			b.add(a)
		}
		b.claim(1, "sent")
		b.settle("sent", outbox.Queued)
		for _, id := range []string{"a", "sent"} {
			_, err := b.Set(ctx, outbox.Change{ID: id, Action: outbox.Expire, Now: b.now, Overdue: true})
			if id == "sent" {
				b.is(err, outbox.ErrState, "what may have been sent does not expire")
			} else {
				b.ok(err, "expire ahead of Now")
			}
		}
		b.want(b.get("a").State, outbox.Expired, "state")
		b.now = b.now.Add(time.Hour)
		out, err := b.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: b.now}, Limit: 1, First: []string{"b"}, KeepExpired: true})
		b.ok(err, "claim")
		b.want(len(out), 1, "claimed")
		b.want(out[0].State, outbox.Sent, "state")
		settled, err := b.Settle(ctx, outbox.Settlement{ID: "b", Claim: out[0].Claim.Token, Now: b.now, To: outbox.Expired, NeverSent: true})
		b.ok(err, "settle")
		b.ok(settled[0].Err, "settle")
		b.want(b.get("b").State, outbox.Expired, "state")
	}},
}
