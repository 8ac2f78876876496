package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// database starts a PostgreSQL server and returns how its empty database is reached.
func database(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "run", "github.com/flavoso/flavoso-go/postgres/internal/pgtest/pgserve")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	dsn, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ok && os.Getenv("FLAVOSO_REQUIRE_POSTGRES") != "1" {
		t.Skipf("it needs PostgreSQL: %s", line)
	}
	require.True(t, ok, line)
	return dsn
}

// migrated opens the outbox in a database, and makes its tables.
func migrated(t *testing.T, dsn string, o pgoutbox.Options) *pgoutbox.Engine {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, pgoutbox.Migrate(t.Context(), pool, o))
	e := pgoutbox.New(pool, o)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// TestADatabaseIsLookedIntoWhileItIsUsed: its engine serves many processes, and the tool is one of them.
func TestADatabaseIsLookedIntoWhileItIsUsed(t *testing.T) {
	dsn := database(t)
	require.Contains(t, command(t, 1, "outbox", "list", dsn).errOut, "there is no outbox in this database")
	engine := migrated(t, dsn, pgoutbox.Options{})
	require.Contains(t, command(t, 0, "outbox", "list", dsn).out, "0 waiting")

	s := newShop(t)
	open := func() *flavoso.Client {
		c, err := flavoso.Open(flavoso.Config{Connection: store, Token: flavoso.StaticToken(s.srv.Token(store)), BaseURL: s.srv.BaseURL(), Outbox: engine})
		require.NoError(t, err)
		return c
	}
	add(t, engine, "doubtful", "lane-1")
	add(t, engine, "stopped", "lane-2")
	add(t, engine, "unsent", "lane-3")
	for id, to := range map[string]outbox.State{"doubtful": outbox.Uncertain, "stopped": outbox.Blocked} {
		_, err := engine.Set(t.Context(), outbox.Change{ID: id, Action: outbox.Park, To: to, Now: time.Now()})
		require.NoError(t, err)
	}
	r := command(t, 0, "outbox", "list", dsn)
	require.Contains(t, r.out, "1 waiting")
	require.Contains(t, r.out, "1 uncertain, 1 blocked")
	require.NotContains(t, command(t, 0, "outbox", "export", dsn).out, guest)
	require.Contains(t, command(t, 0, "outbox", "show", dsn, "doubtful", "--bodies").out, guest)
	require.Contains(t, command(t, 0, "outbox", "verify", dsn).out, "the database: 3 operations")
	for _, args := range [][]string{{"adopt", dsn, "--start-fresh"}, {"compact", dsn}} {
		require.Contains(t, command(t, 2, append([]string{"outbox"}, args...)...).errOut, "for outbox files")
	}

	c := open()
	s.book(c, "booked")
	require.NoError(t, c.Flush(t.Context()))
	command(t, 0, "outbox", "resolve", dsn, "doubtful", "--done", "--note", "seen", "--yes")
	command(t, 0, "outbox", "resume", dsn, "lane-2", "--yes")
	command(t, 0, "outbox", "cancel", dsn, "stopped", "unsent", "--yes")
	s.close(c)
	require.Contains(t, command(t, 0, "outbox", "watch", dsn, "--until-drained").out, "0 waiting, 0 uncertain, 0 blocked")
	s.srv.AssertExactlyOnce(t, "bookings.create", "booked")
	require.Contains(t, command(t, 0, "outbox", "verify", dsn).out, "nothing is wrong")

	other := pgoutbox.Options{Schema: "other"}
	add(t, migrated(t, dsn, other), "elsewhere", "lane")
	require.Contains(t, command(t, 0, "outbox", "list", dsn, "--schema", "other").out, "elsewhere")
	require.NotContains(t, command(t, 0, "outbox", "list", dsn).out, "elsewhere")
	require.Contains(t, command(t, 1, "outbox", "list", dsn, "--schema", "none").errOut, "--schema")
}

// TestARestoredDatabaseIsAdopted: nothing in it shows that its operations were sent since the backup.
func TestARestoredDatabaseIsAdopted(t *testing.T) {
	dsn := database(t)
	o := pgoutbox.Options{Schema: "pos"}
	engine := migrated(t, dsn, o)
	for i := range 3 {
		add(t, engine, fmt.Sprint("op-", i), fmt.Sprint("lane-", i))
	}
	_, err := engine.Set(t.Context(), outbox.Change{ID: "op-0", Action: outbox.Cancel, Now: time.Now()})
	require.NoError(t, err)
	r := command(t, 5, "outbox", "adopt", dsn, "--schema", "pos")
	require.Contains(t, r.errOut, "the database: 2 unfinished operations count as sent since they were accepted")
	require.Contains(t, r.errOut, "no worker should run yet")
	require.Contains(t, command(t, 0, "outbox", "list", dsn, "--schema", "pos", "--state", "queued").out, "op-1")

	require.JSONEq(t, `{"outbox":"the database","cause":"adopted","salvaged":3,"damaged":0,"lost":0,"suspect":2}`,
		command(t, 0, "outbox", "adopt", dsn, "--schema", "pos", "--yes", "--json").out)
	require.Contains(t, command(t, 0, "outbox", "show", dsn, "--schema", "pos", "op-1").out, "counts as sent since it was accepted")
	require.Contains(t, command(t, 1, "outbox", "cancel", dsn, "--schema", "pos", "op-1", "--yes").errOut, "op-1")
	require.Contains(t, command(t, 0, "outbox", "adopt", dsn, "--schema", "pos", "--yes").out, "2 count as sent from now on")
	require.Contains(t, command(t, 1, "outbox", "adopt", dsn, "--yes").errOut, "there is no outbox in this database")
}

func TestADatabaseThatCannotBeReachedIsSaid(t *testing.T) {
	r := command(t, 1, "outbox", "list", "postgres://somebody:secret-word@127.0.0.1:1/x?connect_timeout=1")
	require.Contains(t, r.errOut, "the database:")
	require.NotContains(t, r.errOut, "secret-word")
	r = command(t, 2, "outbox", "list", "postgres://somebody:secret-word@127.0.0.1:x/")
	require.NotContains(t, r.errOut, "secret-word")
}
