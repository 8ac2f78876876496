package flavoso

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// claimLog is an engine that notes which lanes were claimed, in order.
type claimLog struct {
	outbox.Engine
	mu    sync.Mutex
	lanes []string
}

func (l *claimLog) Claim(ctx context.Context, q outbox.ClaimRequest) ([]outbox.Record, error) {
	recs, err := l.Engine.Claim(ctx, q)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range recs {
		l.lanes = append(l.lanes, recs[i].Lane)
	}
	return recs, err
}

func (l *claimLog) claims() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lanes[:len(l.lanes):len(l.lanes)]
}

// backlog fills an engine with perLane operations in each of lanes lanes, lane by lane: the order least
// fair to the last.
func backlog(t testing.TB, e outbox.Engine, lanes, perLane int) {
	t.Helper()
	now := time.Now()
	for l := range lanes {
		for n := range perLane {
			lane := fmt.Sprintf("lane-%05d", l)
			_, err := e.Add(context.Background(), outbox.Addition{Now: now, Record: outbox.Record{
				ID: fmt.Sprintf("%s-%d", lane, n), Connection: store, Lane: lane, Kind: kindCall,
				Key: fmt.Sprintf("%s-%d", lane, n), Fingerprint: []byte{1}, Created: now,
				Request: outbox.Request{Method: "POST", Target: "/things/" + lane},
			}})
			require.NoError(t, err)
		}
	}
}

// TestNoLaneIsServedTwiceBeforeEachOnce: 100 000 operations wait in 10 000 lanes. Three rounds are looked
// at; the order is the order of claims, which is what the rule is about.
func TestNoLaneIsServedTwiceBeforeEachOnce(t *testing.T) {
	const lanes, rounds = 10_000, 3
	log := &claimLog{Engine: outbox.NewMemory()}
	backlog(t, log, lanes, 10)
	enough := make(chan struct{})
	var n atomic.Int64
	api := &fakeAPI{before: func(*http.Request) error {
		if n.Add(1) == lanes*rounds+100 {
			close(enough)
		}
		return nil
	}}
	// One at a time: what is in flight is not due, and with more the order shifts by as many.
	c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox, cfg.Concurrency = log, 1 })
	<-enough
	require.NoError(t, c.Close())

	served := log.claims()
	for r := range rounds {
		seen := map[string]bool{}
		for _, lane := range served[r*lanes : (r+1)*lanes] {
			require.False(t, seen[lane], "round %d serves %s twice", r, lane)
			seen[lane] = true
		}
	}
}

// TestFreshDoIsTheNextAttempt: every place is taken and a backlog waits. The next place goes to the Do.
func TestFreshDoIsTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := outbox.NewMemory()
		backlog(t, engine, 2_000, 5)
		gate := make(chan struct{})
		api := &fakeAPI{before: func(*http.Request) error { <-gate; return nil }}
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox, cfg.Concurrency = engine, 4 })
		synctest.Wait()
		require.Equal(t, 4, api.count(), "no more than the concurrency")

		var fresh []chan error
		for i := range 3 {
			done := make(chan error, 1)
			fresh = append(fresh, done)
			go func() {
				_, err := post(c, fmt.Sprintf("fresh-%d", i)).Do(t.Context())
				done <- err
			}()
			synctest.Wait()
			require.Equal(t, 4+i, api.count(), "no place is free")
			gate <- struct{}{}
			synctest.Wait()
			require.Equal(t, fmt.Sprintf("POST /v1/things/fresh-%d", i), api.sent()[4+i])
		}
		close(gate)
		for _, done := range fresh {
			require.NoError(t, <-done)
		}
	})
}

// TestDoOfWhatWaitsGoesFirst: the Do of a wish that was enqueued before takes its operation out of the
// backlog's order.
func TestDoOfWhatWaitsGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := outbox.NewMemory()
		backlog(t, engine, 500, 1)
		gate := make(chan struct{})
		api := &fakeAPI{before: func(*http.Request) error { <-gate; return nil }}
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox, cfg.Concurrency = engine, 1 })
		synctest.Wait()
		call := post(c, "late").WithKey("late")
		_, err := call.Enqueue(t.Context())
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			_, err := post(c, "late").WithKey("late").Do(t.Context())
			done <- err
		}()
		synctest.Wait()
		gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, "POST /v1/things/late", api.sent()[1])
		close(gate)
		require.NoError(t, <-done)
	})
}

// TestConcurrencyIsNeverExceeded: claims and submissions compete for the same places.
func TestConcurrencyIsNeverExceeded(t *testing.T) {
	engine := outbox.NewMemory()
	backlog(t, engine, 300, 5)
	var now, most atomic.Int64
	api := &fakeAPI{before: func(*http.Request) error {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(50 * time.Microsecond)
		now.Add(-1)
		return nil
	}}
	c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox, cfg.Concurrency = slowClaims{engine}, 4 })
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 60 {
				_, err := post(c, fmt.Sprintf("fresh-%d-%d", g, i)).Do(t.Context())
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, c.Flush(t.Context()))
	require.LessOrEqual(t, most.Load(), int64(4))
	require.EqualValues(t, 300*5+8*60, api.count())
}

// slowClaims takes its time over claims, as a disk does.
type slowClaims struct{ outbox.Engine }

func (s slowClaims) Claim(ctx context.Context, q outbox.ClaimRequest) ([]outbox.Record, error) {
	recs, err := s.Engine.Claim(ctx, q)
	time.Sleep(200 * time.Microsecond)
	return recs, err
}

// TestStopLaneOnReject: the rest of the lane is blocked, shown, announced, and goes on when resumed.
func TestStopLaneOnReject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var finished []string
		s := newTill(t, func(c *Config) {
			c.Hooks.Finished = func(o Outcome) {
				mu.Lock()
				defer mu.Unlock()
				finished = append(finished, o.Tag+" "+string(o.State))
			}
		})
		s.srv.Inject(mockserver.Delay(time.Second).On("POST", "/orders/{id}/accept").Times(1))
		id := s.srv.AddOrder(store, mockserver.Order{})
		lane := "order:" + id
		// The head is refused: it is about an order that does not exist.
		head, err := s.Orders.Accept("missing", AcceptParams{}).WithLane(lane).StopLaneOnReject().WithTag("head").Enqueue(t.Context())
		require.NoError(t, err)
		var rest []*Pending[Order]
		for i, call := range []*Call[Order]{
			s.Orders.Accept(id, AcceptParams{}), s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-1"}),
		} {
			p, err := call.WithTag(fmt.Sprint(i)).Enqueue(t.Context())
			require.NoError(t, err)
			rest = append(rest, p)
		}
		_, err = head.Wait(t.Context())
		require.Equal(t, FateRefused, FateOf(err))
		for _, p := range rest {
			_, err := p.Wait(t.Context())
			require.ErrorIs(t, err, ErrBlocked)
			require.Equal(t, FateUnknown, FateOf(err))
			o, err := s.Operations.Get(t.Context(), p.ID())
			require.NoError(t, err)
			require.Equal(t, outbox.ReasonLaneStopped, o.Reason)
		}
		require.Equal(t, 2, s.Status().Blocked)
		require.Equal(t, 1, s.Status().HeldLanes)
		synctest.Wait()
		mu.Lock()
		require.ElementsMatch(t, []string{"head rejected", "0 blocked", "1 blocked"}, finished)
		mu.Unlock()

		// A newcomer of the lane waits behind the blocked ones; other lanes do not care.
		other := s.srv.AddOrder(store, mockserver.Order{})
		_, err = s.Orders.Accept(other, AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
		behind, err := s.Orders.Accept(other, AcceptParams{PreparationMinutes: 7}).WithKey("x").WithLane(lane).Enqueue(t.Context())
		require.NoError(t, err)
		var held *HeldError
		require.ErrorAs(t, s.Flush(t.Context()), &held)
		require.Equal(t, 1, held.HeldLanes)
		require.Equal(t, 1, held.Waiting)

		s.restart()
		require.ErrorIs(t, s.Operations.ResumeLane(t.Context(), "no such lane"), ErrNotFound)
		require.NoError(t, s.Operations.ResumeLane(t.Context(), lane))
		for _, p := range append(rest, behind) {
			_, err := Attach[Order](s.Client, p.ID()).Wait(t.Context())
			require.NoError(t, err)
		}
		require.Zero(t, s.Status().HeldLanes)
	})
}

// TestRejectedHeadLetsItsLaneGoOn is the default.
func TestRejectedHeadLetsItsLaneGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		head, err := s.Orders.Accept("missing", AcceptParams{}).WithLane("a").Enqueue(t.Context())
		require.NoError(t, err)
		_, err = s.Orders.Accept(id, AcceptParams{}).WithLane("a").Do(t.Context())
		require.NoError(t, err)
		_, err = head.Wait(t.Context())
		require.Equal(t, FateRefused, FateOf(err))
	})
}

// TestStuckLaneBlocksNoOther: one lane's request never gets an answer. Others are neither delayed nor
// slowed down by it, however long it lasts.
func TestStuckLaneBlocksNoOther(t *testing.T) {
	for _, trouble := range []struct {
		name  string
		fault func() mockserver.Fault
	}{
		{"500 for ever", func() mockserver.Fault { return mockserver.Status(500) }},
		{"no answer until the timeout", func() mockserver.Fault { return mockserver.Hang() }},
		{"reset for ever", func() mockserver.Fault { return mockserver.Reset() }},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, nil)
				s.srv.Inject(trouble.fault().On("POST", "/orders/{id}/acknowledge"))
				poison := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
				_, err := s.Orders.Acknowledge(poison, AcknowledgeParams{ExternalID: "T"}).Enqueue(t.Context())
				require.NoError(t, err)
				for range 12 {
					time.Sleep(10*time.Minute + 7*time.Second)
					id := s.srv.AddOrder(store, mockserver.Order{})
					began := time.Now()
					_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
					require.NoError(t, err)
					require.Less(t, time.Since(began), time.Second)
				}
				require.Equal(t, 1, s.Status().Waiting)
				require.Zero(t, s.Status().OfflineSince)
			})
		})
	}
}

// TestSupersede: only the queued, never claimed, direct predecessor of the same call is replaced.
func TestSupersede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		api := &fakeAPI{before: func(*http.Request) error { <-gate; return nil }}
		var mu sync.Mutex
		finished := map[string]State{}
		c := newFakeTill(t, api, func(cfg *Config) {
			cfg.Hooks.Finished = func(o Outcome) { mu.Lock(); defer mu.Unlock(); finished[o.ID] = o.State }
		})
		enqueue := func(call *Call[thing]) *Pending[thing] {
			p, err := call.Enqueue(t.Context())
			require.NoError(t, err)
			return p
		}
		first := enqueue(put(c, "menu", 1).WithSupersede())
		synctest.Wait() // it is being sent: nothing replaces it
		second := enqueue(put(c, "menu", 2).WithSupersede())
		waits := make(chan error, 1)
		go func() {
			_, err := second.Wait(t.Context())
			waits <- err
		}()
		synctest.Wait()
		third := enqueue(put(c, "menu", 3).WithSupersede())
		var superseded *SupersededError
		require.ErrorAs(t, <-waits, &superseded, "who waits for it is told at once")
		require.Equal(t, third.ID(), superseded.By)
		between := enqueue(post(c, "menu"))
		fourth := enqueue(put(c, "menu", 4).WithSupersede())
		plain := enqueue(put(c, "menu", 5))
		synctest.Wait()
		mu.Lock()
		require.Equal(t, map[string]State{second.ID(): StateSuperseded}, finished)
		mu.Unlock()
		close(gate)
		for _, p := range []*Pending[thing]{first, third, between, fourth, plain} {
			_, err := p.Wait(t.Context())
			require.NoError(t, err)
		}
		_, err := second.Wait(t.Context())
		require.ErrorAs(t, err, &superseded)
		require.Equal(t, FateNotSent, FateOf(err))
		require.Equal(t, []string{"PUT", "PUT", "POST", "PUT", "PUT"}, methods(api.sent()))
	})
}

func methods(sent []string) []string {
	out := []string{}
	for _, s := range sent {
		m, _, _ := strings.Cut(s, " ")
		out = append(out, m)
	}
	return out
}

// TestHeldLanesAreVisible: an uncertain head holds its lane, in Status, Flush and List, until it is decided.
func TestHeldLanesAreVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		api := &fakeAPI{before: func(r *http.Request) error {
			if fail && strings.HasSuffix(r.URL.Path, "/a") {
				return errors.New("connection reset")
			}
			return nil
		}}
		c := newFakeTill(t, api, nil)
		head, err := post(c, "a").Enqueue(t.Context())
		require.NoError(t, err)
		behind, err := post(c, "a").Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(30 * time.Hour) // past the window (F5), and nothing can be read back
		require.Equal(t, StateUncertain, stateOf(t, c, head.ID()))
		require.Equal(t, StateQueued, stateOf(t, c, behind.ID()))
		s := c.Status()
		require.Equal(t, 1, s.HeldLanes)
		require.Equal(t, 1, s.Uncertain)
		require.Equal(t, 1, s.Waiting)
		var held *HeldError
		require.ErrorAs(t, c.Flush(t.Context()), &held)
		require.Equal(t, 1, held.HeldLanes)

		fail = false
		require.NoError(t, c.Operations.Resolve(t.Context(), head.ID(), Resolution{Decision: Abandon, Note: "asked the guest"}))
		_, err = behind.Wait(t.Context())
		require.NoError(t, err)
		require.Zero(t, c.Status().HeldLanes)
	})
}
