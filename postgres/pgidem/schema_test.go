package pgidem_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgidem"
)

func TestMigrateIsIdempotentAndSafeWhenRunByManyAtOnce(t *testing.T) {
	pool := pgtest.Pool(t)
	for _, opts := range [][]pgidem.Option{nil, {pgidem.WithSchema("own \"name\" 'x'")}} {
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = pgidem.Migrate(context.Background(), pool, opts...) })
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		eng := pgidem.New(pool, opts...)
		c := mustClaim(t, eng, request("kept"), idempotency.New).Claim
		require.NoError(t, pgidem.Migrate(t.Context(), pool, opts...))
		require.NoError(t, eng.Complete(t.Context(), c, answer))
		_, err := eng.Stats(t.Context())
		require.NoError(t, err)
	}
}

func TestMigrateRefusesANewerSchema(t *testing.T) {
	eng, pool := newEngine(t)
	_, err := pool.Exec(t.Context(), "UPDATE flavoso_schema SET version = 99 WHERE component = 'pgidem'")
	require.NoError(t, err)
	err = pgidem.Migrate(t.Context(), pool)
	require.ErrorIs(t, err, pgidem.ErrNewer)
	require.ErrorContains(t, err, "99")
	mustClaim(t, eng, request("k"), idempotency.New)
}

func TestWithoutMigrateTheErrorSaysWhatIsMissing(t *testing.T) {
	_, err := pgidem.New(pgtest.Pool(t)).Claim(t.Context(), request("k"))
	require.ErrorContains(t, err, "flavoso_idempotency")
}

func TestTheTableHasExactlyOneUniqueIndex(t *testing.T) {
	_, pool := newEngine(t)
	var n int
	require.NoError(t, pool.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_index WHERE indrelid = 'flavoso_idempotency'::regclass AND indisunique").Scan(&n))
	require.Equal(t, 1, n)
	var cache int64
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT cache_size FROM pg_sequences WHERE sequencename = 'flavoso_idempotency_generation'").Scan(&cache))
	require.EqualValues(t, 1, cache, "sessions that hold blocks of numbers would break the order of generations")
}

// fill inserts expired, held, running and uncertain records.
func fill(t testing.TB, pool *pgxpool.Pool, expired, held, open int) {
	t.Helper()
	_, err := pool.Exec(context.Background(), `
INSERT INTO flavoso_idempotency (id, owner, generation, retention_us, created_at, lease_until, finished_at, expires_at, state, policy, hold_from,
	status, fingerprint, tenant, operation, key, result)
SELECT sha256(i::text::bytea), sha256(i::text::bytea), i, 3600000000, now() - interval '2 hours', now() - interval '2 hours',
	CASE WHEN i <= $1 + $2 THEN now() - interval '2 hours' END,
	CASE WHEN i <= $1 THEN now() - interval '1 hour' WHEN i <= $1 + $2 THEN now() + interval '1 hour' END,
	CASE WHEN i <= $1 + $2 THEN 2 + i % 2 ELSE CASE WHEN i % 2 = 0 THEN 1 ELSE 4 END END, 0, 0, 201, '\x01'::bytea || sha256('x'), 't', 'op', 'key-' || i,
	convert_to(repeat('x', 300), 'UTF8')
FROM generate_series(1, $1::int + $2::int + $3::int) i`, expired, held, open)
	require.NoError(t, err)
	_, err = pool.Exec(context.Background(), "VACUUM ANALYZE flavoso_idempotency")
	require.NoError(t, err)
}

var literal = regexp.MustCompile(`\$\d+`)

// plan explains a statement without running it.
func plan(t testing.TB, pool *pgxpool.Pool, sql string, args ...string) string {
	t.Helper()
	sql = literal.ReplaceAllStringFunc(sql, func(p string) string { return args[int(p[1]-'1')] })
	rows, err := pool.Query(context.Background(), "EXPLAIN (COSTS OFF) "+sql)
	require.NoError(t, err)
	defer rows.Close()
	var out strings.Builder
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		out.WriteString(line + "\n")
	}
	require.NoError(t, rows.Err())
	return out.String()
}

func TestSweepAndStatsReadByIndex(t *testing.T) {
	_, pool := newEngine(t)
	rows := 200_000
	if testing.Short() {
		rows = 20_000
	}
	fill(t, pool, rows, rows/10, 100)
	sweep := plan(t, pool, pgidem.SweepSQL, "1000")
	require.NotContains(t, sweep, "Seq Scan", sweep)
	require.Contains(t, sweep, "Tid Scan", sweep)
	require.Contains(t, sweep, "Index Cond: (expires_at <=", sweep)
	stats := plan(t, pool, pgidem.StatsSQL)
	require.NotContains(t, stats, "Seq Scan on flavoso_idempotency", stats)
	open := plan(t, pool, pgidem.OpenSQL, `'\x'`, "''", "NULL", "100")
	require.NotContains(t, open, "Seq Scan", open)

	// The same when there is nothing to sweep.
	eng := pgidem.New(pool)
	st, err := eng.Stats(t.Context())
	require.NoError(t, err)
	require.True(t, st.Estimated)
	require.InEpsilon(t, rows+rows/10+100, st.Records, 0.1)
	require.EqualValues(t, rows, st.Backlog)
	require.EqualValues(t, 50, st.Uncertain)
	require.EqualValues(t, 50, st.Processing)
	require.InDelta(t, time.Hour.Seconds(), st.BacklogAge.Seconds(), 60)
	deleted := 0
	for more := true; more; {
		rep, err := eng.Sweep(t.Context(), 5000)
		require.NoError(t, err)
		deleted += rep.Deleted
		more = rep.More
	}
	require.Equal(t, rows, deleted)
	_, err = pool.Exec(t.Context(), "VACUUM ANALYZE flavoso_idempotency")
	require.NoError(t, err)
	sweep = plan(t, pool, pgidem.SweepSQL, "1000")
	require.NotContains(t, sweep, "Seq Scan", sweep)
}

func TestSeveralSweepsShareTheWork(t *testing.T) {
	eng, pool := newEngine(t)
	fill(t, pool, 3000, 100, 10)
	var wg sync.WaitGroup
	deleted := make([]int, 4)
	for i := range deleted {
		wg.Go(func() {
			for {
				rep, err := eng.Sweep(context.Background(), 50)
				if err != nil {
					t.Errorf("sweep: %v", err)
					return
				}
				deleted[i] += rep.Deleted
				if !rep.More {
					return
				}
			}
		})
	}
	wg.Wait()
	rep, err := eng.Sweep(t.Context(), 5000) // what the others had locked when the last one looked
	require.NoError(t, err)
	require.Equal(t, 3000, deleted[0]+deleted[1]+deleted[2]+deleted[3]+rep.Deleted)
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM flavoso_idempotency").Scan(&left))
	require.Equal(t, 110, left)
}

// A record that is used again while a sweep looks at it stays.
func TestSweepLeavesARecordThatIsUsedAgain(t *testing.T) {
	eng, pool := newEngine(t)
	var wg sync.WaitGroup
	for round := range 20 {
		req := request("k")
		res, err := eng.Claim(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, idempotency.New, res.Decision, "round %d", round)
		require.NoError(t, eng.Complete(t.Context(), res.Claim, answer))
		advance(t, pool, "", time.Hour)
		var again idempotency.ClaimResult
		wg.Go(func() { again, err = eng.Claim(context.Background(), req) })
		wg.Go(func() { _, _ = eng.Sweep(context.Background(), 10) })
		wg.Wait()
		require.NoError(t, err)
		if again.Decision == idempotency.InProgress { // the sweep had it locked: gone now
			continue
		}
		require.Equal(t, idempotency.New, again.Decision)
		require.NoError(t, eng.Release(t.Context(), again.Claim), "the sweep must not delete a running record")
	}
}
