package outboxtest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flavoso/flavoso-go/outbox"
)

// runModel walks at random through an engine's methods and compares it with the model after every step.
func runModel(t *testing.T, fresh func(testing.TB) Storage) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &walk{rt: rt, m: newModel(), storage: fresh(t), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
		w.open()
		defer func() { _ = w.e.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"add":    w.add,
			"add 2":  w.add, // twice as often as the others
			"claim":  w.claim,
			"settle": w.settle,
			"set":    w.set,
			"ack":    w.ack,
			"purge":  w.purge,
			"state":  w.saveState,
			"time":   w.passTime,
			"reopen": w.reopen,
			"":       w.check,
		})
	})
}

type walk struct {
	rt      *rapid.T
	m       *model
	e       outbox.Engine
	storage Storage
	now     time.Time
	n       int // names new operations
}

var (
	walkConns = []string{"store-1", "store-2\x00"}
	walkLanes = []string{"menu", "order:1", "order:2"}
	walkKeys  = []string{"", "k1", "k2", "k3"}
)

func (w *walk) open() {
	e, err := w.storage.Open()
	if err != nil {
		w.rt.Fatalf("open: %v", err)
	}
	w.e = e
}

func (w *walk) fatal(format string, args ...any) { w.rt.Helper(); w.rt.Fatalf(format, args...) }

// same fails unless both answers are equal; errors are compared by what they are.
func (w *walk) same(what string, got, want any, gotErr, wantErr error) {
	w.rt.Helper()
	for _, e := range []error{outbox.ErrNotFound, outbox.ErrState, outbox.ErrFull, outbox.ErrTooLarge, outbox.ErrClaimLost} {
		if errors.Is(gotErr, e) != errors.Is(wantErr, e) {
			w.fatal("%s: error %v, model says %v", what, gotErr, wantErr)
		}
	}
	if (gotErr == nil) != (wantErr == nil) {
		w.fatal("%s: error %v, model says %v", what, gotErr, wantErr)
	}
	if !reflect.DeepEqual(got, want) {
		w.fatal("%s:\n  engine %s\n  model  %s", what, dump(got), dump(want))
	}
}

func dump(v any) string {
	if r, ok := v.(outbox.Record); ok {
		return fmt.Sprintf("%+v exposure %+v last %+v result %+v", r, r.Exposure, r.Last, r.Result)
	}
	return fmt.Sprintf("%+v", v)
}

func (w *walk) mark() outbox.Mark {
	return outbox.Mark{Now: w.now, Server: w.now.Add(time.Second), Boot: "boot", Uptime: time.Minute, Lease: time.Hour}
}

func (w *walk) add(rt *rapid.T) {
	w.n++
	id := fmt.Sprintf("op-%d", w.n)
	if rapid.IntRange(0, 9).Draw(rt, "again") == 0 && len(w.m.recs) > 0 {
		id = rapid.SampledFrom(w.m.recs).Draw(rt, "record").ID
	}
	key := rapid.SampledFrom(walkKeys).Draw(rt, "key")
	content := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "content")
	a := outbox.Addition{
		Record: outbox.Record{
			ID: id, Connection: rapid.SampledFrom(walkConns).Draw(rt, "conn"), Lane: rapid.SampledFrom(walkLanes).Draw(rt, "lane"),
			Kind: "kind", Resource: "res", Key: key, KeyDerived: rapid.Bool().Draw(rt, "derived"), Fingerprint: []byte(content),
			RepeatSafe: key != "k3", StopLaneOnReject: rapid.Bool().Draw(rt, "stop"), Tag: "tag",
			Request: outbox.Request{Method: "POST", Target: "/x", ContentType: "application/json", Body: []byte(content)},
		},
		Now:          w.now,
		AfterSuccess: outbox.AfterSuccess(rapid.IntRange(0, 1).Draw(rt, "after success")),
		Supersede:    rapid.Bool().Draw(rt, "supersede"),
	}
	if rapid.Bool().Draw(rt, "expires") {
		a.Record.Expires = w.now.Add(time.Minute)
	}
	if rapid.Bool().Draw(rt, "due later") {
		a.Record.Due = w.now.Add(30 * time.Second)
	}
	if rapid.Bool().Draw(rt, "limited") {
		a.Limits = outbox.Limits{Operations: 6, Bytes: 20}
	}
	if rapid.Bool().Draw(rt, "claim") {
		m := w.mark()
		a.Claim = &m
	}
	got, err := w.e.Add(ctx, a)
	want, wantErr := w.m.add(&a, got.Record.Claim.Token)
	if (got.Record.Claim.Token != "") != (want.Record.Claim.Token != "") {
		w.fatal("Add: claimed %v, model says %v", got.Record.Claim, want.Record.Claim)
	}
	if got.Decision == outbox.FoundOtherUse && got.Record.Seq == 0 {
		// What the tombstone of other content was a fingerprint of is nobody's business.
		got.Record.Fingerprint, want.Record.Fingerprint = nil, nil
		got.Tombstone.Fingerprint, want.Tombstone.Fingerprint = nil, nil
	}
	w.same("Add", got, want, err, wantErr)
}

func (w *walk) scope(rt *rapid.T) outbox.Scope {
	switch rapid.IntRange(0, 3).Draw(rt, "scope") {
	case 0:
		return outbox.Scope{Connections: walkConns[:1]}
	case 1:
		return outbox.Scope{Except: walkConns[:1]}
	}
	return outbox.Scope{}
}

func (w *walk) claim(rt *rapid.T) {
	q := outbox.ClaimRequest{Scope: w.scope(rt), Mark: w.mark(), Limit: rapid.IntRange(0, 4).Draw(rt, "limit")}
	if len(w.m.recs) > 0 && rapid.Bool().Draw(rt, "with first") {
		q.First = []string{rapid.SampledFrom(w.m.recs).Draw(rt, "first").ID}
	}
	if rapid.IntRange(0, 3).Draw(rt, "bounded") == 0 {
		q.PerConnection = rapid.IntRange(1, 2).Draw(rt, "per connection")
	}
	if rapid.Bool().Draw(rt, "hurried") {
		q.DueBy = w.now.Add(time.Minute)
	}
	due := w.m.claimable(&q)
	got, err := w.e.Claim(ctx, q)
	if err != nil {
		w.fatal("Claim: %v", err)
	}
	if want := min(q.Limit, allowed(&q, due)); len(got) != want {
		w.fatal("Claim: %d records, model says %d", len(got), want)
	}
	var last time.Time
	count := map[string]int{}
	for i, g := range got {
		if q.Full(count[g.Connection]) {
			w.fatal("Claim: too many of %s", g.Connection)
		}
		count[g.Connection]++
		j := slices.IndexFunc(due, func(r *outbox.Record) bool { return r.ID == g.ID })
		if j < 0 {
			w.fatal("Claim: %s is not due", g.ID)
		}
		r := due[j]
		isFirst := len(q.First) > 0 && r.ID == q.First[0]
		if isFirst && i != 0 {
			w.fatal("Claim: %s was asked for first and came as number %d", r.ID, i)
		}
		if !isFirst {
			if r.Due.Before(last) {
				w.fatal("Claim: %s out of order", g.ID)
			}
			last = r.Due
		}
		due = slices.Delete(due, j, j+1)
		_ = w.m.change(r, q.Now, func() error {
			if r.PastExpiry(q.Now) {
				r.ApplyExpire(q.Now)
			} else {
				r.ApplyClaim(g.Claim.Token, q.Mark)
			}
			return nil
		})
		w.same("Claim", g, *r.Clone(), nil, nil)
	}
	due = slices.DeleteFunc(due, func(r *outbox.Record) bool { return q.Full(count[r.Connection]) })
	if len(due) > 0 && len(got) > 0 && due[0].Due.Before(last) {
		w.fatal("Claim: %s, due earlier, was passed over", due[0].ID)
	}
}

// allowed returns how many of the due records a claim without a limit takes.
func allowed(q *outbox.ClaimRequest, due []*outbox.Record) (n int) {
	count := map[string]int{}
	for _, r := range due {
		if !q.Full(count[r.Connection]) {
			count[r.Connection]++
			n++
		}
	}
	return n
}

func (w *walk) settle(rt *rapid.T) {
	var claimed []*outbox.Record
	for _, r := range w.m.recs {
		if r.Claimed() {
			claimed = append(claimed, r)
		}
	}
	if len(claimed) == 0 {
		rt.Skip("nothing is claimed")
	}
	var ss []outbox.Settlement
	for range rapid.IntRange(1, 3).Draw(rt, "settlements") {
		r := rapid.SampledFrom(claimed).Draw(rt, "record")
		to := rapid.SampledFrom([]outbox.State{
			outbox.Queued, outbox.Queued, outbox.Succeeded, outbox.Rejected, outbox.Uncertain, outbox.Blocked, outbox.Expired,
		}).Draw(rt, "to")
		s := outbox.Settlement{ID: r.ID, Claim: r.Claim.Token, Now: w.now, To: to, NeverSent: rapid.Bool().Draw(rt, "never sent")}
		switch rapid.IntRange(0, 9).Draw(rt, "fault") {
		case 0:
			s.Claim = "wrong"
		case 1:
			s.ID = "nobody"
		}
		if to.Waiting() {
			s.Due = w.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "due")) * 10 * time.Second)
			s.NextGeneration = rapid.Bool().Draw(rt, "next generation")
		} else if rapid.Bool().Draw(rt, "hold") {
			s.LaneNotBefore = w.now.Add(20 * time.Second)
		}
		if rapid.Bool().Draw(rt, "result") {
			s.Result = &outbox.Result{
				Status: 409, Code: outbox.CodeConflict, Clean: rapid.Bool().Draw(rt, "clean"), Body: []byte("answer"),
				Header: map[string]string{"Content-Type": "application/json"}, At: w.now,
			}
			s.Last = &outbox.Attempt{N: 1, Start: w.now, End: w.now, Status: 409, Unanswered: rapid.IntRange(0, 1).Draw(rt, "unanswered")}
		}
		ss = append(ss, s)
	}
	got, err := w.e.Settle(ctx, ss...)
	if err != nil {
		w.fatal("Settle: %v", err)
	}
	for i := range ss {
		want, known := w.m.settle(&ss[i])
		if !known {
			got[i].Record = outbox.Record{}
		}
		gotErr, wantErr := got[i].Err, want.Err
		got[i].Err, want.Err = nil, nil
		w.same("Settle", got[i], want, gotErr, wantErr)
	}
}

func (w *walk) set(rt *rapid.T) {
	if len(w.m.recs) == 0 {
		rt.Skip("empty")
	}
	c := outbox.Change{
		ID:  rapid.SampledFrom(w.m.recs).Draw(rt, "record").ID,
		Now: w.now,
		Action: rapid.SampledFrom([]outbox.Action{
			outbox.Cancel, outbox.RetryNow, outbox.ResolveDone, outbox.ResolveSendAgain, outbox.ResolveAbandon, outbox.Expire, outbox.Park,
		}).Draw(rt, "action"),
		To: rapid.SampledFrom([]outbox.State{outbox.Uncertain, outbox.Blocked}).Draw(rt, "to"),
	}
	if rapid.Bool().Draw(rt, "with result") {
		c.Result = &outbox.Result{Note: "note", Body: []byte("body")}
	}
	if rapid.Bool().Draw(rt, "hold") {
		c.LaneNotBefore = w.now.Add(20 * time.Second)
	}
	if rapid.IntRange(0, 4).Draw(rt, "lane") == 0 {
		r := w.m.find(c.ID)
		c.ID, c.Connection, c.Lane, c.Action = "", r.Connection, r.Lane, outbox.ResolveSendAgain
	}
	got, err := w.e.Set(ctx, c)
	want, wantErr := w.m.set(&c)
	if err != nil {
		got = want
	}
	w.same("Set "+string(c.Action), got, want, err, wantErr)
}

func (w *walk) ack(rt *rapid.T) {
	if len(w.m.recs) == 0 {
		rt.Skip("empty")
	}
	r := rapid.SampledFrom(w.m.recs).Draw(rt, "record")
	revision := rapid.IntRange(0, r.Revision+1).Draw(rt, "revision")
	if err := w.e.Ack(ctx, r.ID, revision); err != nil {
		w.fatal("Ack: %v", err)
	}
	r.ApplyAck(revision)
}

func (w *walk) purge(rt *rapid.T) {
	p := outbox.PurgeRequest{Now: w.now, Before: w.now.Add(-20 * time.Second), Unacked: rapid.Bool().Draw(rt, "unacked"),
		Connection: rapid.SampledFrom(append(walkConns, "")).Draw(rt, "of")}
	want := len(w.m.purgeable(&p))
	n, err := w.e.Purge(ctx, p)
	if err != nil || n != want {
		w.fatal("Purge: %d, %v; model says %d", n, err, want)
	}
	w.m.purge(&p)
}

func (w *walk) saveState(rt *rapid.T) {
	k := connKey{rapid.SampledFrom(append(walkConns, "")).Draw(rt, "conn"), rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name")}
	v := rapid.SampledFrom([][]byte{nil, {}, []byte("value")}).Draw(rt, "value")
	if err := w.e.SaveState(ctx, k.conn, k.name, v); err != nil {
		w.fatal("SaveState: %v", err)
	}
	w.m.state[k] = v
}

func (w *walk) passTime(rt *rapid.T) {
	w.now = w.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 15 * time.Second, time.Minute, 50 * time.Hour}).Draw(rt, "by"))
}

func (w *walk) reopen(rt *rapid.T) {
	if !w.storage.Reopens {
		rt.Skip("does not survive")
	}
	if err := w.e.Close(); err != nil {
		w.fatal("Close: %v", err)
	}
	w.open()
	if !w.storage.Shared {
		w.m.forgetClaims()
	}
}

// check compares everything that can be read.
func (w *walk) check(rt *rapid.T) {
	for _, conn := range append(walkConns, "") {
		got, err := w.e.Counts(ctx, conn)
		w.same("Counts "+conn, got, w.m.counts(conn), err, nil)
	}
	if c := w.m.counts(""); w.m.added != c.Total()+w.m.purged {
		w.fatal("accepted %d, but %d kept and %d purged", w.m.added, c.Total(), w.m.purged)
	}
	for _, r := range w.m.recs {
		got, err := w.e.Get(ctx, r.ID)
		w.same("Get", got, *r.Clone(), err, nil)
		if err := got.Check(); err != nil {
			w.fatal("%v", err)
		}
	}
	for _, s := range []outbox.Scope{{}, {Connections: walkConns[1:]}} {
		var want time.Time
		due := w.m.due(s, time.Unix(1<<40, 0))
		if len(due) > 0 {
			want = due[0].Due
		}
		got, ok, err := w.e.NextDue(ctx, s)
		w.same("NextDue", got, want, err, nil)
		if ok != (len(due) > 0) {
			w.fatal("NextDue: %v, model has %d", ok, len(due))
		}
	}
	w.checkList(rt)
	for k, want := range w.m.state {
		got, err := w.e.LoadState(ctx, k.conn, k.name)
		if err != nil || !sameState(got, want) {
			w.fatal("LoadState %v: %q, %v; model says %q", k, got, err, want)
		}
	}
}

func (w *walk) checkList(rt *rapid.T) {
	q := outbox.Query{
		ByOutcome: rapid.Bool().Draw(rt, "by outcome"), Unacked: rapid.Bool().Draw(rt, "unacked"),
		Limit: rapid.IntRange(1, 5).Draw(rt, "page"), Bodies: rapid.Bool().Draw(rt, "bodies"),
		Connection: rapid.SampledFrom(append([]string{""}, walkConns...)).Draw(rt, "conn"),
		Lane:       rapid.SampledFrom([]string{"", "menu"}).Draw(rt, "lane"),
		Key:        rapid.SampledFrom([]string{"", "", "k1"}).Draw(rt, "key"),
		States:     rapid.SampledFrom([][]outbox.State{nil, nil, {outbox.Queued, outbox.Sent}, {outbox.Succeeded}}).Draw(rt, "states"),
	}
	want := w.m.list(&q)
	var got []outbox.Record
	for {
		p, err := w.e.List(ctx, q)
		if err != nil {
			w.fatal("List: %v", err)
		}
		got = append(got, p.Records...)
		if p.Next == "" {
			break
		}
		q.After = p.Next
	}
	if len(got) != len(want) {
		w.fatal("List %+v: %d records, model says %d", q, len(got), len(want))
	}
	for i, r := range want {
		r := r.Clone()
		if !q.Bodies {
			r.StripBodies()
		}
		w.same("List", got[i], *r, nil, nil)
	}
}
