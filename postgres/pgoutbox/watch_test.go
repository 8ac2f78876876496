package pgoutbox_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/outboxtest"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// never is a Poll that no test waits for.
const never = time.Hour

func awaitChanged(t testing.TB, e outbox.Engine) {
	t.Helper()
	select {
	case <-e.Changed():
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was signaled")
	}
}

// drain returns when nothing has been signaled for a while.
func drain(e outbox.Engine) {
	for {
		select {
		case <-e.Changed():
		case <-time.After(200 * time.Millisecond):
			return
		}
	}
}

// listening returns when so many connections listen.
func listening(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var have int
		err := pool.QueryRow(context.Background(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'").Scan(&have)
		return err == nil && have == n
	}, 20*time.Second, 5*time.Millisecond)
}

func TestProcessesTellEachOther(t *testing.T) {
	pool := newPool(t)
	here, there := open(t, pool, pgoutbox.Options{Poll: never}), open(t, pool, pgoutbox.Options{Poll: never})
	listening(t, pool, 2)
	told := func(what string, f func()) {
		t.Helper()
		drain(here)
		drain(there)
		f()
		awaitChanged(t, there)
	}
	told("added", func() { mustAdd(t, here, op("a", "a")) })
	r := mustClaim(t, here, outbox.ClaimRequest{Limit: 1})
	told("settled", func() { s := success(r[0]); s.To = outbox.Uncertain; mustSettle(t, here, s) })
	told("set", func() {
		_, err := here.Set(t.Context(), outbox.Change{ID: "a", Action: outbox.ResolveDone, Now: time.Now()})
		require.NoError(t, err)
	})
	told("added in a transaction", func() {
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			mustAdd(t, here, op("b", "b", in(pgoutbox.Tx(tx))))
			return nil
		}))
	})
	awaitChanged(t, here)
	drain(here)
	mustAdd(t, here, op("c", "c"))
	awaitChanged(t, here)
	select {
	case <-here.Changed():
		t.Fatal("a process's own notification woke it again")
	case <-time.After(200 * time.Millisecond):
	}

	// A lost listener comes back.
	_, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	require.NoError(t, err)
	listening(t, pool, 2)
	told("after a reconnect", func() { mustAdd(t, here, op("d", "d")) })
}

func TestPollingAloneIsEnough(t *testing.T) {
	pool := newPool(t)
	o := pgoutbox.Options{Poll: 10 * time.Millisecond, PollOnly: true}
	here, there := open(t, pool, o), open(t, pool, o)
	drain := func() {
		for range 5 {
			select {
			case <-there.Changed():
			case <-time.After(50 * time.Millisecond):
				return
			}
		}
	}
	drain()
	mustAdd(t, here, op("a", "a"))
	awaitChanged(t, there)
	r := mustClaim(t, there, outbox.ClaimRequest{Limit: 1, Mark: mark(time.Minute)})
	drain()
	lapse(t, pool, time.Hour)
	awaitChanged(t, there) // a claim whose lease is over
	drain()
	mustSettle(t, here, success(r[0]))
	awaitChanged(t, there) // an outcome
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND (query LIKE 'LISTEN%' OR query LIKE '%pg_notify%')`).Scan(&n))
	require.Zero(t, n)
}

func TestEngineKeepsTheContractBehindPgbouncer(t *testing.T) {
	var log bytes.Buffer
	logged := slog.New(slog.NewTextHandler(&log, nil))
	pool := pgtest.Connect(t, pgtest.Bouncer(t, pgtest.DSN(t)), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec })
	require.NoError(t, pgoutbox.Migrate(t.Context(), pool))
	e := pgoutbox.New(pool, pgoutbox.Options{Poll: 20 * time.Millisecond, Log: logged})
	mustAdd(t, e, op("a", "a"))
	require.Len(t, mustClaim(t, e, outbox.ClaimRequest{Limit: 1}), 1)
	drain(e)
	other := open(t, pool, pgoutbox.Options{PollOnly: true})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			id := fmt.Sprint("op-", i)
			if _, err := other.Add(context.Background(), op(id, id)); err != nil {
				t.Errorf("add: %v", err)
			}
			for _, r := range mustClaim(t, other, outbox.ClaimRequest{Limit: 2}) {
				mustSettle(t, other, success(r))
			}
		})
	}
	wg.Wait()
	awaitChanged(t, e) // by polling
	require.NoError(t, e.Close())
	require.Contains(t, log.String(), "proxy", "the engine has seen by itself that it cannot listen")
	checkTables(t, pool)
	outboxtest.Run(t, fresh(pool, pgoutbox.Options{PollOnly: true}))
}

func TestAnEngineThatClosesLeavesNothingBehind(t *testing.T) {
	pool := newPool(t)
	for range 5 {
		e := pgoutbox.New(pool, pgoutbox.Options{})
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				_, err := e.Add(context.Background(), op(fmt.Sprint("op-", i), "lane"))
				if err != nil {
					require.ErrorIs(t, err, outbox.ErrClosed)
				}
			})
		}
		require.NoError(t, e.Close())
		wg.Wait()
		require.NoError(t, e.Close())
	}
	listening(t, pool, 0)
	require.Eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 }, 20*time.Second, 5*time.Millisecond)
}
