package idempotency_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/idempotency/idempotencytest"
)

// aborted runs one request whose handler does not return, and says what came out of it.
func (s *service) aborted(key string) (recovered any) {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		s.post(key, "{}")
	}()
	return <-done
}

func TestHandlersThatDoNotReturn(t *testing.T) {
	for _, end := range []struct {
		name string
		f    func()
		want any
	}{
		{"panic", func() { panic("boom") }, "boom"},
		{"panic ErrAbortHandler", func() { panic(http.ErrAbortHandler) }, http.ErrAbortHandler},
		{"Goexit", runtime.Goexit, nil},
	} {
		for _, c := range []struct {
			name  string
			opts  idempotency.Options
			do    func(ctx context.Context)
			state idempotency.State
		}{
			{"before an effect: the key is free", idempotency.Options{}, func(context.Context) {}, ""},
			{"after MarkEffect: uncertain", idempotency.Options{Hold: idempotency.HoldExcept5xx}, func(ctx context.Context) {
				require.NoError(t, idempotency.MarkEffect(ctx))
			}, idempotency.Uncertain},
			{"after MarkEffect, but NoEffect was said: free", idempotency.Options{}, func(ctx context.Context) {
				require.NoError(t, idempotency.MarkEffect(ctx))
				idempotency.SetOutcome(ctx, idempotency.NoEffect)
			}, ""},
			{"after Committed was said: uncertain", idempotency.Options{}, func(ctx context.Context) {
				idempotency.SetOutcome(ctx, idempotency.Committed)
			}, idempotency.Uncertain},
			{"policy Uncertain: uncertain", idempotency.Options{OnLeaseLost: idempotency.Uncertain}, func(context.Context) {}, idempotency.Uncertain},
		} {
			t.Run(end.name+" "+c.name, func(t *testing.T) {
				first := true
				s := newService(t, c.opts, func(w http.ResponseWriter, r *http.Request) {
					if first {
						first = false
						_, _ = io.WriteString(w, "half an ans")
						c.do(r.Context())
						end.f()
					}
				})
				require.Equal(t, end.want, s.aborted("k"), "it goes on as it would without a middleware")
				require.Equal(t, c.state, s.state("k"))
				require.Equal(t, 1, s.seen(idempotency.EventPanic))
				again := s.post("k", "{}")
				if c.state == "" {
					require.Equal(t, 200, again.Code, "no 409 for the length of a lease")
					require.Equal(t, 2, s.ran())
				} else {
					wantProblem(t, again, 503, idempotency.ProblemResultUnknown)
				}
			})
		}
	}
}

func TestHeartbeatsEndWithTheHandler(t *testing.T) {
	for name, end := range map[string]func(){"return": func() {}, "panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t, idempotency.Options{Lease: time.Minute}, func(http.ResponseWriter, *http.Request) {
					time.Sleep(30 * time.Second) // one heartbeat
					end()
				})
				s.aborted("k")
				s.faults.Arm(idempotencytest.Extend, errors.New("a heartbeat without a handler"), -1, false)
				time.Sleep(time.Hour)
				require.Zero(t, s.seen(idempotency.EventEngineError))
			})
		})
	}
}

func TestAHeartbeatKeepsALongHandlersLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, idempotency.Options{Lease: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Minute)
			require.NoError(t, r.Context().Err())
		})
		go s.post("k", "{}")
		for range 9 {
			time.Sleep(time.Minute + time.Second)
			wantProblem(t, s.post("k", "{}"), 409, idempotency.ProblemInProgress)
		}
		time.Sleep(time.Minute)
		require.Equal(t, "true", s.post("k", "{}").Header().Get("Idempotent-Replayed"))
		require.Equal(t, 1, s.ran())
	})
}

func TestWithoutHeartbeatTheHandlersContextEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, idempotency.Options{Lease: time.Minute, Heartbeat: -1}, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			require.ErrorIs(t, context.Cause(r.Context()), idempotency.ErrLeaseEnded)
		})
		start := time.Now()
		require.Equal(t, 200, s.post("k", "{}").Code)
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, "true", s.post("k", "{}").Header().Get("Idempotent-Replayed"), "nobody took it over: the late result counts")
	})
}

func TestAStaleOwnersAnswerIsNotPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var later atomic.Bool
		s := newService(t, idempotency.Options{Lease: time.Minute, Heartbeat: -1}, func(w http.ResponseWriter, r *http.Request) {
			if !later.Swap(true) {
				time.Sleep(2 * time.Minute) // ignores its context
				_, _ = io.WriteString(w, "stale")
				return
			}
			_, _ = io.WriteString(w, "owner")
		})
		var wg sync.WaitGroup
		wg.Go(func() { wantProblem(t, s.post("k", "{}"), 503, idempotency.ProblemResultUnknown) })
		time.Sleep(time.Minute)
		require.Equal(t, "owner", s.post("k", "{}").Body.String())
		wg.Wait()
		require.Equal(t, "owner", s.post("k", "{}").Body.String())
		require.Equal(t, 1, s.seen(idempotency.EventOwnershipLost))
		require.Contains(t, s.logged(), "idempotency.ownership_lost")
	})
}

func TestALostLeaseEndsTheHandlersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *service
		s = newService(t, idempotency.Options{Lease: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			c, ok := idempotency.ClaimFrom(r.Context())
			require.True(t, ok)
			require.NoError(t, s.eng.Release(t.Context(), c)) // as an operator might
			<-r.Context().Done()
			require.ErrorIs(t, context.Cause(r.Context()), idempotency.ErrOwnershipLost)
		})
		start := time.Now()
		wantProblem(t, s.post("k", "{}"), 503, idempotency.ProblemResultUnknown)
		require.Equal(t, 20*time.Second, time.Since(start), "noticed by the next heartbeat")
	})
}

func TestHeartbeatsSurviveAnEngineThatIsDownForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, idempotency.Options{Lease: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Minute)
			require.NoError(t, r.Context().Err())
		})
		s.faults.Arm(idempotencytest.Extend, errors.New("down"), 3, false)
		require.Equal(t, 200, s.post("k", "{}").Code)
		require.Equal(t, 3, s.seen(idempotency.EventEngineError))
	})
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, idempotency.Options{Lease: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			require.ErrorIs(t, context.Cause(r.Context()), idempotency.ErrLeaseEnded)
		})
		s.faults.Arm(idempotencytest.Extend, errors.New("down"), -1, false)
		start := time.Now()
		require.Equal(t, 200, s.post("k", "{}").Code)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestHandlerTimeout(t *testing.T) {
	for _, c := range []struct {
		name   string
		mark   bool
		status int
		state  idempotency.State
	}{
		{"an answer in time to say so is the result", false, 504, idempotency.Failed},
		{"after a mark it is uncertain", true, 504, idempotency.Uncertain},
		{"after a mark a 4xx is uncertain too", true, 408, idempotency.Uncertain},
		{"a success stays one", true, 201, idempotency.Completed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t, idempotency.Options{HandlerTimeout: 5 * time.Minute}, func(w http.ResponseWriter, r *http.Request) {
					if c.mark {
						require.NoError(t, idempotency.MarkEffect(r.Context()))
					}
					<-r.Context().Done()
					require.ErrorIs(t, context.Cause(r.Context()), idempotency.ErrHandlerTimeout)
					w.WriteHeader(c.status)
				})
				start := time.Now()
				s.post("k", "{}")
				require.Equal(t, 5*time.Minute, time.Since(start))
				require.Equal(t, c.state, s.state("k"))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // one that never returns stops beating: its lease ends
		s := newService(t, idempotency.Options{HandlerTimeout: 5 * time.Minute, Lease: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
		})
		go s.post("k", "{}")
		time.Sleep(5 * time.Minute)
		wantProblem(t, s.post("k", "{}"), 409, idempotency.ProblemInProgress)
		time.Sleep(time.Minute)
		go s.post("k", "{}")
		synctest.Wait()
		require.Equal(t, 2, s.ran())
		time.Sleep(2 * time.Hour)
	})
}

func TestAFailingCompleteIsRetried(t *testing.T) {
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(t, idempotency.Options{}, answering(201, "done"))
			s.faults.Arm(idempotencytest.Complete, errors.New("down"), 3, after)
			require.Equal(t, 201, s.post("k", "{}").Code)
			require.Equal(t, "true", s.post("k", "{}").Header().Get("Idempotent-Replayed"))
			require.Equal(t, 1, s.ran())
			require.Equal(t, 3, s.seen(idempotency.EventEngineError))
		})
	}
}

func TestAResultThatCannotBeSavedIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, idempotency.Options{}, answering(201, "done"))
		s.faults.Arm(idempotencytest.Complete, errors.New("down"), -1, false)
		start := time.Now()
		wantProblem(t, s.post("k", "{}"), 503, idempotency.ProblemResultUnknown)
		require.InDelta(t, 10, time.Since(start).Seconds(), 1, "SaveTimeout")
		require.Equal(t, idempotency.State(idempotency.Uncertain), s.state("k"))
		s.faults.Heal()
		time.Sleep(time.Hour)
		wantProblem(t, s.post("k", "{}"), 503, idempotency.ProblemResultUnknown)
		require.Equal(t, 1, s.ran(), "never run again by itself")
	})
}

func TestAHungEngineCallLeavesTimeForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := &hanging{Engine: idempotency.NewMemory()}
		mw, err := idempotency.NewMiddleware(eng, idempotency.Options{Tenant: tenant})
		require.NoError(t, err)
		s := &service{t: t, eng: eng, h: mw(answering(201, "done"))}
		require.Equal(t, 201, s.post("k", "{}").Code)
	})
}

// hanging hangs in the first Complete until its context ends.
type hanging struct {
	idempotency.Engine
	once sync.Once
}

func (h *hanging) Complete(ctx context.Context, c idempotency.Claim, r idempotency.Result) (err error) {
	h.once.Do(func() {
		<-ctx.Done()
		err = ctx.Err()
	})
	if err != nil {
		return err
	}
	return h.Engine.Complete(ctx, c, r)
}

func TestWaitPolicy(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(3 * time.Second)
		_, _ = io.WriteString(w, "done")
	}
	t.Run("the repeat gets the first one's result", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newService(t, idempotency.Options{OnDuplicate: idempotency.Wait(10 * time.Second)}, slow)
			go s.post("k", "{}")
			synctest.Wait()
			start := time.Now()
			w := s.post("k", "{}")
			require.Equal(t, "done", w.Body.String())
			require.Equal(t, "true", w.Header().Get("Idempotent-Replayed"))
			require.InDelta(t, 3, time.Since(start).Seconds(), 0.8)
			require.Equal(t, 1, s.ran())
		})
	})
	t.Run("no longer than its maximum", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newService(t, idempotency.Options{OnDuplicate: idempotency.Wait(time.Second)}, slow)
			go s.post("k", "{}")
			synctest.Wait()
			start := time.Now()
			wantProblem(t, s.post("k", "{}"), 409, idempotency.ProblemInProgress)
			require.Equal(t, time.Second, time.Since(start))
			time.Sleep(3 * time.Second)
		})
	})
	t.Run("no longer than the caller's deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newService(t, idempotency.Options{OnDuplicate: idempotency.Wait(time.Minute)}, slow)
			go s.post("k", "{}")
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start := time.Now()
			wantProblem(t, s.do(newRequest("POST", "/orders", "k", "{}").WithContext(ctx)), 409, idempotency.ProblemInProgress)
			require.Equal(t, 2*time.Second, time.Since(start))
			time.Sleep(3 * time.Second)
		})
	})
	t.Run("another request does not wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newService(t, idempotency.Options{OnDuplicate: idempotency.Wait(time.Minute)}, slow)
			go s.post("k", "{}")
			synctest.Wait()
			start := time.Now()
			wantProblem(t, s.post("k", "other"), 422, idempotency.ProblemMismatch)
			require.Zero(t, time.Since(start))
			time.Sleep(3 * time.Second)
		})
	})
	t.Run("many waiters and a key that becomes free: one runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var later atomic.Bool
			s := newService(t, idempotency.Options{OnDuplicate: idempotency.Wait(time.Minute)}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				if !later.Swap(true) {
					idempotency.SetOutcome(r.Context(), idempotency.NoEffect)
					w.WriteHeader(503)
				}
			})
			go s.post("k", "{}")
			synctest.Wait()
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() { require.Equal(t, 200, s.post("k", "{}").Code) })
			}
			wg.Wait()
			require.Equal(t, 2, s.ran())
		})
	})
}

func TestDownstreamKeyIsTheSameForEveryAttempt(t *testing.T) {
	eng := idempotency.NewMemory()
	a := claim(t, eng, "k")
	require.NoError(t, eng.Release(t.Context(), a))
	b := claim(t, eng, "k")
	require.NotEqual(t, a.Generation, b.Generation)
	require.Equal(t, idempotency.DownstreamKey(a, "charge"), idempotency.DownstreamKey(b, "charge"))
	require.NotEqual(t, idempotency.DownstreamKey(a, "charge"), idempotency.DownstreamKey(a, "refund"))
	require.NotEqual(t, idempotency.DownstreamKey(a, "charge"), idempotency.DownstreamKey(claim(t, eng, "l"), "charge"))
	require.NoError(t, idempotency.ValidateKey(idempotency.DownstreamKey(a, "charge")))
}

func TestAHandlerMayStoreTheResultItself(t *testing.T) {
	var s *service
	s = newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		c, _ := idempotency.ClaimFrom(r.Context())
		res := idempotency.Result{Status: 201, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte("stored with the effect")}
		require.NoError(t, s.eng.Complete(r.Context(), c, res)) // in the effect's own transaction
		require.NoError(t, res.Send(w))
	})
	first := s.post("k", "{}")
	require.Equal(t, "stored with the effect", first.Body.String())
	again := s.post("k", "{}")
	require.Equal(t, first.Body.String(), again.Body.String())
	require.Equal(t, first.Code, again.Code)
	require.Equal(t, 1, s.ran())

	s = newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		c, _ := idempotency.ClaimFrom(r.Context())
		require.NoError(t, s.eng.Complete(r.Context(), c, idempotency.Result{Status: 201}))
		panic("between the commit and the answer")
	})
	s.aborted("k")
	again = s.post("k", "{}")
	require.Equal(t, 201, again.Code)
	require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
	require.Equal(t, 1, s.ran())
}
