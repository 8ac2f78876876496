package fleettest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// outboxTables are what a backup of the outbox holds.
var outboxTables = []string{"operation", "progress", "hold", "key", "count", "state"}

func (s *scene) backUp() {
	s.Helper()
	pool := s.pool()
	for _, t := range outboxTables {
		_, err := pool.Exec(s.Context(), "CREATE TABLE backup_"+t+" AS TABLE flavoso_outbox_"+t)
		require.NoError(s, err)
	}
}

func (s *scene) restore() {
	s.Helper()
	pool := s.pool()
	for _, t := range outboxTables {
		_, err := pool.Exec(s.Context(), "TRUNCATE flavoso_outbox_"+t+"; INSERT INTO flavoso_outbox_"+t+" TABLE backup_"+t)
		require.NoError(s, err)
	}
}

// A database is restored in which a booking was never sent, and which was sent the day before yesterday: Flavoso has
// forgotten its key. Adopted, it is read back; otherwise nothing keeps it from being made twice.
func TestARestoredDatabase(t *testing.T) {
	for _, c := range []struct {
		name  string
		adopt bool
		made  int
	}{{"adopted", true, 1}, {"not adopted", false, 2}} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, pgtest.DSN(t))
			web := s.open(func(c *flavoso.FleetConfig) { c.Concurrency = -1 })
			params := flavoso.BookingParams{PartySize: 4, StartsAt: time.Now().Add(1000 * time.Hour).Truncate(time.Minute), Customer: flavoso.BookingCustomer{Name: "Grace"}}
			_, err := web.Client(store(0)).Bookings.Create("table-7", params).WithTag("1").Enqueue(t.Context())
			require.NoError(t, err)
			order := s.srv.AddOrder(store(1), mockserver.Order{})
			_, err = web.Client(store(1)).Orders.Accept(order, flavoso.AcceptParams{}).WithTag("1").Enqueue(t.Context())
			require.NoError(t, err)
			s.backUp()
			worker := s.open(nil)
			s.drained(worker, 2, 2)
			worker.leave()
			require.Len(t, s.srv.Effects(), 2)

			s.srv.Clock().Advance(48 * time.Hour)
			s.restore()
			if c.adopt {
				engine := pgoutbox.New(s.pool(), pgoutbox.Options{})
				n, err := engine.Adopt(t.Context())
				require.NoError(t, err)
				require.Equal(t, 2, n)
				require.NoError(t, engine.Close())
			}
			worker = s.open(nil)
			require.Eventually(t, func() bool {
				return worker.Client(store(0)).Status().Waiting+worker.Client(store(1)).Status().Waiting == 0
			}, time.Minute, 50*time.Millisecond)
			made := map[string]int{}
			for _, e := range s.srv.Effects() {
				made[e.Kind]++
			}
			require.Equal(t, map[string]int{"bookings.create": c.made, "orders.accept": 1}, made)
			for o, err := range worker.Client(store(0)).Operations.List(t.Context(), flavoso.OperationFilter{}) {
				require.NoError(t, err)
				require.Equal(t, outbox.Succeeded, o.State)
				require.Equal(t, c.adopt, o.Suspect)
			}
		})
	}
}
