package outboxtest

import (
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// readingCases are the rules of what an engine shows: lists, signals, itself.
var readingCases = []rule{
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
