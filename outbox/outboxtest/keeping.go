package outboxtest

import (
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// keepingCases are the rules of what is kept for how long: keys and their tombstones, records, state.
var keepingCases = []rule{
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
}
