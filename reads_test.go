package flavoso

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestListsPage: hundreds of orders in pages of every size, while more arrive: none twice, none missed.
func TestListsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory, mockserver.WithSwitches(calm))
		want := s.srv.AddOrders(store, 350)
		for _, size := range []int{0, 7, 100} {
			seen := map[string]int{}
			for o, err := range s.Orders.List(t.Context(), ListOrdersParams{PageSize: size}) {
				require.NoError(t, err)
				if seen[o.ID]++; len(seen)%50 == 0 && len(seen) <= 300 {
					want = append(want, s.srv.AddOrder(store, mockserver.Order{}))
				}
			}
			require.Len(t, seen, len(want))
			for _, id := range want {
				require.Equal(t, 1, seen[id])
			}
		}
		_, err := s.Orders.ListPage(t.Context(), ListOrdersParams{}, "not-a-cursor")
		require.ErrorIs(t, err, ErrInvalid)
		page, err := s.Orders.ListPage(t.Context(), ListOrdersParams{Status: []OrderStatus{OrderPending}, PageSize: 1}, "")
		require.NoError(t, err)
		_, err = s.Orders.ListPage(t.Context(), ListOrdersParams{PageSize: 1}, page.NextCursor)
		require.ErrorIs(t, err, ErrInvalid, "a cursor belongs to its filters")

		for range s.Orders.List(t.Context(), ListOrdersParams{}) {
			break // leaving early is allowed
		}
	})
}
