package pgoutbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

func TestMigrateIsIdempotentAndSafeWhenRunByManyAtOnce(t *testing.T) {
	pool := pgtest.Pool(t)
	for _, o := range []pgoutbox.Options{{}, {Schema: "own \"name\" 'x'"}} {
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() { errs[i] = pgoutbox.Migrate(context.Background(), pool, o) })
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		e := open(t, pool, o)
		mustAdd(t, e, op("kept", "lane"))
		require.NoError(t, pgoutbox.Migrate(t.Context(), pool, o))
		r := mustClaim(t, e, outbox.ClaimRequest{Limit: 9})
		require.Equal(t, []string{"kept"}, ids(r))
		require.NoError(t, mustSettle(t, e, success(r[0])).Err)
		c, err := e.Counts(t.Context(), "")
		require.NoError(t, err)
		require.EqualValues(t, 1, c.LastSeq, "each schema has its own")
	}
}

func TestMigrateRefusesANewerSchema(t *testing.T) {
	e, pool := newEngine(t)
	_, err := pool.Exec(t.Context(), "UPDATE flavoso_schema SET version = 99 WHERE component = 'pgoutbox'")
	require.NoError(t, err)
	err = pgoutbox.Migrate(t.Context(), pool)
	require.ErrorIs(t, err, pgoutbox.ErrNewer)
	require.ErrorContains(t, err, "99")
	mustAdd(t, e, op("a", "a"))
}

func TestWithoutMigrateTheErrorSaysWhatIsMissing(t *testing.T) {
	e := open(t, pgtest.Pool(t), pgoutbox.Options{PollOnly: true})
	_, err := e.Add(t.Context(), op("a", "a"))
	require.ErrorContains(t, err, "flavoso_outbox")
}

func TestTotalsStayFewRows(t *testing.T) {
	pool := newPool(t)
	e := open(t, pool, pgoutbox.Options{Poll: 5 * time.Millisecond})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 400 {
				id := fmt.Sprint("op-", w, "-", i)
				tx, err := pool.Begin(context.Background())
				if err != nil {
					t.Errorf("begin: %v", err)
					return
				}
				_, err = e.Add(context.Background(), op(id, id, in(pgoutbox.Tx(tx)), of(fmt.Sprint("store-", i%3))))
				if err == nil {
					err = tx.Commit(context.Background())
				}
				if err != nil {
					t.Errorf("add: %v", err)
				}
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		var n int
		err := pool.QueryRow(context.Background(), "SELECT count(*) FROM flavoso_outbox_count").Scan(&n)
		return err == nil && n < 1100
	}, 20*time.Second, 5*time.Millisecond)
	c, err := e.Counts(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, 1600, c.Waiting())
	checkTables(t, pool)
}

// Several may purge at once: each record goes once, and every key stays known.
func TestPurgesShareTheWork(t *testing.T) {
	e, pool := newEngine(t)
	const n = 300
	for i := range n {
		mustAdd(t, e, op(fmt.Sprint("op-", i), fmt.Sprint("lane-", i)))
	}
	for left := n; left > 0; {
		var ss []outbox.Settlement
		for _, r := range mustClaim(t, e, outbox.ClaimRequest{Limit: 100}) {
			ss = append(ss, success(r))
		}
		_, err := e.Settle(t.Context(), ss...)
		require.NoError(t, err)
		left -= len(ss)
	}
	p := outbox.PurgeRequest{Now: time.Now(), Before: time.Now().Add(time.Minute), Limit: 20}
	got, err := e.Purge(t.Context(), p)
	require.NoError(t, err)
	require.Zero(t, got, "nothing is acknowledged")
	p.Unacked = true
	var mu sync.Mutex
	total := 0
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for idle := 0; idle < 3; {
				got, err := e.Purge(context.Background(), p)
				if err != nil {
					t.Errorf("purge: %v", err)
					return
				}
				mu.Lock()
				total += got
				mu.Unlock()
				if got == 0 {
					idle++
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, n, total)
	again := op("again", "lane-7")
	again.Record.Key, again.Record.Fingerprint = "key-op-7", []byte("content of op-7")
	require.Equal(t, outbox.FoundTombstone, mustAdd(t, e, again).Decision)
	checkTables(t, pool)
	p.Now = p.Now.Add(50 * time.Hour)
	for range n {
		_, err := e.Purge(t.Context(), p)
		require.NoError(t, err)
	}
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM flavoso_outbox_key").Scan(&left))
	require.Zero(t, left, "keys are forgotten when their time is over")
}

// tripCounter counts batches: each is one round trip.
type tripCounter struct{ n atomic.Int64 }

func (c *tripCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *tripCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *tripCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (c *tripCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(d.SQL, "pg_notify") {
		c.n.Add(1)
	}
	return ctx
}
func (c *tripCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestStepsTakeFewRoundTrips(t *testing.T) {
	var trips tripCounter
	pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = &trips })
	e := open(t, pool, pgoutbox.Options{Poll: never, PollOnly: true})
	count := func(want int64, what string, f func()) {
		t.Helper()
		before := trips.n.Load()
		f()
		require.Equal(t, want, trips.n.Load()-before, what)
	}
	m := mark(time.Hour)
	var r []outbox.Record
	count(1, "add", func() { mustAdd(t, e, op("a", "lane")) })
	count(1, "add and claim", func() { mustAdd(t, e, op("b", "other", func(a *outbox.Addition) { a.Claim = &m })) })
	count(2, "claim", func() { r = mustClaim(t, e, outbox.ClaimRequest{Limit: 10}) })
	count(2, "settle", func() { mustSettle(t, e, success(r[0])) })
	count(1, "get", func() { mustGet(t, e, "a") })
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		count(2, "add in a transaction", func() { mustAdd(t, e, op("c", "lane", in(pgoutbox.Tx(tx)))) })
		return nil
	}))
}
