package mockserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

func (a answer) message() string {
	m, _ := a.field("error").(map[string]any)
	s, _ := m["message"].(string)
	return s
}

// TestAdminAPINamesWhatItDoesNotKnow: what is misspelt is refused with what there is instead, and nothing
// changes.
func TestAdminAPINamesWhatItDoesNotKnow(t *testing.T) {
	srv, c := start(t)
	for _, tc := range []struct{ call, says string }{
		{`POST faults {"fault":"status","cod":500}`, `"cod"; the fields here are body, bytes, code, connection, delay, error_code, fault, `},
		{`POST faults {"fault":"status","Code":500}`, `"Code"`},
		{`POST faults {"fault":"status","code":"conflict"}`, `code must not be a JSON string`},
		{`POST faults {"fault":"delay","delay":5}`, `like "250ms" or "2m", not 5`},
		{`POST faults {"fault":"status","code":500} {}`, `after top-level value`},
		{`POST faults []`, `the body must not be a JSON array`},
		{`POST orders {"connection":"store-42","order":{"custommer":{}}}`, `"order.custommer"; the fields here are accept_by, `},
		{`POST orders {"connection":"store-42","order":{"customer":{"nmae":"Ada"}}}`, `"order.customer.nmae"; the fields here are email, name, note, phone`},
		{`POST orders {"connection":"store-42","order":{"items":[{},{"modifiers":[{"prize":1}]}]}}`, `"order.items[1].modifiers[0].prize"`},
		{`POST orders {"connection":"store-42","order":{"items":"none"}}`, `order.items must not be a JSON string`},
		{`POST orders {"connection":"store-42","order":{"status":"pendign"}}`, `order.status is one of pending, confirmed, `},
		{`POST orders {"connection":"store-42","order":{"status":""}}`, `not ""`},
		{`POST orders {"connection":"store-42","order":{"type":"drone"}}`, `order.type is one of delivery, pickup, dine_in`},
		{`POST orders {"connection":"store-42","order":{"timing":"soon"}}`, `order.timing`},
		{`POST orders {"connection":"store-42","order":{"delivered_by":"us"}}`, `order.delivered_by`},
		{`POST orders {"connection":"store-42","order":{"payment":{"status":"never"}}}`, `order.payment.status is one of paid, due`},
		{`POST orders {"connection":"store-42","order":{"id":"o/8"}}`, `not "o/8"`},
		{`POST orders {"connection":"store-42","order":{"id":"o 8"}}`, `not "o 8"`},
		{`POST orders {"connection":"store-42","order":{"id":".."}}`, `a path could not name it`},
		{`POST orders {"connection":"store-42","order":{"id":""}}`, `order.id holds 1 to 255`},
		{`POST orders {"connection":"store-42","order":{"id":"` + strings.Repeat("o", 256) + `"}}`, `order.id holds 1 to 255`},
		{`POST orders {"conn":"store-42"}`, `"conn"; the fields here are connection, lines, order`},
		{`POST connections {"connection":"a","rotat":true}`, `the fields here are connection, issue, reconnect, revoke, rotate`},
		{`POST clock {"advence":"1h"}`, `the fields here are advance, now`},
		{`GET effects?conn=store-42 `, `unknown parameter "conn"; there are: connection`},
		{`DELETE faults?connection=store-42 `, `unknown parameter "connection"; there are: id`},
	} {
		method, rest, _ := strings.Cut(tc.call, " ")
		path, body, _ := strings.Cut(rest, " ")
		a := c.admin(method, path, body)
		assert.Equal(t, 400, a.status, tc.call)
		assert.Contains(t, a.message(), tc.says, tc.call)
	}
	assert.Empty(t, srv.Orders(store))
	assert.Empty(t, c.admin("GET", "faults", "").data(t))

	// A part of a path that is no call is not taken for the call, and a fault without an id is not all of them.
	srv.Inject(mockserver.Hang().Optional())
	for call, status := range map[string]int{"POST reset/all": 404, "GET orders/o": 405, "PATCH orders/": 404, "DELETE faults/": 404,
		"DELETE faults/fault-1/x": 404, "POST faults/fault-1": 405} {
		method, path, _ := strings.Cut(call, " ")
		assert.Equal(t, status, c.admin(method, path, "").status, call)
	}
	assert.Len(t, c.admin("GET", "faults", "").data(t), 1)
}

func TestAnOrderArrivesOnce(t *testing.T) {
	srv, c := start(t)
	body := `{"connection":"store-42","order":{"id":"order-7","status":"confirmed","items":null}}`
	require.Equal(t, 201, c.admin("POST", "orders", body).status)
	a := c.admin("POST", "orders", body)
	assert.Equal(t, 409, a.status)
	assert.Contains(t, a.message(), "store-42 has an order with the id order-7 already")
	assert.Equal(t, 201, c.admin("POST", "orders", strings.Replace(body, "store-42", "store-43", 1)).status, "ids belong to a connection")
	assert.Len(t, srv.Orders(store), 1)
	for _, id := range []string{"a-._~:@=+,!$*Z9", strings.Repeat("o", 255)} {
		assert.Equal(t, 201, c.admin("POST", "orders", `{"connection":"store-42","order":{"id":"`+id+`"}}`).status)
		assert.Equal(t, 200, c.get("/orders/"+id).status)
	}
}

// TestNothingIsServedOutsideTheBasePath: a client whose base URL lacks /v1 must fail here too.
func TestNothingIsServedOutsideTheBasePath(t *testing.T) {
	overBoth(t, func(t *testing.T, srv *mockserver.Server, c *client) {
		id := srv.AddOrder(store, mockserver.Order{})
		root := strings.TrimSuffix(srv.BaseURL(), "/v1")
		for _, path := range []string{"/orders/" + id, "/store", "/", "/v1store", "/v2/store", "/v1/_mock/status", "/v1/nothing", "/v1", "/_mockery"} {
			req, err := http.NewRequest("GET", root+path, nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+c.token)
			a := c.send(req)
			assert.Equal(t, 404, a.status, path)
			assert.Equal(t, "not_found", a.code(), path)
			if !strings.HasPrefix(path, "/v1/") && path != "/v1" {
				assert.Contains(t, a.message(), "the base URL is "+srv.BaseURL(), path)
				assert.Contains(t, a.message(), "/_mock", path)
			}
		}
		rs := srv.Requests()
		require.Len(t, rs, 9, "they are noted, so that one sees what a client asks for")
		assert.Equal(t, "/orders/"+id, rs[0].Path)
		assert.Equal(t, "/store", func() string { c.get("/store"); return srv.Requests()[9].Path }())
	})
}

// TestStrayRequestsUseNoFaultUp: a browser's look at / must not meet what was meant for the till.
func TestStrayRequestsUseNoFaultUp(t *testing.T) {
	overBoth(t, func(t *testing.T, srv *mockserver.Server, c *client) {
		c.http.Transport.(*http.Transport).DisableKeepAlives = true
		stray := func() {
			root := strings.TrimSuffix(srv.BaseURL(), "/v1")
			for _, call := range []string{"GET /", "GET /favicon.ico", "GET /store", "POST /bookings", "GET /v1/nothing", "DELETE /v1/store", "GET /_mock", "GET /_mock/status"} {
				method, path, _ := strings.Cut(call, " ")
				req, err := http.NewRequest(method, root+path, nil)
				require.NoError(t, err)
				a := c.send(req)
				require.NoError(t, a.err, call)
				assert.NotEqual(t, 503, a.status, call)
			}
		}
		f := srv.Inject(mockserver.Status(503).Times(1))
		byMethod := srv.Inject(mockserver.Reset().On("POST", "").Times(1))
		stray()
		assert.Zero(t, f.Fired())
		assert.Zero(t, byMethod.Fired())
		assert.Equal(t, 503, c.get("/store").status)
		assert.Error(t, c.post("/bookings", c.booking("b"), "").err)

		// A path that is named is met, though the mock has no such operation.
		srv.Inject(mockserver.Status(200).Body(`{"object":"receipt"}`).On("POST", "/orders/{id}/print").Times(1))
		assert.Equal(t, "receipt", c.post("/orders/o/print", "", "").field("object"))
	})
	t.Run("refuse over tcp", func(t *testing.T) {
		srv := mockserver.Start(t)
		c := newClient(t, srv)
		c.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		f := srv.Inject(mockserver.Refuse().Times(1))
		assert.Equal(t, 404, c.get("/nothing").status)
		assert.Equal(t, 200, c.do("GET", "/_mock", "").status)
		assert.Zero(t, f.Fired())
		assert.Error(t, c.get("/store").err)
		assert.Equal(t, 1, f.Fired())
	})
}

func TestAdminAPIListsItsCalls(t *testing.T) {
	srv, c := start(t)
	list := c.do("GET", "/_mock", "")
	require.Equal(t, 200, list.status)
	assert.Equal(t, list.body, c.do("GET", "/_mock/", "").body)
	assert.Equal(t, 405, c.do("POST", "/_mock", "").status)
	assert.Contains(t, c.admin("GET", "nothing", "").message(), "GET /_mock lists them")
	var calls []string
	for _, entry := range list.data(t) {
		call := entry["call"].(string)
		calls = append(calls, call)
		assert.NotEmpty(t, entry["summary"], call)
		method, path, _ := strings.Cut(call, " ")
		body := ""
		if method == "POST" {
			body = "{}"
		}
		assert.NotEqual(t, 405, c.do(method, path, body).status, call)
	}
	assert.Contains(t, calls, "GET /_mock")
	assert.Contains(t, calls, "POST /_mock/faults")
	assert.Contains(t, calls, "DELETE /_mock/faults/{id}")
	assert.Empty(t, srv.Requests(), "none of them is a request to the API")
}

// TestResetBeginsIdsAnew: everything back to the seed, the names and draws of faults too.
func TestResetBeginsIdsAnew(t *testing.T) {
	srv, c := start(t)
	story := func() []any {
		out := []any{}
		for range 2 {
			a := c.admin("POST", "faults", `{"fault":"status","code":500,"ratio":0.5}`)
			require.Equal(t, 201, a.status, a.body)
			out = append(out, a.field("id"))
		}
		for range 12 {
			out = append(out, c.get("/store").status)
		}
		return append(out, srv.AddOrder(store, mockserver.Order{}))
	}
	first := story()
	assert.Equal(t, "fault-1", first[0])
	a := c.admin("POST", "reset", "")
	assert.NotNil(t, a.field("now"))
	assert.Equal(t, first, story())
}

func TestAServerOnEveryAddressSaysOneThatCanBeUsed(t *testing.T) {
	for addr, want := range map[string]string{"0.0.0.0:0": "http://127.0.0.1:", ":0": "http://127.0.0.1:", "127.0.0.1:0": "http://127.0.0.1:", "[::]:0": "http://[::1]:"} {
		srv, err := mockserver.New(mockserver.WithAddr(addr))
		if err != nil && strings.HasPrefix(addr, "[") {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(srv.BaseURL(), want), "%s: %s", addr, srv.BaseURL())
		c := newClient(t, srv)
		assert.Equal(t, 200, c.get("/store").status, "over memory too")
		c.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		assert.Equal(t, 200, c.get("/store").status)
		assert.Equal(t, srv.BaseURL(), c.admin("GET", "status", "").field("base_url"))
		require.NoError(t, srv.Close())
	}
}
