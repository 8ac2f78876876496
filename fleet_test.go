package flavoso

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// newFakeFleet opens a fleet on a fakeAPI and an outbox in memory; each connection's token is its name.
func newFakeFleet(t testing.TB, api *fakeAPI, change func(*FleetConfig)) *Fleet {
	t.Helper()
	cfg := FleetConfig{
		Outbox: outbox.NewMemory(), Token: tokenIsName(),
		BaseURL: "https://api.flavoso.test/v1", Transport: api, uptime: bootClock(),
	}
	if change != nil {
		change(&cfg)
	}
	f, err := OpenFleet(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func tokenIsName() TokenSource {
	return TokenFunc(func(_ context.Context, r TokenRequest) (string, error) { return r.Connection, nil })
}

// connectionOf is whose request it is, by its token.
func connectionOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// An outbox that cannot be used has saved nothing, whoever opens it.
func TestFleetThatCannotOpenHasSavedNothing(t *testing.T) {
	engine := outbox.NewMemory()
	require.NoError(t, engine.Close())
	_, err := OpenFleet(FleetConfig{Outbox: engine, Token: StaticToken("token")})
	require.ErrorIs(t, err, ErrNotSaved)
	require.ErrorIs(t, err, outbox.ErrClosed)
}

func TestFleetConfig(t *testing.T) {
	good := func() FleetConfig {
		return FleetConfig{Outbox: outbox.NewMemory(), Token: StaticToken("token")}
	}
	for field, spoil := range map[string]func(*FleetConfig){
		"FleetConfig.Outbox":         func(c *FleetConfig) { c.Outbox = nil },
		"FleetConfig.Token":          func(c *FleetConfig) { c.Token = nil },
		"FleetConfig.BaseURL":        func(c *FleetConfig) { c.BaseURL = "http://example.com" },
		"FleetConfig.PerConnection":  func(c *FleetConfig) { c.PerConnection = -1 },
		"FleetConfig.MaxConnections": func(c *FleetConfig) { c.MaxConnections = -1 },
	} {
		cfg := good()
		spoil(&cfg)
		f, err := OpenFleet(cfg)
		var param *ParamError
		require.ErrorAs(t, err, &param, field)
		require.Equal(t, field, param.Field)
		require.NoError(t, f.Close(), "closing what was not opened")
	}
	f, err := OpenFleet(good())
	require.NoError(t, err)
	for _, name := range []string{"", "a\nb"} {
		c := f.Client(name)
		_, err = c.Orders.Accept("1", AcceptParams{}).Do(t.Context())
		var param *ParamError
		require.ErrorAs(t, err, &param)
		require.ErrorIs(t, err, ErrNotSaved)
		_, err = c.Orders.Get(t.Context(), "1")
		require.ErrorAs(t, err, &param)
	}
	require.NoError(t, f.Client("a").Close())
	require.NoError(t, f.Client("a").Shutdown(t.Context()), "a fleet's client has nothing to close")
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err = f.Client("a").Orders.Accept("1", AcceptParams{}).Do(t.Context())
	require.ErrorIs(t, err, ErrClosed)
}

// The whole way with the mock server: each connection's operations go out under its own token and land at its
// own restaurant, also what an earlier process left behind.
func TestFleetSendsForEveryConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.Start(t)
		engine := outbox.NewMemory()
		cfg := FleetConfig{Outbox: engine, BaseURL: srv.BaseURL(), Transport: srv.Transport(), uptime: bootClock(),
			Token: TokenFunc(func(_ context.Context, r TokenRequest) (string, error) { return srv.Token(r.Connection), nil })}
		orders := map[string][]string{}
		srv.Inject(mockserver.Refuse().Optional())
		first, err := OpenFleet(cfg)
		require.NoError(t, err)
		for i := range 30 {
			name := fmt.Sprintf("store-%d", i%10)
			id := srv.AddOrder(name, mockserver.Order{})
			orders[name] = append(orders[name], id)
			_, err := first.Client(name).Orders.Accept(id, AcceptParams{PreparationMinutes: 10}).Enqueue(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, first.Close())
		srv.ClearFaults()
		second, err := OpenFleet(cfg)
		require.NoError(t, err)
		defer second.Close()
		for name, ids := range orders {
			c := second.Client(name)
			require.NoError(t, c.Flush(t.Context()))
			require.Zero(t, c.Status().Waiting)
			require.Equal(t, name, c.Status().Connection)
			for _, id := range ids {
				srv.AssertExactlyOnce(t, "orders.accept", id)
			}
		}
		for _, e := range srv.Effects() {
			require.Contains(t, orders[e.Connection], e.Resource)
		}
	})
}

// Trouble of one connection is its own: a refused token, a Retry-After, and no network.
func TestFleetTroubleStaysWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{
			before: func(r *http.Request) error {
				if connectionOf(r) == "offline" {
					return errors.New("no route")
				}
				return nil
			},
			status: func(r *http.Request) int {
				switch connectionOf(r) {
				case "refused":
					return http.StatusUnauthorized
				case "busy":
					return http.StatusTooManyRequests
				}
				return http.StatusOK
			},
		}
		var mu sync.Mutex
		changed := map[string]Status{}
		f := newFakeFleet(t, api, func(c *FleetConfig) {
			c.Hooks.StatusChange = func(s Status) {
				mu.Lock()
				defer mu.Unlock()
				changed[s.Connection] = s
			}
		})
		for _, name := range []string{"refused", "busy", "offline"} {
			for i := range 3 {
				_, err := post(f.Client(name), fmt.Sprint(i)).Enqueue(t.Context())
				require.NoError(t, err)
			}
		}
		time.Sleep(time.Minute)
		for i := range 50 {
			began := time.Now()
			_, err := post(f.Client(fmt.Sprintf("well-%d", i)), "lane").Do(t.Context())
			require.NoError(t, err)
			require.Zero(t, time.Since(began), "nobody waits for the others")
		}
		require.True(t, f.Client("refused").Status().AuthRequired)
		require.False(t, f.Client("offline").Status().OfflineSince.IsZero())
		require.Equal(t, 3, f.Client("busy").Status().Waiting)
		require.Zero(t, f.Client("refused").Status().Foreign)
		mu.Lock()
		defer mu.Unlock()
		require.True(t, changed["refused"].AuthRequired)
		require.False(t, changed["offline"].OfflineSince.IsZero())
		require.NotContains(t, changed, "well-1")
		var herr *HeldError
		require.ErrorAs(t, f.Client("refused").Flush(t.Context()), &herr)
	})
}

// No connection has more attempts under way than PerConnection, all together no more than Concurrency, and
// none waits for another's backlog.
func TestFleetBoundsAndFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most, all, mostAll := map[string]int{}, 0, 0, 0
		var smallDone, bigBefore atomic.Int32
		api := &fakeAPI{before: func(r *http.Request) error {
			name := connectionOf(r)
			mu.Lock()
			running[name]++
			all++
			most, mostAll = max(most, running[name]), max(mostAll, all)
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			running[name]--
			all--
			mu.Unlock()
			if name == "big" {
				if smallDone.Load() < 40 {
					bigBefore.Add(1)
				}
			} else {
				smallDone.Add(1)
			}
			return nil
		}}
		f := newFakeFleet(t, api, func(c *FleetConfig) { c.Concurrency, c.PerConnection = 8, 3 })
		f.core.dispatcher.Close() // what follows is saved and not sent yet
		big := f.Client("big")
		for i := range 400 {
			_, err := post(big, fmt.Sprint("lane-", i)).Enqueue(t.Context())
			require.NoError(t, err)
		}
		for i := range 40 {
			_, err := post(f.Client(fmt.Sprint("small-", i)), "lane").Enqueue(t.Context())
			require.NoError(t, err)
		}
		engine := f.core.engine
		require.NoError(t, f.Close())
		g := newFakeFleet(t, api, func(c *FleetConfig) { c.Outbox, c.Concurrency, c.PerConnection = engine, 8, 3 })
		require.NoError(t, g.Client("big").Flush(t.Context()))
		require.EqualValues(t, 40, smallDone.Load())
		require.Equal(t, 440, api.count())
		require.LessOrEqual(t, most, 3)
		require.LessOrEqual(t, mostAll, 8)
		require.Less(t, bigBefore.Load(), int32(40), "the small ones did not wait for the big one's backlog")
	})
}

// Ten thousand connections cost no more memory than MaxConnections allows.
func TestFleetForgetsIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		f := newFakeFleet(t, api, func(c *FleetConfig) { c.MaxConnections = 100 })
		for i := range 1000 {
			_, err := post(f.Client(fmt.Sprint("store-", i)), "lane").Do(t.Context())
			require.NoError(t, err)
		}
		require.LessOrEqual(t, f.core.dispatcher.Connections(), 100)
	})
}

// Outcomes of a lane come in its order, one at a time; a lane whose outcome is not taken waits alone.
func TestFleetOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		got := map[string][]string{}
		busy := map[string]bool{}
		refusals := 3
		api := &fakeAPI{}
		f := newFakeFleet(t, api, func(c *FleetConfig) {
			c.OnOutcome = func(ctx context.Context, c *Client, o Outcome) error {
				name := c.Connection() + "/" + o.Lane
				mu.Lock()
				require.False(t, busy[name], "two at a time")
				busy[name] = true
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				busy[name] = false
				if name == "store-1/a" && refusals > 0 {
					refusals--
					if refusals == 0 {
						panic("the last time")
					}
					return errors.New("not now")
				}
				got[name] = append(got[name], o.Tag)
				return nil
			}
		})
		for i := range 5 {
			for _, lane := range []string{"a", "b"} {
				for _, store := range []string{"store-1", "store-2"} {
					_, err := post(f.Client(store), lane).WithTag(fmt.Sprint(i)).Do(t.Context())
					require.NoError(t, err)
				}
			}
		}
		time.Sleep(5*time.Second + time.Millisecond)
		mu.Lock()
		for _, name := range []string{"store-1/b", "store-2/a", "store-2/b"} {
			require.Equal(t, []string{"0", "1", "2", "3", "4"}, got[name], "lanes do not wait for each other")
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"0", "1", "2", "3", "4"}, got["store-1/a"])
	})
}

// Shutdown hands over what became known; what could not be handed over is when the outbox is opened again.
func TestFleetShutdownAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := outbox.NewMemory()
		var handed atomic.Int32
		take := func(context.Context, *Client, Outcome) error { handed.Add(1); return nil }
		f := newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) { c.Outbox, c.OnOutcome = engine, take })
		for i := range 20 {
			_, err := post(f.Client(fmt.Sprint("store-", i)), "lane").Do(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, f.Shutdown(t.Context()))
		require.EqualValues(t, 20, handed.Load())

		refuse := func(context.Context, *Client, Outcome) error { return errors.New("no") }
		f = newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) { c.Outbox, c.OnOutcome = engine, refuse })
		_, err := post(f.Client("store-1"), "again").Do(t.Context())
		require.NoError(t, err)
		require.NoError(t, f.Close())
		newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) { c.Outbox, c.OnOutcome = engine, take })
		synctest.Wait()
		require.EqualValues(t, 21, handed.Load())
	})
}

// A process that only saves sends nothing; another does.
func TestFleetThatOnlySaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, api := outbox.NewMemory(), &fakeAPI{}
		f := newFakeFleet(t, api, func(c *FleetConfig) {
			c.Outbox, c.Concurrency = engine, -1
			c.OnOutcome = func(context.Context, *Client, Outcome) error { panic("not here") }
		})
		p, err := post(f.Client("a"), "lane").Enqueue(t.Context())
		require.NoError(t, err)
		_, err = post(f.Client("b"), "lane").Do(t.Context())
		require.ErrorIs(t, err, ErrPending)
		f.Wake()
		time.Sleep(time.Hour)
		require.Zero(t, api.count())
		require.NoError(t, f.Shutdown(t.Context()))

		g := newFakeFleet(t, api, func(c *FleetConfig) { c.Outbox = engine })
		_, err = Attach[thing](g.Client("a"), p.ID()).Wait(t.Context())
		require.NoError(t, err)
		require.NoError(t, g.Client("b").Flush(t.Context()))
		require.Equal(t, 2, api.count())
	})
}

// What a client of the fleet shows and changes is its own connection's.
func TestFleetClientsDoNotMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{before: func(*http.Request) error { return errors.New("no route") }}
		f := newFakeFleet(t, api, nil)
		a, b := f.Client("a"), f.Client("b")
		p, err := post(a, "lane").WithKey("same").Enqueue(t.Context())
		require.NoError(t, err)
		other, err := post(b, "lane").WithKey("same").Enqueue(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, p.ID(), other.ID(), "keys are scoped to their connection (F4)")
		_, err = b.Operations.Get(t.Context(), p.ID())
		require.ErrorIs(t, err, ErrNotFound)
		require.ErrorIs(t, b.Operations.Cancel(t.Context(), p.ID()), ErrNotFound)
		require.ErrorIs(t, b.Operations.Ack(t.Context(), p.ID()), ErrNotFound)
		require.ErrorIs(t, b.Operations.Resolve(t.Context(), p.ID(), Resolution{Decision: Abandon}), ErrNotFound)
		_, err = Attach[thing](b, p.ID()).Wait(t.Context())
		require.ErrorIs(t, err, ErrNotFound)
		o, err := a.Operations.Get(t.Context(), p.ID())
		require.NoError(t, err)
		require.Equal(t, "a", o.Connection)
		n := 0
		for range b.Operations.List(t.Context(), OperationFilter{}) {
			n++
		}
		require.Equal(t, 1, n)
	})
}
