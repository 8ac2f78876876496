package pgoutbox_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// cutter cuts connections: what was written arrives, and the answer does not.
type cutter struct{ writes atomic.Int64 } // until the cut; 0 = never

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &cutConn{Conn: conn, c: c}, err
}

type cutConn struct {
	net.Conn
	c   *cutter
	cut atomic.Bool
}

func (x *cutConn) Write(b []byte) (int, error) {
	n, err := x.Conn.Write(b)
	if x.c.writes.Load() > 0 && x.c.writes.Add(-1) == 0 {
		x.cut.Store(true)
	}
	return n, err
}

func (x *cutConn) Read(b []byte) (int, error) {
	if x.cut.Load() {
		// The server has time to commit, or is still at it: both must do.
		_, _ = x.Conn.Read(make([]byte, 1))
		return 0, errors.New("the connection was cut")
	}
	return x.Conn.Read(b)
}

// The answer to a COMMIT is lost. The engine finds out that it was done, and answers as if nothing had happened.
func TestALostAnswerToACommitIsFoundOut(t *testing.T) {
	var cut cutter
	pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.DialFunc, c.MaxConns = cut.dial, 1 })
	e := open(t, pool, pgoutbox.Options{PollOnly: true, Poll: never})
	warmed := 0
	warm := func() { // every statement is prepared, so that each step is so many writes
		warmed++
		id := fmt.Sprint("warm-", warmed)
		mustAdd(t, e, op(id, "warm"))
		s := success(mustClaim(t, e, outbox.ClaimRequest{Limit: 1, First: []string{id}})[0])
		s.To = outbox.Uncertain
		mustSettle(t, e, s)
		_, err := e.Set(t.Context(), outbox.Change{ID: id, Action: outbox.ResolveDone, Now: time.Now()})
		require.NoError(t, err)
		require.NoError(t, e.Ack(t.Context(), id, 2))
		mustAdd(t, e, op("longer "+id, "warm", func(a *outbox.Addition) { a.Limits.Operations = 1000 }))
		_, err = e.Set(t.Context(), outbox.Change{ID: "longer " + id, Action: outbox.Cancel, Now: time.Now()})
		require.NoError(t, err)
		require.NoError(t, e.SaveState(t.Context(), "x", "y", []byte("w")))
	}
	lost := func(what string, writes int64, f func()) {
		t.Helper()
		warm()
		cut.writes.Store(writes)
		f()
		require.Zero(t, cut.writes.Load(), "%s: the connection was not cut", what)
		checkTables(t, pool)
	}
	lost("add", 1, func() {
		out := mustAdd(t, e, op("a", "a"))
		require.Equal(t, outbox.AddedNew, out.Decision)
		require.Equal(t, mustGet(t, e, "a"), out.Record)
	})
	lost("add the longer way", 2, func() {
		out := mustAdd(t, e, op("b", "b", func(a *outbox.Addition) { a.Limits.Operations = 1000 }))
		require.Equal(t, outbox.AddedNew, out.Decision)
		require.Equal(t, mustGet(t, e, "b"), out.Record)
	})
	var r []outbox.Record
	lost("claim", 2, func() {
		r = mustClaim(t, e, outbox.ClaimRequest{Limit: 1})
		require.Equal(t, []string{"a"}, ids(r))
		require.Equal(t, mustGet(t, e, "a"), r[0])
	})
	lost("settle", 2, func() {
		s := success(r[0])
		s.To = outbox.Uncertain
		out := mustSettle(t, e, s)
		require.NoError(t, out.Err)
		require.Equal(t, mustGet(t, e, "a"), out.Record)
	})
	lost("set", 2, func() {
		out, err := e.Set(t.Context(), outbox.Change{ID: "a", Action: outbox.ResolveDone, Now: time.Now()})
		require.NoError(t, err)
		require.Equal(t, mustGet(t, e, "a"), out)
	})
	lost("ack", 2, func() { require.NoError(t, e.Ack(t.Context(), "a", 2)) })
	lost("save state", 2, func() { require.NoError(t, e.SaveState(t.Context(), "x", "y", []byte("z"))) })
}

// When the database cannot be asked any more, the error says that the result is unknown, and of which operation.
func TestACommitThatNobodyCanAskForIsUnknown(t *testing.T) {
	var cut cutter
	var gone atomic.Bool
	pool := newPool(t, func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc, c.MaxConns = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gone.Load() {
				return nil, errors.New("unreachable")
			}
			return cut.dial(ctx, network, addr)
		}, 1
	})
	e := open(t, pool, pgoutbox.Options{PollOnly: true, Poll: never})
	mustAdd(t, e, op("warm", "warm"))
	gone.Store(true)
	cut.writes.Store(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the caller does not wait for ever
	defer cancel()
	_, err := e.Add(ctx, op("a", "a"))
	var unknown *outbox.SaveError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "a", unknown.ID)
	gone.Store(false)
	require.Equal(t, outbox.FoundOperation, mustAdd(t, e, op("a", "a")).Decision, "adding it again settles it")
}
