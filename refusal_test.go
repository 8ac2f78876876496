package flavoso

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestForbiddenRepeatWhileTheFirstStillRuns: a 403 is decided before the key is looked at, and says nothing about
// the request that is still running (D10, D11).
func TestForbiddenRepeatWhileTheFirstStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		s.srv.Inject(mockserver.Delay(45*time.Second).At(mockserver.StageInHandler).On("POST", "/bookings").Times(1))
		s.srv.Inject(mockserver.Status(403).On("POST", "/bookings").Nth(2).Times(1))
		p := enqueue(t, s.Bookings.Create("17", booking(4)))
		_, err := p.Wait(forHours(t, 1))
		time.Sleep(time.Hour)
		require.Equal(t, 1, effectsOf(s.srv, "bookings.create"))
		require.NotEqual(t, FateRefused, FateOf(err), "it was made: %v", err)
	})
}

// TestOrderUpdateRefusedAfterItWasDone: a lost answer, and time goes by.
func TestOrderUpdateRefusedAfterItWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
		s.srv.Inject(mockserver.DropResponse().On("PATCH", "").Times(1))
		p := enqueue(t, s.Orders.Update(id, UpdateOrderParams{EstimatedReadyAt: Set(time.Now().Add(10 * time.Minute))}))
		for effectsOf(s.srv, "orders.update") == 0 {
			time.Sleep(time.Millisecond)
		}
		down := s.srv.Inject(mockserver.Refuse())
		time.Sleep(20 * time.Minute)
		down.Remove()
		_, err = p.Wait(forHours(t, 1))
		require.Equal(t, 1, effectsOf(s.srv, "orders.update"))
		require.NotEqual(t, FateRefused, FateOf(err), "it was done: %v", err)
	})
}

// TestAcceptRefusedAfterItWasDone: an effect behind an answer that is not held (F10), and time goes by.
func TestAcceptRefusedAfterItWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		s.srv.Inject(mockserver.StatusAfterCommit(503).NotHeld().On("POST", "/orders/{id}/accept").Times(1))
		at := time.Now().Add(10 * time.Minute)
		p := enqueue(t, s.Orders.Accept(id, AcceptParams{ReadyAt: at}))
		for effectsOf(s.srv, "orders.accept") == 0 {
			time.Sleep(time.Millisecond)
		}
		down := s.srv.Inject(mockserver.Refuse())
		time.Sleep(20 * time.Minute)
		down.Remove()
		_, err := p.Wait(forHours(t, 1))
		require.Equal(t, 1, effectsOf(s.srv, "orders.accept"))
		require.NotEqual(t, FateRefused, FateOf(err), "it was done: %v", err)
	})
}

// TestYesterdaysBookingIsThereWhileTheFirstStillRuns: what is found under the reference is older than the request
// that is on its way.
func TestYesterdaysBookingIsThereWhileTheFirstStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		_, err := s.Bookings.Create("17", booking(2)).Do(t.Context())
		require.NoError(t, err)
		time.Sleep(25 * time.Hour)
		other := s.another(t)
		s.srv.Inject(mockserver.Delay(45*time.Second).At(mockserver.StageInHandler).On("POST", "/bookings").Times(1))
		p := enqueue(t, other.Bookings.Create("17", booking(4)))
		_, err = p.Wait(forHours(t, 1))
		time.Sleep(time.Hour)
		require.Equal(t, 2, effectsOf(s.srv, "bookings.create"))
		require.NotEqual(t, FateRefused, FateOf(err), "it was made: %v", err)
	})
}
