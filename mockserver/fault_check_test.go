package mockserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestFaultsThatMeanNothingAreRefused by the admin API and by Inject alike, with what to write instead.
func TestFaultsThatMeanNothingAreRefused(t *testing.T) {
	srv, c := start(t)
	on := func(path string) mockserver.Fault { return mockserver.Reset().On("", path) }
	for _, tc := range []struct {
		json  string
		fault mockserver.Fault
		says  string
	}{
		{`{"fault":"reset","path":"/v1/orders/{id}/accept"}`, on("/v1/orders/{id}/accept"), `write "/orders/{id}/accept", not "/v1/`},
		{`{"fault":"reset","path":"/v1"}`, on("/v1"), `relative to the base URL`},
		{`{"fault":"reset","path":"orders"}`, on("orders"), `begin with a slash`},
		{`{"fault":"reset","path":"http://127.0.0.1/v1/orders"}`, on("http://127.0.0.1/v1/orders"), `begin with a slash`},
		{`{"fault":"reset","path":"/_mock/reset"}`, on("/_mock/reset"), `admin API`},
		{`{"fault":"reset","path":"/orders?limit=1"}`, on("/orders?limit=1"), `without the query`},
		{`{"fault":"reset","path":"/orders/*"}`, on("/orders/*"), `written {id}`},
		{`{"fault":"reset","path":"/orders/:id"}`, on("/orders/:id"), `written {id}`},
		{`{"fault":"reset","path":"/orders/{id"}`, on("/orders/{id"), `written {id}`},
		{`{"fault":"reset","path":"/orders/x{id}"}`, on("/orders/x{id}"), `written {id}`},
		{`{"fault":"reset","path":"/orders/a b"}`, on("/orders/a b"), `percent-encoded`},
		{`{"fault":"reset","path":"/orders/ä"}`, on("/orders/ä"), `percent-encoded`},
		{`{"fault":"reset","method":"*"}`, mockserver.Reset().On("*", ""), `without one every method`},
		{`{"fault":"status"}`, mockserver.Status(0), `status needs code`},
		{`{"fault":"status_after_commit"}`, mockserver.StatusAfterCommit(0), `needs code`},
		{`{"fault":"status","code":99}`, mockserver.Status(99), `200 to 599`},
		{`{"fault":"status","code":204,"body":"x"}`, mockserver.Status(204).Body("x"), `has no body`},
		{`{"fault":"status","code":409,"body":"x","error_code":"y"}`, mockserver.Status(409).Body("x").Code("y"), `body replaces`},
		{`{"fault":"status","code":500,"not_held":true}`, mockserver.Status(500).NotHeld(), `status takes no not_held`},
		{`{"fault":"status","code":500,"stage":"after"}`, mockserver.Status(500).At("after"), `takes no stage`},
		{`{"fault":"truncate","bytes":-1}`, mockserver.Truncate(-1), `no number of bytes`},
		{`{"fault":"drip","bytes":0,"delay":"1s"}`, mockserver.Drip(0, time.Second), `no number of bytes`},
		{`{"fault":"drip","bytes":1}`, mockserver.Drip(1, 0), `drip needs delay`},
		{`{"fault":"delay"}`, mockserver.Delay(0), `delay needs delay`},
		{`{"fault":"late"}`, mockserver.Late(0), `late needs delay`},
		{`{"fault":"late","delay":"-1s"}`, mockserver.Late(-1), `positive`},
		{`{"fault":"hang","stage":"never"}`, mockserver.Hang().At("never"), `before, in_handler or after`},
		{`{"fault":"drop_response","error_code":"x"}`, mockserver.DropResponse().Code("x"), `takes no error_code`},
		{`{"fault":"drop_response","body":""}`, mockserver.DropResponse().Body(""), `takes no body`},
		{`{"fault":"portal","retry_after":3}`, mockserver.Portal().RetryAfter(3 * time.Second), `takes no retry_after`},
		{`{"fault":"refuse","connection":"store-42"}`, mockserver.Refuse().For(store), `use reset`},
		{`{"fault":"reset","times":-1}`, mockserver.Reset().Times(-1), `negative`},
		{`{"fault":"reset","ratio":2}`, mockserver.Reset().Ratio(2), `0 to 1`},
	} {
		a := c.admin("POST", "faults", tc.json)
		assert.Equal(t, 400, a.status, tc.json)
		assert.Contains(t, a.message(), tc.says, tc.json)

		rec := &recorder{}
		other := mockserver.Start(rec, mockserver.InMemory())
		assert.ErrorContains(t, other.Inject(tc.fault).Err(), tc.says, tc.json)
		rec.end()
		assert.Len(t, rec.errors, 1, "a test that arms it fails: %s", tc.json)
	}
	// These have no builder that could leave the field out, or give it.
	for fault, says := range map[string]string{
		`{"fault":"truncate"}`:                               `truncate needs bytes; its fields are bytes, method, path`,
		`{"fault":"drip","delay":"1s"}`:                      `drip needs bytes`,
		`{"fault":"rate_limit","delay":"3s"}`:                `rate_limit takes no delay; its fields are retry_after, method, path, connection, nth, times, ratio, optional`,
		`{"fault":"refuse","bytes":3}`:                       `its fields are nth, times, ratio, optional`,
		`{"fault":"rate_limit","code":429}`:                  `takes no code`,
		`{"fault":"rate_limit","retry_after":-1}`:            `no number of seconds`,
		`{"fault":"rate_limit","retry_after":"-3s"}`:         `in the past`,
		`{"fault":"rate_limit","retry_after":""}`:            `retry_after is a number of seconds`,
		`{"fault":"rate_limit","retry_after":{"seconds":3}}`: `retry_after is a number of seconds`,
	} {
		a := c.admin("POST", "faults", fault)
		assert.Equal(t, 400, a.status, fault)
		assert.Contains(t, a.message(), says, fault)
	}
	assert.Equal(t, 200, c.get("/store").status, "none of them was armed")
	assert.Equal(t, "fault-1", srv.Inject(mockserver.Reset().Optional()).ID(), "and none took a number")
	assert.NoError(t, srv.Inject(mockserver.Truncate(0).Optional()).Err(), "headers and not a byte of the body")
}

// TestRetryAfterIsWhatWasMeant: seconds, a duration or a header; and what GET shows means the same again.
func TestRetryAfterIsWhatWasMeant(t *testing.T) {
	for given, want := range map[string]struct {
		shown  any
		header string
	}{
		`3`:                               {3.0, "3"},
		`"3"`:                             {3.0, "3"},
		`"3s"`:                            {3.0, "3"},
		`"1500ms"`:                        {2.0, "2"},
		`1.5`:                             {2.0, "2"},
		`"2m"`:                            {120.0, "120"},
		`0`:                               {0.0, "0"},
		`"0s"`:                            {0.0, "0"},
		`"007"`:                           {"007", "007"},
		`"-1"`:                            {"-1", "-1"},
		`"soon"`:                          {"soon", "soon"},
		`"Fri, 31 Dec 2027 23:59:59 GMT"`: {"Fri, 31 Dec 2027 23:59:59 GMT", "Fri, 31 Dec 2027 23:59:59 GMT"},
	} {
		_, c := start(t)
		for range 2 { // as it was given, and as it was shown
			a := c.admin("POST", "faults", `{"fault":"rate_limit","retry_after":`+given+`}`)
			require.Equal(t, 201, a.status, given+a.body)
			shown := c.admin("GET", "faults", "").data(t)[0]["retry_after"]
			assert.Equal(t, want.shown, shown, given)
			assert.Equal(t, want.header, c.get("/store").header.Get("Retry-After"), given)
			given = string(mustJSON(t, shown))
			require.Equal(t, 204, c.admin("DELETE", "faults", "").status)
		}
	}
}
