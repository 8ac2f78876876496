package pgoutbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

func mustAdopt(t testing.TB, e *pgoutbox.Engine) int {
	t.Helper()
	n, err := e.Adopt(context.Background())
	require.NoError(t, err)
	return n
}

// What is unfinished counts as sent since it was accepted, whatever the tables say of it; what is over stays so.
func TestAdoptMarksEverythingUnfinished(t *testing.T) {
	e, pool := newEngine(t)
	accepted := time.Now().Add(-30 * time.Hour).UTC().Truncate(time.Microsecond)
	old := func(a *outbox.Addition) { a.Record.Created = accepted }
	for _, id := range []string{"done", "refused"} {
		mustAdd(t, e, op(id, id, old))
		s := success(mustClaim(t, e, outbox.ClaimRequest{Limit: 1})[0])
		if id == "refused" {
			s.To = outbox.Rejected
		}
		mustSettle(t, e, s)
	}
	mustAdd(t, e, op("tried", "tried", old))
	r := mustClaim(t, e, outbox.ClaimRequest{Limit: 1})[0]
	mustSettle(t, e, outbox.Settlement{ID: r.ID, Claim: r.Claim.Token, Now: time.Now(), To: outbox.Queued, Due: time.Now().Add(time.Hour)})
	for _, id := range []string{"doubtful", "stopped"} {
		mustAdd(t, e, op(id, id, old))
		to := map[string]outbox.State{"doubtful": outbox.Uncertain, "stopped": outbox.Blocked}[id]
		_, err := e.Set(t.Context(), outbox.Change{ID: id, Action: outbox.Park, To: to, Now: time.Now(), Result: &outbox.Result{Reason: "why", Body: []byte("evidence")}})
		require.NoError(t, err)
	}
	for _, id := range []string{"first", "second"} {
		mustAdd(t, e, op(id, "lane", old, func(a *outbox.Addition) { a.Record.Expires = accepted.Add(29 * time.Hour) }))
	}
	mustAdd(t, e, op("elsewhere", "lane", old, of("store \\ 2\x00")))
	before := map[string]outbox.Record{}
	all := []string{"done", "refused", "tried", "doubtful", "stopped", "first", "second", "elsewhere"}
	for _, id := range all {
		before[id] = mustGet(t, e, id)
	}

	require.Equal(t, 6, mustAdopt(t, e))
	for _, id := range all {
		want := before[id]
		want.ApplySuspect()
		require.Equal(t, want, mustGet(t, e, id), id)
	}
	first := mustGet(t, e, "first")
	require.Equal(t, outbox.Sent, first.State)
	require.True(t, first.Suspect)
	require.Equal(t, &outbox.Exposure{At: accepted}, first.Exposure)
	checkTables(t, pool)

	require.Equal(t, 6, mustAdopt(t, e), "twice is the same as once")
	checkTables(t, pool)
	_, err := e.Set(t.Context(), outbox.Change{ID: "second", Action: outbox.Cancel, Now: time.Now()})
	require.ErrorIs(t, err, outbox.ErrState, "nobody can prove any more that it was never sent")
	recs := mustClaim(t, e, outbox.ClaimRequest{Limit: 10})
	require.ElementsMatch(t, []string{"first", "elsewhere"}, ids(recs), "the clock does not expire them; the others are not due, or parked")
	for _, r := range recs {
		require.Equal(t, accepted, r.Exposure.At, "the window is counted from then")
	}
}

// A claim stays: its holder may be sending, and what it learns counts.
func TestAdoptLeavesClaimsToTheirLeases(t *testing.T) {
	e, pool := newEngine(t)
	for _, id := range []string{"answered", "unsent", "dead"} {
		mustAdd(t, e, op(id, id))
	}
	held := map[string]outbox.Record{}
	for _, r := range mustClaim(t, e, outbox.ClaimRequest{Limit: 10, Mark: mark(time.Minute)}) {
		held[r.ID] = r
	}
	require.Equal(t, 3, mustAdopt(t, e))
	require.Empty(t, mustClaim(t, e, outbox.ClaimRequest{Limit: 10}), "a worker is sending them")
	require.NoError(t, mustSettle(t, e, success(held["answered"])).Err)
	unsent := held["unsent"]
	out := mustSettle(t, e, outbox.Settlement{ID: "unsent", Claim: unsent.Claim.Token, Now: time.Now(), To: outbox.Queued, Due: time.Now(), NeverSent: true})
	require.NoError(t, out.Err)
	require.Equal(t, outbox.Sent, out.Record.State, "this attempt proves nothing about those after the backup")
	lapse(t, pool, 2*time.Minute)
	require.ElementsMatch(t, []string{"unsent", "dead"}, ids(mustClaim(t, e, outbox.ClaimRequest{Limit: 10})))
	require.True(t, mustGet(t, e, "dead").Suspect)
	checkTables(t, pool)
}

func TestAdoptGoesInBatches(t *testing.T) {
	e, pool := newEngine(t)
	const n = 2500
	for i := range n {
		// All but the first of a lane are no heads.
		mustAdd(t, e, op(fmt.Sprint("op-", i), fmt.Sprint("lane-", i%40), of(fmt.Sprint("store-", i%7))))
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Adopt(canceled)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, n, mustAdopt(t, e))
	c, err := e.Counts(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, map[outbox.State]int{outbox.Sent: n}, c.States)
	checkTables(t, pool)
	require.NoError(t, e.Close())
	_, err = e.Adopt(t.Context())
	require.ErrorIs(t, err, outbox.ErrClosed)
}
