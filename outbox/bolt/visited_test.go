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

// pile adds n operations in lanes of ten: enough writers at once share their commits.
func pile(t testing.TB, e *bolt.Engine, n int) {
	t.Helper()
	const writers = 250
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n; i += writers {
				a := addition(fmt.Sprintf("%07d", i))
				a.Record.Lane = fmt.Sprintf("lane-%07d", i/10)
				if _, err := e.Add(ctx, a); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// decide ends operations by hand: abandoned, unless a reason to park them is given.
func decide(t testing.TB, e *bolt.Engine, n int, id func(int) string, c outbox.Change) {
	t.Helper()
	var wg sync.WaitGroup
	const writers = 100
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n; i += writers {
				c := c
				c.ID, c.Now = id(i), now
				if _, err := e.Set(ctx, c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestWhatAPageLooksAt: the queries that tills and operators ask all the time look at a page, whatever the file
// holds; others are bounded as Query says.
func TestWhatAPageLooksAt(t *testing.T) {
	const waiting, over, parked = 20_000, 3_000, 30
	e := open(t, filepath.Join(fastDir(t), "pos.outbox"), bolt.Options{})
	pile(t, e, waiting)
	id := func(i int) string { return fmt.Sprintf("%07d", i) }
	connection := "store-1"
	wait := []outbox.State{outbox.Queued, outbox.Sent}
	park := []outbox.State{outbox.Uncertain, outbox.Blocked, outbox.Damaged}
	visits := func(q outbox.Query) int { t.Helper(); return e.Visited(q) }
	const page, bit = 100, 5

	t.Run("nothing is over", func(t *testing.T) {
		require.LessOrEqual(t, visits(outbox.Query{}), page+bit)
		require.LessOrEqual(t, visits(outbox.Query{Connection: connection, After: "15000"}), page+bit)
		require.LessOrEqual(t, visits(outbox.Query{Connection: connection, States: wait}), page+bit)
		require.LessOrEqual(t, visits(outbox.Query{Connection: connection, States: wait, Limit: 1}), 1+bit)
		require.Zero(t, visits(outbox.Query{States: park}), "totals tell that there are none")
		require.Zero(t, visits(outbox.Query{States: []outbox.State{outbox.Rejected, outbox.Succeeded}}))
		require.Zero(t, visits(outbox.Query{ByOutcome: true, Unacked: true}))
	})
	decide(t, e, parked, func(i int) string { return id(i * 500) }, outbox.Change{Action: outbox.Park, To: outbox.Uncertain})
	t.Run("a few need a decision", func(t *testing.T) {
		require.LessOrEqual(t, visits(outbox.Query{Connection: connection, States: park}), 2*parked+bit, "found by way of the outcomes")
		require.LessOrEqual(t, visits(outbox.Query{States: park[:1], Lane: "lane-0000050"}), 10+bit)
		require.LessOrEqual(t, visits(outbox.Query{ByOutcome: true}), parked+bit)
		for _, limit := range []int{7, 100} {
			var got []string
			for q := (outbox.Query{States: park, Limit: limit}); ; {
				p, err := e.List(ctx, q)
				require.NoError(t, err)
				for _, r := range p.Records {
					require.Equal(t, outbox.Uncertain, r.State)
					got = append(got, r.ID)
				}
				if q.After = p.Next; p.Next == "" {
					break
				}
			}
			require.Len(t, got, parked)
		}
	})
	decide(t, e, over, func(i int) string { return id(i*6 + 1) }, outbox.Change{Action: outbox.ResolveAbandon})
	t.Run("many are over", func(t *testing.T) {
		require.LessOrEqual(t, visits(outbox.Query{Connection: connection, States: []outbox.State{outbox.Abandoned}}), page+bit)
		require.Zero(t, visits(outbox.Query{States: []outbox.State{outbox.Rejected}}))
		require.LessOrEqual(t, visits(outbox.Query{ByOutcome: true, After: "1000"}), page+bit)
		require.LessOrEqual(t, visits(outbox.Query{ByOutcome: true, Unacked: true}), page+bit)
		require.LessOrEqual(t, visits(outbox.Query{Connection: connection, States: wait}), page+parked+bit)
		require.LessOrEqual(t, visits(outbox.Query{Connection: connection, Key: "accept-" + id(19_000), Newest: true}), 1)
		require.Zero(t, visits(outbox.Query{Connection: connection, Key: "unknown", Newest: true}))
		require.LessOrEqual(t, visits(outbox.Query{Connection: connection, States: []outbox.State{outbox.Abandoned}, Tag: "none"}), over+bit, "the finished ones")
		require.LessOrEqual(t, visits(outbox.Query{Connection: connection, Tag: "none"}), waiting+bit, "all of them, once")
	})
}

// TestNewestOfAKey: of several operations made with one key the newest is found, also when it is over or gone.
func TestNewestOfAKey(t *testing.T) {
	file := open(t, filepath.Join(fastDir(t), "pos.outbox"), bolt.Options{})
	for name, e := range map[string]outbox.Engine{"bolt": file, "memory": outbox.NewMemory()} {
		t.Run(name, func(t *testing.T) {
			for i := range 3 {
				a := addition(fmt.Sprint(i))
				a.Record.Key, a.Record.Lane = "the key", fmt.Sprint(i)
				added, err := e.Add(ctx, a)
				require.NoError(t, err)
				require.Equal(t, outbox.AddedNew, added.Decision)
				if i < 2 {
					_, err = e.Set(ctx, outbox.Change{ID: a.Record.ID, Action: outbox.Cancel, Now: now})
					require.NoError(t, err)
				}
			}
			newest := func(q outbox.Query) (ids []string) {
				q.Connection, q.Key, q.Newest = "store-1", "the key", true
				p, err := e.List(ctx, q)
				require.NoError(t, err)
				for _, r := range p.Records {
					ids = append(ids, r.ID)
				}
				return ids
			}
			require.Equal(t, []string{"2"}, newest(outbox.Query{}))
			require.Equal(t, []string{"2"}, newest(outbox.Query{States: []outbox.State{outbox.Queued}}))
			require.Empty(t, newest(outbox.Query{States: []outbox.State{outbox.Canceled}}), "older ones are not meant")
			_, err := e.Set(ctx, outbox.Change{ID: "2", Action: outbox.Cancel, Now: now})
			require.NoError(t, err)
			require.Equal(t, []string{"2"}, newest(outbox.Query{}))
			_, err = e.Purge(ctx, outbox.PurgeRequest{Now: now.Add(time.Hour), Before: now.Add(time.Minute), Unacked: true})
			require.NoError(t, err)
			require.Empty(t, newest(outbox.Query{}))
		})
	}
}

// BenchmarkListOfAMillion reads pages of a file with a million operations.
func BenchmarkListOfAMillion(b *testing.B) {
	e := open(b, filepath.Join(fastDir(b), "pos.outbox"), bolt.Options{})
	pile(b, e, 1_000_000)
	decide(b, e, 100, func(i int) string { return fmt.Sprintf("%07d", i*1000) }, outbox.Change{Action: outbox.Park, To: outbox.Uncertain})
	for name, q := range map[string]outbox.Query{
		"all":       {After: "500000"},
		"waiting":   {Connection: "store-1", States: []outbox.State{outbox.Queued, outbox.Sent}},
		"uncertain": {Connection: "store-1", States: []outbox.State{outbox.Uncertain}},
		"rejected":  {Connection: "store-1", States: []outbox.State{outbox.Rejected}},
		"lane":      {Connection: "store-1", Lane: "lane-0050000", States: []outbox.State{outbox.Queued, outbox.Sent}},
		"newest":    {Connection: "store-1", Key: "accept-0700000", Newest: true},
		"outcomes":  {ByOutcome: true, Unacked: true},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := e.List(ctx, q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(e.Visited(q)), "visits/op")
		})
	}
}
