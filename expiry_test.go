package flavoso

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// TestExpiry: what was never sent ends on time, wherever it waits and whether anybody waits for it; what
// may have been sent is taken to its end.
func TestExpiry(t *testing.T) {
	outcomes := func(c *Config) *sync.Map {
		var m sync.Map
		c.OnOutcome = func(_ context.Context, _ *Client, o Outcome) error { m.Store(o.ID, o.State); return nil }
		return &m
	}
	t.Run("offline, nobody waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var seen *sync.Map
			s := newTill(t, func(c *Config) { seen = outcomes(c) })
			s.srv.Inject(mockserver.Refuse())
			var ps []*Pending[Order]
			for i := range 3 {
				p, err := s.Orders.Accept(fmt.Sprintf("order-%d", i), AcceptParams{}).WithExpiry(time.Hour).Enqueue(t.Context())
				require.NoError(t, err)
				ps = append(ps, p)
			}
			time.Sleep(59 * time.Minute)
			require.Equal(t, 3, s.Status().Waiting)
			time.Sleep(2 * time.Minute)
			require.Zero(t, s.Status().Waiting)
			for _, p := range ps {
				_, err := p.Wait(t.Context())
				require.ErrorIs(t, err, ErrExpired)
				require.Equal(t, FateNotSent, FateOf(err))
				state, _ := seen.Load(p.ID())
				require.Equal(t, StateExpired, state, "the application is told")
			}
			require.Empty(t, posts(s.srv))
		})
	})
	t.Run("offline over a restart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var seen *sync.Map
			s := newTill(t, func(c *Config) { seen = outcomes(c) })
			s.srv.Inject(mockserver.Refuse())
			p, err := s.Orders.Accept("order-1", AcceptParams{}).WithExpiry(time.Hour).Enqueue(t.Context())
			require.NoError(t, err)
			s.restart()
			time.Sleep(time.Hour + 5*time.Minute)
			state, _ := seen.Load(p.ID())
			require.Equal(t, StateExpired, state)
		})
	})
	t.Run("behind the head of its lane", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, nil)
			s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept"))
			_, err := s.Orders.Accept("o", AcceptParams{}).WithLane("a").Enqueue(t.Context())
			require.NoError(t, err)
			began := time.Now()
			_, err = s.Orders.Acknowledge("o", AcknowledgeParams{ExternalID: "x"}).WithLane("a").WithExpiry(10 * time.Second).Do(t.Context())
			require.ErrorIs(t, err, ErrExpired)
			require.Less(t, time.Since(began), 11*time.Second)
		})
	})
	t.Run("waited for, offline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, nil)
			s.srv.Inject(mockserver.Refuse())
			began := time.Now()
			_, err := s.Orders.Accept("o", AcceptParams{}).WithExpiry(10 * time.Second).Do(t.Context())
			require.ErrorIs(t, err, ErrExpired)
			require.Less(t, time.Since(began), 11*time.Second)
		})
	})
	t.Run("behind a held lane, after a restart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, nil)
			s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept"))
			head, err := s.Orders.Accept("o", AcceptParams{}).WithLane("a").Enqueue(t.Context())
			require.NoError(t, err)
			p, err := s.Orders.Acknowledge("o", AcknowledgeParams{ExternalID: "x"}).WithLane("a").WithExpiry(10 * time.Minute).Enqueue(t.Context())
			require.NoError(t, err)
			for {
				if _, err = s.engine.Set(t.Context(), outbox.Change{ID: head.ID(), Action: outbox.Park, To: outbox.Uncertain, Now: time.Now()}); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			s.restart()
			time.Sleep(11 * time.Minute)
			require.Zero(t, s.Status().OfflineSince)
			require.Equal(t, StateExpired, stateOf(t, s.Client, p.ID()))
		})
	})
	t.Run("what may have been sent never expires", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, nil)
			id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
			s.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
			s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept").Times(5))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			_, err := s.Orders.Accept(id, AcceptParams{}).WithExpiry(time.Second).Do(ctx)
			require.NoError(t, err)
		})
	})
}
