package flavoso

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The error of a key that stands for something else says what to call instead.
func TestKeyReusedErrorsSayWhatToCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) { c.Concurrency = -1 }).Client(store) // everything stays queued
		booking := BookingParams{PartySize: 2, StartsAt: time.Date(2030, 1, 2, 19, 0, 0, 0, time.UTC), Customer: BookingCustomer{Name: "Grace"}}
		larger := booking
		larger.PartySize = 5
		thing := func(n int) *Call[thing] {
			return NewCall[thing](c, "POST", Path("things"), map[string]int{"n": n}).WithKey("the-key")
		}
		says(t, c.Orders.Accept("7", AcceptParams{}), c.Orders.Accept("7", AcceptParams{PreparationMinutes: 5}),
			"orders.accept 7: operation", "Orders.Update", "Operations.Cancel")
		says(t, c.Orders.Acknowledge("7", AcknowledgeParams{ExternalID: "a"}), c.Orders.Acknowledge("7", AcknowledgeParams{ExternalID: "b"}), "keeps the external_id")
		says(t, c.Bookings.Create("table", booking), c.Bookings.Create("table", larger), "Bookings.Update", "another reference")
		says(t, thing(1), thing(2), "flavoso: call /things: operation", "WithKey")
		for _, s := range []State{StateUncertain, StateBlocked, StateDamaged} {
			require.Contains(t, (&KeyReusedError{Kind: kindOrderAccept, State: s}).Error(), "Operations.Resolve")
		}
		require.NotContains(t, (&KeyReusedError{Kind: "of a newer release", State: StateSucceeded}).Error(), "Operations.")
	})
}

// says saves a call, and requires the texts in the error of another one with its key.
func says[T any](t *testing.T, saved, other *Call[T], texts ...string) {
	t.Helper()
	_, err := saved.Enqueue(t.Context())
	require.NoError(t, err)
	var reused *KeyReusedError
	_, err = other.Enqueue(t.Context())
	require.ErrorAs(t, err, &reused)
	for _, text := range append(texts, "nothing of this call was saved or sent") {
		require.Contains(t, reused.Error(), text)
	}
}
