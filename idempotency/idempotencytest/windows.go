package idempotencytest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

func w1(t *testing.T, f Fixture) {
	ctx := context.Background()
	for range 5 {
		req := request()
		const n = 40
		decisions := make(chan idempotency.Decision, n)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				<-start
				res, err := f.Engine.Claim(ctx, req)
				if err != nil {
					t.Errorf("Claim: %v", err)
				}
				decisions <- res.Decision
			})
		}
		close(start)
		wg.Wait()
		close(decisions)
		fresh := 0
		for d := range decisions {
			switch d {
			case idempotency.New:
				fresh++
			case idempotency.InProgress:
			default:
				t.Errorf("decision %s, want new or in_progress", d)
			}
		}
		if fresh != 1 {
			t.Fatalf("%d claims are new, want exactly 1", fresh)
		}
	}
}

func w2(t *testing.T, f Fixture) {
	ctx := context.Background()
	for _, c := range []struct {
		name  string
		reach func(req idempotency.ClaimRequest, cl idempotency.Claim) error
	}{
		{"processing", func(idempotency.ClaimRequest, idempotency.Claim) error { return nil }},
		{"processing, lease ended", func(idempotency.ClaimRequest, idempotency.Claim) error { f.Advance(lease); return nil }},
		{"completed", func(_ idempotency.ClaimRequest, cl idempotency.Claim) error {
			return f.Engine.Complete(ctx, cl, result())
		}},
		{"failed", func(_ idempotency.ClaimRequest, cl idempotency.Claim) error { return f.Engine.Fail(ctx, cl, result()) }},
		{"uncertain", func(_ idempotency.ClaimRequest, cl idempotency.Claim) error {
			return f.Engine.MarkUncertain(ctx, cl, "test")
		}},
	} {
		req := request()
		cl := must(t, f.Engine, req, idempotency.New).Claim
		ok(t, c.name, c.reach(req, cl))
		before, _, err := f.Engine.Get(ctx, req.Scope.ID())
		ok(t, "Get", err)
		must(t, f.Engine, other(req), idempotency.Mismatch)
		after, _, err := f.Engine.Get(ctx, req.Scope.ID())
		ok(t, "Get", err)
		if before.State != after.State || before.Generation != after.Generation || before.Fingerprint != after.Fingerprint {
			t.Fatalf("%s: a mismatch changed the record from %+v to %+v", c.name, before, after)
		}
	}
	// The fingerprint belongs to the request, not to the first attempt: finishing never changes it.
	req := request()
	cl := must(t, f.Engine, req, idempotency.New).Claim
	ok(t, "Complete", f.Engine.Complete(ctx, cl, result()))
	must(t, f.Engine, req, idempotency.Replay)
}

func w3(t *testing.T, f Fixture) {
	ctx := context.Background()
	req := request()
	cl := must(t, f.Engine, req, idempotency.New).Claim
	ok(t, "Complete", f.Engine.Complete(ctx, cl, result()))
	for range 3 {
		res := must(t, f.Engine, req, idempotency.Replay)
		wantResult(t, res.Result, result())
		if res.Record.State != idempotency.Completed || res.Record.Status != 201 {
			t.Fatalf("record %+v", res.Record)
		}
	}
	// A refusal is replayed too, and an empty answer.
	req = request()
	cl = must(t, f.Engine, req, idempotency.New).Claim
	ok(t, "Fail", f.Engine.Fail(ctx, cl, idempotency.Result{Status: 404}))
	res := must(t, f.Engine, req, idempotency.Replay)
	if res.Record.State != idempotency.Failed || res.Result.Status != 404 || len(res.Result.Body) != 0 {
		t.Fatalf("replay of a refusal: %+v", res)
	}
}

func w4(t *testing.T, f Fixture) {
	req := request()
	first := must(t, f.Engine, req, idempotency.New).Claim
	f.Advance(lease - time.Second)
	must(t, f.Engine, req, idempotency.InProgress)
	f.Advance(time.Second)
	second := must(t, f.Engine, req, idempotency.TakenOver).Claim
	if second.Generation <= first.Generation || second.Owner == first.Owner {
		t.Fatalf("takeover got generation %d after %d, owner changed: %v", second.Generation, first.Generation, second.Owner != first.Owner)
	}
	must(t, f.Engine, req, idempotency.InProgress)
	ok(t, "Complete", f.Engine.Complete(context.Background(), second, result()))
	must(t, f.Engine, req, idempotency.Replay)
}

func w5(t *testing.T, f Fixture) {
	ctx := context.Background()
	req := request()
	cl := must(t, f.Engine, req, idempotency.New).Claim
	f.Advance(10 * lease)
	ok(t, "late Complete", f.Engine.Complete(ctx, cl, result()))
	wantResult(t, must(t, f.Engine, req, idempotency.Replay).Result, result())
	st, err := f.Engine.Stats(ctx)
	ok(t, "Stats", err)
	if st.Counters.LateCompletions != 1 {
		t.Fatalf("LateCompletions %d, want 1", st.Counters.LateCompletions)
	}
}

// steps are all that an owner can do.
func steps(e idempotency.Engine) map[string]func(idempotency.Claim) error {
	ctx := context.Background()
	return map[string]func(idempotency.Claim) error{
		"Complete":      func(c idempotency.Claim) error { return e.Complete(ctx, c, idempotency.Result{Status: 299}) },
		"Fail":          func(c idempotency.Claim) error { return e.Fail(ctx, c, idempotency.Result{Status: 499}) },
		"Release":       func(c idempotency.Claim) error { return e.Release(ctx, c) },
		"MarkEffect":    func(c idempotency.Claim) error { return e.MarkEffect(ctx, c) },
		"MarkUncertain": func(c idempotency.Claim) error { return e.MarkUncertain(ctx, c, "stale") },
		"Extend":        func(c idempotency.Claim) error { _, err := e.Extend(ctx, c, 100*lease); return err },
	}
}

func w6(t *testing.T, f Fixture) {
	ctx := context.Background()
	req := request()
	stale := must(t, f.Engine, req, idempotency.New).Claim
	f.Advance(lease)
	owner := must(t, f.Engine, req, idempotency.TakenOver).Claim
	before := wantState(t, f.Engine, req.Scope, idempotency.Processing)
	forged := owner
	forged.Owner = idempotency.NewOwner()
	older := owner
	older.Generation--
	nobody := owner
	nobody.Owner = idempotency.Owner{}
	refuse := func(when string) {
		for name, step := range steps(f.Engine) {
			for who, c := range map[string]idempotency.Claim{"stale owner": stale, "forged owner": forged,
				"older generation": older, "no owner": nobody} {
				wantErr(t, when+": "+who+" "+name, step(c), idempotency.ErrOwnershipLost)
			}
		}
	}
	refuse("while another runs")
	if after := wantState(t, f.Engine, req.Scope, idempotency.Processing); after != before {
		t.Fatalf("stale steps changed the record from %+v to %+v", before, after)
	}
	f.Advance(lease) // the stale heartbeat extended nothing
	owner = must(t, f.Engine, req, idempotency.TakenOver).Claim
	ok(t, "Complete", f.Engine.Complete(ctx, owner, result()))
	refuse("after another has finished")
	wantResult(t, must(t, f.Engine, req, idempotency.Replay).Result, result())
	st, err := f.Engine.Stats(ctx)
	ok(t, "Stats", err)
	if st.Counters.OwnershipLost == 0 || st.Counters.TakenOver != 2 {
		t.Fatalf("counters %+v", st.Counters)
	}
}

func w7(t *testing.T, f Fixture) {
	ctx := context.Background()
	req := request()
	cl := must(t, f.Engine, req, idempotency.New).Claim
	ok(t, "MarkEffect", f.Engine.MarkEffect(ctx, cl))
	ok(t, "MarkEffect again", f.Engine.MarkEffect(ctx, cl))
	must(t, f.Engine, req, idempotency.InProgress)
	f.Advance(lease)
	for range 2 {
		res := must(t, f.Engine, req, idempotency.Uncertain)
		if res.Record.State != idempotency.Uncertain || res.Record.Note == "" || !res.Record.Effect {
			t.Fatalf("record %+v", res.Record)
		}
	}
	// Nobody else ran it, so the owner's late word is the truth.
	ok(t, "late Complete", f.Engine.Complete(ctx, cl, result()))
	must(t, f.Engine, req, idempotency.Replay)
	// A mark ends with its record, also where a new one takes its place.
	f.Advance(retention)
	if res := must(t, f.Engine, req, idempotency.New); res.Record.Effect {
		t.Fatal("a new record has the effect mark of the expired one")
	}
	f.Advance(lease)
	must(t, f.Engine, req, idempotency.TakenOver)
	// The mark holds under FreeKey too.
	req = request()
	req.OnLeaseLost = idempotency.FreeKey
	cl = must(t, f.Engine, req, idempotency.New).Claim
	ok(t, "MarkEffect", f.Engine.MarkEffect(ctx, cl))
	f.Advance(lease)
	must(t, f.Engine, other(req), idempotency.Mismatch)
	must(t, f.Engine, req, idempotency.Uncertain)
	ok(t, "Release", f.Engine.Release(ctx, cl))
	if res := must(t, f.Engine, req, idempotency.New); res.Record.Effect {
		t.Fatal("a new record has the effect mark of the old one")
	}
}

func w7Policy(t *testing.T, f Fixture) {
	req := request()
	req.OnLeaseLost = idempotency.Uncertain
	cl := must(t, f.Engine, req, idempotency.New).Claim
	f.Advance(lease)
	must(t, f.Engine, req, idempotency.Uncertain)
	if _, err := f.Engine.Extend(context.Background(), cl, lease); err != nil {
		t.Fatalf("the rightful owner of a parked operation cannot go on: %v", err)
	}
	ok(t, "Fail", f.Engine.Fail(context.Background(), cl, result()))
	must(t, f.Engine, req, idempotency.Replay)
}

func w7Reconcile(t *testing.T, f Fixture) {
	ctx := context.Background()
	for _, c := range []struct {
		verdict idempotency.Verdict
		state   idempotency.State
		then    idempotency.Decision
	}{
		{idempotency.Happened, idempotency.Completed, idempotency.Replay},
		{idempotency.Refused, idempotency.Failed, idempotency.Replay},
		{idempotency.DidNotHappen, "", idempotency.New},
	} {
		req := request()
		cl := must(t, f.Engine, req, idempotency.New).Claim
		id := req.Scope.ID()
		rc := idempotency.Reconciliation{Verdict: c.verdict, Result: result()}
		wantErr(t, "Reconcile while it runs", f.Engine.Reconcile(ctx, id, cl.Generation, rc), idempotency.ErrState)
		ok(t, "MarkUncertain", f.Engine.MarkUncertain(ctx, cl, "the bank did not answer"))
		must(t, f.Engine, req, idempotency.Uncertain)
		wantErr(t, "Reconcile of another generation", f.Engine.Reconcile(ctx, id, cl.Generation+1, rc), idempotency.ErrState)
		wantErr(t, "Reconcile without verdict", f.Engine.Reconcile(ctx, id, cl.Generation, idempotency.Reconciliation{}), idempotency.ErrState)
		ok(t, "Reconcile", f.Engine.Reconcile(ctx, id, cl.Generation, rc))
		if c.state != "" {
			wantState(t, f.Engine, req.Scope, c.state)
			wantErr(t, "Reconcile twice", f.Engine.Reconcile(ctx, id, cl.Generation, rc), idempotency.ErrState)
		} else {
			wantErr(t, "Reconcile twice", f.Engine.Reconcile(ctx, id, cl.Generation, rc), idempotency.ErrNotFound)
		}
		nobody := cl
		nobody.Owner = idempotency.Owner{}
		for name, step := range steps(f.Engine) {
			wantErr(t, "former owner's "+name, step(cl), idempotency.ErrOwnershipLost)
			wantErr(t, "nobody's "+name, step(nobody), idempotency.ErrOwnershipLost)
		}
		if res := must(t, f.Engine, req, c.then); c.then == idempotency.Replay {
			wantResult(t, res.Result, result())
			f.Advance(retention)
			must(t, f.Engine, req, idempotency.New)
		}
	}
	// A processing record whose owner is gone can be settled as well.
	req := request()
	cl := must(t, f.Engine, req, idempotency.New).Claim
	f.Advance(lease)
	ok(t, "Reconcile a lapsed claim", f.Engine.Reconcile(ctx, req.Scope.ID(), cl.Generation,
		idempotency.Reconciliation{Verdict: idempotency.Happened, Result: result(), Retention: time.Hour}))
	f.Advance(time.Hour)
	must(t, f.Engine, req, idempotency.New)
}

func w8(t *testing.T, f Fixture) {
	ctx := context.Background()
	req := request()
	first := must(t, f.Engine, req, idempotency.New).Claim
	f.Advance(time.Minute)
	ok(t, "Complete", f.Engine.Complete(ctx, first, result()))
	f.Advance(retention - time.Minute)
	must(t, f.Engine, req, idempotency.Replay) // counted from completion, and a replay does not extend it
	f.Advance(time.Minute)
	if _, _, err := f.Engine.Get(ctx, req.Scope.ID()); err == nil {
		t.Fatal("Get shows an expired record")
	}
	second := must(t, f.Engine, other(req), idempotency.New).Claim
	if second.Generation <= first.Generation {
		t.Fatalf("generation %d after %d", second.Generation, first.Generation)
	}
	wantErr(t, "Complete of the expired claim", f.Engine.Complete(ctx, first, result()), idempotency.ErrOwnershipLost)
	ok(t, "Complete", f.Engine.Complete(ctx, second, idempotency.Result{Status: 202}))
	if res := must(t, f.Engine, other(req), idempotency.Replay); res.Result.Status != 202 || len(res.Result.Body) != 0 {
		t.Fatalf("a reused record replays %+v", res.Result)
	}
	// The same after the sweep has deleted it.
	f.Advance(retention)
	for more := true; more; {
		rep, err := f.Engine.Sweep(ctx, 1000)
		ok(t, "Sweep", err)
		more = rep.More
	}
	if third := must(t, f.Engine, req, idempotency.New).Claim; third.Generation <= second.Generation {
		t.Fatalf("generation %d after %d", third.Generation, second.Generation)
	}
}

func w9(t *testing.T, f Fixture) {
	ctx := context.Background()
	req := request()
	cl := must(t, f.Engine, req, idempotency.New).Claim
	r := result()
	ok(t, "Complete", f.Engine.Complete(ctx, cl, r))
	for i := range r.Body {
		r.Body[i] = 'x'
	}
	for k := range r.Header {
		r.Header[k] = append(r.Header[k][:0], "changed")
	}
	r.Header.Set("X-New", "1")
	wantResult(t, must(t, f.Engine, req, idempotency.Replay).Result, result())
}
