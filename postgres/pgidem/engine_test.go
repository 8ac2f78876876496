package pgidem_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/idempotency/idempotencytest"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgidem"
)

var answer = idempotency.Result{Status: 201, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"b":1,"a":1}`)}

// statementCounter counts what goes to the server.
type statementCounter struct{ n atomic.Int64 }

func (c *statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestARepeatAndACompletionAreOneStatementEach(t *testing.T) {
	var count statementCounter
	eng, _ := newEngine(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = &count })
	step := func(name string, want int64, f func()) {
		before := count.n.Load()
		f()
		require.Equal(t, want, count.n.Load()-before, name)
	}
	req := request("k")
	var c idempotency.Claim
	step("new", 2, func() { c = mustClaim(t, eng, req, idempotency.New).Claim })
	step("in progress", 1, func() { mustClaim(t, eng, req, idempotency.InProgress) })
	step("extend", 1, func() { _, err := eng.Extend(t.Context(), c, time.Minute); require.NoError(t, err) })
	step("complete", 1, func() { require.NoError(t, eng.Complete(t.Context(), c, answer)) })
	step("replay", 1, func() { mustClaim(t, eng, req, idempotency.Replay) })
}

func TestReplaysWriteNothing(t *testing.T) {
	eng, pool := newEngine(t)
	req := request("k")
	require.NoError(t, eng.Complete(t.Context(), mustClaim(t, eng, req, idempotency.New).Claim, answer))
	running := request("running")
	mustClaim(t, eng, running, idempotency.New)
	other := req
	other.Fingerprint = idempotency.NewFingerprint(200, []byte("other"))
	state := func() (s string) {
		sql := "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
		if pgtest.Own() {
			sql = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text || ' ' || pg_current_wal_insert_lsn()::text"
		}
		require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&s))
		return s
	}
	for range 3 { // hint bits and the like are written once
		mustClaim(t, eng, req, idempotency.Replay)
		state()
	}
	before := state()
	for range 50 {
		mustClaim(t, eng, req, idempotency.Replay)
		mustClaim(t, eng, other, idempotency.Mismatch)
		mustClaim(t, eng, running, idempotency.InProgress)
	}
	require.Equal(t, before, state(), "no transaction id and no WAL")
}

func TestRepeatsDoNotWaitForAnUncommittedCompletion(t *testing.T) {
	eng, pool := newEngine(t)
	for _, lapsed := range []bool{false, true} {
		req := request(fmt.Sprintf("lapsed %v", lapsed))
		c := mustClaim(t, eng, req, idempotency.New).Claim
		if lapsed {
			advance(t, pool, "", time.Minute)
		}
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, eng.CompleteTx(t.Context(), tx, c, answer))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // would end a claim that waits for the row
		for range 3 {
			res, err := eng.Claim(ctx, req)
			require.NoError(t, err)
			require.Equal(t, idempotency.InProgress, res.Decision)
		}
		cancel()
		require.NoError(t, tx.Commit(t.Context()))
		mustClaim(t, eng, req, idempotency.Replay)
	}
}

func TestCompleteTxCommitsWithTheEffect(t *testing.T) {
	eng, pool := newEngine(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE orders (id text)")
	require.NoError(t, err)
	orders := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n))
		return n
	}
	req := request("k")
	c := mustClaim(t, eng, req, idempotency.New).Claim
	for _, commit := range []bool{false, true} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "INSERT INTO orders VALUES ('1')")
		require.NoError(t, err)
		require.NoError(t, eng.CompleteTx(t.Context(), tx, c, answer))
		if !commit {
			require.NoError(t, tx.Rollback(t.Context()))
			require.Zero(t, orders())
			mustClaim(t, eng, req, idempotency.InProgress)
			continue
		}
		require.NoError(t, tx.Commit(t.Context()))
	}
	require.Equal(t, 1, orders())
	require.Equal(t, answer, mustClaim(t, eng, req, idempotency.Replay).Result)

	// A stale owner learns it inside its transaction, and rolls back.
	req = request("stale")
	stale := mustClaim(t, eng, req, idempotency.New).Claim
	advance(t, pool, "", time.Minute)
	owner := mustClaim(t, eng, req, idempotency.TakenOver).Claim
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "INSERT INTO orders VALUES ('stale')"); err != nil {
			return err
		}
		return eng.FailTx(t.Context(), tx, stale, answer)
	})
	require.ErrorIs(t, err, idempotency.ErrOwnershipLost)
	require.Equal(t, 1, orders())
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return eng.FailTx(t.Context(), tx, owner, answer) }))
	require.Equal(t, idempotency.Failed, mustClaim(t, eng, req, idempotency.Replay).Record.State)
}

func TestCompleteTxInALongTransactionCountsFromItsOwnTime(t *testing.T) {
	eng, pool := newEngine(t)
	req := request("k")
	c := mustClaim(t, eng, req, idempotency.New).Claim
	var began, before time.Time
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT now(), clock_timestamp() FROM pg_sleep(0.05)").Scan(&began, &before))
		return eng.CompleteTx(t.Context(), tx, c, answer)
	}))
	rec := mustClaim(t, eng, req, idempotency.Replay).Record
	require.False(t, rec.FinishedAt.Before(before), "the start of the transaction is not the time of the completion")
	require.Equal(t, time.Hour, rec.ExpiresAt.Sub(rec.FinishedAt).Round(time.Millisecond))
}

// A takeover between the caller's snapshot and its CompleteTx is a lost race for the caller's isolation
// level, and not yet lost ownership.
func TestCompleteTxAboveReadCommittedHasItsOwnError(t *testing.T) {
	eng, pool := newEngine(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		req := request(string(level))
		c := mustClaim(t, eng, req, idempotency.New).Claim
		advance(t, pool, "", time.Minute)
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		var one int
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT 1 FROM flavoso_idempotency LIMIT 1").Scan(&one)) // takes the snapshot
		mustClaim(t, eng, req, idempotency.TakenOver)
		err = eng.CompleteTx(t.Context(), tx, c, answer)
		require.ErrorIs(t, err, idempotency.ErrSerialization)
		require.NotErrorIs(t, err, idempotency.ErrOwnershipLost)
		require.NoError(t, tx.Rollback(t.Context()))
		// The next try sees the truth.
		err = pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			return eng.CompleteTx(t.Context(), tx, c, answer)
		})
		require.ErrorIs(t, err, idempotency.ErrOwnershipLost)
	}
}

func TestClaimsWorkOnAPoolThatDefaultsToSerializable(t *testing.T) {
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable" })
	factory := fixtures(pool, 0)
	f := factory(t)
	var wg sync.WaitGroup
	for range 20 {
		req := request("hot")
		req.Lease = time.Nanosecond
		wg.Go(func() {
			for range 10 {
				res, err := f.Engine.Claim(context.Background(), req)
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				if res.Decision != idempotency.New && res.Decision != idempotency.TakenOver && res.Decision != idempotency.InProgress {
					t.Errorf("decision %s", res.Decision)
				}
			}
		})
	}
	wg.Wait()
}

func TestOneConnectionServesFiftyKeys(t *testing.T) {
	for name, policy := range map[string]idempotency.DuplicatePolicy{"FailFast": idempotency.FailFast, "Wait": idempotency.Wait(20 * time.Second)} {
		t.Run(name, func(t *testing.T) {
			eng, _ := newEngine(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
			mw, err := idempotency.NewMiddleware(eng, idempotency.Options{OnDuplicate: policy,
				Tenant: func(*http.Request) (string, error) { return "t", nil }})
			require.NoError(t, err)
			const keys = 50
			var inside, runs atomic.Int64
			all := make(chan struct{})
			h := mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs.Add(1)
				if inside.Add(1) == keys {
					close(all)
				}
				<-all // only when every handler runs at once does any of them return
				_, _ = io.WriteString(w, "ok")
			}))
			var wg sync.WaitGroup
			for i := range 2 * keys {
				wg.Go(func() {
					r := httptest.NewRequest("POST", "/orders", strings.NewReader("{}"))
					r.Header.Set("Idempotency-Key", fmt.Sprint("key-", i%keys))
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					if w.Code != 200 && (name == "Wait" || w.Code != 409) {
						t.Errorf("status %d: %s", w.Code, w.Body)
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, keys, runs.Load())
		})
	}
}

func TestTwoClaimsOnOneConnectionDoNotBothWin(t *testing.T) {
	eng, _ := newEngine(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	mustClaim(t, eng, request("k"), idempotency.New)
	mustClaim(t, eng, request("k"), idempotency.InProgress)
}

func TestEnginePassesTheSuiteBehindPgbouncerInTransactionMode(t *testing.T) {
	for name, mode := range map[string]pgx.QueryExecMode{"exec": pgx.QueryExecModeExec, "cache_describe": pgx.QueryExecModeCacheDescribe} {
		t.Run(name, func(t *testing.T) {
			bounced := pgtest.Connect(t, pgtest.Bouncer(t, pgtest.DSN(t)), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			if name == "exec" {
				idempotencytest.Run(t, fixtures(bounced, 1000))
			}
			require.NoError(t, pgidem.Migrate(t.Context(), bounced))
			eng := pgidem.New(bounced)
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					ctx := context.Background()
					res, err := eng.Claim(ctx, request(fmt.Sprint("claim-", i)))
					if err == nil {
						err = eng.Complete(ctx, res.Claim, answer)
					}
					if err != nil {
						t.Errorf("claim and complete: %v", err)
					}
					got, err := pgidem.InTx(ctx, bounced, request(fmt.Sprint("tx-", i)), func(context.Context, pgx.Tx) (idempotency.Result, error) { return answer, nil })
					if err != nil || got.Decision != idempotency.New {
						t.Errorf("InTx: %s, %v", got.Decision, err)
					}
				})
			}
			wg.Wait()
			for i := range 20 {
				mustClaim(t, eng, request(fmt.Sprint("claim-", i)), idempotency.Replay)
				mustClaim(t, eng, request(fmt.Sprint("tx-", i)), idempotency.Replay)
			}
		})
	}
}

func TestAnUnreadableStoredResultIsADefiniteError(t *testing.T) {
	eng, pool := newEngine(t)
	req := request("k")
	require.NoError(t, eng.Complete(t.Context(), mustClaim(t, eng, req, idempotency.New).Claim, answer))
	for name, change := range map[string]string{"newer version": "set_byte(result, 0, 99)", "cut": "substr(result, 1, 9)", "lost": "NULL"} {
		var before []byte
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT result FROM flavoso_idempotency").Scan(&before))
		_, err := pool.Exec(t.Context(), "UPDATE flavoso_idempotency SET result = "+change)
		require.NoError(t, err)
		res := mustClaim(t, eng, req, idempotency.ResultGone)
		require.ErrorIs(t, res.Err, idempotency.ErrResultFormat, name)
		_, err = pool.Exec(t.Context(), "UPDATE flavoso_idempotency SET result = $1", before)
		require.NoError(t, err)
		mustClaim(t, eng, req, idempotency.Replay)
	}
}

func TestTextThatPostgreSQLRefusesIsNoError(t *testing.T) {
	eng, _ := newEngine(t)
	req := request("k")
	req.Scope = idempotency.Scope{Tenant: "a\x00b", Operation: "\xff", Key: "\x00"}
	res := mustClaim(t, eng, req, idempotency.New)
	require.Equal(t, req.Scope, res.Claim.Scope)
	require.NoError(t, eng.MarkUncertain(t.Context(), res.Claim, "note \x00 \xfe"))
	mustClaim(t, eng, req, idempotency.Uncertain)
	other := req
	other.Scope.Tenant = "a\ufffdb"
	mustClaim(t, eng, other, idempotency.New)
}

func TestTheEngineFailsWhenTheDatabaseIsGone(t *testing.T) {
	eng, pool := newEngine(t)
	c := mustClaim(t, eng, request("k"), idempotency.New).Claim
	pool.Close()
	_, err := eng.Claim(t.Context(), request("k"))
	require.Error(t, err)
	require.Error(t, eng.Complete(t.Context(), c, answer))
	require.Error(t, eng.MarkEffect(t.Context(), c))
	_, err = eng.Extend(t.Context(), c, time.Minute)
	require.Error(t, err)
	_, _, err = eng.Get(t.Context(), c.Scope.ID())
	require.Error(t, err)
	require.NotErrorIs(t, err, idempotency.ErrNotFound)
	_, err = eng.List(t.Context(), idempotency.Filter{})
	require.Error(t, err)
	_, err = eng.Sweep(t.Context(), 10)
	require.Error(t, err)
	_, err = eng.Stats(t.Context())
	require.Error(t, err)
	require.Error(t, eng.Reconcile(t.Context(), c.Scope.ID(), c.Generation, idempotency.Reconciliation{Verdict: idempotency.Happened}))
	_, err = pgidem.InTx(t.Context(), pool, request("k"), nil)
	require.Error(t, err)
}

func TestNoteIsTheSameForEveryEngine(t *testing.T) {
	require.Equal(t, idempotency.LapsedNote, pgidem.LapsedNote)
}
