package flavoso

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheDocumentedTableIsTheCode: docs/api.md has every kind of call, and every assumption it names exists.
func TestTheDocumentedTableIsTheCode(t *testing.T) {
	api, err := os.ReadFile("docs/api.md")
	require.NoError(t, err)
	assumptions, err := os.ReadFile("docs/assumptions.md")
	require.NoError(t, err)
	for _, no := range regexp.MustCompile(`\bA\d+\b`).FindAllString(string(api), -1) {
		assert.Contains(t, string(assumptions), "| "+no+" |", "docs/api.md names %s", no)
	}
	for _, path := range []string{"orders.go", "bookings.go", "menu.go", "store.go", "watch.go", "orders_types.go", "menu_types.go",
		"hours_types.go", "hours_validate.go", "store_types.go", "availability_types.go", "bookings_types.go", "list.go"} {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, no := range regexp.MustCompile(`\bA\d+\b`).FindAllString(string(source), -1) {
			assert.Contains(t, string(assumptions), "| "+no+" |", "%s names %s", path, no)
		}
	}
}

func TestEveryCallHasItsRowInTheDocs(t *testing.T) {
	api, err := os.ReadFile("docs/api.md")
	require.NoError(t, err)
	for kind, row := range map[string]string{
		kindOrderAccept:      "| `Orders.Accept` | `POST /orders/{id}/accept` |",
		kindOrderAcknowledge: "| `Orders.Acknowledge` | `POST /orders/{id}/acknowledge` |",
		kindOrderReject:      "| `Orders.Reject` | `POST /orders/{id}/reject` |",
		kindOrderCancel:      "| `Orders.Cancel` | `POST /orders/{id}/cancel` |",
		kindOrderStatus:      "| `Orders.SetStatus` | `POST /orders/{id}/status` |",
		kindOrderUpdate:      "| `Orders.Update` | `PATCH /orders/{id}` |",
		kindBookingCreate:    "| `Bookings.Create` | `POST /bookings` |",
		kindBookingUpdate:    "| `Bookings.Update` | `PATCH /bookings/{id}` |",
		kindBookingCancel:    "| `Bookings.Cancel` | `POST /bookings/{id}/cancel` |",
		kindBookingSeat:      "| `Bookings.Seat` | `POST /bookings/{id}/seat` |",
		kindBookingComplete:  "| `Bookings.Complete` | `POST /bookings/{id}/complete` |",
		kindBookingNoShow:    "| `Bookings.NoShow` | `POST /bookings/{id}/no_show` |",
		kindMenuPut:          "| `Menu.Put` | `PUT /menu` |",
		kindMenuAvailability: "| `Menu.SetAvailability` | `POST /menu/availability` |",
		kindStoreUpdate:      "| `Store.Update` | `PATCH /store` |",
		kindStoreHours:       "| `Store.PutHours` | `PUT /store/hours` |",
		kindCall:             "| `NewCall` |",
	} {
		assert.Contains(t, kinds, kind)
		assert.Contains(t, string(api), row)
	}
	assert.Len(t, kinds, 17)
}
