package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// start runs the service on a database of its own.
func start(t *testing.T, dsn string) (base string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	var log bytes.Buffer
	go func() {
		ended <- run(ctx, config{dsn: dsn, addr: "127.0.0.1:0", log: slog.New(slog.NewTextHandler(&log, nil)),
			ready: func(addr string) { ready <- "http://" + addr }})
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		require.NoError(t, <-ended)
		if t.Failed() {
			t.Log(log.String())
		}
	})
	select {
	case base = <-ready:
		return base
	case err := <-ended:
		ended <- err
		t.Fatalf("the server ended: %v", err)
		return ""
	}
}

// steps reads the commands of the README and what each must print.
func steps(t *testing.T) (out []struct{ command, want string }) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	inside := false
	for _, line := range strings.Split(string(text), "\n") {
		switch command, isCommand := strings.CutPrefix(line, "$ "); {
		case line == "```console":
			inside = true
		case line == "```":
			inside = false
		case !inside:
		case isCommand:
			out = append(out, struct{ command, want string }{command: command})
		default:
			out[len(out)-1].want += line + "\n"
		}
	}
	return out
}

func TestTheWalkThroughOfTheREADME(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv(pgtest.EnvRequire) == "1" {
			t.Fatal("curl is not installed")
		}
		t.Skip("curl is not installed")
	}
	base := start(t, pgtest.DSN(t))
	all := steps(t)
	require.Greater(t, len(all), 12)
	for _, s := range all {
		command := strings.ReplaceAll(s.command, "http://127.0.0.1:4020", base)
		out, err := exec.Command("sh", "-c", command).Output()
		require.NoError(t, err, s.command)
		require.Equal(t, strings.TrimSpace(s.want), strings.TrimSpace(string(out)), s.command)
	}
}

func TestItMakesAServerOfItsOwnWithoutDSN(t *testing.T) {
	pgtest.DSN(t) // skips, or fails, where there is none
	base := start(t, "")
	req, err := http.NewRequest("GET", base+"/orders", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
}

// A charge that never reached the bank is not called undone before the bank would have carried it out.
func TestReconcileWaitsBeforeItSaysThatNothingHappened(t *testing.T) {
	pool := pgtest.Pool(t)
	s, err := newService(t.Context(), pool, "http://127.0.0.1:1", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	bankServer := newBankServer(t, s.bank)
	s.client.base = bankServer
	res, err := s.engine.Claim(t.Context(), idempotency.ClaimRequest{Scope: idempotency.Scope{Tenant: "till-1", Operation: "POST /charges", Key: "k"},
		Fingerprint: idempotency.NewFingerprint(16), Lease: time.Minute, Retention: time.Hour})
	require.NoError(t, err)
	require.NoError(t, s.engine.MarkUncertain(t.Context(), res.Claim, "test"))
	settled, err := s.reconcile(t.Context())
	require.NoError(t, err)
	require.Zero(t, settled)
	_, err = pool.Exec(t.Context(), "UPDATE flavoso_idempotency SET created_at = created_at - interval '1 minute'")
	require.NoError(t, err)
	settled, err = s.reconcile(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, settled)
	_, _, err = s.engine.Get(t.Context(), res.Claim.Scope.ID())
	require.ErrorIs(t, err, idempotency.ErrNotFound)
}

func newBankServer(t *testing.T, b *bank) string {
	t.Helper()
	srv := httptest.NewServer(b.routes())
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		srv.Close()
	})
	return srv.URL
}
