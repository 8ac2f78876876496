package flavoso

import (
	"context"
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
