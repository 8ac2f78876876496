package flavoso

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// apiCall is one write of the API as a test sees it.
type apiCall struct {
	kind, method, target, lane string
	key                        string // "" = none, "*" = any
	effect                     string // the resource in the ledger
	do                         func(context.Context) error
	record                     outbox.Record
	after                      outbox.AfterSuccess
}

func apiCallOf[T any](c *Call[T], key, effect string) apiCall {
	return apiCall{kind: c.record.Kind, method: c.record.Request.Method, target: c.record.Request.Target, lane: c.record.Lane,
		key: key, effect: effect, do: doing(c), record: c.record, after: c.after}
}

// allCalls are all writes with a method of their own, on fresh resources.
func allCalls(t *testing.T, s *till) map[string]apiCall {
	order := func(status string) string { return s.srv.AddOrder(store, mockserver.Order{Status: status}) }
	booking := func() string {
		b, err := s.Bookings.Create(string(NewKey()), BookingParams{PartySize: 2, StartsAt: time.Now().Add(48 * time.Hour),
			Customer: BookingCustomer{Name: "A"}}).Do(t.Context())
		require.NoError(t, err)
		return b.ID
	}
	menu, err := s.Menu.Get(t.Context())
	require.NoError(t, err)
	menu.Items[0].Name += " (neu)"
	hours, err := s.Store.Hours(t.Context())
	require.NoError(t, err)
	hours.Weekly = hours.Weekly[1:]

	accept, ack, reject, cancel := order(""), order(""), order(""), order("")
	status, update := order(mockserver.StatusConfirmed), order(mockserver.StatusConfirmed)
	change, cancelled, seated, missed, complete := booking(), booking(), booking(), booking(), booking()
	require.NoError(t, s.srv.ChangeBooking(store, complete, func(b *mockserver.Booking) { b.Status = mockserver.BookingSeated }))
	return map[string]apiCall{
		"orders.accept":      apiCallOf(s.Orders.Accept(accept, AcceptParams{PreparationMinutes: 20}), "accept-"+accept, accept),
		"orders.acknowledge": apiCallOf(s.Orders.Acknowledge(ack, AcknowledgeParams{ExternalID: "T-1"}), "ack-"+ack, ack),
		"orders.reject":      apiCallOf(s.Orders.Reject(reject, RejectParams{Reason: ReasonTooBusy}), "reject-"+reject, reject),
		"orders.cancel":      apiCallOf(s.Orders.Cancel(cancel, CancelParams{Reason: ReasonOther, Message: "Ofen kaputt"}), "cancel-"+cancel, cancel),
		"orders.status":      apiCallOf(s.Orders.SetStatus(status, StatusParams{Status: OrderReady}), "status-"+status+"-ready", status),
		"orders.update":      apiCallOf(s.Orders.Update(update, UpdateOrderParams{EstimatedReadyAt: Set(time.Now().Add(72 * time.Hour))}), "", update),
		"bookings.create": apiCallOf(s.Bookings.Create("2026-17", BookingParams{PartySize: 4, StartsAt: time.Now().Add(72 * time.Hour),
			Customer: BookingCustomer{Name: "B"}}), "booking-2026-17", "2026-17"),
		"bookings.update":   apiCallOf(s.Bookings.Update(change, UpdateBookingParams{PartySize: Set(5), Note: Set("Fenster")}), "", change),
		"bookings.cancel":   apiCallOf(s.Bookings.Cancel(cancelled), "bookingcancel-"+cancelled, cancelled),
		"bookings.seat":     apiCallOf(s.Bookings.Seat(seated), "bookingseat-"+seated, seated),
		"bookings.complete": apiCallOf(s.Bookings.Complete(complete), "bookingcomplete-"+complete, complete),
		"bookings.no_show":  apiCallOf(s.Bookings.NoShow(missed), "bookingnoshow-"+missed, missed),
		"menu.put":          apiCallOf(s.Menu.Put(menu), "", "menu"),
		"menu.availability": apiCallOf(s.Menu.SetAvailability(AvailabilityParams{Changes: []AvailabilityChange{
			{ItemID: "ramen", Status: Unavailable, Until: time.Now().Add(72 * time.Hour)}}}), "*", "menu"),
		"store.update": apiCallOf(s.Store.Update(UpdateStoreParams{PausedUntil: Set(time.Now().Add(72 * time.Hour)), PauseReason: Set("voll")}), "", "store"),
		"store.hours":  apiCallOf(s.Store.PutHours(hours), "", "store"),
	}
}

// TestCallsAreWhatTheTableSays: kinds, methods, keys, lanes and repeat-safety of every call.
func TestCallsAreWhatTheTableSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		calls := allCalls(t, s)
		for name := range kinds {
			if name != kindCall {
				require.Contains(t, calls, name)
			}
		}
		lanes := map[string]string{"menu": "menu", "stor": "store"}
		for name, c := range calls {
			assert.Equal(t, name, c.kind)
			assert.Equal(t, name != "bookings.create", c.record.RepeatSafe, name)
			assert.Equal(t, c.key != "" && c.key != "*", c.record.KeyDerived, name)
			assert.Equal(t, name == "orders.status", c.after == outbox.NextGeneration, name)
			if c.key == "*" {
				assert.NotEmpty(t, c.record.Key, name)
			} else {
				assert.Equal(t, c.key, c.record.Key, name)
			}
			assert.Equal(t, c.method == "POST", c.record.Key != "", "%s: keys count on POST (F2)", name)
			lane, fixed := lanes[name[:4]]
			switch {
			case fixed:
			case name == "bookings.create":
				lane = "booking:2026-17"
			case name[:4] == "book":
				lane = "booking:" + c.effect
			default:
				lane = "order:" + c.effect
			}
			assert.Equal(t, lane, c.lane, name)
		}
	})
}

// TestEveryCallHappensOnce: whatever call it is and whatever goes wrong with its answer, it is done once.
func TestEveryCallHappensOnce(t *testing.T) {
	for what, faults := range map[string][]mockserver.Fault{
		"nothing goes wrong":        nil,
		"the answer is dropped":     {mockserver.DropResponse()},
		"500 after the effect":      {mockserver.StatusAfterCommit(500)},
		"dropped, and dead after":   {mockserver.DropResponse(), mockserver.CrashAfterCommit()},
		"503, then cut":             {mockserver.Status(503), mockserver.Truncate(10)},
		"done, but not remembered":  {mockserver.StatusAfterCommit(503).NotHeld()},
		"a portal, then a 502 page": {mockserver.Portal(), mockserver.ProxyError()},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory, mockserver.WithSwitches(calm))
				for name, c := range allCalls(t, s) {
					for _, f := range faults {
						s.srv.Inject(f.On(c.method, c.target).Times(1).Optional())
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					require.NoError(t, c.do(ctx), name)
					cancel()
					s.srv.AssertExactlyOnce(t, name, c.effect)
				}
			})
		})
	}
}

// TestEveryCallSurvivesADayOffline: a call whose fate is unknown when Flavoso forgets its key (F5) is read
// back, or repeated where that is right.
func TestEveryCallSurvivesADayOffline(t *testing.T) {
	// Of two calls in one lane the second waits for the first, so they take turns here.
	for name, without := range map[string][]string{
		"menus and hours":        {"menu.availability", "store.update"},
		"availability and store": {"menu.put", "store.hours"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory, mockserver.WithSwitches(calm))
				calls := allCalls(t, s)
				var drops []*mockserver.Injected
				for name, c := range calls {
					if slices.Contains(without, name) {
						delete(calls, name)
						continue
					}
					drops = append(drops, s.srv.Inject(mockserver.DropResponse().On(c.method, c.target)))
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					require.ErrorIs(t, c.do(ctx), ErrPending)
					cancel()
				}
				once := func() {
					for name, c := range calls {
						s.srv.AssertExactlyOnce(t, name, c.effect)
					}
				}
				time.Sleep(10 * time.Minute)
				once()
				refuse := s.srv.Inject(mockserver.Refuse())
				for _, d := range drops {
					d.Remove()
				}
				time.Sleep(36 * time.Hour)
				refuse.Remove()
				s.Wake()
				time.Sleep(10 * time.Minute)
				require.NoError(t, s.Flush(t.Context()))
				once()
				require.Zero(t, s.Status().Uncertain)
				for name, c := range calls {
					require.NoError(t, c.do(t.Context()), name)
				}
				once()
			})
		})
	}
}

// TestSuccessThatIsNotWhatWasAskedFor: an answer of 200 whose resource is in another state.
func TestSuccessThatIsNotWhatWasAskedFor(t *testing.T) {
	for _, tc := range []struct {
		name   string
		call   func(s *till) func(context.Context) error
		answer string
		got    string // "" = it is what was asked for
	}{
		{"accepted: confirmed", onOrder(func(s *till) *Call[Order] { return s.Orders.Accept("o", AcceptParams{}) }), `"status":"confirmed"`, ""},
		{"accepted: further on", onOrder(func(s *till) *Call[Order] { return s.Orders.Accept("o", AcceptParams{}) }), `"status":"completed"`, ""},
		{"accepted: cancelled", onOrder(func(s *till) *Call[Order] { return s.Orders.Accept("o", AcceptParams{}) }), `"status":"cancelled"`, "cancelled"},
		{"accepted: still pending", onOrder(func(s *till) *Call[Order] { return s.Orders.Accept("o", AcceptParams{}) }), `"status":"pending"`, "pending"},
		{"accepted: a status nobody knows yet", onOrder(func(s *till) *Call[Order] { return s.Orders.Accept("o", AcceptParams{}) }), `"status":"on_the_moon"`, ""},
		{"acknowledged as another", onOrder(func(s *till) *Call[Order] { return s.Orders.Acknowledge("o", AcknowledgeParams{"T-2"}) }), `"status":"pending","external_id":"T-1"`, "T-1"},
		{"acknowledged, not shown", onOrder(func(s *till) *Call[Order] { return s.Orders.Acknowledge("o", AcknowledgeParams{"T-2"}) }), `"status":"pending"`, ""},
		{"rejected: accepted by another", onOrder(func(s *till) *Call[Order] { return s.Orders.Reject("o", RejectParams{Reason: ReasonTooBusy}) }), `"status":"preparing"`, "preparing"},
		{"rejected", onOrder(func(s *till) *Call[Order] { return s.Orders.Reject("o", RejectParams{Reason: ReasonTooBusy}) }), `"status":"rejected"`, ""},
		{"cancelled: too late", onOrder(func(s *till) *Call[Order] { return s.Orders.Cancel("o", CancelParams{Reason: ReasonTooBusy}) }), `"status":"completed"`, "completed"},
		{"ready", onOrder(func(s *till) *Call[Order] { return s.Orders.SetStatus("o", StatusParams{OrderReady}) }), `"status":"ready"`, ""},
		{"ready: further on", onOrder(func(s *till) *Call[Order] { return s.Orders.SetStatus("o", StatusParams{OrderReady}) }), `"status":"out_for_delivery"`, ""},
		{"ready: not moved", onOrder(func(s *till) *Call[Order] { return s.Orders.SetStatus("o", StatusParams{OrderReady}) }), `"status":"preparing"`, "preparing"},
		{"ready: cancelled", onOrder(func(s *till) *Call[Order] { return s.Orders.SetStatus("o", StatusParams{OrderReady}) }), `"status":"cancelled"`, "cancelled"},
		{"a new status: set", onOrder(func(s *till) *Call[Order] { return s.Orders.SetStatus("o", StatusParams{"on_hold"}) }), `"status":"preparing"`, ""},
		{"seated", onOrder(func(s *till) *Call[Booking] { return s.Bookings.Seat("o") }), `"status":"completed"`, ""},
		{"seated: cancelled", onOrder(func(s *till) *Call[Booking] { return s.Bookings.Seat("o") }), `"status":"cancelled"`, "cancelled"},
		{"no show: they came", onOrder(func(s *till) *Call[Booking] { return s.Bookings.NoShow("o") }), `"status":"seated"`, "seated"},
		{"complete: new status", onOrder(func(s *till) *Call[Booking] { return s.Bookings.Complete("o") }), `"status":"paid"`, ""},
		{"booked: declined", onOrder(func(s *till) *Call[Booking] {
			return s.Bookings.Create("r", BookingParams{PartySize: 2, StartsAt: time.Now().Add(time.Hour)})
		}), `"status":"declined"`, "declined"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory)
				s.srv.Inject(mockserver.Status(200).Body(`{"object":"x","id":"o",` + tc.answer + `}`).Times(1))
				err := tc.call(s)(t.Context())
				require.Equal(t, FateDone, FateOf(err), "%v", err)
				if tc.got == "" {
					require.NoError(t, err)
					return
				}
				var unexpected *UnexpectedStateError
				require.ErrorAs(t, err, &unexpected)
				require.Equal(t, tc.got, unexpected.Got)
				require.NotEmpty(t, unexpected.Want)
				require.Len(t, s.srv.Requests(), 1, "nothing is repeated")
			})
		})
	}
}

func onOrder[T any](call func(s *till) *Call[T]) func(s *till) func(context.Context) error {
	return func(s *till) func(context.Context) error { return doing(call(s)) }
}

// TestRefusedRepeatsAreReadBack: the first attempt may have done what the repeat is refused for.
func TestRefusedRepeatsAreReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory, mockserver.WithSwitches(calm))
		// Each is done, its answer is lost, and the repeat meets a conflict.
		for name, c := range allCalls(t, s) {
			if name == "menu.availability" { // nothing reads it back; it is never a conflict
				continue
			}
			s.srv.Inject(mockserver.StatusAfterCommit(500).NotHeld().On(c.method, c.target).Times(1))
			if name != "bookings.create" { // it is read back before it is sent again
				s.srv.Inject(mockserver.Status(409).Code("conflict").On(c.method, c.target).Times(1))
			}
			// After an ambiguous write without a key its lane rests for an attempt's time.
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			require.NoError(t, c.do(ctx), name)
			cancel()
			s.srv.AssertExactlyOnce(t, name, c.effect)
		}

		// Not done at all: the conflict is the truth.
		for name, c := range allCalls(t, s) {
			if name == "menu.availability" || name == "bookings.create" || name == "menu.put" || name == "store.hours" || name == "store.update" {
				continue // the first round has made them come true
			}
			s.srv.Inject(mockserver.Status(500).On(c.method, c.target).Times(1))
			s.srv.Inject(mockserver.Status(409).Code("conflict").On(c.method, c.target).Times(1))
			require.ErrorIs(t, c.do(t.Context()), ErrConflict, name)
			s.srv.AssertNever(t, name, c.effect)
		}
		require.Zero(t, s.Status().Uncertain)
	})
}

func TestAStatusMayBeSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{Status: mockserver.StatusConfirmed})
		ready := func() (Key, error) {
			call := s.Orders.SetStatus(id, StatusParams{OrderReady})
			_, err := call.Do(t.Context())
			o, _ := call.Outcome()
			return o.Key, err
		}
		first, err := ready()
		require.NoError(t, err)
		require.NoError(t, s.srv.ChangeOrder(store, id, func(o *mockserver.Order) { o.Status = mockserver.StatusPreparing })) // by hand
		second, err := ready()
		require.NoError(t, err)
		require.Equal(t, first+"~2", second)
		require.Len(t, s.srv.Effects(), 2)

		_, err = s.Orders.SetStatus(id, StatusParams{OrderPreparing}).Do(t.Context())
		require.ErrorIs(t, err, ErrConflict, "never back")
	})
}

func TestTwoTillsDecideDifferently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
		_, err = s.Orders.Reject(id, RejectParams{Reason: ReasonTooBusy}).Do(t.Context())
		require.ErrorIs(t, err, ErrConflict)
		require.Equal(t, FateRefused, FateOf(err))
		order, err := s.Orders.Cancel(id, CancelParams{Reason: ReasonItemUnavailable}).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, "restaurant", order.Cancellation.By)
		require.Equal(t, ReasonItemUnavailable, order.Cancellation.Reason)
		_, err = s.Orders.Update(id, UpdateOrderParams{EstimatedReadyAt: Set(time.Now().Add(time.Hour))}).Do(t.Context())
		require.ErrorIs(t, err, ErrConflict)
	})
}

func TestSupersedeSendsOnlyTheLastMenu(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		refuse := s.srv.Inject(mockserver.Refuse())
		menu := &Menu{Currency: "EUR"}
		var err error
		for _, name := range []string{"Montag", "Dienstag", "Mittwoch"} {
			menu.Categories = []MenuCategory{{ID: "c", Name: name}}
			_, err = s.Menu.Put(menu).WithSupersede().Enqueue(t.Context())
			require.NoError(t, err)
		}
		menu.Categories[0].Name = "changed after the call was made"
		require.Equal(t, 2, s.Status().Waiting, "the first was tried before it was known that nothing gets through")
		refuse.Remove()
		s.Wake()
		require.NoError(t, s.Flush(t.Context()))
		require.Len(t, s.srv.Effects(), 2)
		got, err := s.Menu.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Mittwoch", got.Categories[0].Name)
	})
}

func TestMenuSurvivesReadingChangingAndPuttingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		status, answer := putDocument(t, s.srv, "/menu", []byte(`{"currency":"EUR","season":"winter","categories":[],"modifier_groups":[],
			"items":[{"id":"a","name":"A","price":{"amount":1,"currency":"EUR"},"allergens":null,"photo":{"w":1.50}},
			         {"id":"b","name":"B","price":{"amount":1,"currency":"EUR"},"allergens":[],"tax_rates":{"delivery":700,"eat_in_car":1900}}]}`))
		require.Equal(t, 200, status, string(answer))
		menu, err := s.Menu.Get(t.Context())
		require.NoError(t, err)
		require.Nil(t, menu.Items[0].Allergens, "not declared")
		require.NotNil(t, menu.Items[1].Allergens)
		require.Empty(t, menu.Items[1].Allergens, "none")
		menu.Items[0].Price.Amount = 990
		menu.Items[1].Allergens = DeclareAllergens(AllergenMilk)
		back, err := s.Menu.Put(menu).Do(t.Context())
		require.NoError(t, err)
		require.Empty(t, back.Diff(menu))
		require.JSONEq(t, `"winter"`, string(back.Extra["season"]))
		require.Equal(t, `{"w":1.50}`, string(back.Items[0].Extra["photo"]))
		require.Equal(t, "1900", string(back.Items[1].TaxRates.Extra["eat_in_car"]))
		require.Nil(t, back.Items[0].Allergens)
	})
}

func TestAvailability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		until := time.Now().Add(4 * time.Hour).In(time.FixedZone("CET", 3600))
		sold := AvailabilityParams{Changes: []AvailabilityChange{
			{ItemID: "ramen", Status: Unavailable, Until: until, Reason: "aus"}, {ModifierID: "ei", Status: Limited, Quantity: 3}}}
		got, err := s.Menu.SetAvailability(sold).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, Unavailable, got.Of("ramen").Status)
		require.True(t, got.Of("ramen").Until.Equal(until))
		require.Equal(t, 3, got.Of("ei").Quantity)
		require.Equal(t, Available, got.Of("pizza").Status)

		// The same wish again is a wish of its own: it may have been undone meanwhile.
		back := AvailabilityParams{Changes: []AvailabilityChange{{ExternalID: "plu-ramen", Status: Available}}}
		for _, p := range []AvailabilityParams{back, sold, back} {
			_, err := s.Menu.SetAvailability(p).Do(t.Context())
			require.NoError(t, err)
		}
		got, err = s.Menu.Availability(t.Context())
		require.NoError(t, err)
		require.Equal(t, Available, got.Of("ramen").Status)
		require.Len(t, s.srv.Effects(), 4)

		_, err = s.Menu.SetAvailability(AvailabilityParams{Changes: []AvailabilityChange{
			{ItemID: "ramen", Status: Unavailable}, {ItemID: "nope", Status: Unavailable}}}).Do(t.Context())
		var api *APIError
		require.ErrorAs(t, err, &api)
		require.Equal(t, "/changes/1/item_id", api.Faults()[0].Pointer, "all or nothing, the culprit named")
	})
}

func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		until := time.Now().Add(30 * time.Minute)
		got, err := s.Store.Update(UpdateStoreParams{PausedUntil: Set(until), PauseReason: Set("Küche voll")}).Do(t.Context())
		require.NoError(t, err)
		require.True(t, got.Paused(time.Now()))
		require.False(t, got.Paused(until))
		got, err = s.Store.Update(UpdateStoreParams{DefaultPreparationMinutes: Set(45)}).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Küche voll", got.PauseReason, "absent fields stay")
		got, err = s.Store.Update(UpdateStoreParams{PausedUntil: Null[time.Time]()}).Do(t.Context())
		require.NoError(t, err)
		require.False(t, got.Paused(time.Now()), "null resumes")
		require.Equal(t, 45, got.DefaultPreparationMinutes)
		got, err = s.Store.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Europe/Berlin", got.Timezone)
		require.Contains(t, string(got.Raw), `"object":"store"`)

		hours, err := s.Store.Hours(t.Context())
		require.NoError(t, err)
		require.NoError(t, hours.Validate())
		hours.SpecialDays = append(hours.SpecialDays, SpecialDay{Date: "2000-12-25", Closed: true})
		back, err := s.Store.PutHours(hours).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, hours, back)
	})
}

func TestBookingsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		for _, ref := range []string{"a", "b", "c"} {
			_, err := s.Bookings.Create(ref, BookingParams{PartySize: 2, StartsAt: time.Now().Add(48 * time.Hour), Customer: BookingCustomer{Name: ref}}).Do(t.Context())
			require.NoError(t, err)
		}
		page, err := s.Bookings.ListPage(t.Context(), ListBookingsParams{ExternalID: "b"}, "")
		require.NoError(t, err)
		require.Len(t, page.Bookings, 1)
		id := page.Bookings[0].ID
		moved := time.Now().Add(50 * time.Hour)
		b, err := s.Bookings.Update(id, UpdateBookingParams{StartsAt: Set(moved), Note: Set("Fenster")}).Do(t.Context())
		require.NoError(t, err)
		require.True(t, b.StartsAt.Equal(moved.Round(0)))
		b, err = s.Bookings.Update(id, UpdateBookingParams{PartySize: Set(3)}).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Fenster", b.Note, "omitted leaves it")
		b, err = s.Bookings.Update(id, UpdateBookingParams{Note: Null[string]()}).Do(t.Context())
		require.NoError(t, err)
		require.Empty(t, b.Note, "null clears it")
		_, err = s.Bookings.Seat(id).Do(t.Context())
		require.NoError(t, err)
		_, err = s.Bookings.Cancel(id).Do(t.Context())
		require.ErrorIs(t, err, ErrConflict, "they sit already")
		b, err = s.Bookings.Complete(id).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, BookingCompleted, b.Status)
		got := map[string]BookingStatus{}
		for b, err := range s.Bookings.List(t.Context(), ListBookingsParams{PageSize: 2}) {
			require.NoError(t, err)
			got[b.ExternalID] = b.Status
		}
		require.Equal(t, map[string]BookingStatus{"a": BookingConfirmed, "b": BookingCompleted, "c": BookingConfirmed}, got)
		again, err := s.Bookings.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, 3, again.PartySize)
	})
}

// TestOrdersAddUp: what the mock server sends is what the SDK's types say, to the cent.
func TestOrdersAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		s.srv.AddOrders(store, 200)
		for o, err := range s.Orders.List(t.Context(), ListOrdersParams{PageSize: 100}) {
			require.NoError(t, err)
			var items int64
			for _, it := range o.Items {
				require.Equal(t, it.TotalPrice, it.LineTotal())
				items += it.TotalPrice.Amount
			}
			sum := o.Totals
			require.Equal(t, items, sum.Items.Amount)
			require.Equal(t, sum.Items.Amount-sum.Discounts.Amount+sum.DeliveryFee.Amount+sum.ServiceFee.Amount+sum.Tip.Amount, sum.Total.Amount)
			var raw map[string]any
			require.NoError(t, json.Unmarshal(o.Raw, &raw))
		}
	})
}

// TestBadInputOfEveryCall: whatever is wrong shows in the Call, before anything is saved or sent.
func TestBadInputOfEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		for field, calls := range map[string][]func(context.Context) error{
			"order_id": {doing(s.Orders.Accept("", AcceptParams{})), doing(s.Orders.Acknowledge("a/b", AcknowledgeParams{"1"})),
				doing(s.Orders.Reject("..", RejectParams{Reason: ReasonTooBusy})), doing(s.Orders.Cancel("a?b", CancelParams{Reason: ReasonTooBusy})),
				doing(s.Orders.SetStatus("a b", StatusParams{OrderReady})), doing(s.Orders.Update("ä", UpdateOrderParams{Null[time.Time]()})),
				reading(s.Orders.Get(t.Context(), ""))},
			"booking_id": {doing(s.Bookings.Update("", UpdateBookingParams{Note: Set("x")})), doing(s.Bookings.Cancel("a/b")), doing(s.Bookings.Seat("..")),
				doing(s.Bookings.Complete("a%2Fb")), doing(s.Bookings.NoShow("#")), reading(s.Bookings.Get(t.Context(), "a/b"))},
			"external_id":        {doing(s.Orders.Acknowledge("o", AcknowledgeParams{})), doing(s.Bookings.Create("", BookingParams{PartySize: 1, StartsAt: time.Now()}))},
			"reason":             {doing(s.Orders.Reject("o", RejectParams{})), doing(s.Orders.Cancel("o", CancelParams{}))},
			"status":             {doing(s.Orders.SetStatus("o", StatusParams{"Ready"}))},
			"estimated_ready_at": {doing(s.Orders.Update("o", UpdateOrderParams{}))},
			"body":               {doing(s.Bookings.Update("b", UpdateBookingParams{})), doing(s.Store.Update(UpdateStoreParams{}))},
			"changes":            {doing(s.Menu.SetAvailability(AvailabilityParams{}))},
			"menu":               {doing(s.Menu.Put(nil))},
			"/currency":          {doing(s.Menu.Put(&Menu{}))},
			"hours":              {doing(s.Store.PutHours(nil))},
			"/timezone":          {doing(s.Store.PutHours(&Hours{}))},
			"limit": {reading(s.Orders.ListPage(t.Context(), ListOrdersParams{PageSize: 101}, "")),
				reading(s.Bookings.ListPage(t.Context(), ListBookingsParams{PageSize: -1}, ""))},
		} {
			for i, call := range calls {
				err := call(t.Context())
				var param *ParamError
				require.ErrorAs(t, err, &param, "%s %d", field, i)
				assert.Equal(t, field, param.Field)
				assert.NotEmpty(t, param.Rule)
				assert.Equal(t, FateNotSent, FateOf(err))
			}
		}
		counts, err := s.engine.Counts(t.Context(), "")
		require.NoError(t, err)
		require.Zero(t, counts.LastSeq)
		require.Empty(t, s.srv.Requests())
	})
}

func reading[T any](_ *T, err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// TestListsPage: hundreds of orders in pages of every size, while more arrive: none twice, none missed.
func TestListsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory, mockserver.WithSwitches(calm))
		want := s.srv.AddOrders(store, 350)
		for _, size := range []int{0, 7, 100} {
			seen := map[string]int{}
			for o, err := range s.Orders.List(t.Context(), ListOrdersParams{PageSize: size}) {
				require.NoError(t, err)
				if seen[o.ID]++; len(seen)%50 == 0 && len(seen) <= 300 {
					want = append(want, s.srv.AddOrder(store, mockserver.Order{}))
				}
			}
			require.Len(t, seen, len(want))
			for _, id := range want {
				require.Equal(t, 1, seen[id])
			}
		}
		_, err := s.Orders.ListPage(t.Context(), ListOrdersParams{}, "not-a-cursor")
		require.ErrorIs(t, err, ErrInvalid)
		page, err := s.Orders.ListPage(t.Context(), ListOrdersParams{Status: []OrderStatus{OrderPending}, PageSize: 1}, "")
		require.NoError(t, err)
		_, err = s.Orders.ListPage(t.Context(), ListOrdersParams{PageSize: 1}, page.NextCursor)
		require.ErrorIs(t, err, ErrInvalid, "a cursor belongs to its filters")

		for range s.Orders.List(t.Context(), ListOrdersParams{}) {
			break // leaving early is allowed
		}
	})
}
