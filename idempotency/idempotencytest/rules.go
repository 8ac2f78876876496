package idempotencytest

import (
	"context"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

func scopes(t *testing.T, f Fixture) {
	ctx := context.Background()
	base := request()
	all := []idempotency.Scope{
		{Tenant: "a", Operation: "b", Key: "c"}, {Tenant: "ab", Operation: "", Key: "c"}, {Tenant: "a", Operation: "", Key: "bc"},
		{Tenant: "a", Operation: "bc", Key: "d"}, {Tenant: "A", Operation: "b", Key: "c"}, {Tenant: "a", Operation: "b", Key: "C"},
		{Tenant: "a", Operation: "b", Key: "c "}, {Tenant: "other", Operation: "b", Key: "c"}, {Tenant: "a", Operation: "other", Key: "c"},
	}
	for i, s := range all {
		req := base
		req.Scope = s
		cl := must(t, f.Engine, req, idempotency.New).Claim
		ok(t, "Complete", f.Engine.Complete(ctx, cl, idempotency.Result{Status: 200 + i}))
	}
	for i, s := range all {
		req := base
		req.Scope = s
		if res := must(t, f.Engine, req, idempotency.Replay); res.Result.Status != 200+i {
			t.Fatalf("%+v replays status %d, want %d", s, res.Result.Status, 200+i)
		}
	}
}

func release(t *testing.T, f Fixture) {
	ctx := context.Background()
	req := request()
	first := must(t, f.Engine, req, idempotency.New).Claim
	ok(t, "Release", f.Engine.Release(ctx, first))
	wantErr(t, "Release twice", f.Engine.Release(ctx, first), idempotency.ErrOwnershipLost)
	second := must(t, f.Engine, other(req), idempotency.New).Claim // D19: the key is free for any request
	if second.Generation <= first.Generation {
		t.Fatalf("generation %d after %d", second.Generation, first.Generation)
	}
	wantErr(t, "Complete after Release", f.Engine.Complete(ctx, first, result()), idempotency.ErrOwnershipLost)
	ok(t, "Complete", f.Engine.Complete(ctx, second, result()))
	wantErr(t, "Release after Complete", f.Engine.Release(ctx, second), idempotency.ErrFinished)
	must(t, f.Engine, other(req), idempotency.Replay)
}

func freeKey(t *testing.T, f Fixture) {
	req := request()
	req.OnLeaseLost = idempotency.FreeKey
	first := must(t, f.Engine, req, idempotency.New).Claim
	must(t, f.Engine, other(req), idempotency.Mismatch)
	f.Advance(lease)
	second := must(t, f.Engine, other(req), idempotency.TakenOver).Claim
	if second.Generation <= first.Generation {
		t.Fatalf("generation %d after %d", second.Generation, first.Generation)
	}
	must(t, f.Engine, req, idempotency.Mismatch)
	must(t, f.Engine, other(req), idempotency.InProgress)
}

func heartbeat(t *testing.T, f Fixture) {
	ctx := context.Background()
	req := request()
	cl := must(t, f.Engine, req, idempotency.New).Claim
	until := cl.LeaseUntil
	for range 5 {
		f.Advance(lease - time.Second)
		next, err := f.Engine.Extend(ctx, cl, lease)
		ok(t, "Extend", err)
		if next.IsZero() {
			t.Fatal("Extend returned no time")
		}
		until = next
		must(t, f.Engine, req, idempotency.InProgress)
	}
	if rec := wantState(t, f.Engine, req.Scope, idempotency.Processing); !rec.LeaseUntil.Equal(until) {
		t.Fatalf("lease until %v, want %v", rec.LeaseUntil, until)
	}
	// A dead one ends, and one whose lease ended without a taker can still be revived by its owner.
	f.Advance(lease)
	_, err := f.Engine.Extend(ctx, cl, lease)
	ok(t, "late Extend", err)
	must(t, f.Engine, req, idempotency.InProgress)
	f.Advance(lease)
	must(t, f.Engine, req, idempotency.TakenOver)
}

func omitted(t *testing.T, f Fixture) {
	ctx := context.Background()
	req := request()
	cl := must(t, f.Engine, req, idempotency.New).Claim
	ok(t, "Complete", f.Engine.Complete(ctx, cl, idempotency.Result{Status: 200, Omitted: true}))
	for range 2 {
		res := must(t, f.Engine, req, idempotency.ResultGone)
		if res.Record.Status != 200 || res.Record.State != idempotency.Completed {
			t.Fatalf("record %+v", res.Record)
		}
	}
	must(t, f.Engine, other(req), idempotency.Mismatch)
	f.Advance(retention)
	must(t, f.Engine, req, idempotency.New)
}

func finishTwice(t *testing.T, f Fixture) {
	ctx := context.Background()
	req := request()
	cl := must(t, f.Engine, req, idempotency.New).Claim
	ok(t, "Complete", f.Engine.Complete(ctx, cl, result()))
	ok(t, "Complete again", f.Engine.Complete(ctx, cl, idempotency.Result{Status: 299}))
	wantErr(t, "Fail", f.Engine.Fail(ctx, cl, idempotency.Result{Status: 499}), idempotency.ErrFinished)
	wantErr(t, "MarkUncertain", f.Engine.MarkUncertain(ctx, cl, ""), idempotency.ErrFinished)
	wantErr(t, "MarkEffect", f.Engine.MarkEffect(ctx, cl), idempotency.ErrFinished)
	_, err := f.Engine.Extend(ctx, cl, lease)
	wantErr(t, "Extend", err, idempotency.ErrFinished)
	wantResult(t, must(t, f.Engine, req, idempotency.Replay).Result, result())
}

func fromReceipt(t *testing.T, f Fixture) {
	req := request()
	req.HoldFrom = idempotency.FromReceipt
	cl := must(t, f.Engine, req, idempotency.New).Claim
	f.Advance(time.Hour)
	ok(t, "Complete", f.Engine.Complete(context.Background(), cl, result()))
	f.Advance(retention - time.Hour - time.Second)
	must(t, f.Engine, req, idempotency.Replay)
	f.Advance(time.Second)
	must(t, f.Engine, req, idempotency.New)

	// A running operation does not expire, however long ago it was received.
	running := request()
	running.HoldFrom, running.Lease = idempotency.FromReceipt, 2*retention
	must(t, f.Engine, running, idempotency.New)
	f.Advance(retention)
	must(t, f.Engine, running, idempotency.InProgress)
	if _, err := f.Engine.Sweep(context.Background(), 1000); err != nil {
		t.Fatalf("Sweep: %v", err)
	}
	must(t, f.Engine, running, idempotency.InProgress)
	wantState(t, f.Engine, running.Scope, idempotency.Processing)
	f.Advance(retention)
	must(t, f.Engine, running, idempotency.TakenOver)
}

func sweep(t *testing.T, f Fixture) {
	ctx := context.Background()
	var expired, kept []idempotency.ClaimRequest
	for i := range 25 {
		req := request()
		cl := must(t, f.Engine, req, idempotency.New).Claim
		finish := f.Engine.Complete
		if i%2 == 1 {
			finish = f.Engine.Fail
		}
		ok(t, "finish", finish(ctx, cl, result()))
		expired = append(expired, req)
	}
	running := request()
	must(t, f.Engine, running, idempotency.New)
	unknown := request()
	ok(t, "MarkUncertain", f.Engine.MarkUncertain(ctx, must(t, f.Engine, unknown, idempotency.New).Claim, "test"))
	f.Advance(retention)
	for range 3 {
		req := request()
		ok(t, "Complete", f.Engine.Complete(ctx, must(t, f.Engine, req, idempotency.New).Claim, result()))
		kept = append(kept, req)
	}
	st, err := f.Engine.Stats(ctx)
	ok(t, "Stats", err)
	left := int(st.Backlog) // an engine may have swept some by itself
	deleted := 0
	for calls := 0; ; calls++ {
		rep, err := f.Engine.Sweep(ctx, 10)
		ok(t, "Sweep", err)
		if rep.Deleted > 10 {
			t.Fatalf("Sweep(10) deleted %d", rep.Deleted)
		}
		if rep.Deleted > 0 && rep.Bytes <= 0 {
			t.Fatalf("Sweep reports %d bytes for %d records", rep.Bytes, rep.Deleted)
		}
		deleted += rep.Deleted
		if !rep.More {
			break
		}
		if calls > 100 {
			t.Fatal("Sweep never ends")
		}
	}
	if deleted != left || left > len(expired) {
		t.Fatalf("deleted %d, backlog was %d", deleted, left)
	}
	st, err = f.Engine.Stats(ctx)
	ok(t, "Stats", err)
	if st.Backlog != 0 || st.Counters.Swept != uint64(len(expired)) {
		t.Fatalf("after the sweep: %+v", st)
	}
	for _, req := range kept {
		must(t, f.Engine, req, idempotency.Replay)
	}
	wantState(t, f.Engine, running.Scope, idempotency.Processing)
	wantState(t, f.Engine, unknown.Scope, idempotency.Uncertain)
	must(t, f.Engine, unknown, idempotency.Uncertain)
	must(t, f.Engine, expired[0], idempotency.New)
}

func stats(t *testing.T, f Fixture) {
	ctx := context.Background()
	held := request()
	ok(t, "Complete", f.Engine.Complete(ctx, must(t, f.Engine, held, idempotency.New).Claim, result()))
	must(t, f.Engine, held, idempotency.Replay)
	must(t, f.Engine, other(held), idempotency.Mismatch)
	running := request()
	must(t, f.Engine, running, idempotency.New)
	must(t, f.Engine, running, idempotency.InProgress)
	f.Advance(time.Hour)
	fresh := request()
	must(t, f.Engine, fresh, idempotency.New)
	unknown := request()
	ok(t, "MarkUncertain", f.Engine.MarkUncertain(ctx, must(t, f.Engine, unknown, idempotency.New).Claim, "test"))
	must(t, f.Engine, unknown, idempotency.Uncertain)
	f.Advance(time.Minute)
	st, err := f.Engine.Stats(ctx)
	ok(t, "Stats", err)
	near := func(name string, got, want time.Duration) {
		if got < want || got > want+10*time.Second {
			t.Errorf("%s %v, want about %v", name, got, want)
		}
	}
	near("OldestProcessing", st.OldestProcessing, time.Hour+time.Minute)
	near("OldestUncertain", st.OldestUncertain, time.Minute)
	near("OldestHeld", st.OldestHeld, time.Hour+time.Minute)
	if st.Processing != 2 || st.Uncertain != 1 || st.Lapsed != 1 || st.Backlog != 0 || st.Bytes <= 0 {
		t.Errorf("stats %+v", st)
	}
	if !st.Estimated && st.Records != 4 {
		t.Errorf("records %d, want 4", st.Records)
	}
	want := idempotency.Counters{New: 4, Replays: 1, InProgress: 1, Mismatches: 1, Uncertain: 1, Completed: 1, MarkedUncertain: 1}
	if st.Counters != want {
		t.Errorf("counters %+v, want %+v", st.Counters, want)
	}
	f.Advance(retention)
	st, err = f.Engine.Stats(ctx)
	ok(t, "Stats", err)
	if st.Backlog != 1 || st.OldestHeld != 0 {
		t.Errorf("after the retention: %+v", st)
	}
	near("BacklogAge", st.BacklogAge, time.Hour+time.Minute)
}

func list(t *testing.T, f Fixture) {
	ctx := context.Background()
	want := map[idempotency.ID]idempotency.State{}
	for i := range 12 {
		req := request()
		cl := must(t, f.Engine, req, idempotency.New).Claim
		want[req.Scope.ID()] = idempotency.Processing
		if i%3 == 0 {
			ok(t, "Complete", f.Engine.Complete(ctx, cl, result()))
			want[req.Scope.ID()] = idempotency.Completed
		}
	}
	foreign := request()
	foreign.Scope.Tenant = "tenant-b"
	must(t, f.Engine, foreign, idempotency.New)
	filter := idempotency.Filter{Tenant: "tenant-a", Limit: 5}
	seen := 0
	for page := range 4 {
		recs, err := f.Engine.List(ctx, filter)
		ok(t, "List", err)
		if page < 2 && len(recs) != 5 {
			t.Fatalf("page %d has %d records, want 5", page, len(recs))
		}
		for _, r := range recs {
			id := r.Scope.ID()
			if want[id] != r.State {
				t.Fatalf("record %+v, want state %q", r, want[id])
			}
			delete(want, id)
			filter.After = id
			seen++
		}
	}
	if seen != 12 || len(want) != 0 {
		t.Fatalf("saw %d records, %d missing", seen, len(want))
	}
	recs, err := f.Engine.List(ctx, idempotency.Filter{States: []idempotency.State{idempotency.Completed, idempotency.Uncertain}})
	ok(t, "List", err)
	if len(recs) != 4 {
		t.Fatalf("%d completed records, want 4", len(recs))
	}
	if recs[0].Status != 201 || recs[0].Size == 0 || recs[0].FinishedAt.IsZero() || recs[0].ExpiresAt.IsZero() {
		t.Fatalf("record %+v", recs[0])
	}
}

func senseless(t *testing.T, f Fixture) {
	for name, spoil := range map[string]func(*idempotency.ClaimRequest){
		"no tenant":    func(r *idempotency.ClaimRequest) { r.Scope.Tenant = "" },
		"no key":       func(r *idempotency.ClaimRequest) { r.Scope.Key = "" },
		"no lease":     func(r *idempotency.ClaimRequest) { r.Lease = 0 },
		"no retention": func(r *idempotency.ClaimRequest) { r.Retention = -1 },
	} {
		req := request()
		spoil(&req)
		_, err := f.Engine.Claim(context.Background(), req)
		wantErr(t, name, err, idempotency.ErrRequest)
	}
}

func endedContext(t *testing.T, f Fixture) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	req := request()
	if _, err := f.Engine.Claim(ctx, req); err == nil {
		t.Fatal("Claim with an ended context succeeded")
	}
	cl := must(t, f.Engine, req, idempotency.New).Claim
	if err := f.Engine.Complete(ctx, cl, result()); err == nil {
		t.Fatal("Complete with an ended context succeeded")
	}
	must(t, f.Engine, req, idempotency.InProgress)
}
