package flavoso

import (
	"crypto/rand"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

func newOutboxKey(t *testing.T) []byte {
	t.Helper()
	key := make([]byte, 32)
	_, err := rand.Read(key)
	require.NoError(t, err)
	return key
}

// TestSealedOutbox: what a thief of the file must not read is not in it, a restart with the key goes on,
// and nothing opens it without.
func TestSealedOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newOutboxKey(t)
		s := newTill(t, func(c *Config) { c.OutboxKeys = [][]byte{key} })
		s.srv.Inject(mockserver.DropResponse().On("POST", "/bookings").Times(1))
		starts := time.Now().Add(48 * time.Hour)
		booking := func() *Call[Booking] {
			return s.Bookings.Create("2031-05-01-17", BookingParams{PartySize: 4, StartsAt: starts,
				Customer: BookingCustomer{Name: "Jörg Müller", Phone: "+49 30 1234567"}})
		}
		_, err := booking().WithTag("Tisch am Fenster").Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(40 * time.Millisecond) // sent, unanswered, and not repeated yet
		require.NoError(t, s.Close())

		file, err := os.ReadFile(s.cfg.OutboxPath)
		require.NoError(t, err)
		for _, secret := range []string{"Jörg", "1234567", "party_size", "2031-05-01-17", "Tisch am Fenster"} {
			require.NotContains(t, string(file), secret)
		}

		cfg := s.cfg
		cfg.OutboxKeys = [][]byte{newOutboxKey(t)}
		_, err = Open(cfg)
		require.ErrorIs(t, err, outbox.ErrSealed, "another key")
		cfg.OutboxKeys = nil
		_, err = Open(cfg)
		require.ErrorIs(t, err, outbox.ErrSealed, "no key")

		s.cfg.OutboxKeys = [][]byte{newOutboxKey(t), key} // rotation: the new one first
		s.open()
		require.NoError(t, s.Flush(t.Context()))
		requireOneOperation(t, s.srv, "bookings.create", 1)
		o, ok := booking().Outcome()
		require.True(t, ok)
		require.Equal(t, StateSucceeded, o.State)
		require.Equal(t, "Tisch am Fenster", o.Tag)
		s.cfg.OutboxKeys = s.cfg.OutboxKeys[:1]
		s.restart()
	})
}
