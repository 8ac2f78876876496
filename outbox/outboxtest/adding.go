package outboxtest

import (
	"context"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// addingCases are the rules of Add.
var addingCases = []rule{
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
}
