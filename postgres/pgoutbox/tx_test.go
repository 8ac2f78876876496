package pgoutbox_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

func in(tx outbox.Tx) func(*outbox.Addition) { return func(a *outbox.Addition) { a.Tx = tx } }

// appTx is the application's transaction, of either kind.
type appTx struct {
	outbox.Tx
	exec             func(sql string) error
	commit, rollback func() error
}

func beginnings(pool *pgxpool.Pool) map[string]func(t *testing.T, level string) appTx {
	ctx := context.Background()
	return map[string]func(t *testing.T, level string) appTx{
		"pgx": func(t *testing.T, level string) appTx {
			tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)})
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback(ctx) }) // a test that failed must not hold the pool
			return appTx{pgoutbox.Tx(tx), func(s string) error { _, err := tx.Exec(ctx, s); return err },
				func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) }}
		},
		"database/sql": func(t *testing.T, level string) appTx {
			db := stdlib.OpenDBFromPool(pool)
			levels := map[string]sql.IsolationLevel{"": sql.LevelDefault, "repeatable read": sql.LevelRepeatableRead, "serializable": sql.LevelSerializable}
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: levels[level]})
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback(); _ = db.Close() })
			return appTx{pgoutbox.SQLTx(tx), func(s string) error { _, err := tx.Exec(s); return err }, tx.Commit, tx.Rollback}
		},
	}
}

func eachTx(t *testing.T, levels []string, f func(t *testing.T, e *pgoutbox.Engine, pool *pgxpool.Pool, begin func(t *testing.T) appTx)) {
	for _, kind := range []string{"pgx", "database/sql"} {
		for _, level := range levels {
			t.Run(kind+" "+level, func(t *testing.T) {
				e, pool := newEngine(t)
				_, err := pool.Exec(t.Context(), "CREATE TABLE orders (id text PRIMARY KEY)")
				require.NoError(t, err)
				f(t, e, pool, func(t *testing.T) appTx { return beginnings(pool)[kind](t, level) })
			})
		}
	}
}

var allLevels = []string{"", "repeatable read", "serializable"}

func TestAnOperationIsCommittedWithTheApplicationsRows(t *testing.T) {
	eachTx(t, allLevels, func(t *testing.T, e *pgoutbox.Engine, pool *pgxpool.Pool, begin func(t *testing.T) appTx) {
		for _, commit := range []bool{false, true} {
			tx := begin(t)
			require.NoError(t, tx.exec("INSERT INTO orders VALUES ('1')"))
			a := op("a", "lane", in(tx.Tx))
			a.Record.Request.Body, a.Record.Tag = []byte("{\x00}"), "a\x00\\b\xff"
			added := mustAdd(t, e, a)
			require.Equal(t, outbox.AddedNew, added.Decision)
			_, err := e.Get(t.Context(), "a")
			require.ErrorIs(t, err, outbox.ErrNotFound, "not committed yet")
			require.Empty(t, mustClaim(t, e, outbox.ClaimRequest{Limit: 1}))
			if !commit {
				require.NoError(t, tx.rollback())
				_, err := e.Get(t.Context(), "a")
				require.ErrorIs(t, err, outbox.ErrNotFound)
				continue
			}
			require.NoError(t, tx.commit())
			require.Equal(t, added.Record, mustGet(t, e, "a"))
		}
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n))
		require.Equal(t, 1, n)
		require.Equal(t, []string{"a"}, ids(mustClaim(t, e, outbox.ClaimRequest{Limit: 9})))
		checkTables(t, pool)
	})
}

func TestADuplicateDoesNotAbortTheApplicationsTransaction(t *testing.T) {
	eachTx(t, allLevels, func(t *testing.T, e *pgoutbox.Engine, pool *pgxpool.Pool, begin func(t *testing.T) appTx) {
		first := mustAdd(t, e, op("a", "lane"))
		tx := begin(t)
		require.NoError(t, tx.exec("INSERT INTO orders VALUES ('1')"))
		sameKey := op("b", "lane", in(tx.Tx))
		sameKey.Record.Key, sameKey.Record.Fingerprint = first.Record.Key, first.Record.Fingerprint
		for _, again := range []outbox.Addition{sameKey, op("a", "other lane", in(tx.Tx))} {
			out := mustAdd(t, e, again)
			require.Equal(t, outbox.FoundOperation, out.Decision)
			require.Equal(t, "a", out.Record.ID)
		}
		other := sameKey
		other.Record.Fingerprint = []byte("other")
		require.Equal(t, outbox.FoundOtherUse, mustAdd(t, e, other).Decision)
		require.NoError(t, tx.exec("INSERT INTO orders VALUES ('2')"), "the transaction goes on")
		own := op("c", "lane", in(tx.Tx))
		mustAdd(t, e, own)
		require.Equal(t, outbox.FoundOperation, mustAdd(t, e, own).Decision, "its own are found, too")
		require.NoError(t, tx.commit())
		checkTables(t, pool)
	})
}

// The second of two transactions that save the same key waits for the first, in the same lane or another.
func TestTheSecondTransactionWithAKeyWaitsAndFindsTheFirst(t *testing.T) {
	eachTx(t, []string{""}, func(t *testing.T, e *pgoutbox.Engine, pool *pgxpool.Pool, begin func(t *testing.T) appTx) {
		for _, lane := range []string{"lane", "another lane"} {
			for _, commit := range []bool{true, false} {
				name := lane + map[bool]string{true: " committed", false: " rolled back"}[commit]
				first, second := begin(t), begin(t)
				a, b := op("first "+name, "lane", in(first.Tx)), op("second "+name, lane, in(second.Tx))
				b.Record.Key, a.Record.Key = name, name
				b.Record.Fingerprint = a.Record.Fingerprint
				own := b
				own.Record.ID, own.Tx = "own "+name, nil
				mustAdd(t, e, a)
				answer := make(chan outbox.Added, 2)
				for _, add := range []outbox.Addition{b, own} {
					go func() {
						out, err := e.Add(context.Background(), add)
						if err != nil {
							t.Errorf("%s: %v", add.Record.ID, err)
						}
						if add.Tx != nil {
							if err := second.commit(); err != nil {
								t.Errorf("commit: %v", err)
							}
						}
						answer <- out
					}()
				}
				awaitWaiting(t, pool, 2)
				if commit {
					require.NoError(t, first.commit())
				} else {
					require.NoError(t, first.rollback())
				}
				x, y := <-answer, <-answer
				if commit {
					require.Equal(t, outbox.FoundOperation, x.Decision)
					require.Equal(t, outbox.FoundOperation, y.Decision)
					require.Equal(t, a.Record.ID, x.Record.ID)
				} else {
					require.Equal(t, x.Record.ID, y.Record.ID)
					require.ElementsMatch(t, []outbox.Decision{outbox.AddedNew, outbox.FoundOperation}, []outbox.Decision{x.Decision, y.Decision})
				}
				checkTables(t, pool)
			}
		}
	})
}

// awaitWaiting returns when so many connections wait for a lock.
func awaitWaiting(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var have int
		err := pool.QueryRow(context.Background(), "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())").Scan(&have)
		return err == nil && have >= n
	}, 20*time.Second, 2*time.Millisecond)
}

// What a snapshot cannot see is an error that says so, and the next try sees it.
func TestALostRaceAboveReadCommittedIsASerializationFailure(t *testing.T) {
	eachTx(t, allLevels[1:], func(t *testing.T, e *pgoutbox.Engine, pool *pgxpool.Pool, begin func(t *testing.T) appTx) {
		tx := begin(t)
		require.NoError(t, tx.exec("SELECT 1 FROM orders")) // takes the snapshot
		mustAdd(t, e, op("a", "lane"))
		again := op("b", "lane", in(tx.Tx))
		again.Record.Key, again.Record.Fingerprint = "key-a", []byte("content of a")
		_, err := e.Add(t.Context(), again)
		var pe *pgconn.PgError
		require.ErrorAs(t, err, &pe)
		require.Equal(t, "40001", pe.Code)
		require.NoError(t, tx.rollback())
		tx = begin(t)
		again.Tx = tx.Tx
		require.Equal(t, outbox.FoundOperation, mustAdd(t, e, again).Decision)
		require.NoError(t, tx.commit())
	})
}

// A record that a transaction adds with an old snapshot is neither stranded nor sent out of turn.
func TestAnOldSnapshotNeitherStrandsNorOvertakes(t *testing.T) {
	eachTx(t, allLevels[1:], func(t *testing.T, e *pgoutbox.Engine, pool *pgxpool.Pool, begin func(t *testing.T) appTx) {
		mustAdd(t, e, op("a", "lane"))
		a := mustClaim(t, e, outbox.ClaimRequest{Limit: 1})
		tx := begin(t)
		require.NoError(t, tx.exec("SELECT 1 FROM orders"))
		require.NoError(t, mustSettle(t, e, success(a[0])).Err) // the snapshot shows a lane that goes on
		b := op("b", "lane", in(tx.Tx))
		mustAdd(t, e, b)
		require.NoError(t, tx.commit())
		require.Equal(t, []string{"b"}, ids(mustClaim(t, e, outbox.ClaimRequest{Limit: 9})), "not stranded")

		tx = begin(t)
		require.NoError(t, tx.exec("SELECT 1 FROM orders"))
		mustAdd(t, e, op("c", "other"))
		d := op("d", "other", in(tx.Tx)) // the snapshot shows an empty lane
		m := mark(time.Hour)
		d.Claim = &m
		require.Empty(t, mustAdd(t, e, d).Record.Claim.Token, "nothing is certain about the lane")
		require.NoError(t, tx.commit())
		require.Equal(t, []string{"c"}, ids(mustClaim(t, e, outbox.ClaimRequest{Limit: 9})), "not out of turn")
		checkTables(t, pool)
	})
}

// While a transaction adds to a lane, workers go on in it. What it adds is found afterwards.
func TestWorkersDoNotWaitForATransactionThatAdds(t *testing.T) {
	eachTx(t, []string{""}, func(t *testing.T, e *pgoutbox.Engine, pool *pgxpool.Pool, begin func(t *testing.T) appTx) {
		for _, commit := range []bool{true, false} {
			name := map[bool]string{true: "committed", false: "rolled back"}[commit]
			mustAdd(t, e, op("a "+name, "lane"))
			tx := begin(t)
			mustAdd(t, e, op("b "+name, "lane", in(tx.Tx)))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // would end what waits
			recs, err := e.Claim(ctx, outbox.ClaimRequest{Limit: 9, Mark: mark(time.Hour)})
			require.NoError(t, err)
			require.Equal(t, []string{"a " + name}, ids(recs))
			require.NoError(t, mustSettle(t, e, success(recs[0])).Err)
			require.Empty(t, mustClaim(t, e, outbox.ClaimRequest{Limit: 9}))
			cancel()
			want := []string{}
			if commit {
				require.NoError(t, tx.commit())
				want = append(want, "b "+name)
			} else {
				require.NoError(t, tx.rollback())
			}
			var got []string
			require.Eventually(t, func() bool {
				got = append(got, ids(mustClaim(t, e, outbox.ClaimRequest{Limit: 9}))...)
				_, ok, err := e.NextDue(context.Background(), outbox.Scope{})
				return err == nil && !ok
			}, 10*time.Second, 5*time.Millisecond, "the lane is looked at again, until it is clear what is in it")
			require.ElementsMatch(t, want, got)
			if commit {
				r := mustGet(t, e, "b "+name)
				require.NoError(t, mustSettle(t, e, success(r)).Err)
			}
			checkTables(t, pool)
		}
	})
}

func TestSupersedingInATransaction(t *testing.T) {
	eachTx(t, allLevels, func(t *testing.T, e *pgoutbox.Engine, pool *pgxpool.Pool, begin func(t *testing.T) appTx) {
		put := func(id string, opts ...func(*outbox.Addition)) outbox.Addition {
			a := op(id, "menu", append(opts, keyless)...)
			a.Record.Request.Target, a.Supersede = "/menu", true
			return a
		}
		mustAdd(t, e, put("m1"))
		for _, commit := range []bool{false, true} {
			tx := begin(t)
			require.Equal(t, "m1", mustAdd(t, e, put("m2", in(tx.Tx))).Superseded)
			if commit {
				require.NoError(t, tx.commit())
			} else {
				require.NoError(t, tx.rollback())
				require.Equal(t, outbox.Queued, mustGet(t, e, "m1").State)
			}
		}
		require.Equal(t, outbox.Superseded, mustGet(t, e, "m1").State)
		require.Equal(t, "m2", mustGet(t, e, "m1").SupersededBy)
		require.Equal(t, []string{"m2"}, ids(mustClaim(t, e, outbox.ClaimRequest{Limit: 9})))
		checkTables(t, pool)
	})
}

func TestATransactionOfAnotherEngineIsRefused(t *testing.T) {
	e, _ := newEngine(t)
	a := op("a", "lane")
	a.Tx = foreign{}
	_, err := e.Add(t.Context(), a)
	require.ErrorIs(t, err, outbox.ErrTxUnsupported)
}

type foreign struct{}

func (foreign) OutboxTx() {}
