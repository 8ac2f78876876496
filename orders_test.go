package flavoso

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

func TestAStatusMayBeSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{Status: mockserver.StatusConfirmed})
		ready := func() (Key, error) {
			call := s.Orders.SetStatus(id, StatusParams{OrderReady})
			_, err := call.Do(t.Context())
			o, _ := call.Outcome()
			return o.Key, err
		}
		first, err := ready()
		require.NoError(t, err)
		require.NoError(t, s.srv.ChangeOrder(store, id, func(o *mockserver.Order) { o.Status = mockserver.StatusPreparing })) // by hand
		second, err := ready()
		require.NoError(t, err)
		require.Equal(t, first+"~2", second)
		require.Len(t, s.srv.Effects(), 2)

		_, err = s.Orders.SetStatus(id, StatusParams{OrderPreparing}).Do(t.Context())
		require.ErrorIs(t, err, ErrConflict, "never back")
	})
}

func TestAnAcceptedOrderIsCancelledNotRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
		_, err = s.Orders.Reject(id, RejectParams{Reason: ReasonTooBusy}).Do(t.Context())
		require.ErrorIs(t, err, ErrConflict)
		require.Equal(t, FateRefused, FateOf(err))
		order, err := s.Orders.Cancel(id, CancelParams{Reason: ReasonItemUnavailable}).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, "restaurant", order.Cancellation.By)
		require.Equal(t, ReasonItemUnavailable, order.Cancellation.Reason)
		_, err = s.Orders.Update(id, UpdateOrderParams{EstimatedReadyAt: Set(time.Now().Add(time.Hour))}).Do(t.Context())
		require.ErrorIs(t, err, ErrConflict)
	})
}

// TestOrdersAddUp: what the mock server sends is what the SDK's types say, to the cent.
func TestOrdersAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		s.srv.AddOrders(store, 200)
		for o, err := range s.Orders.List(t.Context(), ListOrdersParams{PageSize: 100}) {
			require.NoError(t, err)
			var items int64
			for _, it := range o.Items {
				require.Equal(t, it.TotalPrice, it.LineTotal())
				items += it.TotalPrice.Amount
			}
			sum := o.Totals
			require.Equal(t, items, sum.Items.Amount)
			require.Equal(t, sum.Items.Amount-sum.Discounts.Amount+sum.DeliveryFee.Amount+sum.ServiceFee.Amount+sum.Tip.Amount, sum.Total.Amount)
			var raw map[string]any
			require.NoError(t, json.Unmarshal(o.Raw, &raw))
		}
	})
}

// TestAcceptOfACancelledOrder: Flavoso answers 200 with the order unchanged (F13). Nobody may cook it.
func TestAcceptOfACancelledOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{Status: mockserver.StatusCancelled})
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		var unexpected *UnexpectedStateError
		require.ErrorAs(t, err, &unexpected)
		require.Equal(t, "cancelled", unexpected.Got)
		require.Equal(t, FateDone, FateOf(err))
		require.Empty(t, s.srv.Effects())
	})
}
