package pgidem_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgidem"
)

const childEnv = "PGIDEM_TEST_CHILD" // what the child does; it connects to PGIDEM_TEST_DSN

// child is the process that gets killed. It does its step, says "ready" and waits for its end.
func child() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	ready := func() {
		fmt.Println("ready")
		select {}
	}
	pool, err := pgxpool.New(ctx, os.Getenv("PGIDEM_TEST_DSN"))
	check(err)
	eng := pgidem.New(pool)
	insert := func(tx pgx.Tx) { _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('child')"); check(err) }
	switch mode := os.Getenv(childEnv); mode {
	case "claimed", "marked":
		res, err := eng.Claim(ctx, request("k"))
		check(err)
		if mode == "marked" {
			check(eng.MarkEffect(ctx, res.Claim))
		}
		ready()
	case "before commit", "after commit":
		res, err := eng.Claim(ctx, request("k"))
		check(err)
		tx, err := pool.Begin(ctx)
		check(err)
		insert(tx)
		check(eng.CompleteTx(ctx, tx, res.Claim, answer))
		if mode == "after commit" {
			check(tx.Commit(ctx))
		}
		ready()
	case "InTx":
		_, err := pgidem.InTx(ctx, pool, request("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
			insert(tx)
			ready()
			return answer, nil
		})
		check(err)
	}
}

// kill runs the child until it is ready, and kills it.
func kill(t *testing.T, dsn, mode string) {
	t.Helper()
	pgtest.KillChild(t, childEnv+"="+mode, "PGIDEM_TEST_DSN="+dsn)
}

func TestAKilledOwner(t *testing.T) {
	for _, c := range []struct {
		mode    string
		atOnce  idempotency.Decision
		later   idempotency.Decision // when the lease has ended
		effects int
	}{
		{"claimed", idempotency.InProgress, idempotency.TakenOver, 0},
		{"marked", idempotency.InProgress, idempotency.Uncertain, 0},
		{"before commit", idempotency.InProgress, idempotency.TakenOver, 0},
		{"after commit", idempotency.Replay, idempotency.Replay, 1},
	} {
		t.Run(c.mode, func(t *testing.T) {
			dsn := pgtest.DSN(t)
			pool := pgtest.Connect(t, dsn)
			require.NoError(t, pgidem.Migrate(t.Context(), pool))
			_, err := pool.Exec(t.Context(), "CREATE TABLE effects (who text)")
			require.NoError(t, err)
			kill(t, dsn, c.mode)
			eng := pgidem.New(pool)
			mustClaim(t, eng, request("k"), c.atOnce)
			awaitAlone(t, pool) // the server has noticed; what was not committed is rolled back
			advance(t, pool, "", time.Minute)
			res := mustClaim(t, eng, request("k"), c.later)
			if c.later == idempotency.TakenOver {
				require.NoError(t, eng.Complete(t.Context(), res.Claim, answer))
			}
			var n int
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM effects").Scan(&n))
			require.Equal(t, c.effects, n)
		})
	}
	t.Run("InTx leaves nothing, and the key is free at once", func(t *testing.T) {
		dsn := pgtest.DSN(t)
		pool := pgtest.Connect(t, dsn)
		require.NoError(t, pgidem.Migrate(t.Context(), pool))
		_, err := pool.Exec(t.Context(), "CREATE TABLE effects (who text)")
		require.NoError(t, err)
		kill(t, dsn, "InTx")
		awaitAlone(t, pool)
		res, err := pgidem.InTx(t.Context(), pool, request("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
			_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('parent')")
			return answer, err
		})
		require.NoError(t, err)
		require.Equal(t, idempotency.New, res.Decision)
		var who string
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT string_agg(who, ',') FROM effects").Scan(&who))
		require.Equal(t, "parent", who)
	})
}

// awaitAlone returns when no transaction of another process is open on this database.
func awaitAlone(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'`).Scan(&n)
		return err == nil && n == 0
	}, 20*time.Second, 5*time.Millisecond)
}
