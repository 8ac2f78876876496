package flavoso

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// watcher runs a watch and notes what its handler was called with.
type watcher struct {
	t       *testing.T
	cancel  context.CancelFunc
	done    chan error
	mu      sync.Mutex
	calls   []string // "<id> v<version>" in the order of the calls
	handled func(o *Order) error
}

func (s *till) watch(p WatchParams, handled func(o *Order) error) *watcher {
	ctx, cancel := context.WithCancel(s.t.Context())
	w := &watcher{t: s.t, cancel: cancel, done: make(chan error, 1), handled: handled}
	go func() {
		w.done <- s.Orders.Watch(ctx, p, func(_ context.Context, o *Order) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, state(o.ID, o.Version))
			if w.handled != nil {
				return w.handled(o)
			}
			return nil
		})
	}()
	return w
}

func state(id string, version int64) string { return fmt.Sprintf("%s v%d", id, version) }

// stop ends the watch and returns what it returned.
func (w *watcher) stop() error {
	w.cancel()
	return <-w.done
}

func (w *watcher) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// inMemory keeps the outbox in memory: a file would sync after every order.
func inMemory(c *Config) { c.OutboxPath, c.Outbox = "", outbox.NewMemory() }

// requireEachOnce proves that every order came, in its present state, and that nothing came twice.
func requireEachOnce(t *testing.T, srv *mockserver.Server, calls []string) {
	t.Helper()
	count := map[string]int{}
	for _, c := range calls {
		count[c]++
		require.Equal(t, 1, count[c], "%s came twice", c)
	}
	for _, o := range srv.Orders(store) {
		require.NotZero(t, count[state(o.ID, int64(o.Version))], "an order was missed")
	}
}

// calm lets orders wait for ever, so that only the test changes them.
func calm(s *mockserver.Switches) { s.AcceptWithin = 0 }

// TestWatchMissesNothingWhilePagesAreRead: more orders than pages hold, more of them while pages are read,
// and changes of orders on pages that were read already.
func TestWatchMissesNothingWhilePagesAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory, mockserver.WithSwitches(calm))
		first := s.srv.AddOrders(store, 700) // all at one instant
		s.srv.Inject(mockserver.Delay(500*time.Millisecond).On("GET", "/orders"))
		n := 0
		w := s.watch(WatchParams{Name: "kitchen"}, func(*Order) error {
			if n++; n%2 == 0 && n <= 700 { // 350 more arrive meanwhile
				s.srv.AddOrder(store, mockserver.Order{})
			}
			if n%100 == 50 && n < 700 { // and one changes that is behind
				require.NoError(t, s.srv.ChangeOrder(store, first[n/2], func(o *mockserver.Order) { o.Note = "x" }))
			}
			return nil
		})
		time.Sleep(20 * time.Second)
		require.Len(t, s.srv.Orders(store), 1050)
		requireEachOnce(t, s.srv, w.seen())
		require.Len(t, w.seen(), 1050+7)
		require.ErrorIs(t, w.stop(), context.Canceled)
	})
}

func TestWatchTellsOrdersOfOneInstantApart(t *testing.T) {
	for _, reading := range []string{"exclusive", "inclusive"} {
		t.Run(reading, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory, mockserver.WithSwitches(func(sw *mockserver.Switches) { calm(sw); sw.UpdatedAfter = reading }))
				w := s.watch(WatchParams{Name: "kitchen"}, nil)
				for range 6 {
					// At the very instant of a poll, before and after it.
					s.srv.AddOrders(store, 3)
					time.Sleep(DefaultWatchInterval)
					s.srv.AddOrders(store, 2)
					synctest.Wait()
					s.srv.AddOrders(store, 1)
				}
				time.Sleep(2 * time.Minute)
				require.Len(t, w.seen(), 36)
				requireEachOnce(t, s.srv, w.seen())
				require.ErrorIs(t, w.stop(), context.Canceled)
			})
		})
	}
}

func TestWatchReportsChangesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil, mockserver.WithSwitches(calm))
		id := s.srv.AddOrder(store, mockserver.Order{})
		w := s.watch(WatchParams{Name: "kitchen"}, nil)
		time.Sleep(time.Minute)
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		_, err = s.Orders.SetStatus(id, StatusParams{Status: OrderReady}).Do(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Equal(t, []string{state(id, 1), state(id, 2), state(id, 3)}, w.seen())
		require.ErrorIs(t, w.stop(), context.Canceled)

		s.restart() // on its file
		other := s.srv.AddOrder(store, mockserver.Order{})
		w = s.watch(WatchParams{Name: "kitchen"}, nil)
		time.Sleep(time.Hour)
		require.Equal(t, []string{state(other, 1)}, w.seen())
		require.ErrorIs(t, w.stop(), context.Canceled)
	})
}

func TestWatchGoesOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil, mockserver.WithSwitches(calm))
		s.srv.AddOrders(store, 30)
		n := 0
		w := s.watch(WatchParams{Name: "kitchen"}, func(*Order) error {
			if n++; n == 20 {
				go s.Close()
				time.Sleep(time.Second)
			}
			return nil
		})
		require.ErrorIs(t, <-w.done, ErrStopped)
		before := w.seen()
		require.Len(t, before, 20)

		s.open()
		s.srv.AddOrders(store, 5)
		w = s.watch(WatchParams{Name: "kitchen"}, nil)
		time.Sleep(time.Minute)
		after := w.seen()
		require.Equal(t, before[19], after[0], "the one that was being handled when the client closed comes again")
		requireEachOnce(t, s.srv, append(before[:19:19], after...))
		require.ErrorIs(t, w.stop(), context.Canceled)

		// Another hour, another restart: nothing comes again.
		time.Sleep(time.Hour)
		s.restart()
		w = s.watch(WatchParams{Name: "kitchen"}, nil)
		time.Sleep(time.Hour)
		require.Empty(t, w.seen())
		id := s.srv.AddOrder(store, mockserver.Order{})
		time.Sleep(time.Minute)
		require.Equal(t, []string{state(id, 1)}, w.seen())
		require.ErrorIs(t, w.stop(), context.Canceled)

		// Another name has seen nothing.
		w = s.watch(WatchParams{Name: "display", Since: time.Now().Add(-30 * time.Minute)}, nil)
		time.Sleep(time.Minute)
		require.Equal(t, []string{state(id, 1)}, w.seen())
		require.ErrorIs(t, w.stop(), context.Canceled)
	})
}

func TestWatchTriesAgainWhatTheHandlerRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil, mockserver.WithSwitches(calm))
		ids := s.srv.AddOrders(store, 3)
		broken := true
		refuse := func(o *Order) error {
			switch {
			case !broken:
			case o.ID == ids[0]:
				return errors.New("no paper")
			case o.ID == ids[1]:
				panic("a bug in the app")
			}
			return nil
		}
		w := s.watch(WatchParams{Name: "kitchen"}, refuse)
		time.Sleep(10 * time.Minute)
		later := s.srv.AddOrder(store, mockserver.Order{})
		time.Sleep(10 * time.Minute)
		calls := w.seen()
		tries := func(id string) int {
			return len(slices.DeleteFunc(slices.Clone(calls), func(c string) bool { return c != state(id, 1) }))
		}
		assert.Equal(t, 1, tries(ids[2]), "the others go on")
		assert.Equal(t, 1, tries(later))
		assert.Greater(t, tries(ids[0]), 5)
		assert.Less(t, tries(ids[0]), 100, "with growing delays")
		assert.Greater(t, tries(ids[1]), 5)
		require.ErrorIs(t, w.stop(), context.Canceled)

		// What is owed outlives the restart, and comes as it is then.
		time.Sleep(time.Hour)
		require.NoError(t, s.srv.ChangeOrder(store, ids[0], func(o *mockserver.Order) { o.Note = "x" }))
		s.srv.DeleteOrder(store, ids[1])
		s.restart()
		broken = false
		w = s.watch(WatchParams{Name: "kitchen"}, refuse)
		time.Sleep(time.Hour)
		require.Equal(t, []string{state(ids[0], 2)}, w.seen())
		require.ErrorIs(t, w.stop(), context.Canceled)
	})
}

func TestWatchSlowsDownWhileNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory, mockserver.WithSwitches(calm))
		polls := func() int {
			return len(slices.DeleteFunc(s.srv.Requests(), func(r mockserver.Request) bool { return r.Path != "/orders" }))
		}
		w := s.watch(WatchParams{Name: "kitchen"}, nil)
		time.Sleep(10 * time.Minute)
		before := polls()
		time.Sleep(30 * time.Minute)
		idle := polls() - before
		assert.InDelta(t, 60, idle, 8, "every 30 s, less the jitter")

		before = polls()
		for range 60 {
			s.srv.AddOrder(store, mockserver.Order{})
			time.Sleep(5 * time.Second)
		}
		assert.Greater(t, polls()-before, 50, "every 5 s while orders come")
		require.ErrorIs(t, w.stop(), context.Canceled)
	})
}

func TestWatchOutlivesOutagesAndHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil, mockserver.WithSwitches(calm))
		w := s.watch(WatchParams{Name: "kitchen"}, nil)
		outage := func(f mockserver.Fault, d time.Duration) (requests int) {
			before := len(s.srv.Requests())
			injected := s.srv.Inject(f)
			s.srv.AddOrder(store, mockserver.Order{})
			time.Sleep(d)
			injected.Remove()
			requests = len(s.srv.Requests()) - before
			time.Sleep(3 * time.Minute)
			requireEachOnce(t, s.srv, w.seen())
			return requests
		}
		outage(mockserver.Refuse(), time.Hour)
		assert.Less(t, outage(mockserver.Status(503).On("GET", "/orders"), time.Hour), 200)
		outage(mockserver.Portal().On("GET", "/orders"), 10*time.Minute)
		outage(mockserver.Truncate(20).On("GET", "/orders").Times(3), 10*time.Minute)

		s.srv.Inject(mockserver.RateLimit(10*time.Minute).On("GET", "/orders").Times(1))
		id := s.srv.AddOrder(store, mockserver.Order{})
		for len(s.srv.Requests()) == 0 || s.srv.Requests()[len(s.srv.Requests())-1].Status != http.StatusTooManyRequests {
			time.Sleep(time.Second)
		}
		limited := len(s.srv.Requests())
		time.Sleep(9 * time.Minute)
		require.Len(t, s.srv.Requests(), limited, "nothing is sent before Retry-After has passed")
		time.Sleep(8 * time.Minute) // the wait is jittered upward by half at most
		require.Contains(t, w.seen(), state(id, 1))
		require.ErrorIs(t, w.stop(), context.Canceled)
	})
}

// TestWatchGoesOnWithTheSamePageAfterAnError: a long first sweep need not begin anew.
func TestWatchGoesOnWithTheSamePageAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory, mockserver.WithSwitches(calm))
		s.srv.AddOrders(store, 350)
		s.srv.Inject(mockserver.Status(503).On("GET", "/orders").Nth(3))
		w := s.watch(WatchParams{Name: "kitchen"}, nil)
		time.Sleep(20 * time.Second)
		requireEachOnce(t, s.srv, w.seen())
		first := 0
		for _, r := range s.srv.Requests()[:5] {
			if r.Target == "/v1/orders?limit=100" {
				first++
			}
		}
		require.Equal(t, 1, first)
		require.ErrorIs(t, w.stop(), context.Canceled)
	})
}

// TestWatchTakesNoFutureForThePresent: one order with a wrong time must not hide those that come after it.
func TestWatchTakesNoFutureForThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil, mockserver.WithSwitches(calm))
		s.srv.Clock().Advance(24 * time.Hour)
		s.srv.AddOrder(store, mockserver.Order{})
		s.srv.Clock().Advance(-24 * time.Hour)
		w := s.watch(WatchParams{Name: "kitchen"}, nil)
		for range 10 {
			time.Sleep(2 * time.Minute)
			s.srv.AddOrder(store, mockserver.Order{})
		}
		time.Sleep(2 * time.Minute)
		require.Len(t, w.seen(), 11)
		requireEachOnce(t, s.srv, w.seen())
		require.ErrorIs(t, w.stop(), context.Canceled)
	})
}

func TestWatchSavesNothingWhileNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil, mockserver.WithSwitches(calm))
		s.srv.AddOrders(store, 5)
		w := s.watch(WatchParams{Name: "kitchen"}, nil)
		time.Sleep(5 * time.Minute)
		whole, err := s.engine.LoadState(t.Context(), store, "watch:kitchen")
		require.NoError(t, err)
		require.NotEmpty(t, whole)
		// Were it saved again, it would be there again.
		time.Sleep(20 * time.Minute)
		require.NoError(t, s.engine.SaveState(t.Context(), store, "watch:kitchen", nil))
		time.Sleep(time.Hour)
		again, err := s.engine.LoadState(t.Context(), store, "watch:kitchen")
		require.NoError(t, err)
		require.Nil(t, again)
		require.ErrorIs(t, w.stop(), context.Canceled)
	})
}

func TestWatchSkipsWhatItCannotReadAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil, mockserver.WithSwitches(calm))
		bad := `{"object":"order","id":"o-bad","status":7,"version":1}`
		good := `{"object":"order","id":"o-good","status":"pending","version":1,"updated_at":"2000-01-01T00:00:00Z"}`
		s.srv.Inject(mockserver.Status(200).Body(`{"object":"list","data":[17,`+bad+`,`+good+`],"has_more":false}`).
			On("GET", "/orders").Times(1))
		s.srv.Inject(mockserver.Status(200).Body(`{"object":"order","id":"o-bad","status":"pending","version":2}`).
			On("GET", "/orders/{id}").Times(1))
		w := s.watch(WatchParams{Name: "kitchen"}, nil)
		time.Sleep(time.Minute)
		require.ElementsMatch(t, []string{state("o-good", 1), state("o-bad", 2)}, w.seen())
		require.ErrorIs(t, w.stop(), context.Canceled)
	})
}

func TestWatchRefusesWhatMakesNoSense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		take := func(context.Context, *Order) error { return nil }
		for field, p := range map[string]WatchParams{
			"name":          {},
			"status":        {Name: "x", Status: []OrderStatus{""}},
			"interval":      {Name: "x", Interval: -1},
			"updated_after": {Name: "x", Since: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)},
		} {
			var param *ParamError
			require.ErrorAs(t, s.Orders.Watch(t.Context(), p, take), &param)
			require.Equal(t, field, param.Field)
		}
		var param *ParamError
		require.ErrorAs(t, s.Orders.Watch(t.Context(), WatchParams{Name: "x"}, nil), &param)

		w := s.watch(WatchParams{Name: "kitchen"}, nil)
		synctest.Wait()
		require.ErrorAs(t, s.Orders.Watch(t.Context(), WatchParams{Name: "kitchen"}, take), &param)
		require.ErrorIs(t, w.stop(), context.Canceled)

		require.NoError(t, s.engine.SaveState(t.Context(), store, "watch:kitchen", []byte(`{"format":2}`)))
		require.ErrorContains(t, s.Orders.Watch(t.Context(), WatchParams{Name: "kitchen"}, take), "newer version")

		require.NoError(t, s.Close())
		require.ErrorIs(t, s.Orders.Watch(t.Context(), WatchParams{Name: "other"}, take), ErrClosed)
	})
}
