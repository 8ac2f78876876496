package pgidem_test

import (
	"bytes"
	"context"
	"errors"
	"net"
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
	"github.com/flavoso/flavoso-go/postgres/pgidem"
)

// ledger is a database with a table of effects.
func ledger(t *testing.T, configure ...func(*pgxpool.Config)) (pool *pgxpool.Pool, effects func() int) {
	t.Helper()
	_, pool = newEngine(t, configure...)
	_, err := pool.Exec(t.Context(), "CREATE TABLE effects (key text)")
	require.NoError(t, err)
	return pool, func() (n int) {
		require.NoError(t, pool.QueryRow(context.Background(), "SELECT count(*) FROM effects").Scan(&n))
		return n
	}
}

// insert is the work of most tests.
func insert(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
	_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('x')")
	return answer, err
}

func inTx(t *testing.T, pool *pgxpool.Pool, req idempotency.ClaimRequest, want idempotency.Decision, fn pgidem.TxFunc) idempotency.ClaimResult {
	t.Helper()
	res, err := pgidem.InTx(context.Background(), pool, req, fn)
	require.NoError(t, err)
	require.Equal(t, want, res.Decision)
	return res
}

func never(context.Context, pgx.Tx) (idempotency.Result, error) { panic("must not run") }

func TestInTxCommitsEffectAndResultTogether(t *testing.T) {
	pool, effects := ledger(t)
	req := request("k")
	first := inTx(t, pool, req, idempotency.New, insert)
	require.Equal(t, answer, first.Result)
	require.Equal(t, idempotency.Completed, first.Record.State)
	replayed := inTx(t, pool, req, idempotency.Replay, never)
	require.Equal(t, answer, replayed.Result)
	require.Equal(t, first.Record.Generation, replayed.Record.Generation)
	other := req
	other.Fingerprint = idempotency.NewFingerprint(200, []byte("other"))
	inTx(t, pool, other, idempotency.Mismatch, never)
	require.Equal(t, 1, effects())

	advance(t, pool, "", time.Hour)
	again := inTx(t, pool, other, idempotency.New, insert)
	require.Greater(t, again.Record.Generation, first.Record.Generation)
	require.Equal(t, 2, effects())
	inTx(t, pool, other, idempotency.Replay, never)
	// Records of both ways are the same kind of record.
	mustClaim(t, pgidem.New(pool), other, idempotency.Replay)
}

func TestInTxStoresARefusalAndItsRetentionFromReceipt(t *testing.T) {
	pool, _ := ledger(t)
	req := request("k")
	req.HoldFrom = idempotency.FromReceipt
	res := inTx(t, pool, req, idempotency.New, func(context.Context, pgx.Tx) (idempotency.Result, error) {
		return idempotency.Result{Status: 422}, nil
	})
	require.Equal(t, idempotency.Failed, res.Record.State)
	require.Equal(t, time.Hour, res.Record.ExpiresAt.Sub(res.Record.CreatedAt))
	require.Equal(t, 422, inTx(t, pool, req, idempotency.Replay, never).Result.Status)
	req = request("large")
	inTx(t, pool, req, idempotency.New, func(context.Context, pgx.Tx) (idempotency.Result, error) {
		return idempotency.Result{Status: 200, Omitted: true}, nil
	})
	inTx(t, pool, req, idempotency.ResultGone, never)
}

func TestInTxLeavesNothingWhenTheWorkFails(t *testing.T) {
	pool, effects := ledger(t)
	boom := errors.New("boom")
	for name, fn := range map[string]pgidem.TxFunc{
		"error": func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
			_, _ = insert(ctx, tx)
			return answer, boom
		},
		"failed statement, error ignored": func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
			_, _ = insert(ctx, tx)
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return answer, nil
		},
	} {
		_, err := pgidem.InTx(t.Context(), pool, request("k"), fn)
		require.Error(t, err, name)
		if name == "error" {
			require.ErrorIs(t, err, boom)
		}
		require.Zero(t, effects(), name)
	}
	require.PanicsWithValue(t, "boom", func() {
		_, _ = pgidem.InTx(t.Context(), pool, request("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
			_, _ = insert(ctx, tx)
			panic("boom")
		})
	})
	require.Zero(t, effects())
	inTx(t, pool, request("k"), idempotency.New, insert) // free at once
	require.Equal(t, 1, effects())
	_, err := pgidem.InTx(t.Context(), pool, idempotency.ClaimRequest{}, never)
	require.ErrorIs(t, err, idempotency.ErrRequest)
}

func TestInTxRunsOnceUnderConcurrency(t *testing.T) {
	pool, effects := ledger(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := pgidem.InTx(context.Background(), pool, request("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
			close(entered)
			<-leave
			return insert(ctx, tx)
		})
		if err != nil {
			t.Errorf("InTx: %v", err)
		}
	}()
	<-entered
	for range 3 {
		inTx(t, pool, request("k"), idempotency.InProgress, never) // at once, without waiting
	}
	inTx(t, pool, request("other"), idempotency.New, insert)
	close(leave)
	<-done
	inTx(t, pool, request("k"), idempotency.Replay, never)
	require.Equal(t, 2, effects())

	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			res, err := pgidem.InTx(context.Background(), pool, request("hot"), insert)
			if err != nil || res.Decision == idempotency.Mismatch {
				t.Errorf("InTx: %s, %v", res.Decision, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 3, effects())
}

func TestInTxMeetsClaims(t *testing.T) {
	pool, effects := ledger(t)
	eng := pgidem.New(pool)
	running := mustClaim(t, eng, request("running"), idempotency.New).Claim
	inTx(t, pool, request("running"), idempotency.InProgress, never)
	require.NoError(t, eng.MarkUncertain(t.Context(), running, "x"))
	inTx(t, pool, request("running"), idempotency.Uncertain, never)
	marked := mustClaim(t, eng, request("marked"), idempotency.New).Claim
	require.NoError(t, eng.MarkEffect(t.Context(), marked))
	lapsed := mustClaim(t, eng, request("lapsed"), idempotency.New).Claim
	advance(t, pool, "", time.Minute)
	inTx(t, pool, request("marked"), idempotency.Uncertain, never)
	inTx(t, pool, request("lapsed"), idempotency.New, insert)
	require.ErrorIs(t, eng.Complete(t.Context(), lapsed, answer), idempotency.ErrOwnershipLost)
	require.Equal(t, 1, effects())
}

func TestInTxAboveReadCommitted(t *testing.T) {
	pool, effects := ledger(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)")
	require.NoError(t, err)
	serializable := pgidem.WithTxOptions(pgx.TxOptions{IsoLevel: pgx.Serializable})
	_, err = pgidem.InTx(t.Context(), pool, request("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		var n int
		require.NoError(t, tx.QueryRow(ctx, "SELECT n FROM counter").Scan(&n))
		_, err := pool.Exec(ctx, "UPDATE counter SET n = n + 1") // another transaction is faster
		require.NoError(t, err)
		if _, err := tx.Exec(ctx, "UPDATE counter SET n = $1", n+1); err != nil {
			return idempotency.Result{}, err
		}
		return insert(ctx, tx)
	}, serializable)
	require.ErrorIs(t, err, idempotency.ErrSerialization)
	require.Zero(t, effects())
	res, err := pgidem.InTx(t.Context(), pool, request("k"), insert, serializable)
	require.NoError(t, err)
	require.Equal(t, idempotency.New, res.Decision)
}

// cutter breaks connections at COMMIT, before or after the server gets it.
type cutter struct {
	armed   atomic.Bool
	deliver atomic.Bool
}

func (c *cutter) configure(cfg *pgxpool.Config) {
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &cutConn{Conn: conn, c: c}, err
	}
}

type cutConn struct {
	net.Conn
	c *cutter
}

func (c *cutConn) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("commit")) || !c.c.armed.CompareAndSwap(true, false) {
		return c.Conn.Write(p)
	}
	if c.c.deliver.Load() {
		if _, err := c.Conn.Write(p); err != nil {
			return 0, err
		}
		// Wait for the server's answer, so that it surely has committed, and lose it.
		_ = c.Conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, _ = c.Conn.Read(make([]byte, 1024))
	}
	_ = c.Conn.Close()
	return len(p), nil
}

func TestInTxFindsOutWhatBecameOfALostCommit(t *testing.T) {
	var cut cutter
	pool, effects := ledger(t, cut.configure)
	for i, delivered := range []bool{true, false} {
		cut.deliver.Store(delivered)
		cut.armed.Store(true)
		req := request([]string{"delivered", "not delivered"}[i])
		res, err := pgidem.InTx(t.Context(), pool, req, insert)
		require.False(t, cut.armed.Load(), "the commit was cut")
		if delivered {
			require.NoError(t, err)
			require.Equal(t, idempotency.New, res.Decision)
			require.Equal(t, answer, res.Result)
			inTx(t, pool, req, idempotency.Replay, never)
		} else {
			require.ErrorContains(t, err, "nothing was committed")
			require.NotErrorIs(t, err, pgidem.ErrCommitUnknown)
			inTx(t, pool, req, idempotency.New, insert)
		}
		require.Equal(t, i+1, effects())
	}
}

func TestHandlerServesByInTx(t *testing.T) {
	pool, effects := ledger(t)
	fail := false
	h, err := pgidem.NewHandler(pool, idempotency.Options{Tenant: func(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }},
		func(ctx context.Context, tx pgx.Tx, r *http.Request) (idempotency.Result, error) {
			body := new(strings.Builder)
			if _, err := body.WriteString(r.URL.Path); err != nil {
				return idempotency.Result{}, err
			}
			if _, err := insert(ctx, tx); err != nil {
				return idempotency.Result{}, err
			}
			if fail {
				return idempotency.Result{}, errors.New("no luck")
			}
			return idempotency.Result{Status: 201, Body: []byte(body.String())}, nil
		})
	require.NoError(t, err)
	do := func(key, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/orders", strings.NewReader(body))
		r.Header.Set("X-Tenant", "a")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	first := do("k", "{}")
	require.Equal(t, 201, first.Code)
	require.Equal(t, "/orders", first.Body.String())
	again := do("k", "{}")
	require.Equal(t, 201, again.Code)
	require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
	require.Equal(t, 422, do("k", "{ }").Code)
	require.Equal(t, 400, do("bad\x01", "{}").Code)
	require.Equal(t, 1, effects())
	require.Equal(t, 201, do("", "{}").Code)
	require.Equal(t, 2, effects())

	fail = true
	require.Equal(t, 503, do("failing", "{}").Code)
	require.Equal(t, 503, do("", "{}").Code)
	require.Equal(t, 2, effects())
	fail = false
	require.Equal(t, 201, do("failing", "{}").Code)
	require.Equal(t, 3, effects())

	_, err = pgidem.NewHandler(pool, idempotency.Options{}, nil)
	require.ErrorContains(t, err, "Tenant")
	pool.Close()
	require.Equal(t, 503, do("k", "{}").Code)
}

func TestHandlerRepeatsLostRaces(t *testing.T) {
	pool, effects := ledger(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)")
	require.NoError(t, err)
	tries := 0
	h, err := pgidem.NewHandler(pool, idempotency.Options{Tenant: func(*http.Request) (string, error) { return "t", nil }},
		func(ctx context.Context, tx pgx.Tx, r *http.Request) (idempotency.Result, error) {
			tries++
			var n int
			require.NoError(t, tx.QueryRow(ctx, "SELECT n FROM counter").Scan(&n))
			if tries < 3 {
				_, err := pool.Exec(ctx, "UPDATE counter SET n = n + 1")
				require.NoError(t, err)
			}
			if _, err := tx.Exec(ctx, "UPDATE counter SET n = $1", n+1); err != nil {
				return idempotency.Result{}, err
			}
			return insert(ctx, tx)
		}, pgidem.WithTxOptions(pgx.TxOptions{IsoLevel: pgx.Serializable}))
	require.NoError(t, err)
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, 201, w.Code, w.Body.String())
	require.Equal(t, 3, tries)
	require.Equal(t, 1, effects())
}

// TestHandlerKeepsTheOptionsThatApply: what of an answer is stored, and whether it is.
func TestHandlerKeepsTheOptionsThatApply(t *testing.T) {
	pool, effects := ledger(t)
	tenant := func(*http.Request) (string, error) { return "t", nil }
	status := 201
	h, err := pgidem.NewHandler(pool, idempotency.Options{Tenant: tenant, Hold: idempotency.HoldExcept5xx, DropHeaders: []string{"x-mine"}},
		func(ctx context.Context, tx pgx.Tx, _ *http.Request) (idempotency.Result, error) {
			if _, err := insert(ctx, tx); err != nil {
				return idempotency.Result{}, err
			}
			return idempotency.Result{Status: status, Body: []byte("done"), Header: http.Header{
				"Set-Cookie": {"session=1"}, "X-Mine": {"1"}, "X-Request-Id": {"r1"}, "Location": {"/orders/1"}}}, nil
		})
	require.NoError(t, err)
	do := func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/orders", strings.NewReader("{}"))
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	first, again := do("k"), do("k")
	require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
	require.Equal(t, "/orders/1", again.Header().Get("Location"))
	for _, name := range []string{"Set-Cookie", "X-Mine", "X-Request-Id"} {
		require.NotEmpty(t, first.Header().Get(name), "the first client gets %s", name)
		require.Empty(t, again.Header().Get(name), "%s belongs to one exchange", name)
	}
	require.Equal(t, 1, effects())

	status = 502
	failed := do("not held")
	require.Equal(t, 502, failed.Code)
	require.Equal(t, "done", failed.Body.String(), "the client gets the answer")
	require.Equal(t, "session=1", failed.Header().Get("Set-Cookie"))
	require.Equal(t, 502, do("").Code, "without a key as well")
	require.Equal(t, 1, effects(), "what is not held has had no effect: it is rolled back")
	status = 201
	repeated := do("not held")
	require.Equal(t, 201, repeated.Code, "and the key is free")
	require.Empty(t, repeated.Header().Get("Idempotent-Replayed"))
	require.Equal(t, 2, effects())
}

// TestHandlerRefusesWhatItCannotDo when it is made, and not at the first request.
func TestHandlerRefusesWhatItCannotDo(t *testing.T) {
	pool, _ := ledger(t)
	tenant := func(*http.Request) (string, error) { return "t", nil }
	work := func(context.Context, pgx.Tx, *http.Request) (idempotency.Result, error) {
		return idempotency.Result{}, nil
	}
	_, err := pgidem.NewHandler(pool, idempotency.Options{Tenant: tenant, OnDuplicate: idempotency.Wait(time.Second)}, work)
	require.ErrorContains(t, err, "OnDuplicate")
	_, err = pgidem.NewHandler(pool, idempotency.Options{Tenant: tenant, FailOpen: func(*http.Request) bool { return true }}, work)
	require.ErrorContains(t, err, "FailOpen")
	_, err = pgidem.NewHandler(pool, idempotency.Options{Tenant: tenant}, nil)
	require.ErrorContains(t, err, "function")
	_, err = pgidem.NewHandler(nil, idempotency.Options{Tenant: tenant}, work)
	require.ErrorContains(t, err, "pool")
}
