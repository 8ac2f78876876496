package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
)

// BenchmarkP4 compares a client that drains a backlog with a loop of bare net/http that saves nothing. The loop
// runs half before and half after the drain.
func BenchmarkP4(b *testing.B) {
	const concurrency = 64
	backlog := 100_000
	if testing.Short() {
		backlog = 10_000
	}
	a := newAPI(b)
	bare := newHTTPClient(b, concurrency)
	other := ids("bare")
	loop := each(b, concurrency, backlog/2/concurrency, func(context.Context) error {
		_, err := a.post(bare, other())
		return err
	})
	timed := func(fn func()) time.Duration {
		start := time.Now()
		fn()
		return time.Since(start)
	}
	loop() // connections
	var drained, looped time.Duration
	for range b.N {
		path := filepath.Join(b.TempDir(), "pos.outbox")
		fill(b, path, backlog)
		looped += timed(loop)
		before := a.posts.Load()
		e, disk := openOutbox(b, path)
		var client *flavoso.Client
		drained += timed(func() {
			var err error
			client, err = flavoso.Open(flavoso.Config{
				Connection: "store-42", Token: flavoso.StaticToken("token"), Outbox: e, BaseURL: a.baseURL(), Concurrency: concurrency,
			})
			require.NoError(b, err)
			require.NoError(b, client.Flush(b.Context()))
		})
		require.Equal(b, int64(backlog), a.posts.Load()-before, "one request each")
		b.ReportMetric(float64(disk.Syncs())/float64(backlog), "syncs/op")
		require.NoError(b, client.Close())
		require.NoError(b, e.Close())
		looped += timed(loop)
	}
	b.ReportMetric(float64(looped)/float64(drained), "x-of-bare-rate")
	b.ReportMetric(float64(backlog*b.N)/drained.Seconds(), "ops/s")
}

// fill saves a backlog over a thousand lanes, as a client does that gets no token.
func fill(b *testing.B, path string, n int) {
	b.Helper()
	e, _ := openOutbox(b, path)
	offline := offlineClient(b, e)
	id := ids("op")
	const producers = 100
	each(b, producers, n/producers, func(ctx context.Context) error {
		id := id()
		lane := id[len(id)-3:]
		_, err := accept(offline, id).WithLane(fmt.Sprint("lane-", lane)).Enqueue(ctx)
		return err
	})()
	require.NoError(b, offline.Close())
	require.NoError(b, e.Close())
}
