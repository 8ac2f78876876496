package pgidem_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/internal/versus"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgidem"
)

// P8: the engine against the bare statements that any solution needs at least, through the same pool, in one run.
// Set FLAVOSO_TEST_POSTGRES_FSYNC=on for a server that syncs as in production:
//
//	FLAVOSO_TEST_POSTGRES_FSYNC=on go test -run '^$' -bench P8 ./pgidem

const benchClients = 8

// clients runs f n times in each of several goroutines.
func clients(b *testing.B, n int, f func(ctx context.Context, i int) error) func() {
	var count atomic.Int64
	return func() {
		var wg sync.WaitGroup
		for range benchClients {
			wg.Go(func() {
				for range n {
					if err := f(context.Background(), int(count.Add(1))); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// openBench makes two tables with the columns that the engine has: bare without more, indexed with the indexes that a
// sweep by time and a look at what is running need.
func openBench(b *testing.B) (*pgidem.Engine, *pgxpool.Pool, idempotency.Result) {
	eng, pool := newEngine(b, func(c *pgxpool.Config) { c.MaxConns = benchClients })
	for _, table := range []string{"bare", "indexed"} {
		_, err := pool.Exec(b.Context(), fmt.Sprintf(`CREATE TABLE %s (id bytea PRIMARY KEY, owner bytea, generation bigint, fingerprint bytea,
			state smallint, effect boolean, note text, status smallint, created_at timestamptz, lease_until timestamptz,
			finished_at timestamptz, expires_at timestamptz, scope text, result bytea)`, table))
		require.NoError(b, err)
	}
	_, err := pool.Exec(b.Context(), `CREATE INDEX ON indexed (state, created_at) WHERE state IN (1, 4);
		CREATE INDEX ON indexed (expires_at) WHERE state IN (2, 3)`)
	require.NoError(b, err)
	return eng, pool, idempotency.Result{Status: 201, Body: make([]byte, 1024)}
}

// BenchmarkP8NewKey compares claim and completion with an INSERT and an UPDATE of the same bytes, in a table with
// the same indexes and in one with none but the primary key.
func BenchmarkP8NewKey(b *testing.B) {
	eng, pool, res := openBench(b)
	stored, err := res.MarshalBinary()
	require.NoError(b, err)
	statements := func(table string) func() {
		insert := `INSERT INTO ` + table + ` (id, owner, generation, fingerprint, state, created_at, lease_until, scope)
			VALUES ($1, $2, 1, $3, 1, now(), now() + interval '2 minutes', $4)`
		update := `UPDATE ` + table + ` SET state = 2, status = 201, finished_at = now(), expires_at = now() + interval '1 hour', result = $2
			WHERE id = $1 AND owner = $3`
		return clients(b, 25, func(ctx context.Context, i int) error {
			req := request(strconv.Itoa(i))
			id, owner := req.Scope.ID(), idempotency.NewOwner()
			if _, err := pool.Exec(ctx, insert, id[:], owner[:], req.Fingerprint[:], req.Scope.Tenant+req.Scope.Operation+req.Scope.Key); err != nil {
				return err
			}
			_, err := pool.Exec(ctx, update, id[:], stored, owner[:])
			return err
		})
	}
	m := versus.New(clients(b, 25, func(ctx context.Context, i int) error {
		got, err := eng.Claim(ctx, request(strconv.Itoa(i)))
		if err != nil {
			return err
		}
		return eng.Complete(ctx, got.Claim, res)
	}), statements("indexed"), statements("bare"))
	for b.Loop() {
		m.Round()
	}
	b.ReportMetric(m.Ratio(0, 1), "x-of-insert+update")
	b.ReportMetric(m.Ratio(0, 2), "x-of-insert+update-without-indexes")
	b.ReportMetric(float64(m.Median(0).Microseconds())/(25*benchClients), "µs/key")
}

// BenchmarkP8Replay compares the replay of a stored answer with a SELECT of the same columns and bytes by
// primary key. It asserts that replays write nothing.
func BenchmarkP8Replay(b *testing.B) {
	eng, pool, res := openBench(b)
	req := request("replay")
	require.NoError(b, eng.Complete(b.Context(), mustClaim(b, eng, req, idempotency.New).Claim, res))
	_, err := pool.Exec(b.Context(), `INSERT INTO bare SELECT id, owner, generation, fingerprint, state, effect, note, status, created_at, lease_until,
		finished_at, expires_at, key, result FROM flavoso_idempotency`)
	require.NoError(b, err)
	id := req.Scope.ID()
	m := versus.New(clients(b, 100, func(ctx context.Context, _ int) error {
		got, err := eng.Claim(ctx, req)
		if err == nil && got.Decision != idempotency.Replay {
			return fmt.Errorf("decision %s", got.Decision)
		}
		return err
	}), clients(b, 100, func(ctx context.Context, _ int) error {
		var (
			now, created, lease, finished, expires time.Time
			generation                             int64
			state, status                          int16
			fingerprint, result                    []byte
			effect                                 bool
			note                                   string
		)
		return pool.QueryRow(ctx, `SELECT clock_timestamp(), result, state, generation, fingerprint, effect, note, status, created_at, lease_until,
			finished_at, expires_at FROM bare WHERE id = $1`, id[:]).
			Scan(&now, &result, &state, &generation, &fingerprint, &effect, &note, &status, &created, &lease, &finished, &expires)
	}))
	m.Round() // hint bits and the like are written once
	wal := func() (lsn string) {
		if !pgtest.Own() {
			return "" // others write too
		}
		require.NoError(b, pool.QueryRow(b.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&lsn))
		return lsn
	}
	before := wal()
	for b.Loop() {
		m.Round()
	}
	require.Equal(b, before, wal(), "replays write no WAL")
	b.ReportMetric(m.Ratio(0, 1), "x-of-select")
	b.ReportMetric(float64(m.Median(0).Microseconds())/(100*benchClients), "µs/replay")
}

// BenchmarkInTx is a whole request whose effect and answer are one transaction.
func BenchmarkInTx(b *testing.B) {
	_, pool := newEngine(b)
	_, err := pool.Exec(b.Context(), "CREATE TABLE effects (key text)")
	require.NoError(b, err)
	n := 0
	for b.Loop() {
		n++
		if _, err := pgidem.InTx(b.Context(), pool, request(strconv.Itoa(n)), insert); err != nil {
			b.Fatal(err)
		}
	}
}
