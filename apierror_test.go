package flavoso

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestParamOfARefusal: the field that Flavoso found wrong is in the error of a write as in that of a read, also
// in a later process.
func TestParamOfARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		const body = `{"error":{"code":"validation_failed","message":"not so many","param":"party_size"}}`
		s.srv.Inject(mockserver.Status(422).Body(body).On("POST", "/bookings").Times(1))
		p := enqueue(t, s.Bookings.Create("17", booking(4)))
		for range 2 {
			_, err := p2(s, p).Wait(t.Context())
			var api *APIError
			require.ErrorAs(t, err, &api)
			require.Equal(t, "party_size", api.Param)
			require.Contains(t, api.Error(), "validation_failed (party_size): not so many")
			s.restart()
		}
		s.srv.Inject(mockserver.Status(400).Body(body).On("GET", "/orders/{id}").Times(1))
		_, err := s.Orders.Get(t.Context(), "a")
		var api *APIError
		require.ErrorAs(t, err, &api)
		require.Equal(t, "party_size", api.Param)
		require.Empty(t, s.srv.Effects())
	})
}

// TestNoParamWhereNothingWasAnswered: what was read back is a resource and not an error.
func TestNoParamWhereNothingWasAnswered(t *testing.T) {
	_, err := Result[Booking](Outcome{State: StateRejected, Code: "conflict", Body: []byte(`{"object":"booking","param":"x"}`)})
	var api *APIError
	require.ErrorAs(t, err, &api)
	require.Empty(t, api.Param)
}
