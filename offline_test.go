package flavoso

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestWakeTriesEverythingThatWaits: more operations are in their pauses than may run at once, and some fail
// once more. Each is tried when the network is back, not only the first few.
func TestWakeTriesEverythingThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, func(c *Config) {
			c.Retry = ExponentialJitter{Base: 200 * time.Second, Floor: 100 * time.Second, Cap: time.Hour}
		})
		drop := s.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Ratio(0.9).Optional())
		for range 30 {
			id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
			_, err := s.Orders.Accept(id, AcceptParams{}).Enqueue(t.Context())
			require.NoError(t, err)
		}
		drop.Remove()
		s.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Ratio(0.3).Optional())
		s.cfg.Retry = nil
		s.restart()
		require.Greater(t, s.Status().Waiting, 8)
		began := time.Now()
		require.NoError(t, s.Flush(t.Context()))
		require.Less(t, time.Since(began), 90*time.Second, "the pauses were 100 seconds and more")
	})
}
