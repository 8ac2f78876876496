package mockserver_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// assumption is one row of the table in docs/assumptions.md.
type assumption struct{ number, text, file, switchName, tests string }

func assumptions(t *testing.T) []assumption {
	raw, err := os.ReadFile("../docs/assumptions.md")
	require.NoError(t, err)
	var out []assumption
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "A") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, assumption{cells[0], cells[1], cells[2], cells[3], cells[4]})
	}
	return out
}

// TestEveryAssumptionHasItsPlaceItsSwitchAndItsTest reads docs/assumptions.md: an entry without a file, a
// test, or a switch (or the word that it has no other reading) fails, and so does a switch or a mark in
// the OpenAPI document without an entry.
func TestEveryAssumptionHasItsPlaceItsSwitchAndItsTest(t *testing.T) {
	all := assumptions(t)
	require.NotEmpty(t, all)
	tests := testNames(t)
	raw, err := json.Marshal(mockserver.DefaultSwitches())
	require.NoError(t, err)
	var switches map[string]any
	require.NoError(t, json.Unmarshal(raw, &switches))
	code := regexp.MustCompile("`([^`]+)`")
	known, used := map[string]bool{}, map[string]bool{}
	for i, a := range all {
		assert.Equal(t, fmt.Sprintf("A%d", i+1), a.number, "numbers run on and never change")
		known[a.number] = true
		assert.NotEmpty(t, a.text, a.number)
		files := code.FindAllStringSubmatch(a.file, -1)
		assert.Len(t, files, 1, "%s: one place in the code", a.number)
		for _, f := range files {
			assert.FileExists(t, filepath.Join("..", f[1]), a.number)
		}
		names := code.FindAllStringSubmatch(a.switchName, -1)
		if len(names) == 0 {
			assert.Equal(t, "no other reading", a.switchName, "%s: a switch, or why there is none", a.number)
		}
		for _, n := range names {
			assert.Contains(t, switches, n[1], a.number)
			used[n[1]] = true
		}
		named := code.FindAllStringSubmatch(a.tests, -1)
		assert.NotEmpty(t, named, "%s has no test", a.number)
		for _, n := range named {
			assert.True(t, tests[n[1]], "%s: there is no test %s", a.number, n[1])
		}
	}
	documented := map[string]bool{ // the contract's own switches: clauses D2 to D20
		"query": true, "require_key": true, "hold_4xx": true, "hold_from": true, "hold_for": true,
		"claim_on_headers": true, "abort_after": true, "retry_after_in_progress": true,
	}
	for name := range switches {
		assert.True(t, used[name] || documented[name], "the switch %s belongs to no assumption", name)
	}
	for _, n := range regexp.MustCompile(`"A\d+"`).FindAllString(string(mockserver.OpenAPI()), -1) {
		assert.True(t, known[strings.Trim(n, `"`)], "the OpenAPI document names %s", n)
	}
}

// testNames are the tests of this package.
func testNames(t *testing.T) map[string]bool {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	out := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
				out[fn.Name.Name] = true
			}
		}
	}
	return out
}

func TestErrorEnvelopeCanBeFlat(t *testing.T) {
	_, c := start(t, with(func(s *mockserver.Switches) { s.ErrorEnvelope = "flat" }))
	a := c.post("/bookings", "{}", "")
	assert.Equal(t, 422, a.status)
	assert.Equal(t, "validation_failed", a.field("code"))
	assert.NotEmpty(t, a.field("message"))
	assert.Nil(t, a.field("error"))
}

// TestErrorCodes meets every refusal the API has.
func TestErrorCodes(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.MaxBody, s.BookingCapacity = 1000, 1 }))
	require.Equal(t, 201, c.post("/bookings", c.booking("a"), "k").status)
	srv.Inject(mockserver.CrashBeforeCommit().On("POST", "/orders/{id}/accept").Times(1))
	id := srv.AddOrder(store, mockserver.Order{})
	require.Error(t, c.post("/orders/"+id+"/accept", "", "running").err)
	for want, send := range map[string]func() answer{
		"400 invalid_request":         func() answer { return c.post("/bookings", "{", "") },
		"401 unauthorized":            func() answer { return c.do("GET", "/store", "", "Authorization: Bearer x") },
		"404 not_found":               func() answer { return c.get("/orders/none") },
		"405 method_not_allowed":      func() answer { return c.do("DELETE", "/store", "") },
		"409 conflict":                func() answer { return c.post("/bookings", c.booking("b"), "") },
		"409 idempotency_in_progress": func() answer { return c.post("/orders/"+id+"/accept", "", "running") },
		"413 payload_too_large":       func() answer { return c.post("/bookings", strings.Repeat(" ", 1001), "") },
		"415 unsupported_media_type":  func() answer { return c.do("POST", "/bookings", "x", "Content-Type: text/csv") },
		"422 validation_failed":       func() answer { return c.post("/bookings", "{}", "") },
		"422 idempotency_key_reused":  func() answer { return c.post("/bookings", "{}", "k") },
	} {
		a := send()
		assert.Equal(t, want, fmt.Sprint(a.status, " ", a.code()))
	}
	assert.Equal(t, "GET, PATCH", c.do("DELETE", "/store", "").header.Get("Allow"))
	for want, status := range map[string]int{"403 forbidden": 403, "429 rate_limited": 429, "500 internal": 500, "503 unavailable": 503} {
		srv.Inject(mockserver.Status(status).Times(1))
		a := c.get("/store")
		assert.Equal(t, want, fmt.Sprint(a.status, " ", a.code()))
	}
}

func TestUpdatedAfterCanBeInclusive(t *testing.T) {
	for reading, found := range map[string]bool{"exclusive": false, "inclusive": true} {
		srv, c := start(t, with(func(s *mockserver.Switches) { s.UpdatedAfter = reading }))
		id := srv.AddOrder(store, mockserver.Order{})
		o, _ := srv.Order(store, id)
		a := c.get("/orders?updated_after=" + url.QueryEscape(o.UpdatedAt.Format(time.RFC3339Nano)))
		assert.Equal(t, found, strings.Contains(a.body, id), reading)
	}
}

func TestStatusSkipsCanBeRefused(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.StatusSkips = "refused" }))
	for _, tc := range []struct {
		kind, from, to string
		status         int
	}{
		{"delivery", "confirmed", "preparing", 200}, {"delivery", "confirmed", "ready", 409}, {"delivery", "ready", "completed", 409},
		{"pickup", "ready", "completed", 200}, {"pickup", "preparing", "completed", 409}, {"pickup", "ready", "ready", 200},
	} {
		id := srv.AddOrder(store, mockserver.Order{Type: tc.kind, Status: tc.from})
		assert.Equal(t, tc.status, c.post("/orders/"+id+"/status", `{"status":"`+tc.to+`"}`, "").status, "%v", tc)
	}
}

func TestAcknowledgeWithAnotherIDHasThreeReadings(t *testing.T) {
	for reading, want := range map[string]string{"conflict": "409 one", "replace": "200 two", "ignore": "200 one"} {
		srv, c := start(t, with(func(s *mockserver.Switches) { s.AcknowledgeOther = reading }))
		id := srv.AddOrder(store, mockserver.Order{})
		require.Equal(t, 200, c.post("/orders/"+id+"/acknowledge", `{"external_id":"one"}`, "").status)
		a := c.post("/orders/"+id+"/acknowledge", `{"external_id":"two"}`, "")
		assert.Equal(t, want, fmt.Sprint(a.status, " ", c.get("/orders/"+id).field("external_id")), reading)
	}
}

func TestRejectionNeedNotSnooze(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.RejectSnoozes = false }))
	id := srv.AddOrder(store, mockserver.Order{})
	o, _ := srv.Order(store, id)
	require.Equal(t, 200, c.post("/orders/"+id+"/reject", fmt.Sprintf(`{"reason":"item_unavailable","unavailable_items":[%q]}`, o.Items[0].ItemID), "").status)
	assert.Empty(t, listed(t, c))
}

func TestReadyTimeReachesAsFarAsTheSwitchSays(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.ReadyWithin = time.Hour }))
	id := srv.AddOrder(store, mockserver.Order{})
	for minutes, status := range map[int]int{61: 422, 59: 200} {
		at := srv.Clock().Now().Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339)
		assert.Equal(t, status, c.do("PATCH", "/orders/"+id, `{"estimated_ready_at":"`+at+`"}`).status, minutes)
	}
}

func TestBookingReferenceCanBeUnique(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.BookingReference = "unique" }))
	require.Equal(t, 201, c.post("/bookings", c.booking("a"), "k1").status)
	assert.Equal(t, "conflict", c.post("/bookings", c.booking("a"), "k2").code())
	assert.Equal(t, 201, c.post("/bookings", c.booking("b"), "k3").status)
	srv.AssertExactlyOnce(t, "bookings.create", "a")
}

func TestBookingListCanLag(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.BookingListLag = time.Minute }))
	id := c.post("/bookings", c.booking("a"), "k").field("id").(string)
	assert.NotContains(t, c.get("/bookings?external_id=a").body, id)
	assert.Equal(t, 200, c.get("/bookings/"+id).status)
	srv.Clock().Advance(time.Minute)
	assert.Contains(t, c.get("/bookings?external_id=a").body, id)
}

func TestHoursMayOverlapIfTheSwitchSaysSo(t *testing.T) {
	_, c := start(t, with(func(s *mockserver.Switches) { s.HoursOverlaps = "allowed" }))
	body := `{"timezone":"UTC","weekly":[{"day":"monday","ranges":[{"open":"09:00","close":"12:00"},{"open":"11:00","close":"13:00"}]}]}`
	assert.Equal(t, 200, c.do("PUT", "/store/hours", body).status)
}

func TestMediaTypeCanBeIgnored(t *testing.T) {
	_, c := start(t, with(func(s *mockserver.Switches) { s.MediaType = "ignored" }))
	assert.Equal(t, 201, c.do("POST", "/bookings", c.booking("a"), "Content-Type: text/plain").status)
	_, c = start(t)
	for kind, status := range map[string]int{"application/json; charset=utf-8": 201, "APPLICATION/JSON": 201, "text/json": 415, "": 415, ";": 415} {
		assert.Equal(t, status, c.do("POST", "/bookings", c.booking("a"), "Content-Type: "+kind).status, kind)
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	assert.Equal(t, 200, c.post("/orders/"+id+"/accept", `{"future":{"field":1}}`, "").status)
}

func TestIDsAreUUIDs(t *testing.T) {
	srv, c := start(t)
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	o, _ := srv.Order(store, srv.AddOrder(store, mockserver.Order{}))
	booking := c.post("/bookings", c.booking("a"), "")
	for _, id := range []string{o.ID, o.Items[0].ID, booking.field("id").(string), srv.Store(store).ID} {
		assert.Regexp(t, form, id)
	}
	assert.Equal(t, "/v1/bookings/"+booking.field("id").(string), booking.header.Get("Location"))
}

// TestTheManualNamesEverySwitchAndFault keeps docs/mock.md complete.
func TestTheManualNamesEverySwitchAndFault(t *testing.T) {
	manual, err := os.ReadFile("../docs/mock.md")
	require.NoError(t, err)
	raw, err := json.Marshal(mockserver.DefaultSwitches())
	require.NoError(t, err)
	var switches map[string]any
	require.NoError(t, json.Unmarshal(raw, &switches))
	for name := range switches {
		assert.Contains(t, string(manual), "| `"+name+"` |")
	}
	for _, f := range []mockserver.Fault{
		mockserver.Refuse(), mockserver.Reset(), mockserver.DropResponse(), mockserver.Status(500), mockserver.StatusAfterCommit(500),
		mockserver.Truncate(1), mockserver.Drip(1, 1), mockserver.Delay(1), mockserver.Hang(), mockserver.CrashBeforeCommit(),
		mockserver.CrashAfterCommit(), mockserver.RateLimit(1), mockserver.Portal(), mockserver.ProxyError(), mockserver.UnknownEnum(), mockserver.Late(1),
	} {
		var spec struct{ Fault string }
		require.NoError(t, json.Unmarshal([]byte(f.String()), &spec))
		assert.Contains(t, string(manual), "| `"+spec.Fault+"` |")
	}
}
