package flavoso

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBadInputOfEveryCall: whatever is wrong shows in the Call, before anything is saved or sent.
func TestBadInputOfEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		for field, calls := range map[string][]func(context.Context) error{
			"order_id": {doing(s.Orders.Accept("", AcceptParams{})), doing(s.Orders.Acknowledge("a/b", AcknowledgeParams{"1"})),
				doing(s.Orders.Reject("..", RejectParams{Reason: ReasonTooBusy})), doing(s.Orders.Cancel("a?b", CancelParams{Reason: ReasonTooBusy})),
				doing(s.Orders.SetStatus("a b", StatusParams{OrderReady})), doing(s.Orders.Update("ä", UpdateOrderParams{Null[time.Time]()})),
				reading(s.Orders.Get(t.Context(), ""))},
			"booking_id": {doing(s.Bookings.Update("", UpdateBookingParams{Note: Set("x")})), doing(s.Bookings.Cancel("a/b")), doing(s.Bookings.Seat("..")),
				doing(s.Bookings.Complete("a%2Fb")), doing(s.Bookings.NoShow("#")), reading(s.Bookings.Get(t.Context(), "a/b"))},
			"external_id":        {doing(s.Orders.Acknowledge("o", AcknowledgeParams{})), doing(s.Bookings.Create("", BookingParams{PartySize: 1, StartsAt: time.Now()}))},
			"reason":             {doing(s.Orders.Reject("o", RejectParams{})), doing(s.Orders.Cancel("o", CancelParams{}))},
			"status":             {doing(s.Orders.SetStatus("o", StatusParams{"Ready"}))},
			"estimated_ready_at": {doing(s.Orders.Update("o", UpdateOrderParams{}))},
			"body":               {doing(s.Bookings.Update("b", UpdateBookingParams{})), doing(s.Store.Update(UpdateStoreParams{}))},
			"changes":            {doing(s.Menu.SetAvailability(AvailabilityParams{}))},
			"menu":               {doing(s.Menu.Put(nil))},
			"/currency":          {doing(s.Menu.Put(&Menu{}))},
			"hours":              {doing(s.Store.PutHours(nil))},
			"/timezone":          {doing(s.Store.PutHours(&Hours{}))},
			"limit": {reading(s.Orders.ListPage(t.Context(), ListOrdersParams{PageSize: 101}, "")),
				reading(s.Bookings.ListPage(t.Context(), ListBookingsParams{PageSize: -1}, ""))},
		} {
			for i, call := range calls {
				err := call(t.Context())
				var param *ParamError
				require.ErrorAs(t, err, &param, "%s %d", field, i)
				assert.Equal(t, field, param.Field)
				assert.NotEmpty(t, param.Rule)
				assert.Equal(t, FateNotSent, FateOf(err))
			}
		}
		counts, err := s.engine.Counts(t.Context(), "")
		require.NoError(t, err)
		require.Zero(t, counts.LastSeq)
		require.Empty(t, s.srv.Requests())
	})
}

func reading[T any](_ *T, err error) func(context.Context) error {
	return func(context.Context) error { return err }
}
