package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

func TestExpiriesNoteAnOperationOnce(t *testing.T) {
	var e expiries
	now := time.Unix(1_800_000_000, 0)
	recs := make([]outbox.Record, 20)
	for i := range recs {
		recs[i] = outbox.Record{ID: fmt.Sprint(i), State: outbox.Queued, Expires: now.Add(time.Duration(20-i) * time.Minute)}
		for range 50 {
			e.add(&recs[i])
		}
	}
	require.Len(t, e.next, 20)
	e.add(&outbox.Record{ID: "sent", State: outbox.Sent, Expires: now})
	e.add(&outbox.Record{ID: "never", State: outbox.Queued})
	require.Len(t, e.next, 20)

	e.drop("19") // the first to expire
	e.drop("7")
	e.drop("unknown")
	ids, next := e.due(now.Add(5*time.Minute), 100)
	require.Equal(t, []string{"18", "17", "16", "15"}, ids)
	require.Equal(t, now.Add(6*time.Minute), next)
	ids, _ = e.due(now.Add(time.Hour), 3)
	require.Equal(t, []string{"14", "13", "12"}, ids)
	ids, next = e.due(now.Add(time.Hour), 100)
	require.Len(t, ids, 11)
	require.Zero(t, next)
	require.Empty(t, e.byID)
}

// TestWhatIsOverIsForgotten: operations that end by a person's decision leave nothing in memory.
func TestWhatIsOverIsForgotten(t *testing.T) {
	d := &Dispatcher{kick: make(chan struct{}, 1), waiters: newWaiters()}
	for i, state := range []outbox.State{outbox.Canceled, outbox.Succeeded, outbox.Abandoned, outbox.Uncertain, outbox.Expired} {
		rec := outbox.Record{ID: fmt.Sprint(i), State: outbox.Queued, Expires: time.Unix(1_800_000_000, 0)}
		d.Changed(&rec)
		d.foreign.met(rec.ID)
		d.surprises.met(rec.ID)
		rec.State = state
		d.Changed(&rec)
	}
	require.Empty(t, d.expiries.next)
	require.Empty(t, d.expiries.byID)
	require.Empty(t, d.foreign.byID)
	require.Empty(t, d.surprises.byID)
}

func TestRunsCountFromTheFirst(t *testing.T) {
	var r runs
	first := r.met("a")
	require.Equal(t, 1, first.count)
	require.Equal(t, run{first.since, 2}, r.met("a"))
	require.Equal(t, 2, r.count("a"))
	require.Zero(t, r.count("b"))
	r.forget("a")
	require.Equal(t, 1, r.met("a").count)
}
