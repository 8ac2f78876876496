package flavoso

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// slowTill is a till whose requests take a second each, so that how many arrive within a second is how many are
// under way at once.
func slowTill(t *testing.T, change func(*Config)) *till {
	s := newTill(t, func(c *Config) {
		inMemory(c)
		if change != nil {
			change(c)
		}
	})
	s.srv.Inject(mockserver.Delay(time.Second).On("POST", "").Optional())
	return s
}

// accepts enqueues n operations, each in a lane of its own.
func (s *till) accepts(n int) (ids []string) {
	s.t.Helper()
	for range n {
		id := s.srv.AddOrder(store, patient())
		enqueue(s.t, s.Orders.Accept(id, AcceptParams{}))
		ids = append(ids, id)
	}
	return ids
}

// requireOnce proves that each order was accepted once.
func (s *till) requireOnce(ids []string) {
	s.t.Helper()
	count := map[string]int{}
	for _, e := range s.srv.Effects() {
		count[e.Resource]++
	}
	require.Len(s.t, count, len(ids))
	for _, id := range ids {
		require.Equal(s.t, 1, count[id], id)
	}
}

// atOnce returns how many writes were under way at most between two moments, when each took a second.
func (s *till) atOnce(from, to time.Time) (most int) {
	sent := posts(s.srv)
	for i := range sent {
		if sent[i].At.Before(from) || !sent[i].At.Before(to) {
			continue
		}
		n := 0
		for _, r := range sent[i:] {
			if r.At.Before(sent[i].At.Add(time.Second)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestSlowStart: after an outage the client does not come back with all it has. One request at a time at first,
// then two, four, and one more every five seconds.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowTill(t, nil)
		refuse := s.srv.Inject(mockserver.Refuse())
		ids := s.accepts(200)
		time.Sleep(time.Hour)
		require.Empty(t, posts(s.srv))
		refuse.Remove()
		began := time.Now()
		s.Wake()
		require.NoError(t, s.Flush(forHours(t, 1)))
		var steps []int
		for second, at := 0, began; steps == nil || steps[len(steps)-1] < DefaultConcurrency; second++ {
			require.Less(t, second, 60)
			n := s.atOnce(at, at.Add(time.Second))
			if len(steps) == 0 || n > steps[len(steps)-1] {
				steps = append(steps, n)
				require.GreaterOrEqual(t, second, 5*(len(steps)-1), "%v", steps)
			}
			at = at.Add(time.Second)
		}
		require.Equal(t, []int{1, 2, 4, 5, 6, 7, 8}, steps)
		require.Equal(t, DefaultConcurrency, s.atOnce(began, began.Add(time.Hour)))
		s.requireOnce(ids)
	})
}

// TestStrainHalves: a 429, a 5xx and a timeout each halve what is under way, and it grows back by one every five
// seconds of answers without strain.
func TestStrainHalves(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fault  mockserver.Fault
		status int // of the answer that strains; 0 = none
	}{
		{"429", mockserver.RateLimit(0), 429},
		{"500", mockserver.Status(500), 500},
		{"502", mockserver.Status(502), 502},
		{"a timeout", mockserver.Hang(), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := slowTill(t, func(c *Config) {
					c.AttemptTimeout = 3 * time.Second
					c.Retry = ExponentialJitter{Base: time.Second, Floor: time.Second, Cap: time.Second}
				})
				ids := s.accepts(400)
				time.Sleep(5500 * time.Millisecond)
				require.Equal(t, DefaultConcurrency, s.atOnce(time.Now().Add(-3*time.Second), time.Now()))
				s.srv.Inject(tc.fault.On("POST", "/orders/{id}/accept").Times(1))
				time.Sleep(time.Second) // it is on its way
				took := 1500 * time.Millisecond
				if tc.status == 0 {
					took += 2 * time.Second
				}
				time.Sleep(took)
				strained := time.Now()
				require.NoError(t, s.Flush(forHours(t, 1)))
				require.Equal(t, DefaultConcurrency/2, s.atOnce(strained, strained.Add(1500*time.Millisecond)))
				require.Equal(t, DefaultConcurrency, s.atOnce(strained.Add(20*time.Second), strained.Add(40*time.Second)))
				s.requireOnce(ids)
			})
		})
	}
}

// TestRetryAfterHoldsAllLanes: one lane is told to wait, and all of the connection's do, also after a restart.
func TestRetryAfterHoldsAllLanes(t *testing.T) {
	for _, status := range []int{429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, nil)
				limit := s.srv.Inject(mockserver.Status(status).RetryAfter(10*time.Minute).On("POST", "/orders/{id}/accept"))
				ids := s.accepts(1)
				time.Sleep(time.Second)
				limit.Remove()
				require.Len(t, posts(s.srv), 1)
				paused := s.Status().PausedUntil
				require.WithinRange(t, paused, time.Now().Add(9*time.Minute), time.Now().Add(15*time.Minute))
				ids = append(ids, s.accepts(20)...)
				s.Wake()
				_, err := s.Orders.Accept(ids[5], AcceptParams{}).Do(contextFor(t, time.Minute))
				require.ErrorIs(t, err, ErrPending, "nor for somebody who waits")
				var held *HeldError
				require.ErrorAs(t, s.Flush(t.Context()), &held)
				require.Equal(t, HeldError{Waiting: 21, PausedUntil: paused}, *held)

				s.restart()
				require.WithinDuration(t, paused, s.Status().PausedUntil, time.Second)
				time.Sleep(time.Until(paused) - time.Second)
				require.Len(t, posts(s.srv), 1)
				time.Sleep(2 * time.Second)
				require.NoError(t, s.Flush(forHours(t, 1)))
				require.Len(t, posts(s.srv), 22)
				s.requireOnce(ids)
			})
		})
	}
}

// TestBudgetBoundsAmplification (W10): a server that refuses everything for half an hour is asked a bounded number
// of times, whatever the backlog; afterwards everything gets through once.
func TestBudgetBoundsAmplification(t *testing.T) {
	asked := map[int]int{}
	for _, backlog := range []int{10, 300} {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, inMemory)
			down := s.srv.Inject(mockserver.Status(503))
			ids := s.accepts(backlog)
			time.Sleep(30 * time.Minute)
			asked[backlog] = len(s.srv.Requests())
			down.Remove()
			time.Sleep(time.Minute) // the last answer may have asked for a pause, and Flush does not wait for that
			require.NoError(t, s.Flush(forHours(t, 10)))
			s.requireOnce(ids)
			require.LessOrEqual(t, len(s.srv.Requests()), asked[backlog]+2*backlog)
		})
	}
	for backlog, n := range asked {
		require.LessOrEqual(t, n, 100, "a backlog of %d", backlog)
		require.Greater(t, n, 20, "it is asked, though")
	}
}

// TestFlushSaysWhatHoldsItUp: the error tells what a person or a program can do about it.
func TestFlushSaysWhatHoldsItUp(t *testing.T) {
	t.Run("offline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, func(c *Config) { c.MaxWait = 20 * time.Second })
			refuse := s.srv.Inject(mockserver.Refuse())
			ids := s.accepts(7)
			time.Sleep(time.Minute)
			since := s.Status().OfflineSince
			began := time.Now()
			err := s.Flush(contextFor(t, time.Minute))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var held *HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, HeldError{Waiting: 7, OfflineSince: since, Err: held.Err}, *held)
			require.Equal(t, time.Minute, time.Since(began))

			began = time.Now()
			require.ErrorAs(t, s.Flush(t.Context()), &held)
			require.Equal(t, 7, held.Waiting)
			require.Less(t, time.Since(began), 25*time.Second, "a context without a deadline waits for Config.MaxWait")
			require.Contains(t, held.Error(), "still offline since")
			time.AfterFunc(10*time.Second, func() { refuse.Remove(); s.Wake() })
			require.NoError(t, s.Flush(t.Context()))
			s.requireOnce(ids)
		})
	})
	t.Run("a refused token", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, func(c *Config) { c.Token = StaticToken("wrong") })
			s.accepts(3)
			time.Sleep(time.Minute)
			var held *HeldError
			require.ErrorAs(t, s.Flush(t.Context()), &held)
			require.Equal(t, HeldError{Waiting: 3, AuthRequired: true}, *held)
		})
	})
	t.Run("held lanes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, nil)
			var heads []string
			for _, lane := range []string{"a", "b"} {
				s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
				s.srv.Inject(mockserver.Status(409).Code("conflict").On("POST", "").Times(1))
				heads = append(heads, enqueue(t, plainPost(s).WithLane(lane)).ID())
				time.Sleep(time.Minute)
			}
			for range 2 {
				enqueue(t, plainPost(s).WithLane("a"))
				enqueue(t, plainPost(s).WithLane("b"))
			}
			time.Sleep(time.Minute)
			for _, id := range heads {
				require.Equal(t, StateUncertain, stateOf(t, s.Client, id))
			}
			var held *HeldError
			require.ErrorAs(t, s.Flush(t.Context()), &held)
			require.Equal(t, HeldError{Waiting: 4, HeldLanes: 2}, *held)
			for _, id := range heads {
				require.NoError(t, s.Operations.Resolve(t.Context(), id, Resolution{Decision: Done}))
			}
			require.NoError(t, s.Flush(t.Context()))
			require.Len(t, s.srv.Effects(), 6)
		})
	})
	t.Run("what is saved later is not waited for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, nil)
			s.srv.Inject(mockserver.Delay(5*time.Second).On("POST", "").Optional())
			ids := s.accepts(2)
			done := make(chan error, 1)
			go func() { done <- s.Flush(t.Context()) }()
			time.Sleep(4 * time.Second)
			ids = append(ids, s.accepts(1)...)
			time.Sleep(2 * time.Second)
			require.NoError(t, <-done)
			require.Equal(t, 1, s.Status().Waiting)
			require.NoError(t, s.Flush(t.Context()))
			s.requireOnce(ids)
		})
	})
}
