package flavoso

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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

func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		want := map[string]bool{}
		for range 7 {
			want[s.srv.AddOrder(store, mockserver.Order{})] = true
		}
		s.srv.Inject(mockserver.Status(503).On("GET", "/orders").Times(2))
		var resp Response
		page, err := s.Orders.ListPage(t.Context(), ListOrdersParams{Status: []OrderStatus{OrderPending}, PageSize: 3}, "", ResponseInto(&resp))
		require.NoError(t, err)
		require.Len(t, page.Orders, 3)
		require.Equal(t, 3, resp.Attempts)
		require.Regexp(t, `^req_[0-9a-f]{24}$`, resp.RequestID)

		got := map[string]bool{}
		for o, err := range s.Orders.List(t.Context(), ListOrdersParams{PageSize: 3}) {
			require.NoError(t, err)
			got[o.ID] = true
		}
		require.Equal(t, want, got)

		_, err = s.Orders.Get(t.Context(), "nope")
		require.ErrorIs(t, err, ErrNotFound)

		s.srv.Inject(mockserver.Status(503).On("GET", "/orders/{id}"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for id := range want {
			_, err = s.Orders.Get(ctx, id)
			break
		}
		var read *ReadError
		require.ErrorAs(t, err, &read)
		require.Positive(t, read.Attempts)
		require.Equal(t, 503, read.Last.Status)
		require.ErrorAs(t, err, new(*APIError))
		require.NotContains(t, err.Error(), "\n", "a log has it on one line")
	})
}
