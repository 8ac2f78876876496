package pgoutbox_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// BenchmarkLife takes operations with a body of 1 KB through their life (added, claimed, settled, acknowledged) over
// 500 connections, and reports what each costs in write-ahead log and what it leaves on disk. The server needs
// FLAVOSO_TEST_POSTGRES_FSYNC=on to be as slow as a real one.
func BenchmarkLife(b *testing.B) {
	e, pool := newEngine(b, func(c *pgxpool.Config) { c.MaxConns = 32 })
	body := make([]byte, 1024)
	for i := range body {
		body[i] = byte('a' + i%26)
	}
	wal := func() (n int64) {
		require.NoError(b, pool.QueryRow(b.Context(), "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").Scan(&n))
		return n
	}
	size := func() (n int64) {
		require.NoError(b, pool.QueryRow(b.Context(), `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
			WHERE c.relkind = 'r' AND c.relname LIKE 'flavoso_outbox_%'`).Scan(&n))
		return n
	}
	walBefore, sizeBefore := wal(), size()
	began := time.Now()
	var next atomic.Int64
	var adders sync.WaitGroup
	for range 16 {
		adders.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				a := op(fmt.Sprint("op-", i), fmt.Sprint("order:", i), of(fmt.Sprint("store-", i%500)))
				a.Record.Request.Body = body
				if _, err := e.Add(b.Context(), a); err != nil {
					b.Error(err)
				}
			}
		})
	}
	adders.Wait()
	added, walAdded := time.Since(began), wal()
	began = time.Now()
	var done atomic.Int64
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for done.Load() < int64(b.N) {
				recs, err := e.Claim(b.Context(), outbox.ClaimRequest{Mark: mark(time.Hour), Limit: 32, PerConnection: 2})
				if err != nil {
					b.Error(err)
					return
				}
				var ss []outbox.Settlement
				for _, r := range recs {
					ss = append(ss, success(r))
				}
				if _, err := e.Settle(b.Context(), ss...); err != nil {
					b.Error(err)
					return
				}
				for _, r := range recs {
					if err := e.Ack(b.Context(), r.ID, 1); err != nil {
						b.Error(err)
						return
					}
				}
				done.Add(int64(len(ss)))
			}
		})
	}
	workers.Wait()
	n := float64(b.N)
	b.ReportMetric(n/added.Seconds(), "added/s")
	b.ReportMetric(n/time.Since(began).Seconds(), "drained/s")
	b.ReportMetric(float64(walAdded-walBefore)/n, "add-WAL-B/op")
	b.ReportMetric(float64(wal()-walAdded)/n, "rest-WAL-B/op")
	b.ReportMetric(float64(size()-sizeBefore)/n, "disk-B/op")
}
