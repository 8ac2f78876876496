package flavoso

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// hookLog notes what the hooks are told, per operation and in order.
type hookLog struct {
	mu       sync.Mutex
	byID     map[string][]string
	statuses []Status
	ends     []*Attempt
	outcomes []Outcome
}

type ctxKey string

func (l *hookLog) note(o Outcome, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[string][]string{}
	}
	l.byID[o.ID] = append(l.byID[o.ID], fmt.Sprintf(format, args...))
	l.outcomes = append(l.outcomes, o)
}

func (l *hookLog) of(id string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.byID[id]...)
}

// hooks note everything, and hand a value from AttemptStart to AttemptEnd.
func (l *hookLog) hooks() Hooks {
	return Hooks{
		Saved: func(ctx context.Context, o Outcome) {
			l.note(o, "saved for %v", ctx.Value(ctxKey("caller")))
		},
		AttemptStart: func(ctx context.Context, o Outcome) context.Context {
			l.note(o, "start %d %s", o.Attempts, o.State)
			return context.WithValue(ctx, ctxKey("span"), fmt.Sprint("span ", o.Attempts))
		},
		AttemptEnd: func(ctx context.Context, o Outcome, a *Attempt) {
			l.mu.Lock()
			l.ends = append(l.ends, a)
			l.mu.Unlock()
			if a == nil {
				l.note(o, "end %v nothing %s", ctx.Value(ctxKey("span")), o.State)
				return
			}
			l.note(o, "end %v %q %d %s", ctx.Value(ctxKey("span")), a.Verdict, a.Status, o.State)
		},
		Finished: func(o Outcome) { l.note(o, "finished %s revision %d durable %t", o.State, o.Revision, o.Durable) },
		StatusChange: func(s Status) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.statuses = append(l.statuses, s)
		},
	}
}

// TestHooksOverSeveralAttemptsAndARestart: the order of the hooks, and what each is told.
func TestHooksOverSeveralAttemptsAndARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hookLog{}
		var spans sync.Map // what the transport saw, by attempt
		s := newTill(t, func(c *Config) {
			c.Hooks = log.hooks()
			transport := c.Transport
			c.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == "POST" {
					spans.Store(r.Context().Value(ctxKey("span")), true)
				}
				return transport.RoundTrip(r)
			})
		})
		id := s.srv.AddOrder(store, patient())
		on := func(f mockserver.Fault) { s.srv.Inject(f.On("POST", "/orders/{id}/accept").Times(1)) }
		on(mockserver.DropResponse())
		on(mockserver.Portal())
		on(mockserver.Status(503).RetryAfter(time.Hour))
		on(mockserver.Truncate(10))
		began := time.Now()
		p, err := s.Orders.Accept(id, AcceptParams{}).WithTag("T-1").Enqueue(context.WithValue(t.Context(), ctxKey("caller"), "Ada"))
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		s.restart()
		_, err = p2(s, p).Wait(forHours(t, 3))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{
			"saved for Ada",
			"start 1 sent", `end span 1 "broken" 0 sent`,
			"start 2 sent", `end span 2 "not_authored" 200 sent`,
			"start 3 sent", `end span 3 "retry" 503 sent`,
			"start 4 sent", `end span 4 "success_cut" 200 sent`,
			"start 5 sent", `end span 5 "success" 200 succeeded`,
			"finished succeeded revision 1 durable true",
		}, log.of(p.ID()))
		sent := posts(s.srv)
		require.Len(t, log.ends, len(sent))
		for i, a := range log.ends {
			require.Equal(t, i+1, a.N)
			_, seen := spans.Load(fmt.Sprint("span ", a.N))
			require.True(t, seen, "the request's context has the values of the hook's")
			require.False(t, a.End.Before(a.Start))
			require.False(t, a.NeverSent)
			if i >= 2 {
				require.Equal(t, sent[i].RequestID, a.RequestID)
			}
		}
		require.GreaterOrEqual(t, log.ends[2].RetryAfter, time.Hour)
		for _, o := range log.outcomes {
			require.Equal(t, p.ID(), o.ID)
			require.Equal(t, Outcome{Connection: store, Kind: "orders.accept", Key: Key("accept-" + id), Lane: "order:" + id, Tag: "T-1", Resource: id},
				Outcome{Connection: o.Connection, Kind: o.Kind, Key: o.Key, Lane: o.Lane, Tag: o.Tag, Resource: o.Resource})
			require.True(t, o.Created.Equal(began))
		}
		last := log.outcomes[len(log.outcomes)-1]
		require.Equal(t, 5, last.Attempts)
		require.True(t, last.FirstSent.Equal(began))
		require.Equal(t, sent[4].RequestID, last.RequestID)
		require.NotEmpty(t, last.Body)
	})
}

// TestHooksWithoutAnAttempt: operations also end without one, or with one that made no request.
func TestHooksWithoutAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hookLog{}
		s := newTill(t, func(c *Config) { c.Hooks = log.hooks() })
		s.srv.Inject(mockserver.StatusAfterCommit(500).On("POST", "/bookings").Times(1))
		found := enqueue(t, s.Bookings.Create("17", booking(4)))
		_, err := found.Wait(forHours(t, 1))
		require.NoError(t, err)

		s.srv.Inject(mockserver.Refuse())
		canceled := enqueue(t, s.Orders.Accept("a", AcceptParams{}))
		expired := enqueue(t, s.Orders.Accept("b", AcceptParams{}).WithExpiry(time.Minute))
		time.Sleep(time.Second)
		require.NoError(t, s.Operations.Cancel(t.Context(), canceled.ID()))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{
			"saved for <nil>",
			"start 1 sent", `end span 1 "retry" 500 sent`,
			"start 2 sent", "end span 2 nothing succeeded", // it was found rather than sent again
			"finished succeeded revision 1 durable true",
		}, log.of(found.ID()))
		for id, end := range map[string]string{canceled.ID(): "finished canceled revision 1 durable true", expired.ID(): "finished expired revision 1 durable true"} {
			told := log.of(id)
			require.Equal(t, "saved for <nil>", told[0])
			require.Equal(t, end, told[len(told)-1])
			for _, line := range told[1 : len(told)-1] {
				require.Contains(t, []string{"start 1 sent", `end span 1 "broken" 0 queued`}, line)
			}
		}
		for _, a := range log.ends {
			if a != nil && a.Status == 0 {
				require.True(t, a.NeverSent)
			}
		}
	})
}

// TestFinishedComesTwiceForAVerdictThatIsSavedLate, and every revision is told.
func TestFinishedComesTwiceForAVerdictThatIsSavedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hookLog{}
		f := newFaulty()
		c := newFakeTill(t, &fakeAPI{}, func(cfg *Config) { cfg.Outbox, cfg.Hooks = f, log.hooks() })
		f.script(&rule{method: "Settle", err: errDisk, times: 3})
		p := enqueue(t, post(c, "a"))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"saved for <nil>", "start 1 sent",
			"finished succeeded revision 0 durable false", `end span 1 "success" 200 succeeded`, "finished succeeded revision 1 durable true"}, log.of(p.ID()))
	})
	synctest.Test(t, func(t *testing.T) {
		log := &hookLog{}
		s := newTill(t, func(c *Config) { c.Hooks = log.hooks() })
		s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
		s.srv.Inject(mockserver.Status(409).Code("conflict").On("POST", "").Times(1))
		p := enqueue(t, plainPost(s))
		time.Sleep(time.Minute)
		require.NoError(t, s.Operations.Resolve(t.Context(), p.ID(), Resolution{Decision: Done}))
		require.Equal(t, []string{"saved for <nil>", "start 1 sent", `end span 1 "broken" 0 sent`, "start 2 sent", `end span 2 "conflict" 409 uncertain`,
			"finished uncertain revision 1 durable true", "finished succeeded revision 2 durable true"}, log.of(p.ID()))
	})
}

// TestStatusChangeIsTold once for each change.
func TestStatusChangeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hookLog{}
		v := &vault{}
		s := newTill(t, func(c *Config) {
			c.Hooks, c.Token = log.hooks(), v
		})
		v.set(s.srv.Token(store))
		told := func() (words []string) {
			synctest.Wait()
			log.mu.Lock()
			defer log.mu.Unlock()
			for _, st := range log.statuses {
				require.Equal(t, store, st.Connection)
				require.False(t, st.AsOf.IsZero())
				words = append(words, fmt.Sprintf("offline %t, paused %t, auth %t, waiting %d", !st.OfflineSince.IsZero(), !st.PausedUntil.IsZero(), st.AuthRequired, st.Waiting))
			}
			log.statuses = nil
			return words
		}
		refuse := s.srv.Inject(mockserver.Refuse())
		p := enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}))
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"offline true, paused false, auth false, waiting 1"}, told())
		refuse.Remove()
		s.Wake()
		_, err := p.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"offline false, paused false, auth false, waiting 1"}, told())

		s.srv.Inject(mockserver.RateLimit(10*time.Minute).On("POST", "/orders/{id}/accept").Times(1))
		p = enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"offline false, paused true, auth false, waiting 1"}, told())
		_, err = p.Wait(forHours(t, 1))
		require.NoError(t, err)
		require.Empty(t, told(), "the end of a pause is not an event: Status.PausedUntil told it")

		v.set("bad")
		p = enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}))
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"offline false, paused false, auth true, waiting 1"}, told())
		v.set(s.srv.Token(store))
		_, err = p.Wait(forHours(t, 1))
		require.NoError(t, err)
		require.Equal(t, []string{"offline false, paused false, auth false, waiting 1"}, told())
	})
}

// TestSavedComesFirst: however long Saved takes, and however many goroutines do the same call, nothing else of the
// operation is told before; and a client that closes does not wait for it.
func TestSavedComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hookLog{}
		s := newTill(t, func(c *Config) {
			c.Hooks = log.hooks()
			saved := c.Hooks.Saved
			c.Hooks.Saved = func(ctx context.Context, o Outcome) {
				time.Sleep(3 * time.Second)
				saved(ctx, o)
			}
		})
		var wg sync.WaitGroup
		for range 20 {
			call := s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{})
			for range 3 {
				wg.Go(func() {
					_, err := call.Do(forHours(t, 1))
					require.NoError(t, err)
				})
			}
		}
		wg.Wait()
		synctest.Wait()
		log.mu.Lock()
		require.Len(t, log.byID, 20)
		for _, told := range log.byID {
			require.Equal(t, []string{"saved for <nil>", "start 1 sent", `end span 1 "success" 200 succeeded`, "finished succeeded revision 1 durable true"}, told)
		}
		log.mu.Unlock()
		require.Len(t, s.srv.Effects(), 20)
	})
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var started atomic.Bool
		s := newTill(t, func(c *Config) {
			c.Hooks.Saved = func(context.Context, Outcome) { <-gate }
			c.Hooks.AttemptStart = func(ctx context.Context, _ Outcome) context.Context { started.Store(true); return ctx }
		})
		done := make(chan error, 1)
		go func() {
			_, err := s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}).Enqueue(t.Context())
			done <- err
		}()
		time.Sleep(20 * time.Second)
		require.False(t, started.Load())
		require.NoError(t, s.Close())
		close(gate)
		require.NoError(t, <-done, "it is saved")
		s.cfg.Hooks = Hooks{}
		s.open()
		require.NoError(t, s.Flush(t.Context()))
		require.Len(t, s.srv.Effects(), 1)
	})
}

// TestSavedOfWhatWasNotSaved is not told.
func TestSavedOfWhatWasNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hookLog{}
		f := newFaulty()
		c := newFakeTill(t, &fakeAPI{}, func(cfg *Config) { cfg.Outbox, cfg.Hooks = f, log.hooks() })
		f.script(&rule{method: "Add", err: errDisk, times: 1})
		_, err := post(c, "a").Do(t.Context())
		require.Error(t, err)
		require.False(t, errors.Is(err, ErrUnknown))
		require.Empty(t, log.byID)
		key := NewKey()
		for range 3 {
			_, err = post(c, "a").WithKey(key).Do(t.Context())
			require.NoError(t, err)
		}
		require.Len(t, log.byID, 1, "the same wish is one operation")
	})
}
