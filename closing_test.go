package flavoso

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// TestTokensThatAreRefusedEverywherePause: a source that has a new token every time, and a server that
// refuses them all with 403, must not chase each other.
func TestTokensThatAreRefusedEverywherePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{status: func(*http.Request) int { return 403 }}
		var n atomic.Int32
		c := newFakeTill(t, api, func(cfg *Config) {
			cfg.Token = TokenFunc(func(_ context.Context, r TokenRequest) (string, error) {
				if r.Rejected != "" {
					n.Add(1)
				}
				return "token-" + string(rune('a'+n.Load()%26)), nil
			})
		})
		_, err := post(c, "a").Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Less(t, api.count(), 10)
		require.True(t, c.Status().AuthRequired)
	})
}

// TestHooksMayUseTheClient: a hook that saves an operation, while another goroutine closes the client.
func TestHooksMayUseTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *Client
		inside, goOn := make(chan struct{}), make(chan struct{})
		var once atomic.Bool
		fromHook := make(chan error, 1)
		c = newFakeTill(t, &fakeAPI{}, func(cfg *Config) {
			cfg.Hooks.Saved = func(context.Context, Outcome) {
				if once.CompareAndSwap(false, true) {
					close(inside)
					<-goOn
					_, err := post(c, "from-the-hook").Enqueue(context.Background())
					fromHook <- err
				}
			}
		})
		go func() { _, _ = post(c, "a").Enqueue(t.Context()) }() // its fate is not the point
		<-inside
		closed := make(chan struct{})
		go func() { defer close(closed); _ = c.Close() }()
		synctest.Wait()
		close(goOn)
		<-closed
		require.ErrorIs(t, <-fromHook, ErrClosed)
	})
}

type panicOnce struct{ done atomic.Bool }

func (p *panicOnce) Delay(int) time.Duration {
	if p.done.CompareAndSwap(false, true) {
		panic("a mistake in the delay policy")
	}
	return time.Second
}

func TestDelayPolicyMayPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := errors.New("no network")
		c := newFakeTill(t, nil, func(cfg *Config) {
			cfg.Retry = &panicOnce{}
			cfg.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, refuse }}
		})
		_, err := post(c, "a").Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		s := c.Status()
		require.Equal(t, 1, s.Waiting)
		require.False(t, s.OfflineSince.IsZero())
	})
}

// openTx is the application's transaction, still open; joining pretends to be an engine that can join it.
type openTx struct{}

func (openTx) OutboxTx() {}

type joining struct{ outbox.Engine }

func (e joining) Add(ctx context.Context, a outbox.Addition) (outbox.Added, error) {
	a.Tx = nil
	added, err := e.Engine.Add(ctx, a)
	return added, err
}

func TestNothingIsSentBeforeTheApplicationsTransactionCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var claimed atomic.Bool
		c := newFakeTill(t, &fakeAPI{}, func(cfg *Config) {
			cfg.Outbox = &claimWatch{Engine: joining{outbox.NewMemory()}, claimed: &claimed}
		})
		_, err := post(c, "a").EnqueueTx(t.Context(), openTx{})
		require.NoError(t, err)
		require.False(t, claimed.Load(), "a claim was asked for inside the transaction")
	})
}

type claimWatch struct {
	outbox.Engine
	claimed *atomic.Bool
}

func (e *claimWatch) Add(ctx context.Context, a outbox.Addition) (outbox.Added, error) {
	if a.Claim != nil {
		e.claimed.Store(true)
	}
	return e.Engine.Add(ctx, a)
}

func TestCloseEndsAShutdownUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		s.srv.Inject(mockserver.Hang().On("POST", "/orders/{id}/accept").Times(1))
		_, err := s.Orders.Accept(s.srv.AddOrder(store, mockserver.Order{}), AcceptParams{}).Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(context.Background()) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, s.Close())
		require.Less(t, time.Since(began), time.Second, "simulated time")
		require.ErrorIs(t, <-down, ErrStopped)
	})
}

// TestShutdownHandsOverOutcomes: a short-lived till sees what became of its operations before it ends.
func TestShutdownHandsOverOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken atomic.Int32
		s := newTill(t, func(c *Config) {
			c.OnOutcome = func(context.Context, *Client, Outcome) error {
				time.Sleep(100 * time.Millisecond)
				taken.Add(1)
				return nil
			}
		})
		for range 5 {
			_, err := s.Orders.Accept(s.srv.AddOrder(store, mockserver.Order{}), AcceptParams{}).Enqueue(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, s.Flush(t.Context()))
		require.NoError(t, s.Shutdown(t.Context()))
		require.EqualValues(t, 5, taken.Load())
	})
}

func TestContextErrorsKeepTheirOwnErrorAndTheirCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeTill(t, &fakeAPI{before: func(r *http.Request) error { <-r.Context().Done(); return r.Context().Err() }}, nil)
		why := errors.New("the guest has left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		for range 2 { // while waiting, and before saving
			_, err := post(c, "a").Do(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, why)
		}
	})
}

func TestOnlyNewCallCanBeDeclaredRepeatSafe(t *testing.T) {
	c := newFakeTill(t, &fakeAPI{}, nil)
	var param *ParamError
	_, err := c.Bookings.Create("17", BookingParams{PartySize: 2, StartsAt: time.Now().Add(time.Hour),
		Customer: BookingCustomer{Name: "A"}}).WithRepeatSafe().Do(t.Context())
	require.ErrorAs(t, err, &param)
	_, err = put(c, "a", 1).WithRepeatSafe().Do(t.Context())
	require.ErrorAs(t, err, &param)
	_, err = post(c, "a").WithRepeatSafe().Do(t.Context())
	require.NoError(t, err)
}

// TestClose in every phase: it returns, its waits end, nothing is lost, and no goroutine is left (the
// bubble would not end otherwise).
func TestClose(t *testing.T) {
	phases := map[string]func(s *till, f *faulty) (release func()){
		"idle": func(*till, *faulty) func() { return nil },
		"sending": func(s *till, _ *faulty) func() {
			s.srv.Inject(mockserver.Hang().On("POST", "/orders/{id}/accept").Times(3))
			return nil
		},
		"offline": func(s *till, _ *faulty) func() { s.srv.Inject(mockserver.Refuse().Times(3)); return nil },
		"probing": func(s *till, _ *faulty) func() {
			s.srv.Inject(mockserver.Refuse().Times(1))
			s.srv.Inject(mockserver.Hang().On("GET", "/store").Times(1).Optional())
			return nil
		},
		"retrying": func(s *till, _ *faulty) func() {
			s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept").Times(4))
			return nil
		},
		"paused": func(s *till, _ *faulty) func() {
			s.srv.Inject(mockserver.RateLimit(time.Minute).On("POST", "/orders/{id}/accept").Times(1))
			return nil
		},
		"saving": func(_ *till, f *faulty) func() {
			gate := make(chan struct{})
			f.script(&rule{method: "Add", wait: gate})
			return func() { close(gate) }
		},
		"settling": func(_ *till, f *faulty) func() {
			gate := make(chan struct{})
			f.script(&rule{method: "Settle", wait: gate})
			return func() { close(gate) }
		},
		"claiming": func(_ *till, f *faulty) func() {
			gate := make(chan struct{})
			f.script(&rule{method: "Claim", wait: gate})
			return func() { close(gate) }
		},
		"storage down": func(_ *till, f *faulty) func() {
			f.script(&rule{method: "Settle", err: errDisk})
			f.script(&rule{method: "Claim", err: errDisk})
			return func() {}
		},
	}
	for name, prepare := range phases {
		for _, how := range []string{"close", "shutdown"} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFaulty()
					s := newTill(t, func(c *Config) {
						c.OutboxPath, c.Outbox = "", f
						c.OnOutcome = func(context.Context, *Client, Outcome) error { return nil }
					})
					release := prepare(s, f)
					var ids []string
					errs := make(chan error, 8)
					for range 4 {
						id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
						ids = append(ids, id)
						go func() {
							_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
							errs <- err
						}()
					}
					time.Sleep(700 * time.Millisecond)
					closed := make(chan error, 1)
					client := s.Client
					go func() {
						if how == "close" {
							closed <- client.Close()
						} else {
							closed <- client.Shutdown(contextFor(t, 5*time.Second))
						}
					}()
					if name != "saving" { // Close waits on a mutex then, which the bubble does not count as waiting
						synctest.Wait()
					}
					if release != nil {
						release()
					}
					if err := <-closed; err != nil {
						require.Equal(t, "shutdown", how)
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					for range ids {
						if err := <-errs; err != nil {
							require.True(t, FateOf(err) == FateUnknown || errors.Is(err, ErrClosed), "%v", err)
						}
					}
					_, err := client.Orders.Accept("x", AcceptParams{}).Do(t.Context())
					require.ErrorIs(t, err, ErrClosed)
					require.NoError(t, client.Close())
					f.heal()
					if name == "storage down" {
						return // what could not be settled stays claimed as long as the engine is open
					}
					s.open()
					for _, id := range ids {
						_, err := s.Orders.Accept(id, AcceptParams{}).Do(contextFor(t, time.Hour))
						require.NoError(t, err)
						s.srv.AssertExactlyOnce(t, "orders.accept", id)
					}
				})
			})
		}
	}
}
