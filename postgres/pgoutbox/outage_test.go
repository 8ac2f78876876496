package pgoutbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// chaos lets adders and workers go on while f harms the database, and checks that nothing is lost or doubled: an
// operation that was accepted is done, one that was certainly not saved is not there, and every claim belongs to one.
func chaos(t *testing.T, pool *pgxpool.Pool, f func(stop <-chan struct{})) {
	ctx := context.Background()
	engines := []*pgoutbox.Engine{open(t, pool, pgoutbox.Options{Poll: 50 * time.Millisecond}), open(t, pool, pgoutbox.Options{PollOnly: true})}
	stop := make(chan struct{})
	var harm, adders, workers sync.WaitGroup
	harm.Go(func() { f(stop) })
	var accepted, unknown, refused sync.Map
	for a := range 6 {
		adders.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("op-%d-%d", a, n)
				out, err := engines[a%2].Add(ctx, op(id, fmt.Sprint("lane-", rand.IntN(20))))
				var lost *outbox.SaveError
				switch {
				case err == nil && out.Decision != outbox.AddedNew:
					t.Errorf("%s: decision %d", id, out.Decision)
				case err == nil:
					accepted.Store(id, true)
				case errors.As(err, &lost):
					unknown.Store(id, true)
				default:
					refused.Store(id, err)
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	var claims sync.Map // tokens
	var done atomic.Int64
	work := func(e outbox.Engine) int {
		recs, err := e.Claim(ctx, outbox.ClaimRequest{Mark: mark(time.Hour), Limit: 8})
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			return 1
		}
		for _, r := range recs {
			if _, twice := claims.LoadOrStore(r.Claim.Token, r.ID); twice {
				t.Errorf("%s: a claim was given twice", r.ID)
			}
			for {
				out, err := e.Settle(ctx, success(r))
				if err != nil {
					time.Sleep(5 * time.Millisecond)
					continue // what is unknown is settled again: the claim tells
				}
				if out[0].Err != nil && mustGetSoon(t, e, r.ID).State != outbox.Succeeded {
					t.Errorf("settle %s: %v", r.ID, out[0].Err)
				}
				break
			}
			done.Add(1)
		}
		return len(recs)
	}
	for w := range 4 {
		workers.Go(func() {
			for {
				n := work(engines[w%2])
				select {
				case <-stop:
					return
				default:
				}
				if n == 0 {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	time.Sleep(2 * time.Second)
	close(stop)
	harm.Wait()
	adders.Wait()
	workers.Wait()
	for range 2 { // what was claimed by a step that nobody got the answer of is taken over
		lapse(t, pool, 3*time.Hour)
		for work(engines[0]) > 0 {
		}
	}
	n := 0
	accepted.Range(func(id, _ any) bool {
		n++
		require.Equal(t, outbox.Succeeded, mustGet(t, engines[0], id.(string)).State, "%s was accepted", id)
		return true
	})
	refused.Range(func(id, why any) bool {
		_, err := engines[0].Get(ctx, id.(string))
		require.ErrorIs(t, err, outbox.ErrNotFound, "%s was refused: %v", id, why)
		return true
	})
	unknown.Range(func(id, _ any) bool {
		_, err := engines[0].Add(ctx, op(id.(string), "lane-0"))
		require.NoError(t, err, "adding again settles it")
		return true
	})
	t.Logf("%d accepted, %d done", n, done.Load())
	require.NotZero(t, n)
	checkTables(t, pool)
}

func mustGetSoon(t testing.TB, e outbox.Engine, id string) (r outbox.Record) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		var err error
		r, err = e.Get(context.Background(), id)
		return err == nil
	}, 20*time.Second, 5*time.Millisecond)
	return r
}

// Connections are cut off at any moment, also while a COMMIT is under way.
func TestConnectionsThatAreKilledLoseAndDoubleNothing(t *testing.T) {
	dsn := pgtest.DSN(t)
	pool := pgtest.Connect(t, dsn)
	require.NoError(t, pgoutbox.Migrate(t.Context(), pool))
	admin := pgtest.Connect(t, dsn, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "admin" })
	chaos(t, pool, func(stop <-chan struct{}) {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
			}
			_, err := admin.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name <> 'admin' ORDER BY random() LIMIT 2`)
			if err != nil {
				t.Errorf("terminate: %v", err)
			}
		}
	})
}

func TestADatabaseThatCrashesInMidWorkLosesAndDoublesNothing(t *testing.T) {
	pgtest.DSN(t) // skips where there is no server
	cluster, err := pgtest.StartCluster(false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	pool := pgtest.Connect(t, cluster.DSN("postgres"))
	require.NoError(t, pgoutbox.Migrate(t.Context(), pool))
	chaos(t, pool, func(stop <-chan struct{}) {
		for range 2 {
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Millisecond):
			}
			if err := cluster.Restart(); err != nil {
				t.Errorf("restart: %v", err)
				return
			}
		}
	})
}

func TestOneConnectionServesFiftyCallers(t *testing.T) {
	e, _ := newEngine(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			id := fmt.Sprint("op-", i)
			if _, err := e.Add(context.Background(), op(id, id)); err != nil {
				t.Errorf("add: %v", err)
			}
			for _, r := range mustClaim(t, e, outbox.ClaimRequest{Limit: 1}) {
				if out := mustSettle(t, e, success(r)); out.Err != nil {
					t.Errorf("settle: %v", out.Err)
				}
			}
		})
	}
	wg.Wait()
	c, err := e.Counts(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, 50, c.Total())
}

func TestWithoutADatabaseNothingIsSaid(t *testing.T) {
	e, pool := newEngine(t)
	mustAdd(t, e, op("a", "a"))
	pool.Close()
	var unknown *outbox.SaveError
	_, err := e.Add(t.Context(), op("b", "b"))
	require.Error(t, err)
	require.NotErrorAs(t, err, &unknown, "certainly not saved")
	_, err = e.Claim(t.Context(), outbox.ClaimRequest{Limit: 1, Mark: mark(time.Minute)})
	require.Error(t, err)
	_, err = e.Settle(t.Context(), outbox.Settlement{ID: "a", Claim: "x", To: outbox.Succeeded})
	require.Error(t, err)
	_, err = e.Get(t.Context(), "a")
	require.Error(t, err)
	require.NotErrorIs(t, err, outbox.ErrNotFound)
	_, err = e.Set(t.Context(), outbox.Change{ID: "a", Action: outbox.Cancel})
	require.Error(t, err)
	_, err = e.List(t.Context(), outbox.Query{})
	require.Error(t, err)
	_, err = e.Counts(t.Context(), "")
	require.Error(t, err)
	_, _, err = e.NextDue(t.Context(), outbox.Scope{})
	require.Error(t, err)
	_, err = e.Purge(t.Context(), outbox.PurgeRequest{})
	require.Error(t, err)
	require.Error(t, e.Ack(t.Context(), "a", 1))
	require.Error(t, e.SaveState(t.Context(), "a", "b", nil))
	_, err = e.LoadState(t.Context(), "a", "b")
	require.Error(t, err)
}

// What this engine commits waits for the disk, whatever its connections are set to.
func TestCommitsWaitForTheDisk(t *testing.T) {
	e, pool := newEngine(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" })
	if !pgtest.Own() {
		t.Skip("somebody else's server writes for others, too")
	}
	flushed := func(what string, f func()) {
		t.Helper()
		var before, after string
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&before))
		f()
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT (pg_current_wal_flush_lsn() > $1::pg_lsn)::text", before).Scan(&after))
		require.Equal(t, "true", after, what)
	}
	flushed("add", func() { mustAdd(t, e, op("a", "a")) })
	var r []outbox.Record
	flushed("claim", func() { r = mustClaim(t, e, outbox.ClaimRequest{Limit: 1}) })
	flushed("settle", func() { require.NoError(t, mustSettle(t, e, success(r[0])).Err) })
	flushed("ack", func() { require.NoError(t, e.Ack(t.Context(), "a", 1)) })
	flushed("in a transaction", func() {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		mustAdd(t, e, op("b", "b", in(pgoutbox.Tx(tx))))
		require.NoError(t, tx.Commit(t.Context()))
	})
}
