package idempotencytest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// fencing lets many workers take operations over from each other, with leases that end at once.
func fencing(t *testing.T, f Fixture) {
	takeovers, workers := f.Takeovers, 8
	switch {
	case takeovers > 0:
	case testing.Short():
		takeovers = 1_000
	default:
		takeovers = 10_000
	}
	ctx := context.Background()
	reqs := make([]idempotency.ClaimRequest, 16)
	for i := range reqs {
		reqs[i] = request()
		reqs[i].Lease = time.Nanosecond
	}
	type seen struct {
		key        int
		generation int64
	}
	var (
		mu    sync.Mutex
		all   = map[seen]bool{}
		total int
		wg    sync.WaitGroup
	)
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			last := make([]int64, len(reqs))
			for {
				key := rng.IntN(len(reqs))
				res, err := f.Engine.Claim(ctx, reqs[key])
				if err != nil {
					t.Errorf("Claim: %v", err)
					return
				}
				mu.Lock()
				enough := total >= takeovers
				if res.Decision == idempotency.New || res.Decision == idempotency.TakenOver {
					s := seen{key, res.Claim.Generation}
					if all[s] {
						t.Errorf("generation %d of key %d was given twice", s.generation, s.key)
					}
					all[s] = true
					if res.Decision == idempotency.TakenOver {
						total++
					}
				}
				mu.Unlock()
				switch res.Decision {
				case idempotency.New, idempotency.TakenOver:
					if res.Claim.Generation <= last[key] {
						t.Errorf("key %d: generation %d after %d", key, res.Claim.Generation, last[key])
					}
					last[key] = res.Claim.Generation
				case idempotency.InProgress:
				default:
					t.Errorf("decision %s", res.Decision)
				}
				if enough || t.Failed() {
					return
				}
			}
		})
	}
	wg.Wait()
	highest := map[int]int64{}
	for s := range all {
		highest[s.key] = max(highest[s.key], s.generation)
	}
	for key, req := range reqs {
		if rec, _, err := f.Engine.Get(ctx, req.Scope.ID()); err != nil || rec.Generation != highest[key] {
			t.Errorf("key %d ends with generation %d (%v), the highest given is %d", key, rec.Generation, err, highest[key])
		}
	}
}

// racingCompletions lets all owners that ever were try to finish at once.
func racingCompletions(t *testing.T, f Fixture) {
	ctx := context.Background()
	for range 20 {
		req := request()
		req.Lease = time.Nanosecond
		claims := []idempotency.Claim{must(t, f.Engine, req, idempotency.New).Claim}
		for len(claims) < 6 {
			res, err := f.Engine.Claim(ctx, req)
			ok(t, "Claim", err)
			if res.Decision == idempotency.TakenOver {
				claims = append(claims, res.Claim)
			}
		}
		errs := make([]error, len(claims))
		var wg sync.WaitGroup
		for i, c := range claims {
			wg.Go(func() { errs[i] = f.Engine.Complete(ctx, c, idempotency.Result{Status: 200 + i}) })
		}
		wg.Wait()
		for i, err := range errs[:len(errs)-1] {
			if !errors.Is(err, idempotency.ErrOwnershipLost) {
				t.Fatalf("owner %d of %d: %v, want ErrOwnershipLost", i, len(claims), err)
			}
		}
		ok(t, "the last owner's Complete", errs[len(errs)-1])
		if res := must(t, f.Engine, req, idempotency.Replay); res.Result.Status != 200+len(claims)-1 {
			t.Fatalf("the stored result is %d's", res.Result.Status-200)
		}
	}
}

// skew has two handles that disagree about the time. A fast clock may take over early; it must never lead
// to two accepted results.
func skew(t *testing.T, f Fixture) {
	if f.Open == nil {
		t.Skip("the fixture has one handle only")
	}
	ctx := context.Background()
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		honest, wrong := f.Engine, f.Open(off)
		for _, pair := range [][2]idempotency.Engine{{honest, wrong}, {wrong, honest}} {
			req := request()
			first := must(t, pair[0], req, idempotency.New).Claim
			res, err := pair[1].Claim(ctx, req)
			ok(t, "Claim", err)
			switch res.Decision {
			case idempotency.InProgress:
				ok(t, "Complete", pair[0].Complete(ctx, first, result()))
			case idempotency.TakenOver:
				if res.Claim.Generation <= first.Generation {
					t.Fatalf("generation %d after %d", res.Claim.Generation, first.Generation)
				}
				wantErr(t, "stale Complete", pair[0].Complete(ctx, first, idempotency.Result{Status: 500}), idempotency.ErrOwnershipLost)
				ok(t, "Complete", pair[1].Complete(ctx, res.Claim, result()))
			default:
				t.Fatalf("decision %s", res.Decision)
			}
			for _, e := range []idempotency.Engine{honest, wrong} {
				wantResult(t, must(t, e, req, idempotency.Replay).Result, result())
			}
		}
	}
}
