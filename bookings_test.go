package flavoso

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
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

// TestBookingIsMadeOnce: a booking is the call that really doubles. After a 5xx Flavoso executes the repeat
// (F10), so the key alone does not help; the client looks first.
func TestBookingIsMadeOnce(t *testing.T) {
	booking := func(f mockserver.Fault) mockserver.Fault { return f.On("POST", "/bookings").Times(1) }
	cases := []struct {
		name  string
		fault mockserver.Fault
	}{
		{"the answer is dropped", booking(mockserver.DropResponse())},
		{"500 before the effect", booking(mockserver.Status(500))},
		{"500 after the effect", booking(mockserver.StatusAfterCommit(500))},
		{"the server dies after the commit", booking(mockserver.CrashAfterCommit())},
		{"the server dies before the commit", booking(mockserver.CrashBeforeCommit())},
		{"no answer until the timeout", booking(mockserver.Hang())},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, nil)
				s.srv.Inject(tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				got, err := s.Bookings.Create("2026-11-30-17", BookingParams{
					PartySize: 4, StartsAt: time.Now().Add(48 * time.Hour), Customer: BookingCustomer{Name: "Jörg Müller"},
				}).Do(ctx)
				require.NoError(t, err)
				require.Equal(t, "2026-11-30-17", got.ExternalID)
				requireOneOperation(t, s.srv, "bookings.create", 1)
			})
		})
	}
}

func TestTwoAppsBookUnderTheSameReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		at := time.Now().Add(48 * time.Hour)
		_, err := s.Bookings.Create("17", BookingParams{PartySize: 4, StartsAt: at, Customer: BookingCustomer{Name: "A"}}).Do(t.Context())
		require.NoError(t, err)

		// A reinstalled device: the same connection and reference, an empty outbox, another wish.
		cfg := s.cfg
		cfg.OutboxPath = filepath.Join(t.TempDir(), "other.outbox")
		other, err := Open(cfg)
		require.NoError(t, err)
		defer other.Close()
		_, err = other.Bookings.Create("17", BookingParams{PartySize: 2, StartsAt: at, Customer: BookingCustomer{Name: "B"}}).Do(t.Context())
		require.Equal(t, FateRefused, FateOf(err), "%v", err)
		require.ErrorIs(t, err, ErrConflict)
		var api *APIError
		require.ErrorAs(t, err, &api)
		require.Contains(t, string(api.Body), `"party_size":4`, "what is there is shown")

		// The same wish finds itself fulfilled.
		cfg.OutboxPath = filepath.Join(t.TempDir(), "third.outbox")
		third, err := Open(cfg)
		require.NoError(t, err)
		defer third.Close()
		call := third.Bookings.Create("17", BookingParams{PartySize: 4, StartsAt: at, Customer: BookingCustomer{Name: "A again"}})
		_, err = call.Do(t.Context())
		require.NoError(t, err)
		o, _ := call.Outcome()
		require.True(t, o.ByOther)
		require.Len(t, s.srv.Effects(), 1)
	})
}
