package flavoso

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestWakeMakesWatchesPoll: whoever knows that the network is back, or that something happened, need not wait for
// the next turn. What Flavoso asked to wait for is waited for.
func TestWakeMakesWatchesPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory, mockserver.WithSwitches(calm))
		w := s.watch(WatchParams{Name: "kitchen", IdleInterval: time.Hour}, nil)
		time.Sleep(10 * time.Hour) // polls are an hour apart by now, and somewhere in between
		id := s.srv.AddOrder(store, mockserver.Order{})
		before := len(s.srv.Requests())
		s.Wake()
		time.Sleep(time.Second)
		require.Contains(t, w.seen(), state(id, 1))
		require.LessOrEqual(t, len(s.srv.Requests())-before, 2, "it polls once")

		refuse := s.srv.Inject(mockserver.Refuse())
		time.Sleep(3 * time.Hour)
		id = s.srv.AddOrder(store, mockserver.Order{})
		refuse.Remove()
		s.Wake()
		time.Sleep(time.Second)
		require.Contains(t, w.seen(), state(id, 1))

		s.srv.Inject(mockserver.RateLimit(10*time.Minute).On("GET", "/orders").Times(1))
		s.Wake()
		time.Sleep(time.Second)
		limited := len(s.srv.Requests())
		for range 100 {
			s.Wake()
			time.Sleep(time.Second)
		}
		require.Len(t, s.srv.Requests(), limited)
		time.Sleep(15 * time.Minute)
		require.Greater(t, len(s.srv.Requests()), limited)
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-w.done, ErrStopped)
		s.Wake() // of a closed client
	})
}
