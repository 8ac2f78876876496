package flavoso

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// vault is a token source under a test's control.
type vault struct {
	mu      sync.Mutex
	current string   // what it gives when a token was refused; also at first, unless stale is set
	stale   string   // what it gives when no token was refused; "" = current
	refused []string // what it was told
	err     error
	slow    time.Duration
}

func (v *vault) Token(_ context.Context, r TokenRequest) (string, error) {
	if r.Rejected != "" {
		time.Sleep(v.slow)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.Rejected != "" {
		v.refused = append(v.refused, r.Rejected)
	}
	switch {
	case v.err != nil:
		return "", v.err
	case r.Rejected == "" && v.stale != "":
		return v.stale, nil
	}
	return v.current, nil
}

func (v *vault) set(token string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.current, v.stale, v.err = token, "", nil
}

func (v *vault) refreshes() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.refused)
}

// TestOneRefreshForAll: however many calls find the token refused, and however slow the source is, it is
// asked once; and once more for each further token.
func TestOneRefreshForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vault{stale: "token-0", current: "token-1", slow: 3 * time.Second}
		s := &script{writes: []answer{done}, get: inStore, token: "token-1"}
		c := newScripted(t, s, func(cfg *Config) { cfg.Token = v })
		all := func() {
			var wg sync.WaitGroup
			for i := range 30 {
				wg.Go(func() {
					_, err := NewCall[thing](c, "POST", fmt.Sprint("/things/", i), nil).Do(forHours(t, 1))
					require.NoError(t, err)
				})
			}
			wg.Wait()
		}
		all()
		require.Equal(t, 1, v.refreshes())
		// A source that gives the first token for ever when it is asked without a reason.
		for n := 2; n < 6; n++ {
			v.mu.Lock()
			v.current = fmt.Sprint("token-", n)
			v.mu.Unlock()
			s.mu.Lock()
			s.token = fmt.Sprint("token-", n)
			s.mu.Unlock()
			began := time.Now()
			all()
			require.Equal(t, n, v.refreshes())
			require.Less(t, time.Since(began), 20*time.Second, "the connection does not pause for it")
		}
	})
}

// TestPauseAndResume: a refused token pauses the connection; a new one, Wake or the slow probe resume it,
// also days later, and what was turned away was never sent.
func TestPauseAndResume(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		resume func(c *Client, v *vault)
		within time.Duration
	}{
		{"401, a new token", 401, func(*Client, *vault) {}, 3 * time.Minute},
		{"401, a new token and Wake", 401, func(c *Client, _ *vault) { c.Wake() }, 10 * time.Second},
		{"403 for everything, a new token", 403, func(*Client, *vault) {}, 3 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &vault{current: "bad"}
				s := &script{writes: []answer{refusal(tc.status, "")}, get: refusal(tc.status, "")}
				c := newScripted(t, s, func(cfg *Config) { cfg.Token = v })
				var waits []*Pending[thing]
				for i := range 10 {
					waits = append(waits, enqueue(t, NewCall[thing](c, "POST", fmt.Sprint("/things/", i), nil)))
				}
				time.Sleep(time.Minute)
				require.True(t, c.Status().AuthRequired)
				writes := s.count("POST")
				require.LessOrEqual(t, writes, 10)
				gets := s.count("GET")
				time.Sleep(3 * 24 * time.Hour)
				require.Equal(t, writes, s.count("POST"), "nothing is sent while the token is refused")
				require.Less(t, s.count("GET")-gets, 3*24*60*2, "it is asked for slowly")
				require.Greater(t, s.count("GET"), gets)
				for _, p := range waits {
					o, err := c.Operations.Get(t.Context(), p.ID())
					require.NoError(t, err)
					require.Equal(t, StateQueued, o.State)
					require.Zero(t, o.FirstSent, "an attempt that was turned away did not happen")
				}

				v.set("good")
				s.mu.Lock()
				s.writes, s.get = []answer{done}, inStore
				s.mu.Unlock()
				began := time.Now()
				tc.resume(c, v)
				for _, p := range waits {
					_, err := p.Wait(forHours(t, 1))
					require.NoError(t, err, "nothing is lost, and nothing became uncertain")
				}
				require.Less(t, time.Since(began), tc.within)
				require.False(t, c.Status().AuthRequired)
			})
		})
	}
}

// TestReadWithANewTokenEndsThePause: the application's own read shows that there is a better token. One with
// the refused token does not, and nothing is asked more often for it.
func TestReadWithANewTokenEndsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vault{current: "bad"}
		s := &script{writes: []answer{done}, get: inStore, token: "good"}
		c := newScripted(t, s, func(cfg *Config) { cfg.Token = v })
		p := enqueue(t, NewCall[thing](c, "POST", "/things", nil))
		time.Sleep(time.Hour)
		require.True(t, c.Status().AuthRequired)
		gets := s.count("GET")
		for range 5 {
			_, err := Get[thing](t.Context(), c, "/store", nil)
			require.ErrorIs(t, err, ErrUnauthorized)
		}
		synctest.Wait()
		require.True(t, c.Status().AuthRequired)
		require.LessOrEqual(t, s.count("GET"), gets+11, "two requests a read, and the slow probe")

		v.set("good")
		began := time.Now()
		_, err := Get[thing](t.Context(), c, "/store", nil)
		require.NoError(t, err)
		_, err = p.Wait(forHours(t, 1))
		require.NoError(t, err)
		require.Less(t, time.Since(began), time.Second)
		require.False(t, c.Status().AuthRequired)
	})
}

// TestRefusalAfterARefusedToken: an expired token and then a conflict is an everyday case. The conflict is
// a clean rejection: the first attempt did not happen.
func TestRefusalAfterARefusedToken(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprint("our own transport: ", own), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &vault{stale: "old", current: "new"}
				s := &script{writes: []answer{refusal(401, "unauthorized"), refusal(409, "conflict")}, get: inStore}
				c := newScripted(t, s, func(cfg *Config) {
					cfg.Token = v
					if !own {
						cfg.Transport = roundTripper(cfg.Transport.(*http.Transport).RoundTrip)
					}
				})
				_, err := NewCall[thing](c, "POST", "/things", nil).Do(t.Context())
				if own {
					require.ErrorIs(t, err, ErrConflict)
				} else {
					// What else such a transport has sent is not known.
					require.ErrorIs(t, err, ErrUncertain)
				}
			})
		})
	}
}

// TestRefusedTokenSaysNothingOfTheAttemptBefore (D11): what may have been sent stays so.
func TestRefusedTokenSaysNothingOfTheAttemptBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vault{stale: "old", current: "new"}
		s := &script{writes: []answer{refusal(503, "unavailable"), refusal(401, "unauthorized"), refusal(409, "conflict")}, get: inStore}
		c := newScripted(t, s, func(cfg *Config) { cfg.Token = v })
		_, err := NewCall[thing](c, "POST", "/things", nil).Do(t.Context())
		require.ErrorIs(t, err, ErrUncertain)
	})
}

// TestForbidden: a control read tells a forbidden call from a refused token.
func TestForbidden(t *testing.T) {
	t.Run("this call only", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{writes: []answer{refusal(403, "forbidden"), done}, get: inStore}
			c := newScripted(t, s, nil)
			_, err := NewCall[thing](c, "POST", "/things", nil).Do(t.Context())
			require.ErrorIs(t, err, ErrForbidden)
			require.False(t, c.Status().AuthRequired)
			_, err = NewCall[thing](c, "POST", "/things", nil).Do(t.Context())
			require.NoError(t, err)
		})
	})
	t.Run("the control read gets no answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{writes: []answer{refusal(403, "forbidden"), done}, get: refusal(503, "unavailable")}
			c := newScripted(t, s, nil)
			_, err := NewCall[thing](c, "POST", "/things", nil).Do(forHours(t, 1))
			require.NoError(t, err, "undecided, so it is tried again")
			require.Equal(t, 2, s.count("POST"))
		})
	})
}

// TestTroubleOfTheTokenSource: an error, a panic or nonsense postpones sending and marks nothing.
func TestTroubleOfTheTokenSource(t *testing.T) {
	for name, trouble := range map[string]func() (string, error){
		"an error":          func() (string, error) { return "", errors.New("vault is sealed") },
		"a panic":           func() (string, error) { panic("nil pointer") },
		"an empty token":    func() (string, error) { return "", nil },
		"an unusable token": func() (string, error) { return "a\nb", nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				broken := true
				s := &script{writes: []answer{done}, get: inStore}
				c := newScripted(t, s, func(cfg *Config) {
					cfg.Token = TokenFunc(func(context.Context, TokenRequest) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						if broken {
							return trouble()
						}
						return "good", nil
					})
				})
				p := enqueue(t, NewCall[thing](c, "POST", "/things", nil))
				time.Sleep(30 * time.Hour)
				require.Empty(t, s.seen)
				o, err := c.Operations.Get(t.Context(), p.ID())
				require.NoError(t, err)
				require.Equal(t, StateQueued, o.State)
				mu.Lock()
				broken = false
				mu.Unlock()
				_, err = p.Wait(forHours(t, 1))
				require.NoError(t, err)
			})
		})
	}
}

// TestNoSecretLeaks: what the client writes and says, in every kind of trouble, holds neither a token nor a
// guest's name outside the bodies.
func TestNoSecretLeaks(t *testing.T) {
	const guest = "Xavier-Guest-Secret"
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var logged sync.Mutex
		tokens := []string{"secret-token-a", "secret-token-b", "mock_" + store}
		v := &vault{stale: tokens[0], current: tokens[2]}
		s := newTill(t, func(c *Config) {
			c.Token = v
			c.Logger = slog.New(slog.NewTextHandler(lockedWriter{&logged, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
			c.OnOutcome = func(_ context.Context, _ *Client, o Outcome) error {
				if o.Revision%2 == 1 {
					return errors.New("not taken")
				}
				return nil
			}
		})
		var said strings.Builder
		say := func(v any) { fmt.Fprintf(&said, "%v %+v %s\n", v, v, v) }
		faults := []mockserver.Fault{
			mockserver.Reset(), mockserver.DropResponse(), mockserver.Status(503), mockserver.Portal(), mockserver.ProxyError(),
			mockserver.Status(401), mockserver.Status(403), mockserver.Truncate(10), mockserver.Status(409).Code("conflict"),
			mockserver.Status(400).Body(`{"error":{"code":"validation_failed","message":"bad"}}`), mockserver.Status(418).Body(""),
			mockserver.Hang(), mockserver.Status(301),
		}
		p := booking(4)
		p.Customer.Name = guest
		for i, f := range faults {
			s.srv.Inject(f.On("POST", "").Times(1).Optional())
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			call := s.Bookings.Create(fmt.Sprint("ref-", i), p)
			_, err := call.Do(ctx)
			if err != nil {
				say(err)
			}
			p, err := s.Orders.Accept("no-such-order", AcceptParams{}).Do(ctx)
			say(p)
			say(err)
			cancel()
		}
		v.mu.Lock()
		v.current, v.stale = tokens[1], ""
		v.mu.Unlock()
		_, err := s.Bookings.Create("last", p).Do(t.Context())
		require.Error(t, err)
		say(err)
		_, err = s.Orders.Get(t.Context(), "x")
		say(err)
		say(s.Status())
		for o, err := range s.Operations.List(t.Context(), OperationFilter{}) {
			require.NoError(t, err)
			o.Body = nil
			say(o.Last)
		}
		require.NoError(t, s.Close())

		logged.Lock()
		defer logged.Unlock()
		require.Greater(t, log.Len(), 1000)
		var files bytes.Buffer
		paths, err := filepath.Glob(s.cfg.OutboxPath + "*")
		require.NoError(t, err)
		for _, path := range paths {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			files.Write(b)
		}
		require.Contains(t, files.String(), guest, "the frozen bytes are there")
		for _, token := range tokens {
			require.NotContains(t, files.String(), token, "outbox")
			require.NotContains(t, log.String(), token, "log")
			require.NotContains(t, said.String(), token, "errors and values")
		}
		require.NotContains(t, log.String(), guest)
		require.NotContains(t, said.String(), guest)
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestTokenIsRefreshedOnceAndNeverStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.Start(t, mockserver.InMemory())
		var mu sync.Mutex
		stale, refreshes := "a-token-that-has-expired", 0
		good := srv.Token(store)
		s := &till{t: t, srv: srv, cfg: Config{
			Connection: store, BaseURL: srv.BaseURL(), Transport: srv.Transport(),
			OutboxPath: filepath.Join(t.TempDir(), "pos.outbox"), uptime: bootClock(),
			Token: TokenFunc(func(_ context.Context, r TokenRequest) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				if r.Rejected == "" {
					return stale, nil
				}
				refreshes++
				return good, nil
			}),
		}}
		s.open()
		defer func() { require.NoError(t, s.Close()) }()
		var waits []*Pending[Order]
		for range 8 {
			p, err := s.Orders.Accept(srv.AddOrder(store, mockserver.Order{}), AcceptParams{}).Enqueue(t.Context())
			require.NoError(t, err)
			waits = append(waits, p)
		}
		for _, p := range waits {
			_, err := p.Wait(t.Context())
			require.NoError(t, err)
		}
		require.Equal(t, 1, refreshes)
		require.Len(t, srv.Effects(), 8)
		file, err := os.ReadFile(s.cfg.OutboxPath)
		require.NoError(t, err)
		require.NotContains(t, string(file), stale)
		require.NotContains(t, string(file), good)
	})
}

func TestRefusedTokenPausesAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var token atomic.Value
		token.Store("wrong")
		s := newTill(t, func(c *Config) {
			c.Token = TokenFunc(func(context.Context, TokenRequest) (string, error) { return token.Load().(string), nil })
		})
		id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		require.ErrorIs(t, err, ErrPending)
		require.True(t, s.Status().AuthRequired)
		var held *HeldError
		require.ErrorAs(t, s.Flush(t.Context()), &held)
		require.True(t, held.AuthRequired)

		token.Store(s.srv.Token(store))
		s.Wake()
		time.Sleep(time.Minute)
		require.NoError(t, s.Flush(t.Context()))
		require.False(t, s.Status().AuthRequired)
		requireOneOperation(t, s.srv, "orders.accept", 2)
	})
}
