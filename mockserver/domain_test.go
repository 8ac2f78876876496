package mockserver_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// pointers lists the params of a 422's details.
func (a answer) pointers() []string {
	var m struct {
		Error struct {
			Details []struct{ Param string } `json:"details"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(a.body), &m)
	out := []string{}
	for _, d := range m.Error.Details {
		out = append(out, d.Param)
	}
	return out
}

func TestOrderTransitions(t *testing.T) {
	all := []string{"pending", "confirmed", "preparing", "ready", "out_for_delivery", "completed", "rejected", "cancelled"}
	reason := `{"reason":"too_busy"}`
	for _, tc := range []struct {
		call, body string
		want       map[string]string // from status → status after, or "" = 409
		otherwise  string            // for every other status: "same" = unchanged 200, "" = 409
	}{
		{"accept", "", map[string]string{"pending": "confirmed"}, "same"},
		{"reject", reason, map[string]string{"pending": "rejected", "rejected": "rejected"}, ""},
		{"cancel", reason, map[string]string{"completed": "", "rejected": ""}, "cancelled"},
		{"acknowledge", `{"external_id":"x"}`, nil, "same"},
		{"status", `{"status":"confirmed"}`, map[string]string{"pending": "confirmed", "confirmed": "confirmed"}, ""},
		{"status", `{"status":"preparing"}`, map[string]string{"pending": "preparing", "confirmed": "preparing", "preparing": "preparing"}, ""},
		{"status", `{"status":"completed"}`, map[string]string{"rejected": "", "cancelled": ""}, "completed"},
	} {
		for _, from := range all {
			srv, c := start(t)
			id := srv.AddOrder(store, mockserver.Order{Status: from, Type: "delivery"})
			want, listed := tc.want[from]
			if !listed {
				want = tc.otherwise
			}
			if want == "same" {
				want = from
			}
			a := c.post("/orders/"+id+"/"+tc.call, tc.body, "")
			name := from + " " + tc.call + " " + tc.body
			if want == "" {
				assert.Equal(t, "conflict", a.code(), name)
				want = from
			} else {
				assert.Equal(t, 200, a.status, name)
			}
			assert.Equal(t, want, c.get("/orders/"+id).field("status"), name)
			b := c.post("/orders/"+id+"/"+tc.call, tc.body, "")
			assert.Equal(t, a.status, b.status, "a repeat gets the same: %s", name)
			assert.LessOrEqual(t, len(srv.Effects()), 1, "a repeat changes nothing: %s", name)
		}
	}
}

func TestOrderBodiesAreChecked(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	past, far := time.Now().Add(-time.Minute).Format(time.RFC3339), time.Now().AddDate(0, 0, 8).Format(time.RFC3339)
	for _, tc := range []struct{ method, call, body, pointers string }{
		{"POST", "/accept", `{"preparation_minutes":0}`, "/preparation_minutes"},
		{"POST", "/accept", `{"preparation_minutes":"20"}`, "/preparation_minutes"},
		{"POST", "/accept", `{"ready_at":"` + past + `"}`, "/ready_at"},
		{"POST", "/accept", `{"ready_at":"` + far + `","preparation_minutes":99999}`, "/ready_at /preparation_minutes /ready_at"},
		{"POST", "/acknowledge", `{}`, "/external_id"},
		{"POST", "/acknowledge", ``, "/external_id"},
		{"POST", "/reject", `{}`, "/reason"},
		{"POST", "/reject", `{"reason":"bored","unavailable_items":["nothing","margherita-x"]}`, "/reason /unavailable_items/0 /unavailable_items/1"},
		{"POST", "/cancel", `{"reason":"other"}`, "/message"},
		{"POST", "/status", `{"status":"pending"}`, "/status"},
		{"POST", "/status", `{"status":"cancelled"}`, "/status"},
		{"POST", "/status", `[]`, ""},
		{"POST", "/reject", `{"reason":1,"unavailable_items":["a",2,"b",{}]}`, "/reason /unavailable_items/1 /unavailable_items/3"},
		{"POST", "/accept", `{"ready_at":"soon"}`, "/ready_at"},
		{"PATCH", "", `{"estimated_ready_at":true}`, "/estimated_ready_at"},
		{"PATCH", "", `{"estimated_ready_at":"` + past + `"}`, "/estimated_ready_at"},
	} {
		a := c.do(tc.method, "/orders/"+id+tc.call, tc.body)
		assert.Equal(t, 422, a.status, tc.body)
		assert.Equal(t, tc.pointers, strings.Join(a.pointers(), " "), tc.call+" "+tc.body)
		assert.Equal(t, 400, c.do(tc.method, "/orders/"+id+tc.call, `{"a"`).status)
	}
	assert.Empty(t, srv.Effects())
}

func TestRejectingWithUnavailableItemsSnoozesThem(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	o, _ := srv.Order(store, id)
	item := o.Items[0].ItemID
	a := c.post("/orders/"+id+"/reject", fmt.Sprintf(`{"reason":"item_unavailable","unavailable_items":[%q]}`, item), "k")
	require.Equal(t, 200, a.status)
	assert.Contains(t, c.get("/menu/availability").body, item)
}

func TestReadyTimeIsChangedAndCleared(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	path := "/orders/" + id
	require.Equal(t, 200, c.post(path+"/accept", `{"preparation_minutes":30}`, "").status)
	at := c.get(path).field("estimated_ready_at")
	require.NotNil(t, at)
	assert.Equal(t, at, c.do("PATCH", path, `{}`).field("estimated_ready_at"), "absent leaves it")
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	assert.Equal(t, later, c.do("PATCH", path, `{"estimated_ready_at":"`+later+`"}`).field("estimated_ready_at"))
	assert.Equal(t, 200, c.do("PATCH", path, `{"estimated_ready_at":"`+later+`"}`).status)
	assert.Nil(t, c.do("PATCH", path, `{"estimated_ready_at":null}`).field("estimated_ready_at"))
	assert.Len(t, srv.Effects(), 3, "accept and two updates; the same again is none")
	require.NoError(t, srv.CancelOrder(store, id))
	assert.Equal(t, 409, c.do("PATCH", path, `{"estimated_ready_at":"`+later+`"}`).status)
}

func TestPickupIsNotDelivered(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{Type: "pickup", Status: mockserver.StatusReady})
	assert.Equal(t, "conflict", c.post("/orders/"+id+"/status", `{"status":"out_for_delivery"}`, "").code())
	assert.Equal(t, 200, c.post("/orders/"+id+"/status", `{"status":"completed"}`, "").status)
}

func TestAcceptDeadlineCancelsOnTheClock(t *testing.T) {
	srv, c := start(t)
	late, early, accepted := srv.AddOrder(store, mockserver.Order{AcceptBy: srv.Clock().Now().Add(time.Hour)}),
		srv.AddOrder(store, mockserver.Order{}), srv.AddOrder(store, mockserver.Order{})
	require.Equal(t, 200, c.post("/orders/"+accepted+"/accept", "", "").status)
	srv.Clock().Advance(11*time.Minute + 29*time.Second)
	assert.Equal(t, "pending", c.get("/orders/"+early).field("status"))
	srv.Clock().Advance(2 * time.Second)
	a := c.post("/orders/"+early+"/accept", "", "k")
	assert.Equal(t, 200, a.status)
	assert.Equal(t, "cancelled", a.field("status"))
	o, _ := srv.Order(store, early)
	assert.Equal(t, "system", o.Cancellation.By)
	assert.Equal(t, "not_accepted_in_time", o.Cancellation.Reason)
	assert.Equal(t, o.AcceptBy, o.UpdatedAt)
	for id, want := range map[string]string{late: "pending", accepted: "confirmed"} {
		assert.Equal(t, want, c.get("/orders/"+id).field("status"))
	}
	srv.Clock().Advance(time.Hour)
	assert.Equal(t, "cancelled", c.get("/orders/"+late).field("status"))
	assert.Len(t, srv.Effects(), 1, "what the platform does is no request's effect")
	forever, c2 := start(t, with(func(s *mockserver.Switches) { s.AcceptWithin = 0 }))
	id := forever.AddOrder(store, mockserver.Order{})
	forever.Clock().Advance(1000 * time.Hour)
	assert.Equal(t, "pending", c2.get("/orders/"+id).field("status"))
}

// TestOrdersAddUp checks every sum of many seeded orders, and that they are as odd as real ones.
func TestOrdersAddUp(t *testing.T) {
	srv, _ := start(t)
	srv.AddOrders(store, 200)
	srv.AddOrder(store, mockserver.LargeOrder(300))
	srv.AddOrder(store, mockserver.Order{
		Items:  []mockserver.Item{{Name: "x", UnitPrice: mockserver.Money{Amount: 333}, Quantity: 3, TaxRateBP: 1900}},
		Totals: mockserver.Totals{Tip: mockserver.Money{Amount: 7}, Total: mockserver.Money{Amount: 1}},
	})
	var modifier func(m mockserver.Modifier) int64
	modifier = func(m mockserver.Modifier) int64 {
		sum := m.Price.Amount
		for _, sub := range m.Modifiers {
			sum += modifier(sub)
		}
		return sum * m.Quantity
	}
	nested, text, lines := 0, "", 0
	for _, o := range srv.Orders(store) {
		var items, tax int64
		for _, it := range o.Items {
			sum := it.UnitPrice.Amount
			for _, m := range it.Modifiers {
				sum += modifier(m)
				if len(m.Modifiers) > 0 {
					nested++
				}
			}
			assert.Equal(t, it.Quantity*sum, it.TotalPrice.Amount)
			assert.NotEmpty(t, it.ID)
			items += it.TotalPrice.Amount
			text += it.Name
			tax += it.TotalPrice.Amount * it.TaxRateBP / (10_000 + it.TaxRateBP)
		}
		lines = max(lines, len(o.Items))
		discounts := int64(0)
		for _, d := range o.Discounts {
			discounts += d.Amount.Amount
		}
		tot := o.Totals
		assert.Equal(t, items, tot.Items.Amount)
		assert.Equal(t, items-discounts+tot.DeliveryFee.Amount+tot.ServiceFee.Amount+tot.Tip.Amount, tot.Total.Amount)
		assert.InDelta(t, tax, tot.Tax.Amount, float64(len(o.Items)))
		if o.Payment.Status == "due" {
			assert.Equal(t, tot.Total, o.Payment.AmountDue)
		}
	}
	assert.Positive(t, nested)
	assert.Equal(t, 300, lines)
	for _, s := range []string{"ä", "ß", "豚", "»", "فلافل"} {
		assert.Contains(t, text, s)
	}
}

func TestListsPageWhileOrdersArrive(t *testing.T) {
	srv, c := start(t)
	want := srv.AddOrders(store, 25)
	srv.AddOrder(store, mockserver.Order{Status: mockserver.StatusReady})
	var got []string
	cursor := ""
	for {
		a := c.get("/orders?status=pending&status=confirmed&limit=10" + cursor)
		require.Equal(t, 200, a.status)
		var l struct {
			Data       []mockserver.Order
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
		}
		require.NoError(t, json.Unmarshal([]byte(a.body), &l))
		for _, o := range l.Data {
			got = append(got, o.ID)
		}
		assert.Equal(t, l.HasMore, l.NextCursor != "")
		if !l.HasMore {
			break
		}
		if len(want) < 30 {
			want = append(want, srv.AddOrder(store, mockserver.Order{}))
		}
		cursor = "&cursor=" + l.NextCursor
	}
	assert.Equal(t, want, got, "none twice, none missed")

	first := c.get("/orders?limit=1").field("next_cursor").(string)
	assert.Equal(t, 200, c.get("/orders?limit=5&cursor="+first).status, "the limit may change")
	for _, q := range []string{"limit=0", "limit=101", "limit=x", "cursor=x", "cursor=!!", "status=ready&cursor=" + first, "updated_after=yesterday"} {
		a := c.get("/orders?" + q)
		assert.Equal(t, 400, a.status, q)
		assert.Equal(t, "invalid_request", a.code(), q)
	}
}

func TestListFiltersByUpdate(t *testing.T) {
	srv, c := start(t)
	ids := srv.AddOrders(store, 3)
	o, _ := srv.Order(store, ids[2])
	srv.Clock().Advance(time.Second)
	require.Equal(t, 200, c.post("/orders/"+ids[0]+"/accept", "", "").status)
	a := c.get("/orders?updated_after=" + url.QueryEscape(o.UpdatedAt.Format(time.RFC3339Nano)))
	assert.Contains(t, a.body, ids[0])
	assert.NotContains(t, a.body, ids[2], "the instant itself is not after it")
}

func TestBookingLife(t *testing.T) {
	srv, c := start(t)
	for _, tc := range []struct {
		calls string
		last  int
		end   string
	}{
		{"seat complete", 200, "completed"}, {"seat seat complete complete", 200, "completed"}, {"no_show", 200, "no_show"},
		{"cancel cancel", 200, "cancelled"}, {"seat cancel", 409, "seated"}, {"complete", 409, "confirmed"},
		{"cancel seat", 409, "cancelled"}, {"no_show cancel", 409, "no_show"}, {"seat complete cancel", 409, "completed"},
	} {
		id := c.post("/bookings", c.booking(tc.calls), "").field("id").(string)
		var a answer
		for _, call := range strings.Fields(tc.calls) {
			a = c.post("/bookings/"+id+"/"+call, "", "")
		}
		assert.Equal(t, tc.last, a.status, tc.calls)
		assert.Equal(t, tc.end, c.get("/bookings/"+id).field("status"), tc.calls)
	}
	a := c.get("/bookings?external_id=" + url.QueryEscape("seat complete"))
	assert.Equal(t, 1, strings.Count(a.body, `"object":"booking"`))
	assert.Equal(t, 404, c.get("/bookings/none").status)
	requested, c2 := start(t, with(func(s *mockserver.Switches) { s.BookingStatus = "requested" }))
	assert.Equal(t, "requested", c2.post("/bookings", c2.booking("b"), "").field("status"))
	require.NoError(t, requested.ChangeBooking(store, requested.Bookings(store)[0].ID, func(b *mockserver.Booking) { b.Status = "declined" }))
	assert.Equal(t, "declined", requested.Bookings(store)[0].Status)
	assert.Error(t, srv.ChangeBooking(store, "none", nil))
}

func TestBookingsAreChecked(t *testing.T) {
	_, c := start(t)
	for body, want := range map[string]string{
		`{}`: "/party_size /starts_at /customer/name",
		`{"party_size":101,"starts_at":"2001-01-01T00:00:00Z","duration_minutes":5,"customer":{"name":"x"}}`: "/party_size /starts_at /duration_minutes",
		`{"party_size":"four"}`: "/party_size",
		`{"party_size":1.5,"starts_at":"tomorrow","customer":{"name":7},"note":[]}`: "/party_size /starts_at /customer/name /note",
		`{"customer":{"name":7}}`: "/customer/name",
	} {
		a := c.post("/bookings", body, "")
		assert.Equal(t, 422, a.status, body)
		assert.Equal(t, want, strings.Join(a.pointers(), " "), body)
	}
}

func TestBookingUpdateTellsAbsentFromNull(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.BookingCapacity = 1 }))
	id := c.post("/bookings", strings.Replace(c.booking("b"), "{", `{"note":"am Fenster",`, 1), "").field("id").(string)
	path := "/bookings/" + id
	assert.Equal(t, "am Fenster", c.do("PATCH", path, `{"party_size":6}`).field("note"))
	assert.Nil(t, c.do("PATCH", path, `{"note":null}`).field("note"))
	assert.Equal(t, "/party_size", strings.Join(c.do("PATCH", path, `{"party_size":null}`).pointers(), " "))
	assert.Equal(t, 422, c.do("PATCH", path, `{"party_size":0}`).status)
	assert.Equal(t, 200, c.do("PATCH", path, `{"party_size":6}`).status)
	assert.Len(t, srv.Effects(), 3, "create and two changes")
	later := srv.Bookings(store)[0].StartsAt.AddDate(0, 0, 1).Format(time.RFC3339)
	assert.Equal(t, 200, c.do("PATCH", path, `{"starts_at":"`+later+`"}`).status, "it does not stand in its own way")
	other := c.post("/bookings", c.booking("b2"), "").field("id").(string)
	assert.Equal(t, "conflict", c.do("PATCH", "/bookings/"+other, `{"starts_at":"`+later+`"}`).code())
	require.Equal(t, 200, c.post("/bookings/"+other+"/cancel", "", "").status)
	assert.Equal(t, "conflict", c.do("PATCH", "/bookings/"+other, `{"party_size":2}`).code())
}
