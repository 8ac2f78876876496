package pgoutbox_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

var callers = []int{1, 8, 32}

// BenchmarkEnqueue adds operations of 1 KB, each to a lane of its own, and compares with the bare insert that any
// solution needs at least. Set FLAVOSO_TEST_POSTGRES_FSYNC=on for a server that syncs as in production.
func BenchmarkEnqueue(b *testing.B) {
	e, pool := newEngine(b, func(c *pgxpool.Config) { c.MaxConns = 32 })
	_, err := pool.Exec(b.Context(), "CREATE TABLE bare (id text PRIMARY KEY, body bytea)")
	require.NoError(b, err)
	body := make([]byte, 1024)
	var n atomic.Int64
	each := func(name string, f func(ctx context.Context, i int64) error) {
		for _, c := range callers {
			b.Run(fmt.Sprintf("%s/callers=%d", name, c), func(b *testing.B) { parallel(b, c, func() error { return f(context.Background(), n.Add(1)) }) })
		}
	}
	each("bare insert", func(ctx context.Context, i int64) error {
		_, err := pool.Exec(ctx, "INSERT INTO bare VALUES ($1, $2)", fmt.Sprint(i), body)
		return err
	})
	add := func(ctx context.Context, i int64, opts ...func(*outbox.Addition)) error {
		a := op(fmt.Sprint("op-", i), fmt.Sprint("order:", i), opts...)
		a.Record.Request.Body = body
		_, err := e.Add(ctx, a)
		return err
	}
	each("add", func(ctx context.Context, i int64) error { return add(ctx, i) })
	each("add in a transaction", func(ctx context.Context, i int64) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO bare VALUES ($1, $2)", fmt.Sprint(i), body[:16]); err != nil {
				return err
			}
			return add(ctx, i, func(a *outbox.Addition) { a.Tx = pgoutbox.Tx(tx) })
		})
	})
}

// BenchmarkDrain claims and settles a backlog, 32 operations at a time.
func BenchmarkDrain(b *testing.B) {
	for _, c := range callers {
		b.Run(fmt.Sprintf("workers=%d", c), func(b *testing.B) {
			e, _ := newEngine(b, func(c *pgxpool.Config) { c.MaxConns = 32 })
			body := make([]byte, 1024)
			var next atomic.Int64
			var fill sync.WaitGroup
			for range 16 {
				fill.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						a := op(fmt.Sprint("op-", i), fmt.Sprint("order:", i))
						a.Record.Request.Body = body
						if _, err := e.Add(context.Background(), a); err != nil {
							b.Error(err)
						}
					}
				})
			}
			fill.Wait()
			b.ResetTimer()
			var done atomic.Int64
			var workers sync.WaitGroup
			for range c {
				workers.Go(func() {
					for done.Load() < int64(b.N) {
						recs, err := e.Claim(context.Background(), outbox.ClaimRequest{Mark: mark(time.Hour), Limit: 32})
						if err != nil {
							b.Error(err)
							return
						}
						var ss []outbox.Settlement
						for _, r := range recs {
							ss = append(ss, success(r))
						}
						if _, err := e.Settle(context.Background(), ss...); err != nil {
							b.Error(err)
							return
						}
						done.Add(int64(len(ss)))
					}
				})
			}
			workers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

// parallel shares b.N calls among so many callers.
func parallel(b *testing.B, callers int, f func() error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := f(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
