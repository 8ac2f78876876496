package flavoso

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// forHours is a context that leaves time for long outages.
func forHours(t *testing.T, n int) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// patient makes an order that nobody cancels while the test lets days pass.
func patient() mockserver.Order {
	return mockserver.Order{AcceptBy: time.Now().Add(90 * 24 * time.Hour)}
}

// record returns an operation as it is kept.
func (s *till) record(id string) outbox.Record {
	s.t.Helper()
	rec, err := s.engine.Get(context.Background(), id)
	require.NoError(s.t, err)
	return rec
}

func enqueue[T any](t *testing.T, c *Call[T]) *Pending[T] {
	t.Helper()
	p, err := c.Enqueue(t.Context())
	require.NoError(t, err)
	return p
}

// TestOfflineMarksNothing: three days without a network leave no mark, whatever was tried meanwhile; on
// day four everything is sent once, and what needs no look-back is not looked up.
func TestOfflineMarksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		refuse := s.srv.Inject(mockserver.Refuse())
		var ids []string
		for i := range 10 {
			ids = append(ids, enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{})).ID())
			ids = append(ids, enqueue(t, plainPost(s)).ID())
			ids = append(ids, enqueue(t, s.Bookings.Create(string(rune('a'+i)), booking(4))).ID())
			time.Sleep(7 * time.Hour)
			if i == 4 {
				s.restart()
			}
			if i%2 == 0 {
				s.Wake()
				synctest.Wait()
			}
		}
		for _, id := range ids {
			rec := s.record(id)
			require.Equal(t, outbox.Queued, rec.State)
			require.Nil(t, rec.Exposure)
			require.True(t, rec.NeverSent())
		}
		require.Empty(t, s.srv.Requests())

		refuse.Remove()
		s.Wake()
		require.NoError(t, s.Flush(forHours(t, 1)))
		require.Len(t, posts(s.srv), len(ids))
		for _, r := range s.srv.Requests() {
			require.True(t, r.Method == "POST" || r.Path == "/store", "%s %s: nothing was sent before, so there is nothing to look up", r.Method, r.Path)
		}
	})
}

// plainPost is a call that nothing can be looked up for.
func plainPost(s *till) *Call[Order] {
	return NewCall[Order](s.Client, "POST", Path("orders", s.srv.AddOrder(store, patient()), "accept"), nil)
}

func booking(party int) BookingParams {
	return BookingParams{PartySize: party, StartsAt: time.Date(2100, 1, 2, 19, 0, 0, 0, time.UTC), Customer: BookingCustomer{Name: "Jörg Müller"}}
}

// TestMarkIsRemovedOnlyByProof: GotConn is the only proof. A dial that fails leaves the operation unsent; a
// connection that dies, however early, and any failure of a transport that is not ours leave it sent.
func TestMarkIsRemovedOnlyByProof(t *testing.T) {
	cases := []struct {
		name  string
		wrap  func(*http.Transport) http.RoundTripper
		fault mockserver.Fault
		sent  bool
	}{
		{name: "the dial is refused", fault: mockserver.Refuse()},
		{name: "the connection dies", fault: mockserver.Reset().On("POST", ""), sent: true},
		{name: "no answer comes", fault: mockserver.Hang().On("POST", ""), sent: true},
		{name: "the dial is refused under a custom transport", fault: mockserver.Refuse(),
			wrap: func(tr *http.Transport) http.RoundTripper { return roundTripper(tr.RoundTrip) }, sent: true},
		{name: "a custom transport invents the error of a dial", fault: mockserver.Refuse().Optional(),
			wrap: func(*http.Transport) http.RoundTripper {
				return roundTripper(func(*http.Request) (*http.Response, error) {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
				})
			}, sent: true},
		{name: "our transport's dial returns what looks like a read error", fault: mockserver.Refuse().Optional(),
			wrap: func(tr *http.Transport) http.RoundTripper {
				tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
				}
				return tr
			}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, func(c *Config) {
					if tc.wrap != nil {
						c.Transport = tc.wrap(c.Transport.(*http.Transport))
					}
				})
				s.srv.Inject(tc.fault)
				p := enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}))
				time.Sleep(2 * time.Minute)
				rec := s.record(p.ID())
				require.Equal(t, !tc.sent, rec.NeverSent())
				require.Equal(t, tc.sent, rec.State == outbox.Sent)
				o, err := s.Operations.Get(t.Context(), p.ID())
				require.NoError(t, err)
				require.Equal(t, !tc.sent, o.FirstSent.IsZero())
				err = s.Operations.Cancel(t.Context(), p.ID())
				if tc.sent {
					require.Error(t, err, "what may have been sent cannot be called off")
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestMarkOfACrashedClaimStays: a later claim that provably reached nobody removes its own mark, never the
// one it found.
func TestMarkOfACrashedClaimStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		s.srv.Inject(mockserver.Hang().On("POST", "/bookings").Times(1))
		p := enqueue(t, s.Bookings.Create("17", booking(4)))
		time.Sleep(time.Second)
		before := s.record(p.ID())
		require.True(t, before.Claimed())
		require.NoError(t, s.Close()) // the claim is broken off with its request on the wire

		refuse := s.srv.Inject(mockserver.Refuse())
		s.open()
		time.Sleep(time.Hour)
		after := s.record(p.ID())
		require.Equal(t, outbox.Sent, after.State)
		require.Equal(t, before.Exposure.Claim, after.Exposure.Claim)
		require.True(t, before.Exposure.At.Equal(after.Exposure.At))

		refuse.Remove()
		_, err := p2(s, p).Wait(forHours(t, 1))
		require.NoError(t, err)
		var looked bool
		for _, r := range s.srv.Requests() {
			looked = looked || r.Method == "GET" && r.Path == "/bookings"
		}
		require.True(t, looked, "it may have been sent, so it is looked for first")
		require.Len(t, s.srv.Effects(), 1)
	})
}

// p2 takes up a pending operation with a client that was opened later.
func p2[T any](s *till, p *Pending[T]) *Pending[T] { return Attach[T](s.Client, p.ID()) }

// TestOneClaimOneRequest: warm connections that die under a request make net/http repeat it silently, if
// they are let. Every request that reached the server is an attempt that was counted.
func TestOneClaimOneRequest(t *testing.T) {
	calls := []struct {
		name string
		path string
		make func(s *till) *Call[Order]
	}{
		{"accept", "/orders/{id}/accept", func(s *till) *Call[Order] {
			return s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{PreparationMinutes: 20})
		}},
		{"a POST without a body", "/orders/{id}/accept", func(s *till) *Call[Order] {
			return NewCall[Order](s.Client, "POST", Path("orders", s.srv.AddOrder(store, patient()), "accept"), nil)
		}},
		{"a PATCH", "/orders/{id}", func(s *till) *Call[Order] {
			return NewCall[Order](s.Client, "PATCH", Path("orders", s.srv.AddOrder(store, patient())), map[string]any{"estimated_ready_at": "2100-01-01T12:00:00Z"})
		}},
		{"a DELETE without a body", "/nowhere", func(s *till) *Call[Order] {
			return NewCall[Order](s.Client, "DELETE", "/nowhere", nil)
		}},
	}
	faults := []struct {
		name  string
		fault mockserver.Fault
	}{
		{"reset", mockserver.Reset()}, {"dropped answer", mockserver.DropResponse()},
		{"late", mockserver.Late(3 * time.Second)},
	}
	for _, call := range calls {
		for _, f := range faults {
			t.Run(call.name+", "+f.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newTill(t, inMemory)
					for range 4 { // warm connections
						_, err := Get[map[string]any](t.Context(), s.Client, "/store", nil)
						require.NoError(t, err)
					}
					c := call.make(s)
					s.srv.Inject(f.fault.On(c.record.Request.Method, call.path).Times(3))
					_, _ = c.Do(forHours(t, 10))
					o, ok := c.Outcome()
					require.True(t, ok)
					time.Sleep(time.Minute)
					wire := 0
					for _, r := range s.srv.Requests() {
						if r.Method != "GET" {
							wire++
						}
					}
					require.GreaterOrEqual(t, wire, 4)
					require.Equal(t, wire, o.Attempts)
				})
			})
		}
	}
}

// TestSleepBetweenClaimAndFirstByte: a machine that slept in between must not send what was right to send
// when it was claimed.
func TestSleepBetweenClaimAndFirstByte(t *testing.T) {
	t.Run("in the token source", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asleep atomic.Int32
			s := newTill(t, func(c *Config) {
				token := c.Token
				c.Token = TokenFunc(func(ctx context.Context, r TokenRequest) (string, error) {
					if asleep.Add(-1) == 0 {
						time.Sleep(25 * time.Hour)
					}
					return token.Token(ctx, r)
				})
			})
			s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
			asleep.Store(2) // the second time the source is asked: before the repeat
			call := plainPost(s)
			_, err := call.Do(forHours(t, 40))
			require.ErrorIs(t, err, ErrUncertain)
			require.Len(t, posts(s.srv), 1, "the repeat was not sent a day later")
		})
	})
	t.Run("in the token source, on the first attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int32
			s := newTill(t, func(c *Config) {
				token := c.Token
				c.Token = TokenFunc(func(ctx context.Context, r TokenRequest) (string, error) {
					if asked.Add(1) == 1 {
						time.Sleep(25 * time.Hour)
					}
					return token.Token(ctx, r)
				})
			})
			id := s.srv.AddOrder(store, patient())
			p := enqueue(t, s.Orders.Accept(id, AcceptParams{}))
			time.Sleep(24 * time.Hour)
			require.Empty(t, s.srv.Requests())
			_, err := p.Wait(forHours(t, 10))
			require.NoError(t, err)
			rec := s.record(p.ID())
			require.Equal(t, 2, rec.Attempts)
			require.WithinDuration(t, time.Now(), rec.Exposure.At, time.Minute, "the window began with the claim that was sent")
		})
	})
	// The dial is the last place: the monotonic clock that timeouts run on stands still while a machine
	// sleeps, so that only the wall clock tells.
	t.Run("in the dial", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			clock := newWallClock(time.Now())
			var dials atomic.Int32
			s := newTill(t, func(c *Config) {
				c.now, c.uptime = clock.now, clock.uptime
				tr := c.Transport.(*http.Transport)
				dial := tr.DialContext
				tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if dials.Add(1) == 2 {
						clock.sleep(25 * time.Hour)
					}
					return dial(ctx, network, addr)
				}
			})
			s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
			call := plainPost(s)
			_, err := call.Do(forHours(t, 1))
			require.ErrorIs(t, err, ErrUncertain)
			require.Len(t, posts(s.srv), 1, "the repeat was not sent a day later")
		})
	})
}

// TestWindowEnd: what happens to an operation that may have been sent when Flavoso may have forgotten its
// key (F5). Each is sent once, its answer is dropped, and the next chance comes 23 h 50 min later.
func TestWindowEnd(t *testing.T) {
	type want struct {
		state  State
		posts  int // requests of the write in all
		err    error
		reads  bool
		reason string
	}
	post := func(s *till) *Call[json.RawMessage] { return rawCall(plainPost(s)) }
	decide := func(r Resolution) func(context.Context, *Client, Operation) (Resolution, error) {
		return func(context.Context, *Client, Operation) (Resolution, error) { return r, nil }
	}
	var mu sync.Mutex
	asked := 0
	reluctant := func(how func()) func(context.Context, *Client, Operation) (Resolution, error) {
		return func(context.Context, *Client, Operation) (Resolution, error) {
			mu.Lock()
			defer mu.Unlock()
			if asked++; asked <= 3 {
				how()
				return Resolution{}, errors.New("the database is down")
			}
			return Resolution{Decision: Done, Body: json.RawMessage(`{"found":true}`)}, nil
		}
	}
	cases := []struct {
		name      string
		reconcile func(context.Context, *Client, Operation) (Resolution, error)
		call      func(s *till) *Call[json.RawMessage]
		fault     mockserver.Fault
		want      want
	}{
		{name: "booking, made", fault: mockserver.DropResponse(),
			call: func(s *till) *Call[json.RawMessage] { return rawCall(s.Bookings.Create("17", booking(4))) },
			want: want{state: StateSucceeded, posts: 1, reads: true, reason: "read_back"}},
		{name: "booking, not made", fault: mockserver.Reset(),
			call: func(s *till) *Call[json.RawMessage] { return rawCall(s.Bookings.Create("17", booking(4))) },
			want: want{state: StateSucceeded, posts: 2, reads: true}},
		{name: "order transition, made", fault: mockserver.DropResponse(),
			call: func(s *till) *Call[json.RawMessage] {
				return rawCall(s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}))
			},
			want: want{state: StateSucceeded, posts: 1, reads: true, reason: "read_back"}},
		{name: "order transition, not made", fault: mockserver.Reset(),
			call: func(s *till) *Call[json.RawMessage] {
				return rawCall(s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}))
			},
			want: want{state: StateSucceeded, posts: 2, reads: true}},
		{name: "acknowledge, made", fault: mockserver.DropResponse(),
			call: func(s *till) *Call[json.RawMessage] {
				return rawCall(s.Orders.Acknowledge(s.srv.AddOrder(store, patient()), AcknowledgeParams{ExternalID: "T-1"}))
			},
			want: want{state: StateSucceeded, posts: 1, reads: true, reason: "read_back"}},
		{name: "PATCH", fault: mockserver.DropResponse(),
			call: func(s *till) *Call[json.RawMessage] {
				return NewCall[json.RawMessage](s.Client, "PATCH", "/store", map[string]any{"default_preparation_minutes": 25})
			},
			want: want{state: StateSucceeded, posts: 2}},
		{name: "PUT", fault: mockserver.DropResponse(),
			call: func(s *till) *Call[json.RawMessage] {
				return NewCall[json.RawMessage](s.Client, "PUT", "/store/hours", map[string]any{"timezone": "Europe/Berlin", "weekly": []any{}})
			},
			want: want{state: StateSucceeded, posts: 2}},
		{name: "POST", fault: mockserver.DropResponse(), call: post,
			want: want{state: StateUncertain, posts: 1, err: ErrUncertain, reason: "window_passed"}},
		{name: "POST known to be repeat-safe", fault: mockserver.DropResponse(),
			call: func(s *till) *Call[json.RawMessage] { return post(s).WithRepeatSafe() },
			want: want{state: StateSucceeded, posts: 2}},
		{name: "POST, the application knows it was done", fault: mockserver.DropResponse(), call: post,
			reconcile: decide(Resolution{Decision: Done, Body: json.RawMessage(`{"found":true}`), Note: "seen on the list"}),
			want:      want{state: StateSucceeded, posts: 1, reason: "read_back"}},
		{name: "POST, the application knows it was not done", fault: mockserver.DropResponse(), call: post,
			reconcile: decide(Resolution{Decision: SendAgain}), want: want{state: StateSucceeded, posts: 2}},
		{name: "POST, the application gives it up", fault: mockserver.DropResponse(), call: post,
			reconcile: decide(Resolution{Decision: Abandon, Note: "too late"}),
			want:      want{state: StateAbandoned, posts: 1, err: ErrUnknown, reason: "given_up"}},
		{name: "POST, the application cannot tell at first", fault: mockserver.DropResponse(), call: post,
			reconcile: reluctant(func() {}), want: want{state: StateSucceeded, posts: 1, reason: "read_back"}},
		{name: "POST, the application panics at first", fault: mockserver.DropResponse(), call: post,
			reconcile: reluctant(func() { panic("nil map") }), want: want{state: StateSucceeded, posts: 1, reason: "read_back"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			asked = 0
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, func(c *Config) {
					inMemory(c)
					c.Reconcile = tc.reconcile
				})
				call := tc.call(s)
				s.srv.Inject(tc.fault.On(call.record.Request.Method, "").Times(1))
				p, err := call.Enqueue(t.Context())
				require.NoError(t, err)
				for len(s.srv.Requests()) == 0 { // Close before the repeat
					time.Sleep(time.Millisecond)
				}
				require.NoError(t, s.Close())
				first := len(s.srv.Requests())
				require.Equal(t, 1, first)

				time.Sleep(23*time.Hour + 50*time.Minute)
				s.open()
				_, err = p2(s, p).Wait(forHours(t, 1))
				if tc.want.err == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, tc.want.err)
				}
				o, err := s.Operations.Get(t.Context(), p.ID())
				require.NoError(t, err)
				require.Equal(t, tc.want.state, o.State)
				require.Equal(t, tc.want.reason, o.Reason)
				writes, reads := 0, 0
				for _, r := range s.srv.Requests() {
					if r.Method != "GET" {
						writes++
					} else if r.Path != "/store" {
						reads++
					}
				}
				require.Equal(t, tc.want.posts, writes)
				require.Equal(t, tc.want.reads, reads > 0)
				if tc.reconcile != nil {
					require.Zero(t, reads)
				}
			})
		})
	}
}

// rawCall is the same call with its answer as it came.
func rawCall[T any](c *Call[T]) *Call[json.RawMessage] {
	return &Call[json.RawMessage]{client: c.client, err: c.err, record: c.record, after: c.after}
}

// TestWithinTheWindowNothingIsGivenUp: an hour before Flavoso forgets, the key still protects the repeat.
func TestWithinTheWindowNothingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
		call := NewCall[Order](s.Client, "POST", Path("orders", s.srv.AddOrder(store, patient()), "accept"), nil)
		p := enqueue(t, call)
		for len(s.srv.Requests()) == 0 {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, s.Close())
		time.Sleep(23 * time.Hour)
		s.open()
		order, err := p2(s, p).Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, OrderConfirmed, order.Status)
		requireOneOperation(t, s.srv, "orders.accept", 2)
		require.True(t, posts(s.srv)[1].Replayed)
	})
}

// TestReconcileIsLeftToItself: the application's function may close the client, block, or end its goroutine.
func TestReconcileIsLeftToItself(t *testing.T) {
	var stuck atomic.Int32
	for _, tc := range []struct {
		name string
		do   func(ctx context.Context, c *Client)
	}{
		{"it closes the client", func(_ context.Context, c *Client) { c.Close() }},
		{"it does not come back", func(_ context.Context, c *Client) {
			if stuck.Add(1) > 1 {
				panic("asked again before it came back")
			}
			<-c.ctx.Done()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, func(c *Config) {
					c.Reconcile = func(ctx context.Context, c *Client, _ Operation) (Resolution, error) {
						tc.do(ctx, c)
						return Resolution{}, nil
					}
				})
				s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
				p := enqueue(t, plainPost(s))
				time.Sleep(time.Hour)
				require.LessOrEqual(t, stuck.Load(), int32(1))
				require.NoError(t, s.Close())
				s.cfg.Reconcile = nil
				s.open()
				_, err := p2(s, p).Wait(forHours(t, 1))
				require.NoError(t, err)
			})
		})
	}
}

// TestReconcileIsNotAskedWhatIsKnown: an answer that says it is done needs no decision.
func TestReconcileIsNotAskedWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := newTill(t, func(c *Config) {
			c.Reconcile = func(context.Context, *Client, Operation) (Resolution, error) {
				asked++
				return Resolution{Decision: SendAgain}, nil
			}
		})
		s.srv.Inject(mockserver.Status(503).On("POST", "").Times(1))
		call := plainPost(s)
		_, err := call.Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, asked, "before the repeat, and not after its success")
		o, _ := call.Outcome()
		require.False(t, o.Stale)

		s.srv.Inject(mockserver.Truncate(3).On("POST", "").Times(1))
		_, err = plainPost(s).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, asked, "a success whose body broke off is known to be done")
	})
}
