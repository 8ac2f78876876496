package flavoso

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

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
