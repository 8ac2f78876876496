package flavoso

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const store = "store-42"

// till is a client with the mock server it talks to, in one process.
type till struct {
	t   *testing.T
	srv *mockserver.Server
	cfg Config
	*Client
}

// newTill starts a mock server and opens a client on it. Inside a synctest bubble the server is reached
// over in-memory connections, and hours pass in no time.
func newTill(t *testing.T, change func(*Config), opts ...mockserver.Option) *till {
	t.Helper()
	srv := mockserver.Start(t, append(opts, mockserver.InMemory())...)
	cfg := Config{
		Connection: store,
		Token:      StaticToken(srv.Token(store)),
		OutboxPath: filepath.Join(t.TempDir(), "pos.outbox"),
		BaseURL:    srv.BaseURL(),
		Transport:  srv.Transport(),
		uptime:     bootClock(),
	}
	if change != nil {
		change(&cfg)
	}
	till := &till{t: t, srv: srv, cfg: cfg}
	till.open()
	t.Cleanup(func() { require.NoError(t, till.Close()) })
	return till
}

// bootClock is a machine that was booted now, by the clock of the test's bubble.
func bootClock() func() (string, time.Duration) {
	start := time.Now()
	return func() (string, time.Duration) { return "a boot", time.Since(start) }
}

func (s *till) open() {
	s.t.Helper()
	c, err := Open(s.cfg)
	require.NoError(s.t, err)
	s.Client = c
}

// restart closes the client and opens a new one on the same outbox.
func (s *till) restart() {
	s.t.Helper()
	require.NoError(s.t, s.Close())
	s.open()
}

// posts returns the writes that reached the server, oldest first.
func posts(srv *mockserver.Server) []mockserver.Request {
	var out []mockserver.Request
	for _, r := range srv.Requests() {
		if r.Method == "POST" {
			out = append(out, r)
		}
	}
	return out
}

// requireOneOperation proves from the server's side that there was one effect, and that all attempts, at
// least this many, carried the same key and the same bytes.
func requireOneOperation(t *testing.T, srv *mockserver.Server, kind string, attempts int) {
	t.Helper()
	var effects []mockserver.Effect
	for _, e := range srv.Effects() {
		if e.Kind == kind {
			effects = append(effects, e)
		}
	}
	require.Len(t, effects, 1, "effects of %s", kind)
	sent := posts(srv)
	require.GreaterOrEqual(t, len(sent), attempts)
	for _, r := range sent {
		require.Equal(t, sent[0].Key, r.Key)
		require.NotEmpty(t, r.Key)
		require.Equal(t, string(sent[0].Body), string(r.Body))
		require.Equal(t, sent[0].Target, r.Target)
		require.Equal(t, sent[0].Header.Get("Content-Type"), r.Header.Get("Content-Type"))
	}
}

// TestAcceptSurvives takes one accept through what goes wrong between a till and a server. Every row ends
// with one effect, and with the same key and bytes on every attempt.
func TestAcceptSurvives(t *testing.T) {
	accept := func(f mockserver.Fault) mockserver.Fault { return f.On("POST", "/orders/{id}/accept") }
	cases := []struct {
		name     string
		faults   []mockserver.Fault
		attempts int
	}{
		{"nothing", nil, 1},
		{"the answer is dropped", []mockserver.Fault{accept(mockserver.DropResponse()).Times(1)}, 2},
		{"three answers are dropped", []mockserver.Fault{accept(mockserver.DropResponse()).Times(3)}, 4},
		{"the connection is reset before the effect", []mockserver.Fault{accept(mockserver.Reset()).Times(1)}, 2},
		{"500 before the effect", []mockserver.Fault{accept(mockserver.Status(500)).Times(2)}, 3},
		{"500 after the effect", []mockserver.Fault{accept(mockserver.StatusAfterCommit(500)).Times(1)}, 2},
		{"503", []mockserver.Fault{accept(mockserver.Status(503)).Times(1)}, 2},
		{"429", []mockserver.Fault{accept(mockserver.RateLimit(2 * time.Second)).Times(1)}, 2},
		{"408", []mockserver.Fault{accept(mockserver.Status(408)).Times(1)}, 2},
		{"the body breaks off", []mockserver.Fault{accept(mockserver.Truncate(40)).Times(1)}, 2},
		{"no answer until the timeout", []mockserver.Fault{accept(mockserver.Hang()).Times(1)}, 2},
		{"an answer later than the timeout", []mockserver.Fault{accept(mockserver.Delay(45 * time.Second)).At("in_handler").Times(1)}, 2},
		{"a proxy's 502", []mockserver.Fault{accept(mockserver.ProxyError()).Times(1)}, 2},
		{"a captive portal", []mockserver.Fault{accept(mockserver.Portal()).Times(1)}, 2},
		{"the server dies before the commit", []mockserver.Fault{accept(mockserver.CrashBeforeCommit()).Times(1)}, 2},
		{"the server dies after the commit", []mockserver.Fault{accept(mockserver.CrashAfterCommit()).Times(1)}, 2},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, nil)
				id := s.srv.AddOrder(store, mockserver.Order{})
				for _, f := range tc.faults {
					s.srv.Inject(f)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				order, err := s.Orders.Accept(id, AcceptParams{PreparationMinutes: 20}).Do(ctx)
				require.NoError(t, err)
				require.Equal(t, OrderConfirmed, order.Status)
				require.Equal(t, id, order.ID)
				requireOneOperation(t, s.srv, "orders.accept", tc.attempts)
				require.Zero(t, s.Status().Waiting)
			})
		})
	}
}

// TestDropResponseOnAWarmConnection: net/http itself would repeat the request when a kept-alive
// connection dies, behind the back of every counter.
func TestDropResponseOnAWarmConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		_, err := s.Orders.Get(t.Context(), id)
		require.NoError(t, err)
		s.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))

		call := s.Orders.Accept(id, AcceptParams{})
		_, err = call.Do(t.Context())
		require.NoError(t, err)
		all := s.srv.Requests()
		require.Equal(t, all[0].Conn, all[1].Conn, "the dropped accept used the connection of the read")
		requireOneOperation(t, s.srv, "orders.accept", 2)
		require.Len(t, posts(s.srv), 2)
		o, ok := call.Outcome()
		require.True(t, ok)
		require.Equal(t, 2, o.Attempts, "every request on the wire was a counted attempt")
	})
}

// TestInProgressIsRetried: while the first request still runs, the repeat is told so (F8) and goes on
// past the two minutes after which an aborted one frees its key (F9).
func TestInProgressIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		s.srv.Inject(mockserver.Delay(5*time.Minute).At("in_handler").On("POST", "/orders/{id}/accept").Times(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		call := s.Orders.Accept(id, AcceptParams{PreparationMinutes: 15})
		order, err := call.Do(ctx)
		require.NoError(t, err)
		require.Equal(t, OrderConfirmed, order.Status)
		requireOneOperation(t, s.srv, "orders.accept", 3)
		inProgress := 0
		for _, r := range posts(s.srv) {
			if r.Status == http.StatusConflict {
				inProgress++
			}
		}
		require.Positive(t, inProgress)
		o, _ := call.Outcome()
		require.True(t, o.Replayed)
	})
}

// TestBookingIsMadeOnce: a booking is the call that really doubles. After a 5xx Flavoso executes the repeat
// (F10), so the key alone does not help; the client looks first.
func TestBookingIsMadeOnce(t *testing.T) {
	booking := func(f mockserver.Fault) mockserver.Fault { return f.On("POST", "/bookings").Times(1) }
	cases := []struct {
		name  string
		fault mockserver.Fault
	}{
		{"the answer is dropped", booking(mockserver.DropResponse())},
		{"500 before the effect", booking(mockserver.Status(500))},
		{"500 after the effect", booking(mockserver.StatusAfterCommit(500))},
		{"the server dies after the commit", booking(mockserver.CrashAfterCommit())},
		{"the server dies before the commit", booking(mockserver.CrashBeforeCommit())},
		{"no answer until the timeout", booking(mockserver.Hang())},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, nil)
				s.srv.Inject(tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				got, err := s.Bookings.Create("2026-11-30-17", BookingParams{
					PartySize: 4, StartsAt: time.Now().Add(48 * time.Hour), Customer: BookingCustomer{Name: "Jörg Müller"},
				}).Do(ctx)
				require.NoError(t, err)
				require.Equal(t, "2026-11-30-17", got.ExternalID)
				requireOneOperation(t, s.srv, "bookings.create", 1)
			})
		})
	}
}

func TestTwoAppsBookUnderTheSameReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		at := time.Now().Add(48 * time.Hour)
		_, err := s.Bookings.Create("17", BookingParams{PartySize: 4, StartsAt: at, Customer: BookingCustomer{Name: "A"}}).Do(t.Context())
		require.NoError(t, err)

		// A reinstalled device: the same connection and reference, an empty outbox, another wish.
		cfg := s.cfg
		cfg.OutboxPath = filepath.Join(t.TempDir(), "other.outbox")
		other, err := Open(cfg)
		require.NoError(t, err)
		defer other.Close()
		_, err = other.Bookings.Create("17", BookingParams{PartySize: 2, StartsAt: at, Customer: BookingCustomer{Name: "B"}}).Do(t.Context())
		require.Equal(t, FateRefused, FateOf(err), "%v", err)
		require.ErrorIs(t, err, ErrConflict)
		var api *APIError
		require.ErrorAs(t, err, &api)
		require.Contains(t, string(api.Body), `"party_size":4`, "what is there is shown")

		// The same wish finds itself fulfilled.
		cfg.OutboxPath = filepath.Join(t.TempDir(), "third.outbox")
		third, err := Open(cfg)
		require.NoError(t, err)
		defer third.Close()
		call := third.Bookings.Create("17", BookingParams{PartySize: 4, StartsAt: at, Customer: BookingCustomer{Name: "A again"}})
		_, err = call.Do(t.Context())
		require.NoError(t, err)
		o, _ := call.Outcome()
		require.True(t, o.ByOther)
		require.Len(t, s.srv.Effects(), 1)
	})
}

// TestAcceptOfACancelledOrder: Flavoso answers 200 with the order unchanged (F13). Nobody may cook it.
func TestAcceptOfACancelledOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{Status: mockserver.StatusCancelled})
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		var unexpected *UnexpectedStateError
		require.ErrorAs(t, err, &unexpected)
		require.Equal(t, "cancelled", unexpected.Got)
		require.Equal(t, FateDone, FateOf(err))
		require.Empty(t, s.srv.Effects())
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		_, err := s.Orders.Accept("no-such-order", AcceptParams{}).Do(t.Context())
		var api *APIError
		require.ErrorAs(t, err, &api)
		require.ErrorIs(t, err, ErrNotFound)
		require.Equal(t, FateRefused, FateOf(err))
		require.Regexp(t, `^req_[0-9a-f]{24}$`, api.RequestID)

		id := s.srv.AddOrder(store, mockserver.Order{})
		_, err = s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-1"}).Do(t.Context())
		require.NoError(t, err)
		_, err = s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-1"}).Do(t.Context())
		require.NoError(t, err, "the same wish is the same operation")
		require.Len(t, s.srv.Effects(), 1)
		_, err = s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-2"}).Do(t.Context())
		require.ErrorIs(t, err, ErrKeyReused, "another content under the key of an operation that is done")
		require.Equal(t, FateNotSent, FateOf(err))
		require.Len(t, posts(s.srv), 2, "nothing went on the wire")
	})
}

// TestOfflineForThreeDays: what was provably never sent is still known to be so, and is sent on day four.
func TestOfflineForThreeDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		refuse := s.srv.Inject(mockserver.Refuse())
		var ids []string
		for range 20 {
			id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(30 * 24 * time.Hour)})
			ids = append(ids, id)
			_, err := s.Orders.Accept(id, AcceptParams{}).Enqueue(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Hour)
		}
		_, err := s.Orders.Accept(ids[0], AcceptParams{}).Do(t.Context())
		var pending *PendingError
		require.ErrorAs(t, err, &pending)
		require.Equal(t, StateQueued, pending.State)
		require.Zero(t, pending.FirstSent)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, FateUnknown, FateOf(err))

		time.Sleep(36 * time.Hour)
		s.restart()
		time.Sleep(16 * time.Hour)
		require.Equal(t, 20, s.Status().Waiting)
		require.False(t, s.Status().OfflineSince.IsZero())
		require.Empty(t, posts(s.srv))

		refuse.Remove()
		s.Wake()
		require.NoError(t, s.Flush(t.Context()))
		require.Len(t, s.srv.Effects(), 20)
		require.Len(t, posts(s.srv), 20)
	})
}

func TestLaneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/acknowledge").Times(4))
		ack, err := s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-9"}).Enqueue(t.Context())
		require.NoError(t, err)
		accept, err := s.Orders.Accept(id, AcceptParams{}).Enqueue(t.Context())
		require.NoError(t, err)
		_, err = accept.Wait(t.Context())
		require.NoError(t, err)
		_, err = ack.Wait(t.Context())
		require.NoError(t, err)
		kinds := []string{}
		for _, e := range s.srv.Effects() {
			kinds = append(kinds, e.Kind)
		}
		require.Equal(t, []string{"orders.acknowledge", "orders.accept"}, kinds)
	})
}

func TestRetryAfterPausesTheConnectionOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
		s.srv.Inject(mockserver.RateLimit(10*time.Minute).On("POST", "/orders/{id}/accept").Times(1))
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		require.ErrorIs(t, err, ErrPending)
		require.False(t, s.Status().PausedUntil.IsZero())
		var held *HeldError
		require.ErrorAs(t, s.Flush(t.Context()), &held)

		s.restart()
		time.Sleep(5 * time.Minute)
		require.Len(t, posts(s.srv), 1, "nothing is sent before Retry-After has passed")
		time.Sleep(15 * time.Minute)
		require.NoError(t, s.Flush(t.Context()))
		requireOneOperation(t, s.srv, "orders.accept", 2)
	})
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

func TestCallerWhoLeavesMakesNoNewUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		s.srv.Inject(mockserver.Delay(3*time.Second).At("in_handler").On("POST", "/orders/{id}/accept").Times(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		call := s.Orders.Accept(id, AcceptParams{})
		_, err := call.Do(ctx)
		var pending *PendingError
		require.ErrorAs(t, err, &pending)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, pending.Attempts)

		order, err := Attach[Order](s.Client, pending.OperationID).Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, OrderConfirmed, order.Status)
		require.Len(t, posts(s.srv), 1, "the attempt went on without its caller")
	})
}

func TestSameCallFromManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		call := s.Orders.Accept(id, AcceptParams{})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				c := call
				if i%2 == 1 {
					c = s.Orders.Accept(id, AcceptParams{})
				}
				_, err := c.Do(t.Context())
				require.NoError(t, err)
			})
		}
		wg.Wait()
		requireOneOperation(t, s.srv, "orders.accept", 1)
		require.Len(t, posts(s.srv), 1)
	})
}

func TestBadInputIsNeitherSavedNorSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, func(c *Config) { c.Limits = outbox.Limits{Body: 200} })
		long := strings.Repeat("x", 256)
		type anything map[string]any
		cases := []struct {
			name  string
			do    func(ctx context.Context) error
			field string
		}{
			{"empty id", doing(s.Orders.Accept("", AcceptParams{})), "order_id"},
			{"hostile id", doing(s.Orders.Accept("a/../b?x", AcceptParams{})), "order_id"},
			{"dots", doing(s.Orders.Accept("..", AcceptParams{})), "order_id"},
			{"negative minutes", doing(s.Orders.Accept("o1", AcceptParams{PreparationMinutes: -1})), "preparation_minutes"},
			{"no external id", doing(s.Orders.Acknowledge("o1", AcknowledgeParams{})), "external_id"},
			{"no party", doing(s.Bookings.Create("r1", BookingParams{StartsAt: time.Now().Add(time.Hour)})), "party_size"},
			{"no reference", doing(s.Bookings.Create("", BookingParams{PartySize: 2, StartsAt: time.Now().Add(time.Hour)})), "external_id"},
			{"key too long", doing(s.Orders.Accept("o1", AcceptParams{}).WithKey(Key(long))), "Idempotency-Key"},
			{"key not ASCII", doing(s.Orders.Accept("o1", AcceptParams{}).WithKey("schlüssel")), "Idempotency-Key"},
			{"empty key", doing(s.Orders.Accept("o1", AcceptParams{}).WithKey("")), "Idempotency-Key"},
			{"body that does not encode", doing(NewCall[anything](s.Client, "POST", "/x", func() {})), "body"},
			{"body over the limit", doing(NewCall[anything](s.Client, "POST", "/x", long)), "body"},
			{"path without a slash", doing(NewCall[anything](s.Client, "POST", "x", nil)), "path"},
			{"path with a space", doing(NewCall[anything](s.Client, "POST", "/x y", nil)), "path"},
			{"method that reads", doing(NewCall[anything](s.Client, "GET", "/x", nil)), "method"},
			{"key on a PUT", doing(NewCall[anything](s.Client, "PUT", "/x", nil).WithKey("k")), "Idempotency-Key"},
			{"supersede on a POST", doing(s.Orders.Accept("o1", AcceptParams{}).WithSupersede()), "supersede"},
			{"expiry in the past", doing(s.Orders.Accept("o1", AcceptParams{}).WithExpiry(-time.Second)), "expiry"},
			{"no lane", doing(s.Orders.Accept("o1", AcceptParams{}).WithLane("")), "lane"},
			{"a lane that JSON cannot name", doing(s.Orders.Accept("o1", AcceptParams{}).WithLane("a\xff")), "lane"},
			{"a tag that JSON cannot name", doing(s.Orders.Accept("o1", AcceptParams{}).WithTag("a\xff")), "tag"},
			{"a path that is resolved on the way", doing(NewCall[anything](s.Client, "POST", "/orders/../store", nil)), "path"},
			{"the same at its end", doing(NewCall[anything](s.Client, "PUT", "/orders/.", nil)), "path"},
			{"the same above the base", doing(NewCall[anything](s.Client, "PUT", "/..?x=1", nil)), "path"},
		}
		for _, tc := range cases {
			err := tc.do(t.Context())
			var param *ParamError
			require.ErrorAs(t, err, &param, tc.name)
			require.Contains(t, param.Field, tc.field, tc.name)
			require.Equal(t, FateNotSent, FateOf(err), tc.name)
			require.ErrorIs(t, err, ErrNotSaved, tc.name)
		}
		counts, err := s.engine.Counts(t.Context(), "")
		require.NoError(t, err)
		require.Zero(t, counts.LastSeq)
		require.Empty(t, s.srv.Requests())

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Orders.Accept("o1", AcceptParams{}).Do(ctx)
		require.ErrorIs(t, err, ErrNotSaved)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, FateNotSent, FateOf(err))
		_, err = s.Orders.Get(ctx, "o1")
		var read *ReadError
		require.ErrorAs(t, err, &read)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, read.Attempts, "%v", err)
		_, err = Get[anything](t.Context(), s.Client, "/orders/..", nil)
		require.ErrorAs(t, err, new(*ParamError))
		require.Empty(t, s.srv.Requests())
	})
}

func doing[T any](c *Call[T]) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.Do(ctx)
		return err
	}
}

func TestOpenSaysWhatToSet(t *testing.T) {
	good := func() Config {
		return Config{Connection: store, Token: StaticToken("t"), OutboxPath: filepath.Join(t.TempDir(), "pos.outbox")}
	}
	cases := []struct {
		name   string
		change func(*Config)
		field  string
	}{
		{"no connection", func(c *Config) { c.Connection = "" }, "Config.Connection"},
		{"a connection that JSON cannot name", func(c *Config) { c.Connection = "a\xff" }, "Config.Connection"},
		{"control characters", func(c *Config) { c.Connection = "a\x7f" }, "Config.Connection"},
		{"no token", func(c *Config) { c.Token = nil }, "Config.Token"},
		{"no token function", func(c *Config) { c.Token = TokenFunc(nil) }, "Config.Token"},
		{"no outbox", func(c *Config) { c.OutboxPath = "" }, "Config.OutboxPath"},
		{"two outboxes", func(c *Config) { c.Outbox = outbox.NewMemory() }, "Config.OutboxPath"},
		{"plain http", func(c *Config) { c.BaseURL = "http://api.flavoso.com/v1" }, "Config.BaseURL"},
		{"looks like loopback", func(c *Config) { c.BaseURL = "http://127.0.0.1.example.com/v1" }, "Config.BaseURL"},
		{"a port and no host", func(c *Config) { c.BaseURL = "https://:443/v1" }, "Config.BaseURL"},
		{"no scheme", func(c *Config) { c.BaseURL = "api.flavoso.com" }, "Config.BaseURL"},
		{"credentials in the URL", func(c *Config) { c.BaseURL = "https://me:secret@api.flavoso.com/v1" }, "Config.BaseURL"},
		{"a query", func(c *Config) { c.BaseURL = "https://api.flavoso.com/v1?x=1" }, "Config.BaseURL"},
		{"negative concurrency", func(c *Config) { c.Concurrency = -1 }, "Config.Concurrency"},
		{"negative timeout", func(c *Config) { c.AttemptTimeout = -1 }, "Config.AttemptTimeout"},
		{"a timeout longer than the key lives", func(c *Config) { c.AttemptTimeout = 24 * time.Hour }, "Config.AttemptTimeout"},
		{"negative limit", func(c *Config) { c.Limits.Body = -1 }, "Config.Limits"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			cfg := good()
			tc.change(&cfg)
			c, err := Open(cfg)
			require.Nil(t, c)
			var param *ParamError
			require.ErrorAs(t, err, &param)
			require.Equal(t, tc.field, param.Field)
			require.NotContains(t, err.Error(), "secret")
		})
	}
	for _, base := range []string{"", "https://example.com", "http://localhost:4010/v1", "http://127.0.0.9:1", "http://[::1]:4010"} {
		cfg := good()
		cfg.BaseURL = base
		c, err := Open(cfg)
		require.NoError(t, err, base)
		require.NoError(t, c.Close())
	}
}

func TestClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		s.srv.Inject(mockserver.Hang().On("POST", "/orders/{id}/accept").Times(1))
		done := make(chan error, 1)
		go func() {
			_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
			done <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "closing twice is the same as once")
		err := <-done
		require.ErrorIs(t, err, ErrPending)
		require.ErrorIs(t, err, ErrStopped)
		require.Equal(t, FateUnknown, FateOf(err))

		_, err = s.Orders.Accept("another", AcceptParams{}).Do(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, FateNotSent, FateOf(err))
		_, err = s.Orders.Get(t.Context(), id)
		require.ErrorIs(t, err, ErrClosed)
		require.True(t, s.Status().Unread, "not that nothing waits")

		s.open()
		require.False(t, s.Status().Unread)
		require.Equal(t, 1, s.Status().Waiting)
		require.NoError(t, s.Flush(t.Context()))
		requireOneOperation(t, s.srv, "orders.accept", 2)
	})
}

func TestShutdownLetsRequestsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		s.srv.Inject(mockserver.Delay(2*time.Second).On("POST", "/orders/{id}/accept").Times(1))
		p, err := s.Orders.Accept(id, AcceptParams{}).Enqueue(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Shutdown(t.Context()))
		require.Len(t, posts(s.srv), 1)

		s.open()
		order, err := Attach[Order](s.Client, p.ID()).Wait(t.Context())
		require.NoError(t, err, "its outcome was saved before the shutdown ended")
		require.Equal(t, OrderConfirmed, order.Status)
		require.Len(t, posts(s.srv), 1)
	})
}

func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		want := map[string]bool{}
		for range 7 {
			want[s.srv.AddOrder(store, mockserver.Order{})] = true
		}
		s.srv.Inject(mockserver.Status(503).On("GET", "/orders").Times(2))
		var resp Response
		page, err := s.Orders.ListPage(t.Context(), ListOrdersParams{Status: []OrderStatus{OrderPending}, PageSize: 3}, "", ResponseInto(&resp))
		require.NoError(t, err)
		require.Len(t, page.Orders, 3)
		require.Equal(t, 3, resp.Attempts)
		require.Regexp(t, `^req_[0-9a-f]{24}$`, resp.RequestID)

		got := map[string]bool{}
		for o, err := range s.Orders.List(t.Context(), ListOrdersParams{PageSize: 3}) {
			require.NoError(t, err)
			got[o.ID] = true
		}
		require.Equal(t, want, got)

		_, err = s.Orders.Get(t.Context(), "nope")
		require.ErrorIs(t, err, ErrNotFound)

		s.srv.Inject(mockserver.Status(503).On("GET", "/orders/{id}"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for id := range want {
			_, err = s.Orders.Get(ctx, id)
			break
		}
		var read *ReadError
		require.ErrorAs(t, err, &read)
		require.Positive(t, read.Attempts)
		require.Equal(t, 503, read.Last.Status)
	})
}

func TestNewCallTakesAnyEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		s.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
		call := NewCall[Order](s.Client, "POST", Path("orders", id, "accept"), map[string]int{"preparation_minutes": 25})
		require.NotEmpty(t, call.Key())
		order, err := call.Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, OrderConfirmed, order.Status)
		requireOneOperation(t, s.srv, "orders.accept", 2)
	})
}

// --- processes -------------------------------------------------------------------------------------

// buildTill builds the test till, with build tags.
func buildTill(t *testing.T, tags string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "till")
	out, err := exec.Command("go", "build", "-tags", tags, "-o", path, "./internal/testtill").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// process is a running test till.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startProcess(t *testing.T, binary string, srv *mockserver.Server, outboxPath string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"-base-url", srv.BaseURL(), "-token", srv.Token(store),
		"-connection", store, "-outbox", outboxPath}, args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	p := &process{t: t, cmd: cmd, lines: bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	return p
}

// expect waits for a line that begins with want.
func (p *process) expect(want string) string {
	p.t.Helper()
	for p.lines.Scan() {
		if line := p.lines.Text(); strings.HasPrefix(line, want) {
			return line
		} else if strings.HasPrefix(line, "error") {
			p.t.Fatalf("till: %s", line)
		}
	}
	p.t.Fatalf("the till ended before it said %q", want)
	return ""
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		_ = p.cmd.Wait()         // the kill is its error
	}
}

// TestKilledTill: a real process, a real file, a real SIGKILL while the answer is outstanding.
func TestKilledTill(t *testing.T) {
	binary := buildTill(t, "")
	srv := mockserver.Start(t)
	path := filepath.Join(t.TempDir(), "pos.outbox")
	id := srv.AddOrder(store, mockserver.Order{})
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))

	first := startProcess(t, binary, srv, path, "-patient", "-accept", id)
	require.Eventually(t, func() bool { return len(srv.Effects()) == 1 }, 30*time.Second, 5*time.Millisecond)
	first.kill()

	second := startProcess(t, binary, srv, path, "-flush", "-accept", id)
	require.Equal(t, "accepted confirmed", second.expect("accepted"))
	requireOneOperation(t, srv, "orders.accept", 2)
}

// TestRestartWithAnotherEncoder: the bytes are frozen with the operation. An update whose encoder orders
// fields differently must not change what goes on the wire under the old key (F7).
func TestRestartWithAnotherEncoder(t *testing.T) {
	srv := mockserver.Start(t)
	path := filepath.Join(t.TempDir(), "pos.outbox")
	starts := time.Now().Add(72 * time.Hour).UTC().Format(time.RFC3339)
	srv.Inject(mockserver.DropResponse().On("POST", "/bookings").Times(1))
	book := []string{"-book", "2026-11-30-17", "-starts", starts}

	first := startProcess(t, buildTill(t, ""), srv, path, append([]string{"-patient"}, book...)...)
	require.Eventually(t, func() bool { return len(srv.Effects()) == 1 }, 30*time.Second, 5*time.Millisecond)
	first.kill()

	updated := buildTill(t, "encoder2")
	second := startProcess(t, updated, srv, path, append([]string{"-flush"}, book...)...)
	second.expect("booked")
	second.kill()
	requireOneOperation(t, srv, "bookings.create", 1)

	// That the updated till really encodes otherwise shows in a booking of its own.
	third := startProcess(t, updated, srv, path, "-book", "2026-11-30-18", "-starts", starts)
	third.expect("booked")
	sent := posts(srv)
	old, other := string(sent[0].Body), string(sent[len(sent)-1].Body)
	require.NotEqual(t, strings.Index(old, `"party_size"`), strings.Index(other, `"party_size"`))
}

// TestManyOperationsSurviveAKill: a backlog enqueued while nothing can be sent, and a kill in the middle.
func TestManyOperationsSurviveAKill(t *testing.T) {
	binary := buildTill(t, "")
	srv := mockserver.Start(t)
	path := filepath.Join(t.TempDir(), "pos.outbox")
	var ids []string
	for range 20 {
		ids = append(ids, srv.AddOrder(store, mockserver.Order{}))
	}
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Ratio(0.3).Optional())

	first := startProcess(t, binary, srv, path, "-patient", "-enqueue", strings.Join(ids, ","), "-hold")
	first.expect("enqueued")
	first.kill()

	second := startProcess(t, binary, srv, path, "-flush")
	second.expect("flushed")
	accepts := map[string]int{}
	for _, e := range srv.Effects() {
		accepts[e.Resource]++
	}
	for _, id := range ids {
		require.Equal(t, 1, accepts[id], id)
	}
}

func TestSecondProcessIsToldWhoHoldsTheOutbox(t *testing.T) {
	srv := mockserver.Start(t)
	path := filepath.Join(t.TempDir(), "pos.outbox")
	holder := startProcess(t, buildTill(t, ""), srv, path, "-hold")
	holder.expect("open")

	began := time.Now()
	_, err := Open(Config{Connection: store, Token: StaticToken("t"), OutboxPath: path, BaseURL: srv.BaseURL()})
	require.ErrorIs(t, err, ErrOutboxLocked)
	var locked *outbox.LockedError
	require.True(t, errors.As(err, &locked))
	require.Equal(t, holder.cmd.Process.Pid, locked.PID)
	require.Contains(t, err.Error(), fmt.Sprint(locked.PID))
	require.Less(t, time.Since(began), 10*time.Second, "it does not wait for the holder to end")
	require.ErrorIs(t, err, ErrNotSaved)
}

func TestAnOutboxThatDoesNotOpenSavesNothing(t *testing.T) {
	cfg := Config{Connection: store, Token: StaticToken("t"), OutboxPath: filepath.Join(t.TempDir(), "pos.outbox"), BaseURL: "http://localhost:1"}
	require.NoError(t, os.WriteFile(cfg.OutboxPath, make([]byte, 1<<15), 0o600))
	c, err := Open(cfg)
	require.Nil(t, c)
	require.ErrorIs(t, err, ErrOutboxDamaged)
	require.ErrorIs(t, err, ErrNotSaved)
	require.Equal(t, FateNotSent, FateOf(err))
}
