package flavoso

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestResultIsWhatDoReturned compares, for every state an operation can end in, what Do and Wait returned
// with what Result makes of the outcome, in this process and after a restart.
func TestResultIsWhatDoReturned(t *testing.T) {
	accept := func(f mockserver.Fault) mockserver.Fault { return f.On("POST", "/orders/{id}/accept") }
	cases := []struct {
		name  string
		state State
		make  func(t *testing.T, s *till) (*Call[Order], func(id string))
	}{
		{"succeeded", StateSucceeded, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			return s.Orders.Accept(s.srv.AddOrder(store, mockserver.Order{}), AcceptParams{}), nil
		}},
		{"succeeded, not as wished", StateSucceeded, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			return s.Orders.Accept(s.srv.AddOrder(store, mockserver.Order{Status: mockserver.StatusCancelled}), AcceptParams{}), nil
		}},
		{"succeeded, unreadable", StateSucceeded, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			id := s.srv.AddOrder(store, mockserver.Order{})
			return NewCall[Order](s.Client, "POST", Path("orders", id, "accept")+"?x=1", nil).WithLane("odd"), nil
		}},
		{"rejected", StateRejected, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			return s.Orders.Accept("missing", AcceptParams{}), nil
		}},
		{"rejected, validation", StateRejected, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			return NewCall[Order](s.Client, "POST", Path("orders", s.srv.AddOrder(store, mockserver.Order{}), "accept"), map[string]any{"preparation_minutes": -1}), nil
		}},
		{"expired", StateExpired, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			s.srv.Inject(mockserver.Refuse())
			return s.Orders.Accept("o", AcceptParams{}).WithExpiry(5 * time.Second), nil
		}},
		{"canceled", StateCanceled, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			s.srv.Inject(mockserver.Refuse())
			return s.Orders.Accept("o", AcceptParams{}), func(id string) { require.NoError(t, s.Operations.Cancel(t.Context(), id)) }
		}},
		{"abandoned, never sent", StateAbandoned, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			s.srv.Inject(mockserver.Refuse())
			return s.Orders.Accept("o", AcceptParams{}), func(id string) {
				require.NoError(t, s.Operations.Resolve(t.Context(), id, Resolution{Decision: Abandon, Note: "n"}))
			}
		}},
		{"abandoned, maybe sent", StateAbandoned, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			s.srv.Inject(accept(mockserver.Status(503)))
			return s.Orders.Accept("o", AcceptParams{}), func(id string) {
				require.NoError(t, s.Operations.Resolve(t.Context(), id, Resolution{Decision: Abandon}))
			}
		}},
		{"resolved as done", StateSucceeded, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			s.srv.Inject(mockserver.Refuse())
			return s.Orders.Accept("o", AcceptParams{}), func(id string) {
				require.NoError(t, s.Operations.Resolve(t.Context(), id, Resolution{Decision: Done, Body: []byte(`{"id":"o","status":"confirmed"}`)}))
			}
		}},
		{"uncertain", StateUncertain, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept"))
			return NewCall[Order](s.Client, "POST", Path("orders", "o", "accept"), nil), nil
		}},
		{"blocked", StateBlocked, func(t *testing.T, s *till) (*Call[Order], func(string)) {
			s.srv.Inject(mockserver.Delay(time.Second).On("POST", "/orders/{id}/accept").Times(1)) // until the next one is saved
			_, err := s.Orders.Accept("missing", AcceptParams{}).WithLane("l").StopLaneOnReject().Enqueue(t.Context())
			require.NoError(t, err)
			return s.Orders.Accept("o", AcceptParams{}).WithLane("l"), nil
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, func(c *Config) { c.MaxWait = 50 * time.Hour })
				call, then := tc.make(t, s)
				type result struct {
					v   *Order
					err error
				}
				done := make(chan result, 1)
				go func() {
					v, err := call.Do(t.Context())
					done <- result{v, err}
				}()
				if then != nil {
					time.Sleep(2 * time.Second)
					for i := range 1000 { // an attempt may be under way at this very moment
						o, ok := call.Outcome()
						require.True(t, ok)
						rec, err := s.engine.Get(t.Context(), o.ID)
						require.NoError(t, err)
						if !rec.Claimed() {
							then(o.ID)
							break
						}
						require.Less(t, i, 999)
						time.Sleep(10 * time.Millisecond)
					}
				}
				did := <-done
				require.Equal(t, did.v == nil, did.err != nil, "value == nil exactly when err != nil")
				o, ok := call.Outcome()
				require.True(t, ok)
				require.Equal(t, tc.state, o.State)
				same := func(v *Order, err error) {
					require.Equal(t, did.v, v)
					require.Equal(t, did.err, err)
					require.Equal(t, FateOf(did.err), FateOf(err))
				}
				same(Result[Order](o))
				if tc.state == StateUncertain || tc.state == StateBlocked || tc.state.Final() {
					same(Attach[Order](s.Client, o.ID).Wait(t.Context()))
				}
				s.restart()
				same(Attach[Order](s.Client, o.ID).Wait(t.Context()))
			})
		})
	}
	t.Run("superseded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := &fakeAPI{before: func(*http.Request) error { return errors.New("reset") }}
			c := newFakeTill(t, api, nil)
			first := put(c, "m", 1)
			_, err := first.Enqueue(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			second := put(c, "m", 2)
			_, err = second.Enqueue(t.Context())
			require.NoError(t, err)
			_, err = put(c, "m", 3).WithSupersede().Enqueue(t.Context())
			require.NoError(t, err)
			_, did := second.Do(t.Context())
			o, _ := second.Outcome()
			_, err = Result[thing](o)
			require.Equal(t, did, err)
			require.Equal(t, FateNotSent, FateOf(err))
		})
	})
}

func TestAttachToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeTill(t, &fakeAPI{}, nil)
		_, err := Attach[thing](c, "no such operation").Wait(t.Context())
		require.ErrorIs(t, err, ErrNotFound)
	})
}
