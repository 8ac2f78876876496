package mockserver_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// admin calls the admin API, which lives beside the base path and needs no token.
func (c *client) admin(method, path, body string) answer {
	c.t.Helper()
	return c.do(method, "/_mock/"+path, body)
}

func (a answer) data(t *testing.T) []map[string]any {
	t.Helper()
	var l struct{ Data []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(a.body), &l), a.body)
	return l.Data
}

func TestAdminAPITellsAWholeStory(t *testing.T) {
	_, c := start(t, mockserver.RequireKnownTokens())
	a := c.admin("POST", "connections", `{"connection":"bar-1"}`)
	require.Equal(t, 200, a.status, a.body)
	assert.Equal(t, "bar-1", a.field("connection"))
	c.token = a.field("token").(string)

	a = c.admin("POST", "orders", `{"connection":"bar-1","order":{"customer":{"name":"Ada"},"items":[{"name":"Tee","quantity":2,"unit_price":{"amount":250}}]}}`)
	require.Equal(t, 201, a.status, a.body)
	id := a.field("id").(string)
	assert.Contains(t, a.body, `"name":"Ada"`)
	assert.Contains(t, a.body, `"items":{"amount":500,"currency":"EUR"}`)

	a = c.admin("POST", "faults", `{"fault":"drop_response","method":"POST","path":"/orders/{id}/accept","times":1}`)
	require.Equal(t, 201, a.status, a.body)
	fault := a.field("id").(string)
	require.Error(t, c.post("/orders/"+id+"/accept", `{"preparation_minutes":20}`, "accept-"+id).err)
	require.True(t, c.post("/orders/"+id+"/accept", `{"preparation_minutes":20}`, "accept-"+id).replayed())

	faults := c.admin("GET", "faults", "").data(t)
	require.Len(t, faults, 1)
	assert.Equal(t, fault, faults[0]["id"])
	assert.EqualValues(t, 1, faults[0]["fired"])

	effects := c.admin("GET", "effects?connection=bar-1", "").data(t)
	require.Len(t, effects, 1)
	assert.Equal(t, []any{1.0, "bar-1", "orders.accept", id, "accept-" + id}, []any{effects[0]["seq"], effects[0]["connection"],
		effects[0]["kind"], effects[0]["resource"], effects[0]["key"]})
	assert.Empty(t, c.admin("GET", "effects?connection=bar-2", "").data(t))

	requests := c.admin("GET", "requests?connection=bar-1", "").data(t)
	require.Len(t, requests, 2)
	assert.Equal(t, "drop_response", requests[0]["fault"])
	assert.Equal(t, true, requests[1]["replayed"])
	assert.Equal(t, "/v1/orders/"+id+"/accept", requests[0]["target"])
	body, err := base64.StdEncoding.DecodeString(requests[0]["body_base64"].(string))
	require.NoError(t, err)
	assert.Equal(t, `{"preparation_minutes":20}`, string(body))

	keys := c.admin("GET", "idempotency?connection=bar-1", "").data(t)
	require.Len(t, keys, 1)
	assert.Equal(t, []any{"accept-" + id, "completed", 200.0}, []any{keys[0]["key"], keys[0]["state"], keys[0]["status"]})

	before, err := time.Parse(time.RFC3339, c.admin("GET", "clock", "").field("now").(string))
	require.NoError(t, err)
	after, err := time.Parse(time.RFC3339, c.admin("POST", "clock", `{"advance":"24h"}`).field("now").(string))
	require.NoError(t, err)
	assert.WithinDuration(t, before.Add(24*time.Hour), after, time.Minute)
	assert.False(t, c.post("/orders/"+id+"/accept", `{"preparation_minutes":20}`, "accept-"+id).replayed())
	assert.Contains(t, c.admin("POST", "clock", `{"now":"2030-01-01T00:00:00Z"}`).body, "2030-01-01T00:00:0")

	status := c.admin("GET", "status", "")
	assert.EqualValues(t, 1, status.field("seed"))
	assert.EqualValues(t, 1, status.field("counts").(map[string]any)["orders"])
	assert.Equal(t, "completion", status.field("switches").(map[string]any)["hold_from"])
	assert.Equal(t, "receipt", c.admin("POST", "switches", `{"hold_from":"receipt","require_key":true,"max_body":1000}`).field("hold_from"))

	snap := c.admin("POST", "snapshot", "")
	require.Equal(t, 200, snap.status)
	assert.Equal(t, 200, c.admin("POST", "reset", "").status)
	assert.Empty(t, c.admin("GET", "connections", "").data(t))
	assert.Equal(t, 204, c.admin("POST", "restore", snap.body).status)
	assert.Equal(t, 200, c.get("/orders/"+id).status)
	assert.Len(t, c.admin("GET", "orders?connection=bar-1", "").data(t), 1)

	for _, how := range []string{"rotate", "reconnect"} {
		a = c.admin("POST", "connections", `{"connection":"bar-1","`+how+`":true}`)
		assert.Equal(t, 401, c.get("/store").status)
		c.token = a.field("token").(string)
		assert.Equal(t, 200, c.get("/store").status)
	}
	c.admin("POST", "connections", `{"connection":"bar-1","revoke":true}`)
	assert.Equal(t, 401, c.get("/store").status)
}

func TestAdminAPIArmsEveryFault(t *testing.T) {
	srv := mockserver.Start(t)
	c := newClient(t, srv)
	c.http = &http.Client{Transport: &http.Transport{}}
	defer c.http.CloseIdleConnections()
	for _, f := range []string{
		`{"fault":"refuse","times":1}`, `{"fault":"reset"}`, `{"fault":"drop_response"}`, `{"fault":"status","code":503,"retry_after":7}`,
		`{"fault":"status_after_commit","code":500,"not_held":true}`, `{"fault":"truncate","bytes":3}`, `{"fault":"drip","bytes":3,"delay":"1s"}`,
		`{"fault":"delay","delay":"250ms","stage":"in_handler"}`, `{"fault":"hang"}`, `{"fault":"crash_before_commit"}`,
		`{"fault":"crash_after_commit"}`, `{"fault":"rate_limit","retry_after":"Fri, 31 Dec 2027 23:59:59 GMT"}`, `{"fault":"portal"}`,
		`{"fault":"proxy_error"}`, `{"fault":"unknown_enum"}`, `{"fault":"late","delay":"1s","ratio":0.5,"nth":2,"times":3,"connection":"x"}`,
	} {
		a := c.admin("POST", "faults", f)
		require.Equal(t, 201, a.status, f+a.body)
		id := a.field("id").(string)
		listed := c.admin("GET", "faults", "").data(t)
		var want map[string]any
		require.NoError(t, json.Unmarshal([]byte(f), &want))
		assert.Equal(t, want["fault"], listed[0]["fault"])
		if want["delay"] != nil {
			assert.Equal(t, want["delay"], listed[0]["delay"])
		}
		if want["retry_after"] == "2m" {
			assert.Equal(t, "120", listed[0]["retry_after"])
		}
		if strings.Contains(id, "1") {
			assert.Equal(t, 204, c.admin("DELETE", "faults/"+id, "").status)
		} else {
			assert.Equal(t, 204, c.admin("DELETE", "faults?id="+id, "").status)
		}
		assert.Empty(t, c.admin("GET", "faults", "").data(t))
	}
	srv.Inject(mockserver.Hang())
	assert.Equal(t, 204, c.admin("DELETE", "faults", "").status)
	assert.Equal(t, 200, c.get("/store").status)
	assert.Equal(t, 404, c.admin("DELETE", "faults/fault-99", "").status)
}

func TestAdminAPIRefusesNonsenseLoudly(t *testing.T) {
	_, c := start(t)
	for call, want := range map[string]int{
		`POST faults {"fault":"droop_response"}`:                  400,
		`POST faults {"fault":"drop_response","tmies":1}`:         400,
		`POST faults {"fault":"delay","delay":5}`:                 400,
		`POST connections {}`:                                     400,
		`POST connections {"connection":"a b"}`:                   400,
		`POST orders {"connection":"a","order":{"items":"none"}}`: 400,
		`POST orders {"connection":"a","lines":-1}`:               400,
		`POST clock {}`: 400,
		`POST clock {"advance":"1h","now":"2030-01-01T00:00:00Z"}`: 400,
		`POST clock {"advance":"soon"}`:                            400,
		`POST switches {"hold_from":"never"}`:                      400,
		`POST switches {"hold_from":["receipt"]}`:                  400,
		`POST restore `:   400,
		`POST restore {}`: 400,
		`GET orders `:     400,
		`GET nothing `:    404,
		`PUT clock {}`:    405,
	} {
		method, rest, _ := strings.Cut(call, " ")
		path, body, _ := strings.Cut(rest, " ")
		a := c.admin(method, path, body)
		assert.Equal(t, want, a.status, call)
		assert.NotNil(t, a.field("error"), call)
	}
}

// FuzzAdmin sends anything to every admin call: an answer or a refusal, and the server goes on.
func FuzzAdmin(f *testing.F) {
	for _, seed := range []string{"", "{}", "null", "[]", `{"connection":"a","order":{"items":[null],"totals":null}}`, `{"fault":"drip"}`, `{"fault":"status","code":204}`,
		`{"fault":"rate_limit","retry_after":1e300}`, `{"fault":"truncate","bytes":null}`, `{"connection":"a","order":{"id":null,"payment":null}}`, `{"advance":"-9000h"}`, `{"now":"0001-01-01T00:00:00Z"}`, `{"hold_for":"1ns"}`, `{"max_body":1}`, `{"version":1,"keys":{"version":1}}`,
		`{"version":1,"keys":{"version":1},"connections":[{"name":"store-42","orders":[null],"bookings":[null],"menu":null}]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		rec := &recorder{}
		srv := mockserver.Start(rec, mockserver.InMemory())
		defer rec.end()
		c := newClient(t, srv)
		for _, call := range []string{"orders", "connections", "clock", "switches", "restore", "faults"} {
			if a := c.admin("POST", call, body); a.err != nil || a.status >= 500 {
				t.Fatalf("%s: %d %v %s", call, a.status, a.err, a.body)
			}
			for _, look := range []string{"status", "orders?connection=store-42", "idempotency", "faults"} {
				if a := c.admin("GET", look, ""); a.err != nil || a.status >= 500 {
					t.Fatalf("%s after %s: %d %v %s", look, call, a.status, a.err, a.body)
				}
			}
			srv.ClearFaults()
			for _, read := range []string{"/orders", "/menu", "/store", "/store/hours", "/menu/availability", "/bookings"} {
				if a := c.get(read); a.err != nil || a.status >= 500 {
					t.Fatalf("%s after %s: %d %v %s", read, call, a.status, a.err, a.body)
				}
			}
		}
	})
}
