package pgoutbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// Additions that come at the same time share transactions; each is as right as if it had come alone.
func TestAdditionsAtOnceAreEachRight(t *testing.T) {
	e, pool := newEngine(t)
	m := mark(time.Hour)
	var mu sync.Mutex
	var got []outbox.Added
	var wg sync.WaitGroup
	for i := range 120 {
		wg.Go(func() {
			// Four of each: one lane for a tenth of them, the same ID or only the same key.
			n := i / 4
			id := fmt.Sprint("op-", n)
			a := op(id, fmt.Sprint("lane-", n%10), func(a *outbox.Addition) {
				if a.Record.Key = fmt.Sprint("key-", n); n%3 == 0 {
					a.Claim = &m
				}
			})
			if i%2 == 0 {
				a.Record.ID = fmt.Sprint(id, "-", i)
			}
			out, err := e.Add(context.Background(), a)
			if err != nil {
				t.Errorf("add: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, out)
		})
	}
	wg.Wait()
	byKey, byLane := map[string]int{}, map[string][]outbox.Record{}
	for _, out := range got {
		if out.Decision == outbox.AddedNew {
			byKey[out.Record.Key]++
			byLane[out.Record.Lane] = append(byLane[out.Record.Lane], out.Record)
			require.Equal(t, mustGet(t, e, out.Record.ID), out.Record)
		}
	}
	require.Len(t, byKey, 30)
	for key, n := range byKey {
		require.Equal(t, 1, n, key)
	}
	for name, recs := range byLane {
		slices.SortFunc(recs, func(a, b outbox.Record) int { return int(a.Seq) - int(b.Seq) })
		require.Len(t, recs, 3, name)
		for _, behind := range recs[1:] {
			require.Empty(t, behind.Claim.Token, "%s: only the head is claimed", name)
		}
	}
	checkTables(t, pool)
}

// Results that come at the same time share a step, and each gets its own answer.
func TestResultsAtOnceAreEachAnswered(t *testing.T) {
	e, pool := newEngine(t)
	for i := range 60 {
		mustAdd(t, e, op(fmt.Sprint("op-", i), fmt.Sprint("lane-", i), func(a *outbox.Addition) { a.Record.StopLaneOnReject = i%20 == 0 }))
		mustAdd(t, e, op(fmt.Sprint("behind-", i), fmt.Sprint("lane-", i)))
	}
	recs := mustClaim(t, e, outbox.ClaimRequest{Limit: 100})
	require.Len(t, recs, 60)
	var wg sync.WaitGroup
	for i, r := range recs {
		wg.Go(func() {
			s := success(r)
			if i%4 == 0 {
				s.To = outbox.Rejected
			}
			if i%7 == 0 {
				s.Claim = "another"
			}
			out, err := e.Settle(context.Background(), s, outbox.Settlement{ID: "nobody", Claim: "x", To: outbox.Succeeded})
			switch {
			case err != nil || len(out) != 2:
				t.Errorf("settle: %v", err)
			case (out[0].Err != nil) != (i%7 == 0):
				t.Errorf("settle %s: %v", r.ID, out[0].Err)
			case out[0].Record.ID != r.ID, out[0].Err == nil && out[0].Record.State != s.To:
				t.Errorf("settle %s: answered with %s, %s", r.ID, out[0].Record.ID, out[0].Record.State)
			case out[1].Err == nil:
				t.Error("an unknown one was settled")
			}
		})
	}
	wg.Wait()
	var outcomes []uint64
	for _, r := range recs {
		if got := mustGet(t, e, r.ID); got.OutcomeSeq != 0 {
			outcomes = append(outcomes, got.OutcomeSeq)
		}
	}
	slices.Sort(outcomes)
	require.Len(t, slices.Compact(slices.Clone(outcomes)), len(outcomes), "each outcome has its number")
	checkTables(t, pool)
}
