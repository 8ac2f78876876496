package outboxtest

import (
	"context"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// rule is a rule of the contract, with its test.
type rule struct {
	name string
	run  func(*testing.T, *bench)
}

// cases are the contract's rules but for those of lateCases.
var cases = []rule{
	{"what was added comes back byte for byte, also after a reopen", func(t *testing.T, b *bench) {
		a := rec("a", "lane")
		a.Record.Tag, a.Record.StopLaneOnReject = "ticket 7", true
		a.Record.Expires = b.now.Add(time.Hour)
		a.Record.Request.Body = []byte("{ \"b\":1,\n\t\"a\":\xff}")
		added := b.add(a)
		b.want(added.Decision, outbox.AddedNew, "decision")
		b.want(added.Record.State, outbox.Queued, "state")
		b.want(added.Record.WireKey, "key-a", "wire key")
		b.want(added.Record.Claimed(), false, "claimed")
		b.want(b.get("a"), added.Record, "Get")
		if b.reopen() {
			b.want(b.get("a"), added.Record, "Get after the reopen")
		}
	}},
	{"adding an ID again finds the first, whatever its key", func(t *testing.T, b *bench) {
		first := b.add(rec("a", "lane"))
		again := rec("a", "other lane")
		again.Record.Key = "another key"
		out := b.add(again)
		b.want(out.Decision, outbox.FoundOperation, "decision")
		b.want(out.Record, first.Record, "record")
		b.want(b.counts().Total(), 1, "records")
	}},
	{"a claim in the same step marks the exposure", func(t *testing.T, b *bench) {
		a := rec("a", "lane")
		m := b.mark()
		a.Claim = &m
		out := b.add(a)
		b.want(out.Record.State, outbox.Sent, "state")
		b.want(out.Record.Attempts, 1, "attempts")
		if !out.Record.Claimed() || out.Record.Exposure == nil || out.Record.Exposure.Claim != out.Record.Claim.Token {
			t.Fatalf("claim %+v, exposure %+v", out.Record.Claim, out.Record.Exposure)
		}
		b.want(b.claimIDs(5), []string{}, "nothing else to claim")
		behind := rec("b", "lane")
		behind.Claim = &m
		b.want(b.add(behind).Record.Claim.Token, "", "not the head: saved, not claimed")
	}},
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
			var ids []string
			for _, r := range out {
				ids = append(ids, r.ID)
			}
			b.want(ids, want, "claimed")
		}
	}},
	{"what expires soon can be listed", func(t *testing.T, b *bench) {
		for id, after := range map[string]time.Duration{"soon": time.Minute, "claimed": time.Minute, "late": time.Hour, "never": 0} {
			a := rec(id, "lane "+id)
			if after > 0 {
				a.Record.Expires = b.now.Add(after)
			}
			b.add(a)
		}
		b.want(b.claimIDs(1, "claimed"), []string{"claimed"}, "claimed")
		page, err := b.List(ctx, outbox.Query{ExpiringBefore: b.now.Add(30 * time.Minute)})
		b.ok(err, "List")
		b.want(len(page.Records), 1, "listed")
		b.want(page.Records[0].ID, "soon", "listed")
	}},
	{"it says whether its storage is shared", func(t *testing.T, b *bench) {
		b.want(outbox.Shared(b.Engine), b.storage.Shared, "Shared")
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
	{"a queued direct predecessor is superseded", func(t *testing.T, b *bench) {
		put := func(id string) outbox.Addition {
			a := rec(id, "menu")
			a.Record.Key, a.Record.Kind = "", "menu.put"
			a.Record.Request.Method, a.Record.Request.Target = "PUT", "/menu"
			a.Supersede = true
			return a
		}
		b.add(put("m1"))
		b.claim(1)
		b.want(b.add(put("m2")).Superseded, "", "a claimed one is not")
		b.want(b.add(put("m3")).Superseded, "m2", "superseded")
		b.want(b.get("m2").State, outbox.Superseded, "state")
		b.want(b.get("m2").SupersededBy, "m3", "by")
		b.settle("m1", outbox.Succeeded)
		b.want(b.claimIDs(1), []string{"m3"}, "next")
	}},
	{"limits refuse what is new and nothing that is known", func(t *testing.T, b *bench) {
		a := rec("a", "a")
		b.add(a)
		a.Limits = outbox.Limits{Operations: 1, Body: 1, Bytes: 1}
		b.want(b.add(a).Decision, outbox.FoundOperation, "known")
		for _, c := range []struct {
			limits outbox.Limits
			want   error
		}{
			{outbox.Limits{Operations: 1}, outbox.ErrFull},
			{outbox.Limits{Bytes: b.counts().Bytes + 1}, outbox.ErrFull},
			{outbox.Limits{Body: 3}, outbox.ErrTooLarge},
		} {
			n := rec("n", "n")
			n.Limits, n.Now = c.limits, b.now
			_, err := b.Add(ctx, n)
			b.is(err, c.want, "limits %+v", c.limits)
		}
		b.want(b.counts().Total(), 1, "records")
		other := rec("o", "o")
		other.Record.Connection, other.Limits = "store-2", outbox.Limits{Operations: 1}
		b.want(b.add(other).Decision, outbox.AddedNew, "another connection has its own limit")
	}},
	{"the next generation of a key is unmarked and keeps its bytes", func(t *testing.T, b *bench) {
		b.add(rec("a", "a"))
		before := b.claim(1)[0]
		b.settle("a", outbox.Queued, func(s *outbox.Settlement) { s.NextGeneration = true })
		r := b.get("a")
		b.want(r.WireKey, "key-a~2", "wire key")
		b.want(r.State, outbox.Queued, "state")
		b.want(r.Attempts, 0, "attempts")
		b.want(r.Request, before.Request, "request")
		b.claim(1)
		b.settle("a", outbox.Rejected)
		b.want(b.add(rec("b", "a", func(a *outbox.Addition) { a.Record.Key = "key-a" })).Record.WireKey, "key-a~3", "a new operation")
	}},
	{"a key outlives its record", func(t *testing.T, b *bench) {
		b.add(rec("a", "a"))
		b.claim(1)
		b.settle("a", outbox.Succeeded, func(s *outbox.Settlement) { s.Result.Resource = "order-1" })
		b.ok(b.Ack(ctx, "a", 1), "Ack")
		n, err := b.Purge(ctx, outbox.PurgeRequest{Now: b.now, Before: b.now.Add(time.Second)})
		b.ok(err, "Purge")
		b.want(n, 1, "purged")
		_, err = b.Get(ctx, "a")
		b.is(err, outbox.ErrNotFound, "Get")
		b.reopen()
		again := rec("b", "a")
		again.Record.Key, again.Record.Fingerprint = "key-a", []byte("content of a")
		out := b.add(again)
		b.want(out.Decision, outbox.FoundTombstone, "decision")
		b.want(out.Tombstone.ID, "a", "ID")
		b.want(out.Tombstone.Resource, "order-1", "resource")
		again.Record.Fingerprint = []byte("other")
		b.want(b.add(again).Decision, outbox.FoundOtherUse, "other content")
		b.now = b.now.Add(outbox.TombstoneRepeatSafe + time.Second)
		_, err = b.Purge(ctx, outbox.PurgeRequest{Now: b.now, Before: b.now})
		b.ok(err, "Purge")
		b.want(b.add(again).Decision, outbox.AddedNew, "after 48 hours")
	}},
	{"a key outlives its record in full when the clock was decades behind", func(t *testing.T, b *bench) {
		b.now = time.Unix(60, 0).UTC()
		a := rec("a", "a")
		a.Record.RepeatSafe = false
		b.add(a)
		b.claim(1)
		b.settle("a", outbox.Succeeded)
		b.ok(b.Ack(ctx, "a", 1), "Ack")
		b.now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		again := rec("b", "a")
		again.Record.Key, again.Record.Fingerprint = a.Record.Key, a.Record.Fingerprint
		for _, left := range []int{1, 0} {
			n, err := b.Purge(ctx, outbox.PurgeRequest{Now: b.now, Before: b.now.Add(-time.Hour)})
			b.ok(err, "Purge")
			b.want(n, left, "purged")
			b.want(b.add(again).Decision, outbox.FoundTombstone, "decision")
			b.now = b.now.Add(outbox.TombstoneUnsafe)
		}
	}},
	{"nothing that needs eyes is purged unseen", func(t *testing.T, b *bench) {
		for i, to := range []outbox.State{outbox.Succeeded, outbox.Rejected, outbox.Uncertain, outbox.Blocked} {
			id := string(rune('a' + i))
			b.add(rec(id, id))
			b.claim(1)
			b.settle(id, to)
		}
		purge := func(unacked bool) int {
			n, err := b.Purge(ctx, outbox.PurgeRequest{Now: b.now, Before: b.now.Add(time.Hour), Unacked: unacked})
			b.ok(err, "Purge")
			return n
		}
		b.want(purge(false), 0, "nothing is seen")
		b.want(purge(true), 1, "only the success may go unseen")
		for _, id := range []string{"b", "c", "d"} {
			b.ok(b.Ack(ctx, id, 1), "Ack %s", id)
		}
		b.want(purge(true), 1, "the rejection, once seen; what is parked waits for a decision")
	}},
	{"purging one connection leaves the others' records alone", func(t *testing.T, b *bench) {
		for _, id := range []string{"a", "b", "c"} {
			b.add(rec(id, "lane", func(a *outbox.Addition) { a.Record.Connection = "store-" + id }))
			b.claim(1)
			b.settle(id, outbox.Succeeded)
		}
		b.ok(b.Ack(ctx, "b", 1), "Ack")
		purge := func(connection string, unacked bool) int {
			n, err := b.Purge(ctx, outbox.PurgeRequest{Connection: connection, Now: b.now, Before: b.now.Add(time.Hour), Unacked: unacked})
			b.ok(err, "Purge")
			return n
		}
		b.want(purge("store-a", false), 0, "not seen")
		b.want(purge("store-a", true), 1, "its own")
		b.want(purge("store-a", true), 0, "nothing is left of it")
		for _, id := range []string{"b", "c"} {
			_, err := b.Get(ctx, id)
			b.ok(err, "Get %s", id)
		}
		b.want(purge("store-b", false), 1, "seen")
		b.want(purge("", true), 1, "all")
	}},
	{"outcomes come in the order they became known, until acknowledged", func(t *testing.T, b *bench) {
		for _, id := range []string{"a", "b", "c"} {
			b.add(rec(id, id))
		}
		b.claim(3)
		b.settle("c", outbox.Succeeded)
		b.settle("a", outbox.Uncertain)
		unacked := func() []string { return listIDs(b, outbox.Query{ByOutcome: true, Unacked: true, Limit: 1}) }
		b.want(unacked(), []string{"c", "a"}, "unacknowledged")
		b.ok(b.Ack(ctx, "c", 1), "Ack")
		b.ok(b.Ack(ctx, "c", 1), "Ack again")
		b.ok(b.Ack(ctx, "a", 1), "Ack")
		b.want(unacked(), []string{}, "unacknowledged")
		_, err := b.set("a", outbox.ResolveAbandon)
		b.ok(err, "Set")
		b.want(unacked(), []string{"a"}, "a resolution is a new outcome")
		b.want(listIDs(b, outbox.Query{ByOutcome: true}), []string{"c", "a"}, "all")
		b.is(b.Ack(ctx, "nobody", 1), outbox.ErrNotFound, "unknown")
	}},
	{"lists page through what a query selects", func(t *testing.T, b *bench) {
		for i := range 7 {
			id := string(rune('a' + i))
			a := rec(id, "lane-"+id)
			if i%2 == 0 {
				a.Record.Tag, a.Record.Kind = "even", "orders.reject"
			}
			b.add(a)
		}
		b.claim(2)
		all := []string{"a", "b", "c", "d", "e", "f", "g"}
		b.want(listIDs(b, outbox.Query{Limit: 3}), all, "pages of three")
		b.want(listIDs(b, outbox.Query{Limit: 7}), all, "one page exactly")
		for _, c := range []struct {
			q    outbox.Query
			want []string
		}{
			{outbox.Query{Tag: "even"}, []string{"a", "c", "e", "g"}},
			{outbox.Query{Kind: "orders.reject", Limit: 1}, []string{"a", "c", "e", "g"}},
			{outbox.Query{Lane: "lane-b"}, []string{"b"}},
			{outbox.Query{Key: "key-c"}, []string{"c"}},
			{outbox.Query{States: []outbox.State{outbox.Sent}}, []string{"a", "b"}},
			{outbox.Query{States: []outbox.State{}}, []string{}},
			{outbox.Query{Connection: "store-2"}, []string{}},
			{outbox.Query{Connection: "store-1", Tag: "even", States: []outbox.State{outbox.Queued}}, []string{"c", "e", "g"}},
		} {
			b.want(listIDs(b, c.q), c.want, "%+v", c.q)
		}
		p, err := b.List(ctx, outbox.Query{Limit: 1})
		b.ok(err, "List")
		b.want(p.Records[0].Request.Body, []byte(nil), "bodies are left out")
		p, err = b.List(ctx, outbox.Query{Limit: 1, Bodies: true})
		b.ok(err, "List")
		b.want(p.Records[0], b.get("a"), "bodies are included")
		if _, err := b.List(ctx, outbox.Query{After: "nonsense"}); err == nil {
			t.Fatal("a position that no page gave was accepted")
		}
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
	{"state blobs are kept by connection and name", func(t *testing.T, b *bench) {
		b.ok(b.SaveState(ctx, "x", "cursor", []byte("1")), "save")
		b.ok(b.SaveState(ctx, "x", "empty", []byte{}), "save")
		b.ok(b.SaveState(ctx, "", "cursor", []byte("all")), "save")
		b.reopen()
		for _, c := range []struct {
			conn, name string
			want       []byte
		}{{"x", "cursor", []byte("1")}, {"x", "empty", []byte{}}, {"", "cursor", []byte("all")}, {"y", "cursor", nil}} {
			if !b.storage.Reopens && c.conn == "" {
				continue
			}
			v, err := b.LoadState(ctx, c.conn, c.name)
			b.ok(err, "load")
			b.want(v, c.want, "%s %s", c.conn, c.name)
		}
		b.ok(b.SaveState(ctx, "x", "cursor", nil), "delete")
		v, err := b.LoadState(ctx, "x", "cursor")
		b.ok(err, "load")
		b.want(v, []byte(nil), "deleted")
	}},
	{"changes are signaled on one channel", func(t *testing.T, b *bench) {
		first, second := b.Changed(), b.Changed()
		b.want(first, second, "two calls, one channel")
		b.signaled()
		b.add(rec("a", "a"))
		b.want(b.signaled(), true, "added")
		b.claim(1)
		b.signaled()
		b.settle("a", outbox.Uncertain)
		b.want(b.signaled(), true, "settled")
		_, err := b.set("a", outbox.ResolveDone)
		b.ok(err, "set")
		b.want(b.signaled(), true, "set")
	}},
	{"memory given in and handed out is not shared", func(t *testing.T, b *bench) {
		a := rec("a", "a")
		out := b.add(a)
		a.Record.Request.Body[0], out.Record.Request.Body[1] = '!', '!'
		r := b.get("a")
		b.want(string(r.Request.Body), `{"id":"a"}`, "body")
	}},
	{"a context that ended before the step means that nothing happened", func(t *testing.T, b *bench) {
		done, cancel := context.WithCancel(ctx)
		cancel()
		a := rec("a", "a")
		a.Now = b.now
		_, err := b.Add(done, a)
		b.is(err, context.Canceled, "Add")
		b.want(b.counts().Total(), 0, "records")
	}},
	{"a closed engine says so, and closes twice", func(t *testing.T, b *bench) {
		e := b.Engine
		b.ok(e.Close(), "Close")
		b.ok(e.Close(), "Close again")
		_, err := e.Add(ctx, rec("a", "a"))
		b.is(err, outbox.ErrClosed, "Add")
		_, err = e.Get(ctx, "a")
		b.is(err, outbox.ErrClosed, "Get")
		_, err = e.Counts(ctx, "")
		b.is(err, outbox.ErrClosed, "Counts")
		_, err = e.Claim(ctx, outbox.ClaimRequest{Limit: 1})
		b.is(err, outbox.ErrClosed, "Claim")
	}},
}

func neverSent(s *outbox.Settlement) { s.NeverSent = true }

// listIDs reads every page of a query.
func listIDs(b *bench, q outbox.Query) []string {
	b.Helper()
	ids := []string{}
	for {
		p, err := b.List(ctx, q)
		b.ok(err, "List")
		for _, r := range p.Records {
			ids = append(ids, r.ID)
		}
		if p.Next == "" {
			return ids
		}
		q.After = p.Next
	}
}
