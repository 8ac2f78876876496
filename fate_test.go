package flavoso

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestEndedContextDoesNotDenyWhatWasSaved: a till that repeats a call with the request context that has
// run out is told what is known of the operation, not that nothing was sent.
func TestEndedContextDoesNotDenyWhatWasSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		s.srv.Inject(mockserver.Delay(10*time.Second).At(mockserver.StageInHandler).On("POST", "/orders/{id}/accept").Times(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		call := s.Orders.Accept(id, AcceptParams{PreparationMinutes: 20})
		_, err := call.Do(ctx)
		require.ErrorIs(t, err, ErrPending)

		again := s.Orders.Accept(id, AcceptParams{PreparationMinutes: 20})
		for _, c := range []*Call[Order]{call, again} {
			_, err = c.Do(ctx)
			var pending *PendingError
			require.ErrorAs(t, err, &pending)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, FateUnknown, FateOf(err))
			_, err = c.Enqueue(ctx)
			require.Equal(t, FateUnknown, FateOf(err))
		}
		_, err = s.Orders.Accept(id, AcceptParams{PreparationMinutes: 25}).Do(ctx)
		require.Equal(t, FateNotSent, FateOf(err), "another wish: nothing of it was saved")

		require.NoError(t, s.Flush(t.Context()))
		order, err := again.Do(ctx)
		require.NoError(t, err, "it is done, whatever the context")
		require.Equal(t, OrderConfirmed, order.Status)
		requireOneOperation(t, s.srv, "orders.accept", 1)
	})
}

func TestOtherContentNamesWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		_, err := s.Orders.Accept(id, AcceptParams{PreparationMinutes: 20}).Do(t.Context())
		require.NoError(t, err)
		_, err = s.Orders.Accept(id, AcceptParams{PreparationMinutes: 25}).Do(t.Context())
		var reused *KeyReusedError
		require.ErrorAs(t, err, &reused)
		require.Equal(t, id, reused.Resource)
		require.Equal(t, StateSucceeded, reused.State)
		require.Contains(t, err.Error(), "orders.accept "+id)
	})
}

func TestWaitingForATokenSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, func(c *Config) { c.Token = StaticToken("wrong") })
		id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		require.Equal(t, FateUnknown, FateOf(err))
		require.ErrorIs(t, err, ErrUnauthorized)
		require.Contains(t, err.Error(), "token")
	})
}

func TestUnusableStaticTokensAreRefusedAtOpen(t *testing.T) {
	for _, token := range []string{"", "tok\n", "Bearer tok", "tök"} {
		_, err := Open(Config{Connection: store, Token: StaticToken(token), OutboxPath: t.TempDir() + "/pos.outbox"})
		var param *ParamError
		require.ErrorAs(t, err, &param)
		require.Equal(t, "Config.Token", param.Field)
		if token != "" {
			require.NotContains(t, err.Error(), "tok\n")
		}
	}
}

func TestAfterCloseNothingIsMadeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		p, err := s.Orders.Accept(id, AcceptParams{}).Enqueue(t.Context())
		require.NoError(t, err)
		_, err = p.Wait(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Close())

		for _, id := range []string{p.ID(), "no-such-operation"} {
			_, err = Attach[Order](s.Client, id).Wait(t.Context())
			var pending *PendingError
			require.ErrorAs(t, err, &pending)
			require.Empty(t, pending.State)
			require.ErrorIs(t, err, ErrStopped)
			require.NotContains(t, err.Error(), "is saved")
		}
		require.ErrorIs(t, s.Flush(t.Context()), ErrClosed)
		for _, err := range s.Operations.List(t.Context(), OperationFilter{}) {
			require.True(t, errors.Is(err, ErrClosed))
		}
		require.NoError(t, (*Client)(nil).Close())
	})
}
