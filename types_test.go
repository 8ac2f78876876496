package flavoso

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var berlin = time.FixedZone("CET", 3600)

func TestBodies(t *testing.T) {
	ready := time.Date(2026, 11, 30, 19, 30, 0, 0, berlin)
	for want, body := range map[string]any{
		`{}`:                                      AcceptParams{},
		`{"preparation_minutes":20}`:              AcceptParams{PreparationMinutes: 20},
		`{"ready_at":"2026-11-30T18:30:00Z"}`:     AcceptParams{ReadyAt: ready},
		`{"external_id":"T-1 <&> ü"}`:             AcknowledgeParams{ExternalID: "T-1 <&> ü"},
		`{"reason":"too_busy"}`:                   RejectParams{Reason: ReasonTooBusy},
		`{"reason":"other","message":"<closed>"}`: CancelParams{Reason: ReasonOther, Message: "<closed>"},
		`{"reason":"item_unavailable","unavailable_items":["i1","i2"]}`: RejectParams{Reason: ReasonItemUnavailable, UnavailableItems: []string{"i1", "i2"}},
		`{"status":"ready"}`:                            StatusParams{Status: OrderReady},
		`{"estimated_ready_at":"2026-11-30T18:30:00Z"}`: UpdateOrderParams{EstimatedReadyAt: Set(ready)},
		`{"estimated_ready_at":null}`:                   UpdateOrderParams{EstimatedReadyAt: Null[time.Time]()},
		`{"external_id":"17","party_size":4,"starts_at":"2026-11-30T18:30:00Z","customer":{"name":"Jörg"}}`: BookingParams{
			PartySize: 4, StartsAt: ready, Customer: BookingCustomer{Name: "Jörg"}}.withReference("17"),
		`{"external_id":"17","party_size":4,"starts_at":"2026-11-30T18:30:00Z","duration_minutes":90,"customer":{},"note":"window"}`: BookingParams{
			PartySize: 4, StartsAt: ready, DurationMinutes: 90, Note: "window"}.withReference("17"),
		`{"party_size":5,"note":null}`: UpdateBookingParams{PartySize: Set(5), Note: Null[string]()},
		`{"note":""}`:                  UpdateBookingParams{Note: Set("")},
		`{"a":1,"b":[{"c":null}]}`:     map[string]any{"b": []any{map[string]any{"c": nil}}, "a": 1},
		`[1,2]`:                        []int{1, 2},
		`"x"`:                          "x",
		`{"b":1,"a":2.0}`:              json.RawMessage(`{ "b": 1, "a": 2.0 }`),
	} {
		first, err := encodeBody(body)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(first))
		if !encoder2 {
			assert.Equal(t, want, string(first))
		}
		again, err := encodeBody(body)
		require.NoError(t, err)
		assert.Equal(t, first, again, "the same value gives the same bytes")
	}
}

func TestTheSameMomentGivesTheSameBytes(t *testing.T) {
	utc := time.Date(2026, 11, 30, 18, 30, 0, 0, time.UTC)
	for _, other := range []time.Time{utc.In(berlin), utc.Local(), utc.In(time.FixedZone("", -7*3600))} {
		for name, pair := range map[string][2]any{
			"accept":  {AcceptParams{ReadyAt: utc}, AcceptParams{ReadyAt: other}},
			"update":  {UpdateOrderParams{Set(utc)}, UpdateOrderParams{Set(other)}},
			"booking": {BookingParams{StartsAt: utc}.withReference("1"), BookingParams{StartsAt: other}.withReference("1")},
		} {
			a, err := encodeBody(pair[0])
			require.NoError(t, err)
			b, err := encodeBody(pair[1])
			require.NoError(t, err)
			assert.Equal(t, string(a), string(b), name)
		}
	}
}

func TestWhatDoesNotEncodeIsAnError(t *testing.T) {
	type loop struct{ Next *loop }
	cycle := &loop{}
	cycle.Next = cycle
	for name, v := range map[string]any{
		"func": func() {}, "channel": make(chan int), "NaN": math.NaN(), "cycle": cycle,
		"raw that is not JSON": json.RawMessage(`{`), "map key": map[struct{ A int }]int{{1}: 1},
	} {
		_, err := encodeBody(v)
		assert.Error(t, err, name)
	}
}

type validator interface{ validate() error }

func TestParamsAreChecked(t *testing.T) {
	at := time.Date(2026, 11, 30, 18, 30, 0, 0, time.UTC)
	far := time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, good := range []validator{
		AcceptParams{}, AcceptParams{PreparationMinutes: 1}, AcceptParams{PreparationMinutes: 10080}, AcceptParams{ReadyAt: at},
		AcknowledgeParams{ExternalID: "Bon 17/3"}, RejectParams{Reason: ReasonTooBusy}, RejectParams{Reason: "new_reason"},
		RejectParams{Reason: ReasonOther, Message: "Oven broken"}, RejectParams{Reason: ReasonItemUnavailable, UnavailableItems: []string{"i"}},
		CancelParams{Reason: ReasonCustomerRequest}, StatusParams{Status: OrderOutForDelivery}, StatusParams{Status: "new_status"},
		UpdateOrderParams{Null[time.Time]()}, UpdateOrderParams{Set(at)},
		BookingParams{PartySize: 1, StartsAt: at}, BookingParams{PartySize: 400, StartsAt: at, DurationMinutes: 90, Customer: BookingCustomer{Name: "Jörg"}, Note: "Kinderstuhl"},
		UpdateBookingParams{Note: Null[string]()}, UpdateBookingParams{PartySize: Set(2), StartsAt: Set(at)},
		availability(AvailabilityChange{ModifierID: "m", Status: Limited, Quantity: 1}), availability(AvailabilityChange{ExternalID: "PLU 7", Status: "new_status", Until: at}),
		UpdateStoreParams{PausedUntil: Null[time.Time]()}, UpdateStoreParams{PausedUntil: Set(at), PauseReason: Set("voll")}, UpdateStoreParams{DefaultPreparationMinutes: Set(45)},
	} {
		assert.NoError(t, good.validate(), "%+v", good)
	}
	for _, bad := range []struct {
		params validator
		field  string
	}{
		{AcceptParams{PreparationMinutes: -1}, "preparation_minutes"},
		{AcceptParams{PreparationMinutes: 10081}, "preparation_minutes"},
		{AcceptParams{PreparationMinutes: 1, ReadyAt: at}, "ready_at"},
		{AcceptParams{ReadyAt: far}, "ready_at"},
		{AcceptParams{ReadyAt: time.Unix(-1, 0)}, "ready_at"},
		{AcknowledgeParams{}, "external_id"},
		{AcknowledgeParams{ExternalID: " 1"}, "external_id"},
		{AcknowledgeParams{ExternalID: "1\n"}, "external_id"},
		{AcknowledgeParams{ExternalID: "\xff"}, "external_id"},
		{AcknowledgeParams{ExternalID: "a\x00b"}, "external_id"},
		{AcknowledgeParams{ExternalID: strings.Repeat("x", 256)}, "external_id"},
		{RejectParams{}, "reason"},
		{RejectParams{Reason: ReasonOther}, "message"},
		{RejectParams{Reason: ReasonOther, Message: " "}, "message"},
		{RejectParams{Reason: ReasonTooBusy, Message: "\xff"}, "message"},
		{RejectParams{Reason: ReasonItemUnavailable, UnavailableItems: []string{"i", ""}}, "unavailable_items[1]"},
		{CancelParams{}, "reason"},
		{StatusParams{}, "status"},
		{StatusParams{Status: "out-for-delivery"}, "status"},
		{StatusParams{Status: "Ready"}, "status"},
		{StatusParams{Status: OrderStatus(strings.Repeat("x", 65))}, "status"},
		{UpdateOrderParams{}, "estimated_ready_at"},
		{UpdateOrderParams{Set(time.Time{})}, "estimated_ready_at"},
		{UpdateOrderParams{Set(far)}, "estimated_ready_at"},
		{BookingParams{StartsAt: at}, "party_size"},
		{BookingParams{PartySize: -1, StartsAt: at}, "party_size"},
		{BookingParams{PartySize: -1}, "party_size"},
		{BookingParams{PartySize: 2}, "starts_at"},
		{BookingParams{PartySize: 2, StartsAt: far}, "starts_at"},
		{BookingParams{PartySize: 2, StartsAt: at, DurationMinutes: -1}, "duration_minutes"},
		{BookingParams{PartySize: 2, StartsAt: at, Customer: BookingCustomer{Phone: "\xff"}}, "customer.phone"},
		{BookingParams{PartySize: 2, StartsAt: at, Note: "\xff"}, "note"},
		{UpdateBookingParams{}, "body"},
		{UpdateBookingParams{PartySize: Set(0)}, "party_size"},
		{UpdateBookingParams{StartsAt: Set(time.Time{})}, "starts_at"},
		{UpdateBookingParams{DurationMinutes: Set(-5)}, "duration_minutes"},
		{UpdateBookingParams{Customer: Set(BookingCustomer{Name: "\xff"})}, "customer.name"},
		{UpdateBookingParams{PartySize: Null[int]()}, "party_size"},
		{UpdateBookingParams{StartsAt: Null[time.Time]()}, "starts_at"},
		{UpdateBookingParams{DurationMinutes: Null[int]()}, "duration_minutes"},
		{UpdateBookingParams{Customer: Null[BookingCustomer]()}, "customer"},
		{AvailabilityParams{}, "changes"},
		{availability(AvailabilityChange{Status: Unavailable}), "changes[1]"},
		{availability(AvailabilityChange{ItemID: "a", ModifierID: "b", Status: Unavailable}), "changes[1]"},
		{availability(AvailabilityChange{ItemID: " a", Status: Unavailable}), "changes[1].item_id"},
		{availability(AvailabilityChange{ModifierID: "\xff", Status: Unavailable}), "changes[1].modifier_id"},
		{availability(AvailabilityChange{ExternalID: "a\n", Status: Unavailable}), "changes[1].external_id"},
		{availability(AvailabilityChange{ItemID: "a"}), "changes[1].status"},
		{availability(AvailabilityChange{ItemID: "a", Status: Limited}), "changes[1].quantity"},
		{availability(AvailabilityChange{ItemID: "a", Status: Unavailable, Quantity: 2}), "changes[1].quantity"},
		{availability(AvailabilityChange{ItemID: "a", Status: Available, Until: at}), "changes[1].until"},
		{availability(AvailabilityChange{ItemID: "a", Status: Unavailable, Until: far}), "changes[1].until"},
		{availability(AvailabilityChange{ItemID: "a", Status: Unavailable, Reason: "\xff"}), "changes[1].reason"},
		{UpdateStoreParams{}, "body"},
		{UpdateStoreParams{PausedUntil: Set(time.Time{})}, "paused_until"},
		{UpdateStoreParams{PausedUntil: Set(far)}, "paused_until"},
		{UpdateStoreParams{PauseReason: Set("\xff")}, "pause_reason"},
		{UpdateStoreParams{DefaultPreparationMinutes: Null[int]()}, "default_preparation_minutes"},
		{UpdateStoreParams{DefaultPreparationMinutes: Set(0)}, "default_preparation_minutes"},
		{UpdateStoreParams{DefaultPreparationMinutes: Set(10081)}, "default_preparation_minutes"},
	} {
		err := bad.params.validate()
		var param *ParamError
		require.ErrorAs(t, err, &param, "%+v", bad.params)
		assert.Equal(t, bad.field, param.Field)
		assert.NotEmpty(t, param.Rule)
		assert.ErrorIs(t, err, ErrNotSaved)
	}
}

// availability is one change after another that is right.
func availability(c AvailabilityChange) AvailabilityParams {
	return AvailabilityParams{Changes: []AvailabilityChange{{ItemID: "ok", Status: Available}, c}}
}

func TestPatchTellsAbsentNullAndValueApart(t *testing.T) {
	type body struct {
		A Patch[string] `json:"a,omitzero"`
		B Patch[string] `json:"b,omitzero"`
		C Patch[string] `json:"c,omitzero"`
	}
	b, err := json.Marshal(body{B: Null[string](), C: Set("")})
	require.NoError(t, err)
	assert.Equal(t, `{"b":null,"c":""}`, string(b))

	v, ok := Set(7).Get()
	assert.Equal(t, 7, v)
	assert.True(t, ok)
	_, ok = Null[int]().Get()
	assert.False(t, ok)
	var absent Patch[int]
	_, ok = absent.Get()
	assert.False(t, ok)
	assert.True(t, absent.IsZero())
	assert.False(t, Null[int]().IsZero())
}

const anOrder = `{
	"object":"order","id":"9f86d081-884c-4d65-9a2f-eaa0c55ad015","status":"on_the_moon","external_id":"T-1","display_number":"17",
	"channel":"flavoso","type":"delivery","delivered_by":"platform","timing":"scheduled",
	"placed_at":"2026-11-30T12:00:00Z","requested_for":"2026-11-30T19:00:00+01:00","accept_by":null,"version":3,
	"customer":{"name":"Erika","phone":"+49 30 1","loyalty":9},
	"delivery_address":{"street":"Hauptstr. 1","postal_code":"10115","city":"Berlin","country":"DE"},
	"items":[{"id":"l1","item_id":"i1","name":"Pizza","quantity":2,"unit_price":{"amount":950,"currency":"EUR"},
		"total_price":{"amount":2200,"currency":"EUR"},"tax_rate_bp":700,
		"modifiers":[{"id":"m1","modifier_id":"x1","name":"Extra","quantity":1,"price":{"amount":100,"currency":"EUR"},
			"modifiers":[{"id":"m2","name":"Deep","quantity":1,"price":{"amount":50,"currency":"EUR"}}]}]}],
	"totals":{"total":{"amount":2200,"currency":"EUR"}},"payment":{"status":"paid","method":"card","amount_due":{"amount":0,"currency":"EUR"}},
	"is_test":true,"drone":{"rotor_count":4},"cancellation":null}`

func TestOrderDecodes(t *testing.T) {
	var o Order
	require.NoError(t, json.Unmarshal([]byte(anOrder), &o))
	assert.Equal(t, OrderStatus("on_the_moon"), o.Status, "an unknown status is kept")
	assert.Equal(t, testOrderID, o.ID)
	assert.Equal(t, OrderDelivery, o.Type)
	assert.Equal(t, TimingScheduled, o.Timing)
	assert.True(t, o.RequestedFor.Equal(time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)))
	assert.True(t, o.AcceptBy.IsZero(), "null is absent")
	assert.True(t, o.EstimatedReadyAt.IsZero())
	assert.Nil(t, o.Cancellation)
	assert.Equal(t, "Berlin", o.DeliveryAddress.City)
	assert.Equal(t, "12.00 EUR", Money{1200, o.Totals.Total.Currency}.String())
	require.Len(t, o.Items, 1)
	assert.Equal(t, "Deep", o.Items[0].Modifiers[0].Modifiers[0].Name)
	assert.Equal(t, 700, o.Items[0].TaxRateBP)
	assert.True(t, o.IsTest)

	var raw struct {
		Drone struct {
			RotorCount int `json:"rotor_count"`
		} `json:"drone"`
	}
	require.NoError(t, json.Unmarshal(o.Raw, &raw))
	assert.Equal(t, 4, raw.Drone.RotorCount, "what this release does not know stays reachable")
}

func TestRawIsTheDecodersOwnCopy(t *testing.T) {
	data := []byte(`{"id":"1","status":"pending"}`)
	var o Order
	require.NoError(t, json.Unmarshal(data, &o))
	for i := range data {
		data[i] = 'x'
	}
	assert.Equal(t, `{"id":"1","status":"pending"}`, string(o.Raw))
}

func TestDecodingReplacesWhatWasThere(t *testing.T) {
	o := Order{ExternalID: "old", Items: []Item{{ID: "l"}}}
	require.NoError(t, json.Unmarshal([]byte(`{"id":"1"}`), &o))
	assert.Equal(t, Order{ID: "1", Raw: json.RawMessage(`{"id":"1"}`)}, o)
	b := Booking{ExternalID: "old"}
	require.NoError(t, json.Unmarshal([]byte(`{"id":"1"}`), &b))
	assert.Equal(t, Booking{ID: "1", Raw: json.RawMessage(`{"id":"1"}`)}, b)
	// A failure changes nothing.
	require.Error(t, json.Unmarshal([]byte(`{"id":2}`), &b))
	assert.Equal(t, "1", b.ID)
}

func TestBookingDecodes(t *testing.T) {
	var b Booking
	require.NoError(t, json.Unmarshal([]byte(`{"object":"booking","id":"b1","status":"waitlisted","external_id":"17","party_size":4,
		"starts_at":"2026-11-30T19:30:00+01:00","duration_minutes":120,"customer":{"name":"Jörg"},"version":2,"table":"7"}`), &b))
	assert.Equal(t, BookingStatus("waitlisted"), b.Status)
	assert.Equal(t, "17", b.ExternalID)
	assert.Equal(t, 4, b.PartySize)
	assert.True(t, b.StartsAt.Equal(time.Date(2026, 11, 30, 18, 30, 0, 0, time.UTC)))
	assert.Contains(t, string(b.Raw), `"table":"7"`)
}

func FuzzDecodeOrder(f *testing.F) {
	f.Add([]byte(anOrder))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"items":[{"modifiers":[null]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o Order
		var b Booking
		if json.Unmarshal(data, &o) == nil && o.Raw != nil && !json.Valid(o.Raw) {
			t.Fatalf("raw: %q", o.Raw)
		}
		if json.Unmarshal(data, &b) == nil && b.Raw != nil && !json.Valid(b.Raw) {
			t.Fatalf("raw: %q", b.Raw)
		}
	})
}
