package flavoso

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBookingsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		for _, ref := range []string{"a", "b", "c"} {
			_, err := s.Bookings.Create(ref, BookingParams{PartySize: 2, StartsAt: time.Now().Add(48 * time.Hour), Customer: BookingCustomer{Name: ref}}).Do(t.Context())
			require.NoError(t, err)
		}
		page, err := s.Bookings.ListPage(t.Context(), ListBookingsParams{ExternalID: "b"}, "")
		require.NoError(t, err)
		require.Len(t, page.Bookings, 1)
		id := page.Bookings[0].ID
		moved := time.Now().Add(50 * time.Hour)
		b, err := s.Bookings.Update(id, UpdateBookingParams{StartsAt: Set(moved), Note: Set("Fenster")}).Do(t.Context())
		require.NoError(t, err)
		require.True(t, b.StartsAt.Equal(moved.Round(0)))
		b, err = s.Bookings.Update(id, UpdateBookingParams{PartySize: Set(3)}).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Fenster", b.Note, "omitted leaves it")
		b, err = s.Bookings.Update(id, UpdateBookingParams{Note: Null[string]()}).Do(t.Context())
		require.NoError(t, err)
		require.Empty(t, b.Note, "null clears it")
		_, err = s.Bookings.Seat(id).Do(t.Context())
		require.NoError(t, err)
		_, err = s.Bookings.Cancel(id).Do(t.Context())
		require.ErrorIs(t, err, ErrConflict, "they sit already")
		b, err = s.Bookings.Complete(id).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, BookingCompleted, b.Status)
		got := map[string]BookingStatus{}
		for b, err := range s.Bookings.List(t.Context(), ListBookingsParams{PageSize: 2}) {
			require.NoError(t, err)
			got[b.ExternalID] = b.Status
		}
		require.Equal(t, map[string]BookingStatus{"a": BookingConfirmed, "b": BookingCompleted, "c": BookingConfirmed}, got)
		again, err := s.Bookings.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, 3, again.PartySize)
	})
}
