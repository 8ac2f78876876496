package bolt_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// settled adds operations, sends them and settles them so, many at a time.
func settled(t *testing.T, e outbox.Engine, prefix string, n int, to outbox.State, hold time.Time) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < n; i += 64 {
				a := addition(fmt.Sprintf("%s-%d", prefix, i))
				a.Claim = &outbox.Mark{Now: now}
				out, err := e.Add(ctx, a)
				if err != nil || !out.Record.Claimed() {
					t.Error("not claimed:", err)
					return
				}
				if _, err := e.Settle(ctx, outbox.Settlement{ID: a.Record.ID, Claim: out.Record.Claim.Token, Now: now, To: to, LaneNotBefore: hold}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestOutcomesThatMustStayDoNotKeepPurgeFromTheRest(t *testing.T) {
	e := open(t, filepath.Join(fastDir(t), "pos.outbox"), bolt.Options{})
	settled(t, e, "early", 10, outbox.Succeeded, time.Time{})
	settled(t, e, "refused", bolt.PurgeScan+100, outbox.Rejected, time.Time{})
	settled(t, e, "done", 50, outbox.Succeeded, time.Time{})
	purge := func(limit int) int {
		n, err := e.Purge(ctx, outbox.PurgeRequest{Now: now.Add(time.Hour), Before: now.Add(time.Minute), Unacked: true, Limit: limit})
		require.NoError(t, err)
		return n
	}
	total := purge(5)
	require.Equal(t, 5, total)
	for range 4 {
		total += purge(0)
	}
	require.Equal(t, 60, total)
	require.Equal(t, map[outbox.State]int{outbox.Rejected: bolt.PurgeScan + 100}, states(t, e))

	// It comes round again to what may go only now.
	require.NoError(t, e.Ack(ctx, "refused-7", 1))
	total = 0
	for range 3 {
		total += purge(0)
	}
	require.Equal(t, 1, total)
}

func TestHoldsThatHaveEndedAreDeleted(t *testing.T) {
	e := open(t, filepath.Join(fastDir(t), "pos.outbox"), bolt.Options{})
	settled(t, e, "op", 10, outbox.Succeeded, now.Add(time.Minute))
	purge := func(now time.Time) {
		_, err := e.Purge(ctx, outbox.PurgeRequest{Now: now, Before: now.Add(-time.Hour)})
		require.NoError(t, err)
	}
	purge(now)
	require.Equal(t, 10, e.Holds())
	purge(now.Add(time.Minute))
	require.Zero(t, e.Holds())
}
