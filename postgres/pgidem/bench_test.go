package pgidem_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/postgres/pgidem"
)

// BenchmarkRatios compares the engine with the bare statements that any solution needs at least, in one run and on one
// server. Set FLAVOSO_TEST_POSTGRES_FSYNC=on for a server that syncs as in production.
func BenchmarkRatios(b *testing.B) {
	eng, pool := newEngine(b)
	_, err := pool.Exec(b.Context(), `CREATE TABLE bare (id text PRIMARY KEY, fingerprint bytea, owner bytea, state int, created_at timestamptz,
		lease_until timestamptz, status int, result bytea)`)
	require.NoError(b, err)
	body := make([]byte, 1024)
	res := idempotency.Result{Status: 201, Body: body}
	fp := idempotency.NewFingerprint(200, []byte("payload"))
	var n atomic.Int64
	perOp := map[string]float64{}
	run := func(name string, f func(ctx context.Context, i int64) error) {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := f(context.Background(), n.Add(1)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			perOp[name] = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			for _, pair := range [][2]string{{"claim+complete", "bare insert+update"}, {"replay", "bare select"}} {
				if base := perOp[pair[1]]; name == pair[0] && base > 0 {
					b.ReportMetric(perOp[name]/base, "×bare")
				}
			}
		})
	}
	run("bare insert+update", func(ctx context.Context, i int64) error {
		id := fmt.Sprintf("t/POST /orders/%d", i)
		if _, err := pool.Exec(ctx, `INSERT INTO bare (id, fingerprint, owner, state, created_at, lease_until)
			VALUES ($1, $2, $3, 1, now(), now() + interval '2 minutes')`, id, fp[:], body[:16]); err != nil {
			return err
		}
		_, err := pool.Exec(ctx, "UPDATE bare SET state = 2, status = 201, result = $2 WHERE id = $1 AND owner = $3", id, body, body[:16])
		return err
	})
	run("claim+complete", func(ctx context.Context, i int64) error {
		req := request(fmt.Sprint(i))
		got, err := eng.Claim(ctx, req)
		if err != nil {
			return err
		}
		return eng.Complete(ctx, got.Claim, res)
	})
	require.NoError(b, eng.Complete(b.Context(), mustClaim(b, eng, request("replay"), idempotency.New).Claim, res))
	_, err = pool.Exec(b.Context(), "INSERT INTO bare (id, state, status, result) VALUES ('replay', 2, 201, $1)", body)
	require.NoError(b, err)
	run("bare select", func(ctx context.Context, _ int64) error {
		var (
			state, status int
			fingerprint   []byte
			result        []byte
		)
		return pool.QueryRow(ctx, "SELECT state, status, fingerprint, result FROM bare WHERE id = $1", "replay").Scan(&state, &status, &fingerprint, &result)
	})
	run("replay", func(ctx context.Context, _ int64) error {
		got, err := eng.Claim(ctx, request("replay"))
		if err == nil && got.Decision != idempotency.Replay {
			return fmt.Errorf("decision %s", got.Decision)
		}
		return err
	})
}

func BenchmarkInTx(b *testing.B) {
	pool := func() *pgxpool.Pool { _, p := newEngine(b); return p }()
	_, err := pool.Exec(b.Context(), "CREATE TABLE effects (key text)")
	require.NoError(b, err)
	n := 0
	for b.Loop() {
		n++
		if _, err := pgidem.InTx(b.Context(), pool, request(fmt.Sprint(n)), insert); err != nil {
			b.Fatal(err)
		}
	}
}
