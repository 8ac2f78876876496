package flavoso

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

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
