package fleettest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// plain opens a client of one connection as another process would.
func (s *scene) plain(connection string) *flavoso.Client {
	s.Helper()
	engine := pgoutbox.New(s.pool(), pgoutbox.Options{Poll: 200 * time.Millisecond})
	c, err := flavoso.Open(flavoso.Config{
		Connection: connection, Token: flavoso.StaticToken(s.srv.Token(connection)), Outbox: engine,
		BaseURL: s.srv.BaseURL(), Transport: s.srv.Transport(),
		Retry: flavoso.ExponentialJitter{Base: 50 * time.Millisecond, Cap: 500 * time.Millisecond},
		OnOutcome: func(_ context.Context, c *flavoso.Client, o flavoso.Outcome) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			lane := c.Connection() + " " + o.Lane
			s.handed[lane] = append(s.handed[lane], o.Tag)
			return nil
		},
	})
	require.NoError(s, err)
	s.Cleanup(func() {
		require.NoError(s, c.Close())
		require.NoError(s, engine.Close())
	})
	return c
}

// Two processes with a client each, of one connection and without a fleet, share an outbox: each operation happens
// once and each outcome is handed over, and what another connection has there is left alone.
func TestPlainClientsShareAnOutbox(t *testing.T) {
	s := newScene(t, pgtest.DSN(t))
	s.srv.Inject(mockserver.DropResponse().Ratio(0.1))
	s.srv.Inject(mockserver.Reset().Ratio(0.05))
	others := s.open(func(c *flavoso.FleetConfig) { c.Concurrency = -1 })
	stranger, err := others.Client("other").Orders.Accept("1", flavoso.AcceptParams{}).Enqueue(t.Context())
	require.NoError(t, err)
	one, other := s.plain("store-0"), s.plain("store-0")
	var orders []string
	for i := range 20 {
		orders = append(orders, s.accept([]*flavoso.Client{one, other}[i%2]))
	}
	require.NoError(t, one.Flush(t.Context()))
	require.NoError(t, other.Flush(t.Context()))
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, tags := range s.handed {
			n += len(slices.Compact(slices.Sorted(slices.Values(tags))))
		}
		return n == 3*len(orders)
	}, 90*time.Second, 100*time.Millisecond)
	s.requireOnceInOrder(orders)
	require.Equal(t, 1, one.Status().Foreign)
	o, err := others.Client("other").Operations.Get(t.Context(), stranger.ID())
	require.NoError(t, err)
	require.Equal(t, flavoso.StateQueued, o.State)
	require.Zero(t, o.Attempts)
}
