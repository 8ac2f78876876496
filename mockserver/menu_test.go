package mockserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const smallMenu = `{"currency":"EUR","house_rule":"kept",
 "categories":[{"id":"c","name":"Alles","item_ids":["a","b"]}],
 "items":[{"id":"a","external_id":"plu-a","name":"A","price":{"amount":100,"currency":"EUR"},"tax_rates":{"delivery":700,"pickup":700,"dine_in":1900},"allergens":null,"modifier_group_ids":["g"]},
          {"id":"b","name":"B","price":{"amount":200,"currency":"EUR"},"tax_rates":{"delivery":700,"pickup":700,"dine_in":1900},"allergens":[],"modifier_group_ids":[]}],
 "modifier_groups":[{"id":"g","name":"G","min":0,"max":2,"modifiers":[{"id":"m","name":"M","price":{"amount":50,"currency":"EUR"},"max_quantity":2}]}]}`

func TestMenuIsReplacedAndTwiceIsTheSameAsOnce(t *testing.T) {
	srv, c := start(t)
	for range 2 {
		a := c.do("PUT", "/menu", smallMenu)
		require.Equal(t, 200, a.status, a.body)
		assert.Equal(t, "menu", a.field("object"))
		assert.Equal(t, "kept", a.field("house_rule"), "what the server does not know is not lost")
	}
	srv.AssertExactlyOnce(t, "menu.put", "menu")
	assert.Equal(t, "kept", c.get("/menu").field("house_rule"))
}

func TestMenuReportsAllFaultsAtOnce(t *testing.T) {
	srv, c := start(t)
	a := c.do("PUT", "/menu", `{"currency":"EURO",
	 "categories":[{"id":"","name":"x","item_ids":["nope"]}],
	 "items":[{"id":"a","name":"","price":{"amount":-1,"currency":"USD"},"tax_rates":{"delivery":-1,"pickup":10001},"allergens":["gluten","dust"],"modifier_group_ids":["nope"]},
	          {"id":"a","name":"A","price":{"amount":1,"currency":"EURO"}}],
	 "modifier_groups":[{"id":"g","name":"G","min":3,"max":2,"modifiers":[{"id":"m","name":"","price":{"amount":1,"currency":"EURO"},"max_quantity":-1,"modifier_group_ids":["h","nope"]}]},
	                    {"id":"h","name":"H","max":1,"modifiers":[{"id":"n","name":"N","price":{"amount":1,"currency":"EURO"},"modifier_group_ids":["g"]}]}]}`)
	assert.Equal(t, 422, a.status)
	assert.ElementsMatch(t, []string{
		"/currency", "/categories/0/id", "/categories/0/item_ids/0", "/items/0/name", "/items/0/price/amount", "/items/0/price/currency",
		"/items/0/tax_rates/delivery", "/items/0/tax_rates/pickup", "/items/0/allergens/1", "/items/0/modifier_group_ids/0", "/items/1/id",
		"/modifier_groups/0/min", "/modifier_groups/0/modifiers/0/name", "/modifier_groups/0/modifiers/0/max_quantity",
		"/modifier_groups/0/modifiers/0/modifier_group_ids/1", "/modifier_groups/1/modifiers/0/modifier_group_ids/0",
	}, a.pointers())
	a = c.do("PUT", "/menu", `{"currency":5,"items":[{"id":"a","price":{"amount":"1"}},{"id":2,"price":3,"allergens":"gluten"}],"modifier_groups":{}}`)
	assert.Equal(t, []string{"/currency", "/items/0/price/amount", "/items/1/id", "/items/1/price", "/items/1/allergens", "/modifier_groups"}, a.pointers())
	assert.Empty(t, srv.Effects())
	assert.Equal(t, 400, c.do("PUT", "/menu", "").status)
}

func TestTheSeededMenuIsValidAndOrdersPointIntoIt(t *testing.T) {
	srv, c := start(t)
	a := c.get("/menu")
	require.Equal(t, 200, c.do("PUT", "/menu", a.body).status)
	assert.Empty(t, srv.Effects(), "it is the same menu")
	srv.AddOrders(store, 50)
	for _, o := range srv.Orders(store) {
		for _, it := range o.Items {
			assert.Contains(t, a.body, `"id":"`+it.ItemID+`"`)
		}
	}
}

func TestAvailabilityIsAllOrNothing(t *testing.T) {
	srv, c := start(t)
	a := c.do("POST", "/menu/availability", `{"changes":[{"item_id":"ramen","status":"unavailable"},{"item_id":"nope","status":"sold_out"},
	  {"status":"available"},{"external_id":"nope","status":"limited"},{"modifier_id":"ei","item_id":"ramen","status":"available","quantity":1}]}`)
	assert.Equal(t, 422, a.status)
	assert.ElementsMatch(t, []string{"/changes/1/item_id", "/changes/1/status", "/changes/2", "/changes/3/external_id", "/changes/3/quantity",
		"/changes/4", "/changes/4/quantity"}, a.pointers())
	assert.Empty(t, srv.Effects())
	assert.Empty(t, listed(t, c))
	assert.Equal(t, 422, c.do("POST", "/menu/availability", `{"changes":[]}`).status)

	ok := `{"changes":[{"item_id":"ramen","status":"unavailable"},{"external_id":"plu-ei","status":"limited","quantity":3}]}`
	for range 2 {
		require.Equal(t, 200, c.do("POST", "/menu/availability", ok).status)
	}
	srv.AssertExactlyOnce(t, "menu.availability", "menu")
	assert.ElementsMatch(t, []string{"ramen unavailable", "ei limited"}, listed(t, c))
	require.Equal(t, 200, c.do("POST", "/menu/availability", `{"changes":[{"item_id":"ramen","status":"available"}]}`).status)
	assert.Equal(t, []string{"ei limited"}, listed(t, c))
}

func listed(t *testing.T, c *client) []string {
	var l struct {
		Data []struct {
			ItemID     string `json:"item_id"`
			ModifierID string `json:"modifier_id"`
			Status     string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(c.get("/menu/availability").body), &l))
	out := []string{}
	for _, d := range l.Data {
		out = append(out, d.ItemID+d.ModifierID+" "+d.Status)
	}
	return out
}

func TestAvailabilityUntilIsHalfOpenOnTheClock(t *testing.T) {
	srv, c := start(t)
	srv.Clock().Set(time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC))
	until := time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC)
	require.Equal(t, 200, c.do("POST", "/menu/availability", fmt.Sprintf(`{"changes":[{"item_id":"ramen","status":"unavailable","until":%q}]}`, until.Format(time.RFC3339))).status)
	srv.Clock().Set(until.Add(-time.Second))
	assert.Equal(t, []string{"ramen unavailable"}, listed(t, c))
	srv.Clock().Set(until)
	assert.Empty(t, listed(t, c))
	assert.Equal(t, 422, c.do("POST", "/menu/availability", fmt.Sprintf(`{"changes":[{"item_id":"ramen","status":"unavailable","until":%q}]}`, until.Format(time.RFC3339))).status)
}

func TestAvailabilitySurvivesAMenuThatStillHasTheID(t *testing.T) {
	_, c := start(t)
	require.Equal(t, 200, c.do("PUT", "/menu", smallMenu).status)
	require.Equal(t, 200, c.do("POST", "/menu/availability", `{"changes":[{"item_id":"a","status":"unavailable"},{"item_id":"b","status":"unavailable"},{"modifier_id":"m","status":"unavailable"}]}`).status)
	without := strings.Replace(strings.Replace(smallMenu, `["a","b"]`, `["a"]`, 1), `"id":"b"`, `"id":"z"`, 1)
	require.Equal(t, 200, c.do("PUT", "/menu", without).status)
	require.Equal(t, 200, c.do("PUT", "/menu", smallMenu).status)
	assert.ElementsMatch(t, []string{"a unavailable", "m unavailable"}, listed(t, c), "b went and came back: available")
}

func TestStorePauses(t *testing.T) {
	srv, c := start(t)
	until := srv.Clock().Now().Add(30 * time.Minute).UTC().Format(time.RFC3339)
	for range 2 {
		a := c.do("PATCH", "/store", `{"paused_until":"`+until+`","pause_reason":"Küche voll"}`)
		require.Equal(t, 200, a.status)
		assert.Equal(t, until, a.field("paused_until"))
	}
	srv.AssertExactlyOnce(t, "store.update", "store")
	assert.Equal(t, "Küche voll", c.do("PATCH", "/store", `{"default_preparation_minutes":45}`).field("pause_reason"), "absent leaves it")
	a := c.do("PATCH", "/store", `{"paused_until":null}`)
	assert.Nil(t, a.field("paused_until"))
	assert.Nil(t, a.field("pause_reason"))
	require.Equal(t, 200, c.do("PATCH", "/store", `{"paused_until":"`+until+`"}`).status)
	srv.Clock().Advance(time.Hour)
	assert.Nil(t, c.get("/store").field("paused_until"), "over by itself")
	for _, body := range []string{`{"paused_until":"` + until + `"}`, `{"default_preparation_minutes":0}`, `{"default_preparation_minutes":null}`} {
		assert.Equal(t, 422, c.do("PATCH", "/store", body).status, body)
	}
}

func TestHoursAreReplacedAndChecked(t *testing.T) {
	srv, c := start(t)
	good := `{"timezone":"Europe/Berlin","weekly":[{"day":"friday","ranges":[{"open":"11:30","close":"14:30"},{"open":"18:00","close":"02:00"}]},
	  {"day":"saturday","ranges":[{"open":"02:00","close":"24:00"}]},{"day":"sunday","ranges":[{"open":"00:00","close":"24:00"}]}],
	  "special_days":[{"date":"2026-12-25","closed":true},{"date":"2026-12-31","ranges":[{"open":"18:00","close":"04:00"}]}]}`
	for range 2 {
		a := c.do("PUT", "/store/hours", good)
		require.Equal(t, 200, a.status, a.body)
	}
	srv.AssertExactlyOnce(t, "store.hours", "store")
	assert.Equal(t, "Europe/Berlin", c.get("/store/hours").field("timezone"))
	assert.Equal(t, 200, c.do("PUT", "/store/hours", c.get("/store/hours").body).status)

	for body, want := range map[string]string{
		`{}`: "/timezone",
		`{"timezone":"Europe/Entenhausen","weekly":[{"day":"fryday"},{"day":"monday"},{"day":"monday"}]}`:                                                                         "/timezone /weekly/0/day /weekly/2/day",
		`{"timezone":"UTC","weekly":[{"day":"monday","ranges":[{"open":"24:00","close":"9:00"},{"open":"1x:00","close":"24:01"}]}]}`:                                              "/weekly/0/ranges/0/open /weekly/0/ranges/0/close /weekly/0/ranges/1/open /weekly/0/ranges/1/close",
		`{"timezone":"UTC","weekly":[{"day":"monday","ranges":[{"open":"09:00","close":"12:00"},{"open":"11:59","close":"13:00"}]}]}`:                                             "/weekly/0/ranges/1",
		`{"timezone":"UTC","weekly":[{"day":"sunday","ranges":[{"open":"18:00","close":"02:00"}]},{"day":"monday","ranges":[{"open":"01:00","close":"03:00"}]}]}`:                 "/weekly/1/ranges/0",
		`{"timezone":"UTC","special_days":[{"date":"31.12.2026","closed":true},{"date":"2026-12-31"},{"date":"2026-12-31","closed":true}]}`:                                       "/special_days/0/date /special_days/1 /special_days/2/date",
		`{"timezone":"UTC","special_days":[{"date":"2026-12-31","ranges":[{"open":"18:00","close":"04:00"}]},{"date":"2027-01-01","ranges":[{"open":"03:00","close":"04:00"}]}]}`: "/special_days/1/ranges/0",
		// 2026-12-31 is a Thursday: its night runs into Friday's weekly opening, and Wednesday's night into it
		`{"timezone":"UTC","weekly":[{"day":"friday","ranges":[{"open":"02:00","close":"04:00"}]}],"special_days":[{"date":"2026-12-31","ranges":[{"open":"18:00","close":"03:00"}]}]}`:    "/weekly/0/ranges/0",
		`{"timezone":"UTC","weekly":[{"day":"wednesday","ranges":[{"open":"20:00","close":"02:00"}]}],"special_days":[{"date":"2026-12-31","ranges":[{"open":"01:00","close":"03:00"}]}]}`: "/special_days/0/ranges/0",
	} {
		a := c.do("PUT", "/store/hours", body)
		assert.Equal(t, 422, a.status, body)
		assert.Equal(t, want, strings.Join(a.pointers(), " "), body)
	}
	assert.Contains(t, c.do("PUT", "/store/hours", `{"timezone":"UTC","weekly":[{"day":"monday","ranges":[{"open":"09:00","close":"12:00"},{"open":"11:59","close":"13:00"}]}]}`).body,
		"/weekly/0/ranges/0 and /weekly/0/ranges/1", "both ranges are named")
}

// FuzzBodies sends anything as a body to every operation that takes one: a refusal or an answer, never a
// 5xx and never a crash.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{"", "{}", "[]", "null", `"x"`, smallMenu, `{"a"`, `{"changes":[{"until":1}]}`, `{"timezone":"","weekly":null}`,
		`{"party_size":1e99}`, `{"paused_until":"0000-00-00T00:00:00Z"}`, `{"special_days":[{"date":"9999-12-31","ranges":[{"open":"00:00","close":"00:00"}]}]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		srv, c := start(t)
		id := srv.AddOrder(store, mockOrder())
		for _, op := range [][2]string{{"POST", "/bookings"}, {"PUT", "/menu"}, {"POST", "/menu/availability"}, {"PUT", "/store/hours"},
			{"PATCH", "/store"}, {"POST", "/orders/" + id + "/reject"}, {"POST", "/orders/" + id + "/acknowledge"}, {"PATCH", "/orders/" + id},
			{"POST", "/orders/" + id + "/status"}, {"POST", "/orders/" + id + "/accept"}} {
			a := c.do(op[0], op[1], body)
			if a.err != nil || a.status >= 500 {
				t.Fatalf("%s %s: %d %v %s", op[0], op[1], a.status, a.err, a.body)
			}
			if !json.Valid([]byte(a.body)) {
				t.Fatalf("%s %s: not JSON: %s", op[0], op[1], a.body)
			}
		}
	})
}

// FuzzCursor asks with any cursor, limit and instant.
func FuzzCursor(f *testing.F) {
	f.Add("x", "1", "2026-01-01T00:00:00Z")
	f.Add("eyJhIjo5OTk5OTk5OTl9", "-1", "")
	f.Fuzz(func(t *testing.T, cursor, limit, after string) {
		srv, c := start(t)
		srv.AddOrders(store, 2)
		q := urlValues("cursor", cursor, "limit", limit, "updated_after", after)
		if a := c.get("/orders?" + q); a.err != nil || (a.status != 200 && a.status != 400) {
			t.Fatalf("%s: %d %v", q, a.status, a.err)
		}
	})
}
