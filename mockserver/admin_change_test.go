package mockserver_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestAdminAPIChangesOrders: the world changes an order behind the POS's back, as ChangeOrder does.
func TestAdminAPIChangesOrders(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{Status: mockserver.StatusConfirmed, Type: "delivery", Note: "ring twice",
		Customer: mockserver.Customer{Name: "Ada", Phone: "1"}, EstimatedReadyAt: srv.Clock().Now().Add(time.Hour)})
	before, _ := srv.Order(store, id)
	srv.Clock().Advance(time.Minute)

	a := c.admin("PATCH", "orders/"+id, `{"connection":"store-42","order":{"status":"ready","customer":{"name":"Grace"},"note":null,
		"delivery_address":{"note":"back door"},"items":[{"name":"Tee","quantity":2,"unit_price":{"amount":250}},{"name":"Brot"}]}}`)
	require.Equal(t, 200, a.status, a.body)
	o, _ := srv.Order(store, id)
	assert.Equal(t, []any{"ready", "Grace", "1", "", "back door", before.DeliveryAddress.City},
		[]any{o.Status, o.Customer.Name, o.Customer.Phone, o.Note, o.DeliveryAddress.Note, o.DeliveryAddress.City})
	require.Len(t, o.Items, 2)
	assert.EqualValues(t, 500, o.Totals.Items.Amount, "the sums are worked out again")
	assert.EqualValues(t, 1, o.Items[1].Quantity, "a line is completed, as in a new order")
	assert.NotEmpty(t, o.Items[0].ID)
	assert.Equal(t, before.Version+1, o.Version)
	assert.True(t, o.UpdatedAt.After(before.UpdatedAt))
	assert.Equal(t, before.EstimatedReadyAt, o.EstimatedReadyAt, "what is not named stays")
	assert.JSONEq(t, a.body, c.get("/orders/"+id).body, "the answer is the order")
	assert.Empty(t, srv.Effects(), "it is no request's effect")

	for _, gone := range []string{"estimated_ready_at", "delivery_address"} {
		require.Equal(t, 200, c.admin("PATCH", "orders/"+id, `{"connection":"store-42","order":{"`+gone+`":null}}`).status)
		assert.NotContains(t, c.get("/orders/"+id).body, `"`+gone+`"`)
	}
	a = c.admin("PATCH", "orders/"+id, `{"connection":"store-42","order":{"status":"cancelled","cancellation":{"by":"customer","reason":"customer_request"}}}`)
	require.Equal(t, 200, a.status, a.body)
	o, _ = srv.Order(store, id)
	assert.WithinDuration(t, srv.Clock().Now(), o.Cancellation.At, time.Minute)
}

// TestAdminAPICancelsAndDeletesOrders: a guest who cancels, and an order that is gone; what is held of it is
// replayed (W9).
func TestAdminAPICancelsAndDeletesOrders(t *testing.T) {
	srv, c := start(t)
	ids := srv.AddOrders(store, 2)
	first := c.post("/orders/"+ids[0]+"/accept", "", "accept-"+ids[0])
	require.Equal(t, 200, first.status)

	a := c.admin("POST", "orders/"+ids[0]+"/cancel", `{"connection":"store-42"}`)
	require.Equal(t, 200, a.status, a.body)
	o, _ := srv.Order(store, ids[0])
	assert.Equal(t, []string{"cancelled", "customer", "customer_request"}, []string{o.Status, o.Cancellation.By, o.Cancellation.Reason})
	a = c.admin("POST", "orders/"+ids[1]+"/cancel", `{"connection":"store-42","reason":"other","message":"flat tyre"}`)
	require.Equal(t, 200, a.status, a.body)
	o, _ = srv.Order(store, ids[1])
	assert.Equal(t, []string{"other", "flat tyre"}, []string{o.Cancellation.Reason, o.Cancellation.Message})

	require.Equal(t, 204, c.admin("DELETE", "orders/"+ids[0]+"?connection=store-42", "").status)
	assert.Equal(t, 404, c.get("/orders/"+ids[0]).status)
	replay := c.post("/orders/"+ids[0]+"/accept", "", "accept-"+ids[0])
	assert.True(t, replay.replayed())
	assert.Equal(t, first.body, replay.body)
	assert.Len(t, c.admin("GET", "orders?connection=store-42", "").data(t), 1)
	assert.EqualValues(t, 1, c.admin("GET", "status", "").field("counts").(map[string]any)["orders"])
	assert.Len(t, srv.Effects(), 1, "the world's changes are in no ledger")
}

// TestAdminAPIChangesBookings as ChangeBooking does.
func TestAdminAPIChangesBookings(t *testing.T) {
	srv, c := start(t)
	made := c.post("/bookings", c.booking("b-1"), "booking-b-1")
	require.Equal(t, 201, made.status, made.body)
	id := made.field("id").(string)
	a := c.admin("PATCH", "bookings/"+id, `{"connection":"store-42","booking":{"status":"declined","customer":{"note":"no table"},"note":null}}`)
	require.Equal(t, 200, a.status, a.body)
	b := srv.Bookings(store)[0]
	assert.Equal(t, []any{"declined", "no table", "", "b-1", 2}, []any{b.Status, b.Customer.Note, b.Note, b.ExternalID, b.Version})
	listed := c.admin("GET", "bookings?connection=store-42", "").data(t)
	require.Len(t, listed, 1)
	assert.Equal(t, "declined", listed[0]["status"])
	assert.JSONEq(t, a.body, c.get("/bookings/"+id).body)
	assert.Len(t, srv.Effects(), 1)
}

func TestAdminAPIRefusesChangesThatMeanNothing(t *testing.T) {
	srv, c := start(t)
	srv.AddOrder(store, mockserver.Order{ID: "o-1"})
	require.Equal(t, 201, c.post("/bookings", c.booking("b-1"), "booking-b-1").status)
	b := srv.Bookings(store)[0].ID
	before, bookings := srv.Orders(store), srv.Bookings(store)
	for _, tc := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"PATCH", "orders/o-2", `{"connection":"store-42","order":{"note":"x"}}`, 404, "store-42 has no order o-2"},
		{"PATCH", "orders/o-1", `{"connection":"store-43","order":{"note":"x"}}`, 404, "store-43 has no order o-1"},
		{"PATCH", "orders/o-1", `{"order":{"note":"x"}}`, 400, "connection must be"},
		{"PATCH", "orders/o-1", `{"connection":"store-42"}`, 400, "order says what changes"},
		{"PATCH", "orders/o-1", `{"connection":"store-42","order":null}`, 400, "order says what changes"},
		{"PATCH", "orders/o-1", `{"connection":"store-42","order":{"noet":"x"}}`, 400, `"order.noet"; the fields here are`},
		{"PATCH", "orders/o-1", `{"connection":"store-42","order":{"status":"pendign"}}`, 400, "order.status is one of"},
		{"PATCH", "orders/o-1", `{"connection":"store-42","order":{"status":null}}`, 400, "order.status cannot be cleared"},
		{"PATCH", "orders/o-1", `{"connection":"store-42","order":{"customer":{"name":null}}}`, 400, "order.customer.name cannot be cleared"},
		{"PATCH", "orders/o-1", `{"connection":"store-42","order":{"id":"o-9"}}`, 400, "keeps its id"},
		{"PATCH", "orders/o-1/cancel", `{"connection":"store-42"}`, 405, "no method PATCH"},
		{"POST", "orders/o-1/cancel", `{"connection":"store-42","reason":"boredom"}`, 400, "reason is one of"},
		{"POST", "orders/o-9/cancel", `{"connection":"store-42"}`, 404, "no order o-9"},
		{"POST", "orders/o-1/accept", `{"connection":"store-42"}`, 404, "no such admin call"},
		{"DELETE", "orders/o-1", "", 400, "connection must be"},
		{"DELETE", "orders/o-9?connection=store-42", "", 404, "no order o-9"},
		{"DELETE", "orders", "", 405, "no method DELETE"},
		{"PATCH", "bookings/x", `{"connection":"store-42","booking":{"note":"x"}}`, 404, "no booking x"},
		{"PATCH", "bookings/" + b, `{"connection":"store-42","booking":{"status":"eaten"}}`, 400, "booking.status is one of"},
		{"PATCH", "bookings/" + b, `{"connection":"store-42","booking":{"starts_at":null}}`, 400, "booking.starts_at cannot be cleared"},
		{"PATCH", "bookings/" + b, `{"connection":"store-42","booking":{"party":3}}`, 400, `"booking.party"; the fields here are`},
		{"PATCH", "bookings/" + b, `{"connection":"store-42"}`, 400, "booking says what changes"},
	} {
		a := c.admin(tc.method, tc.path, tc.body)
		assert.Equal(t, tc.status, a.status, "%s %s %s: %s", tc.method, tc.path, tc.body, a.body)
		assert.Contains(t, a.message(), tc.says, "%s %s %s", tc.method, tc.path, tc.body)
	}
	assert.Equal(t, before, srv.Orders(store))
	assert.Equal(t, bookings, srv.Bookings(store))
}

// TestAdminAPINamesAnIDAsAPathDoes: an id that Go may give and a path must escape.
func TestAdminAPINamesAnIDAsAPathDoes(t *testing.T) {
	srv, c := start(t)
	srv.AddOrder(store, mockserver.Order{ID: "a/b c"})
	require.Equal(t, 204, c.admin("DELETE", "orders/"+url.PathEscape("a/b c")+"?connection=store-42", "").status)
	assert.Empty(t, srv.Orders(store))
}

// TestAdminAPISaysWhichMethodsACallHas with 405.
func TestAdminAPISaysWhichMethodsACallHas(t *testing.T) {
	_, c := start(t)
	for path, allow := range map[string]string{"orders": "GET, POST", "orders/o-1": "DELETE, PATCH", "reset": "POST", "faults/fault-1": "DELETE"} {
		a := c.admin("PUT", path, "{}")
		assert.Equal(t, 405, a.status, path)
		assert.Equal(t, allow, a.header.Get("Allow"), path)
	}
}

// TestLookingMakesNoConnection: whoever looks at what is not there changes nothing, not even which token the
// next connection gets.
func TestLookingMakesNoConnection(t *testing.T) {
	srv, c := start(t, mockserver.RequireKnownTokens())
	token := srv.Token(store)
	srv.Reset()
	assert.Empty(t, srv.Orders("nobody"))
	assert.Empty(t, srv.Bookings("nobody"))
	_, found := srv.Order("nobody", "o-1")
	assert.False(t, found)
	require.Error(t, srv.ChangeOrder("nobody", "o-1", func(*mockserver.Order) {}))
	require.Error(t, srv.ChangeBooking("nobody", "b-1", func(*mockserver.Booking) {}))
	srv.DeleteOrder("nobody", "o-1")
	require.Empty(t, c.admin("GET", "orders?connection=nobody", "").data(t))
	require.Empty(t, c.admin("GET", "connections", "").data(t))
	assert.Equal(t, token, srv.Token(store))
}

func TestAdminConnectionTakesOneVerb(t *testing.T) {
	_, c := start(t)
	a := c.admin("POST", "connections", `{"connection":"store-42","issue":true,"revoke":true}`)
	assert.Equal(t, 400, a.status)
	assert.Contains(t, a.message(), "one of issue, rotate, revoke and reconnect")
	assert.Equal(t, http.StatusOK, c.get("/store").status, "nothing was revoked")
}

// TestTheClockGoesWhereItIsTold, or says that it does not reach.
func TestTheClockGoesWhereItIsTold(t *testing.T) {
	srv, c := start(t)
	a := c.admin("POST", "clock", `{"advance":"0s"}`)
	assert.Equal(t, 200, a.status, "a wait of nothing is a wait: %s", a.body)
	for range 3 {
		a = c.admin("POST", "clock", `{"advance":"1000000h"}`)
	}
	assert.Equal(t, 400, a.status)
	assert.Contains(t, a.message(), "200 years")
	assert.Equal(t, 400, c.admin("POST", "clock", `{"now":"9999-12-31T23:59:00Z"}`).status)
	assert.Less(t, srv.Clock().Now().Year(), 2300)
	assert.Equal(t, 200, c.admin("POST", "clock", `{"advance":"-1000000h"}`).status)
}
