package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

func TestExpiriesNoteAnOperationOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := expiries{ages: newAges(bubbleUptime(), time.Now)}
		now := time.Now()
		recs := make([]outbox.Record, 20)
		for i := range recs {
			recs[i] = outbox.Record{ID: fmt.Sprint(i), State: outbox.Queued, Created: now, Expires: now.Add(time.Duration(20-i) * time.Minute)}
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
		time.Sleep(5 * time.Minute)
		ids, wait, more := e.due(100)
		require.Equal(t, []string{"18", "17", "16", "15"}, ids)
		require.True(t, more)
		require.Equal(t, time.Minute, wait)
		e.add(&recs[16]) // it was claimed, and was not sent after all
		ids, _, _ = e.due(100)
		require.Equal(t, []string{"16"}, ids)
		e.again("15", 30*time.Second)
		_, wait, _ = e.due(100)
		require.Equal(t, 30*time.Second, wait)
		time.Sleep(time.Hour)
		ids, _, _ = e.due(3)
		require.Equal(t, []string{"15", "14", "13"}, ids)
		ids, _, more = e.due(100)
		require.Len(t, ids, 12)
		require.False(t, more)
		for i := range recs {
			e.drop(fmt.Sprint(i))
		}
		require.Empty(t, e.byID)
	})
}

func bubbleUptime() Uptime {
	start := time.Now()
	return func() (string, time.Duration) { return "a boot", time.Since(start) }
}

// TestWhatIsOverIsForgotten: operations that end by a person's decision leave nothing in memory.
func TestWhatIsOverIsForgotten(t *testing.T) {
	d := &Dispatcher{kick: make(chan struct{}, 1), waiters: newWaiters(), expiries: expiries{ages: newAges(bubbleUptime(), time.Now)}}
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
	second := r.met("a")
	require.Equal(t, first.since, second.since)
	require.Equal(t, 2, second.count)
	require.Equal(t, 2, r.get("a").count)
	require.Zero(t, r.get("b").count)
	r.forget("a")
	require.Equal(t, 1, r.met("a").count)
}
