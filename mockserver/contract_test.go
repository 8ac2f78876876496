package mockserver_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

func TestF1EveryAnswerHasARequestID(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	form := regexp.MustCompile(`^req_[0-9a-f]{24}$`)
	seen := map[string]bool{}
	for _, a := range []answer{
		c.get("/orders/" + id), c.get("/orders/none"), c.get("/nowhere"), c.do("DELETE", "/orders", ""),
		c.post("/orders/"+id+"/accept", "", "k"), c.post("/orders/"+id+"/accept", "", "k"),
		c.post("/bookings", "{", ""), c.do("GET", "/store", "", "Authorization: Bearer wrong"),
	} {
		rid := a.header.Get("X-Request-Id")
		assert.Regexp(t, form, rid)
		assert.False(t, seen[rid], "request ids are fresh, on replays too")
		seen[rid] = true
		assert.Contains(t, a.header.Get("Content-Type"), "application/json")
	}
}

func TestF1UnknownTokenIs401(t *testing.T) {
	srv, c := start(t, mockserver.RequireKnownTokens())
	assert.Equal(t, 200, c.get("/store").status)
	for _, token := range []string{"", "nonsense", "mock_" + store} {
		c.token = token
		a := c.get("/store")
		assert.Equal(t, 401, a.status)
		assert.Equal(t, "unauthorized", a.code())
	}
	c.token = srv.Token(store)
	assert.Equal(t, 200, c.get("/store").status)
}

func TestF2KeyCountsOnPostOnly(t *testing.T) {
	_, c := start(t)
	for range 2 {
		a := c.do("PATCH", "/store", `{"default_preparation_minutes":25}`, "Idempotency-Key: same")
		assert.Equal(t, 200, a.status)
		assert.False(t, a.replayed())
	}
	a := c.do("PATCH", "/store", `{"default_preparation_minutes":30}`, "Idempotency-Key: same")
	assert.Equal(t, 200, a.status, "D8: not even looked at")
	assert.Equal(t, 200, c.do("PATCH", "/store", `{}`, "Idempotency-Key: "+strings.Repeat("k", 300)).status)
}

func TestF3KeyForm(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	path := "/orders/" + id + "/accept"
	for name, headers := range map[string][]string{
		"empty":     {"Idempotency-Key: "},
		"too long":  {"Idempotency-Key: " + strings.Repeat("k", 256)},
		"non-ASCII": {"Idempotency-Key: schlüssel"},
		"two lines": {"Idempotency-Key: a", "Idempotency-Key: a"},
	} {
		a := c.do("POST", path, "", headers...)
		assert.Equal(t, 400, a.status, name)
		assert.Equal(t, "invalid_request", a.code(), name)
	}
	assert.Empty(t, srv.Effects())
	assert.Empty(t, srv.Keys(store), "D9: nothing is stored")
	for _, key := range []string{"k", strings.Repeat("k", 255), `a b, "c"`, "~!@#$%^&*()"} {
		assert.Equal(t, 200, c.post(path, "", key).status, key)
		assert.True(t, c.post(path, "", key).replayed(), key)
	}
	assert.False(t, c.post(path, "", "K").replayed(), "case matters")
}

func TestF4KeyIsValidPerConnection(t *testing.T) {
	srv, c := start(t)
	other := newClient(t, srv)
	other.token = srv.Token("store-43")
	body := c.booking("b-1")
	assert.Equal(t, 201, c.post("/bookings", body, "k").status)
	a := other.post("/bookings", body, "k")
	assert.Equal(t, 201, a.status)
	assert.False(t, a.replayed())
	assert.Len(t, srv.Bookings("store-43"), 1)
}

func TestF5HeldFor24Hours(t *testing.T) {
	srv, c := start(t)
	body := c.booking("b-1")
	first := c.post("/bookings", body, "k")
	srv.Clock().Advance(24*time.Hour - time.Second)
	again := c.post("/bookings", body, "k")
	assert.True(t, again.replayed())
	assert.Equal(t, first.body, again.body)
	srv.Clock().Advance(time.Second)
	a := c.post("/bookings", body, "k")
	assert.False(t, a.replayed(), "D13: at 24 h the key is unknown, and the replay did not extend it")
	assert.Len(t, srv.Bookings(store), 2)
}

func TestF6SameRequestSameKeyReplays(t *testing.T) {
	srv, c := start(t)
	body := c.booking("b-1")
	first := c.post("/bookings", body, "k")
	require.Equal(t, 201, first.status)
	assert.Empty(t, first.header.Values("Idempotent-Replayed"), "D22")
	srv.Clock().Advance(time.Hour)
	again := c.post("/bookings", body, "k")
	assert.Equal(t, 201, again.status)
	assert.True(t, again.replayed())
	assert.Equal(t, first.body, again.body)
	for _, h := range []string{"Content-Type", "Location"} {
		assert.Equal(t, first.header[h], again.header[h], "D21: %s", h)
	}
	assert.NotEqual(t, first.header.Get("Date"), again.header.Get("Date"), "D21")
	srv.AssertExactlyOnce(t, "bookings.create", "b-1")
}

func TestF7AnotherRequestWithTheKeyIs422(t *testing.T) {
	srv, c := start(t)
	id, other := srv.AddOrder(store, mockserver.Order{}), srv.AddOrder(store, mockserver.Order{})
	body := `{"preparation_minutes":20,"note":"x"}`
	require.Equal(t, 200, c.post("/orders/"+id+"/accept", body, "k").status)
	for name, r := range map[string][2]string{
		"white space":        {"/orders/" + id + "/accept", `{"preparation_minutes": 20,"note":"x"}`},
		"field order":        {"/orders/" + id + "/accept", `{"note":"x","preparation_minutes":20}`},
		"no body":            {"/orders/" + id + "/accept", ``},
		"another path":       {"/orders/" + other + "/accept", body},
		"D1: other action":   {"/orders/" + id + "/cancel", body},
		"D2: a query":        {"/orders/" + id + "/accept?v=1", body},
		"D2: an empty one":   {"/orders/" + id + "/accept?", body},
		"D3: escaped path":   {"/orders/" + id + "/%61ccept", body},
		"a trailing newline": {"/orders/" + id + "/accept", body + "\n"},
	} {
		a := c.post(r[0], r[1], "k")
		assert.Equal(t, 422, a.status, name)
		assert.Equal(t, "idempotency_key_reused", a.code(), name)
		assert.Empty(t, a.header.Get("Retry-After"), "D20: %s", name)
	}
	assert.True(t, c.do("POST", "/orders/"+id+"/accept", body, "Idempotency-Key: k", "Accept: text/html", "X-Trace: 1").replayed(), "D4: headers do not count")
	assert.Len(t, srv.Effects(), 1)
}

func TestD3TrailingSlashIsAnotherPathAndNothingRedirects(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	for _, path := range []string{"/orders/" + id + "/accept/", "/orders//accept", "/orders/" + id + "//accept", "/orders/x/../" + id + "/accept"} {
		a := c.post(path, "", "k")
		assert.Equal(t, 404, a.status, path)
	}
	assert.Empty(t, srv.Effects())
}

func TestD5ChunkedBodyIsTheSameRequest(t *testing.T) {
	srv, c := start(t)
	body := c.booking("b-1")
	require.Equal(t, 201, c.post("/bookings", body, "k").status)
	req, err := http.NewRequest("POST", srv.BaseURL()+"/bookings", struct{ *strings.Reader }{strings.NewReader(body)})
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header["Idempotency-Key"] = []string{"k"}
	require.Zero(t, req.ContentLength)
	assert.True(t, c.send(req).replayed())
}

func TestF8InProgressIs409AndD18MismatchWins(t *testing.T) {
	srv, c := start(t)
	body := c.booking("b-1")
	srv.Inject(mockserver.Delay(time.Hour).At(mockserver.StageInHandler).On("POST", "/bookings").Times(1))
	go c.post("/bookings", body, "k")
	require.Eventually(t, func() bool { return claimed(srv) }, 5*time.Second, time.Millisecond)
	a := c.post("/bookings", body, "k")
	assert.Equal(t, 409, a.status)
	assert.Equal(t, "idempotency_in_progress", a.code())
	assert.Equal(t, "1", a.header.Get("Retry-After"), "D20")
	srv.Clock().Advance(time.Hour)
	assert.Equal(t, 409, c.post("/bookings", body, "k").status, "D16: a living request keeps its key")
	assert.Equal(t, 422, c.post("/bookings", body+" ", "k").status)
	assert.Empty(t, srv.Effects())
}

func claimed(srv *mockserver.Server) bool {
	ks := srv.Keys(store)
	return len(ks) == 1 && ks[0].State == "processing"
}

func TestF9AbortedRequestFreesItsKeyAfter2Minutes(t *testing.T) {
	for name, tc := range map[string]struct {
		fault    mockserver.Fault
		bookings int
	}{
		"before the effect": {mockserver.CrashBeforeCommit(), 1},
		"after the effect":  {mockserver.CrashAfterCommit(), 2}, // D17
	} {
		t.Run(name, func(t *testing.T) {
			srv, c := start(t)
			srv.Inject(tc.fault.On("POST", "/bookings").Times(1))
			body := c.booking("b-1")
			assert.Error(t, c.post("/bookings", body, "k").err)
			assert.Equal(t, 409, c.post("/bookings", body, "k").status)
			srv.Clock().Advance(2*time.Minute - time.Second)
			assert.Equal(t, 409, c.post("/bookings", body, "k").status)
			srv.Clock().Advance(time.Second)
			a := c.post("/bookings", body, "k")
			assert.Equal(t, 201, a.status)
			assert.False(t, a.replayed())
			assert.Len(t, srv.Bookings(store), tc.bookings)
		})
	}
}

func TestF9TheFreeKeyTakesAnyRequest(t *testing.T) {
	srv, c := start(t)
	srv.Inject(mockserver.CrashBeforeCommit().Times(1))
	assert.Error(t, c.post("/bookings", c.booking("b-1"), "k").err)
	srv.Clock().Advance(2 * time.Minute)
	assert.Equal(t, 201, c.post("/bookings", c.booking("b-2"), "k").status)
}

func TestF10ConflictIsNotHeld(t *testing.T) {
	srv, c := start(t, mockserver.WithSwitches(func(s *mockserver.Switches) { s.BookingCapacity = 1 }))
	require.Equal(t, 201, c.post("/bookings", c.booking("b-1"), "k1").status)
	body := c.booking("b-2")
	for range 2 {
		a := c.post("/bookings", body, "k2")
		assert.Equal(t, 409, a.status)
		assert.Equal(t, "conflict", a.code())
		assert.False(t, a.replayed())
	}
	require.Equal(t, 200, c.post("/bookings/"+srv.Bookings(store)[0].ID+"/cancel", "", "").status)
	assert.Equal(t, 201, c.post("/bookings", body, "k2").status)
	// D19: a key whose answer was not held takes another body
	assert.Equal(t, 409, c.post("/bookings", c.booking("b-3"), "k3").status)
	assert.Equal(t, 409, c.post("/bookings", c.booking("b-4"), "k3").status)
}

func TestF10ServerErrorIsNotHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		fault    mockserver.Fault
		replayed bool
		bookings int
	}{
		"before the effect":                {mockserver.Status(500), false, 1},
		"after it, answer held":            {mockserver.StatusAfterCommit(500), true, 1},
		"after it, not held as F10 has it": {mockserver.StatusAfterCommit(500).NotHeld(), false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			srv, c := start(t)
			srv.Inject(tc.fault.On("POST", "/bookings").Times(1))
			body := c.booking("b-1")
			assert.Equal(t, 500, c.post("/bookings", body, "k").status)
			a := c.post("/bookings", body, "k")
			assert.Equal(t, 201, a.status)
			assert.Equal(t, tc.replayed, a.replayed())
			assert.Len(t, srv.Bookings(store), tc.bookings)
		})
	}
}

func TestF13StatusChangesAreRepeatable(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	assert.Equal(t, "confirmed", c.post("/orders/"+id+"/accept", "", "k1").field("status"))
	before := c.get("/orders/" + id).body
	assert.Equal(t, before, c.post("/orders/"+id+"/accept", `{"preparation_minutes":90}`, "k2").body)
	assert.Equal(t, 200, c.post("/orders/"+id+"/status", `{"status":"ready"}`, "").status)
	assert.Equal(t, 200, c.post("/orders/"+id+"/status", `{"status":"ready"}`, "").status)
	assert.Equal(t, "conflict", c.post("/orders/"+id+"/status", `{"status":"preparing"}`, "").code())
	require.NoError(t, srv.CancelOrder(store, id))
	a := c.post("/orders/"+id+"/accept", "", "k3")
	assert.Equal(t, 200, a.status)
	assert.Equal(t, "cancelled", a.field("status"), "past pending comes back unchanged, cancelled included")
	srv.AssertExactlyOnce(t, "orders.accept", id)
	srv.AssertExactlyOnce(t, "orders.status", id)
}

func TestF14AcknowledgeTwiceChangesNothing(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	for _, key := range []string{"k1", "k2", ""} {
		a := c.post("/orders/"+id+"/acknowledge", `{"external_id":"pos-7"}`, key)
		assert.Equal(t, 200, a.status)
		assert.Equal(t, "pos-7", a.field("external_id"))
	}
	srv.AssertExactlyOnce(t, "orders.acknowledge", id)
	a := c.post("/orders/"+id+"/acknowledge", `{"external_id":"pos-8"}`, "k3")
	assert.Equal(t, "conflict", a.code())
	assert.Contains(t, a.body, "pos-7", "the answer shows the stored id")
}

func TestF17OrderLooksLikeDocumented(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{Status: mockserver.StatusConfirmed})
	assert.True(t, strings.HasPrefix(c.get("/orders/"+id).body, `{"object":"order","id":"`+id+`","status":"confirmed",`))
	body := c.booking("b-1")
	assert.Equal(t, 201, c.post("/bookings", body, "").status)
	assert.Equal(t, 201, c.post("/bookings", body, "").status)
	assert.Len(t, srv.Bookings(store), 2, "without a key a repeat makes a second booking")
	assert.Contains(t, c.get("/bookings?external_id=b-1").body, `"object":"list"`)
}
