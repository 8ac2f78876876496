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
	"github.com/flavoso/flavoso-go/outbox"
)

// crowd is a fakeAPI's request that takes its time and counts how many of a connection run at once.
type crowd struct {
	takes time.Duration

	mu      sync.Mutex
	running map[string]int
	most    int
}

func (c *crowd) run(r *http.Request) error {
	name := connectionOf(r)
	c.mu.Lock()
	if c.running == nil {
		c.running = map[string]int{}
	}
	c.running[name]++
	c.most = max(c.most, c.running[name])
	c.mu.Unlock()
	time.Sleep(c.takes)
	c.mu.Lock()
	c.running[name]--
	c.mu.Unlock()
	return nil
}

// slowNextDue is an engine that answers NextDue when it is let to.
type slowNextDue struct {
	outbox.Engine
	armed atomic.Bool
	let   chan struct{}
}

func (e *slowNextDue) NextDue(ctx context.Context, s outbox.Scope) (time.Time, bool, error) {
	if e.armed.Swap(false) {
		<-e.let
	}
	return e.Engine.NextDue(ctx, s)
}

// What is submitted while the loop asks the storage takes places of its connection, and the claim that follows
// leaves them alone.
func TestFleetClaimLeavesPlacesThatWereTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &slowNextDue{Engine: outbox.NewMemory(), let: make(chan struct{})}
		c := &crowd{takes: time.Second}
		f := newFakeFleet(t, &fakeAPI{before: c.run}, func(cfg *FleetConfig) { cfg.Outbox, cfg.PerConnection = engine, 4 })
		synctest.Wait()
		engine.armed.Store(true)
		f.core.dispatcher.Kick()
		synctest.Wait()
		for i := range 6 {
			_, err := post(f.Client("a"), fmt.Sprint(i)).Enqueue(t.Context())
			require.NoError(t, err)
		}
		close(engine.let)
		require.NoError(t, f.Client("a").Flush(t.Context()))
		require.Equal(t, 4, c.most)
	})
}

// A connection that a claim has just met is not given up for the next one that it meets: its attempts would be
// counted apart from then on.
func TestFleetRemembersConnectionsThatItClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := outbox.NewMemory()
		names := []string{"a", "b", "c"}
		web := newFakeFleet(t, &fakeAPI{}, func(cfg *FleetConfig) { cfg.Outbox, cfg.Concurrency = engine, -1 })
		for _, name := range names {
			_, err := post(web.Client(name), "first").Enqueue(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, web.Close())
		c := &crowd{takes: 10 * time.Second}
		f := newFakeFleet(t, &fakeAPI{before: c.run}, func(cfg *FleetConfig) {
			cfg.Outbox, cfg.PerConnection, cfg.MaxConnections = engine, 1, 1
		})
		synctest.Wait()
		for _, name := range names {
			_, err := post(f.Client(name), "second").Enqueue(t.Context())
			require.NoError(t, err)
		}
		for _, name := range names {
			require.NoError(t, f.Client(name).Flush(t.Context()))
		}
		require.Equal(t, 1, c.most)
		synctest.Wait() // their places are given back
		_, err := post(f.Client("d"), "lane").Enqueue(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, f.core.dispatcher.Connections())
	})
}

// brokenOff is an engine whose LoadState ends with the context of the caller, once.
type brokenOff struct {
	outbox.Engine
	by atomic.Pointer[context.CancelFunc]
}

func (e *brokenOff) LoadState(ctx context.Context, connection, name string) ([]byte, error) {
	if cancel := e.by.Swap(nil); cancel != nil {
		(*cancel)()
		return nil, ctx.Err()
	}
	return e.Engine.LoadState(ctx, connection, name)
}

// A caller who leaves while a connection is taken up does not make the fleet forget that Flavoso asked it to wait.
func TestFleetKeepsAPauseWhoseReadingWasBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, api := &brokenOff{Engine: outbox.NewMemory()}, &fakeAPI{}
		until, err := time.Now().Add(time.Hour).MarshalText()
		require.NoError(t, err)
		require.NoError(t, engine.SaveState(t.Context(), "a", "paused_until", until))
		f := newFakeFleet(t, api, func(c *FleetConfig) { c.Outbox = engine })
		ctx, cancel := context.WithCancel(t.Context())
		engine.by.Store(&cancel)
		_, err = post(f.Client("a"), "first").Enqueue(ctx)
		require.ErrorIs(t, err, ErrNotSaved)
		p, err := post(f.Client("a"), "second").Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(30 * time.Minute)
		require.Zero(t, api.count())
		require.False(t, f.Client("a").Status().PausedUntil.IsZero())
		_, err = p.Wait(t.Context())
		require.ErrorIs(t, err, ErrPending)
		time.Sleep(30 * time.Minute)
		_, err = p.Wait(t.Context())
		require.NoError(t, err)
	})
}

// A lane with many outcomes does not keep those of other lanes waiting until it has none.
func TestFleetOutcomesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := outbox.NewMemory()
		f := newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) { c.Outbox = engine })
		for range 50 {
			_, err := post(f.Client("a"), "long").Do(t.Context())
			require.NoError(t, err)
		}
		_, err := post(f.Client("b"), "short").Do(t.Context())
		require.NoError(t, err)
		require.NoError(t, f.Close())

		var before, all atomic.Int32
		newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) {
			c.Outbox, c.Concurrency = engine, 1
			c.OnOutcome = func(_ context.Context, _ *Client, o Outcome) error {
				if n := all.Add(1); o.Lane == "short" {
					before.Store(n)
				}
				time.Sleep(time.Second)
				return nil
			}
		})
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 51, all.Load())
		require.Less(t, before.Load(), int32(20))
	})
}

// What a fleet learns of a connection by reading counts, also when it has sent nothing for it yet.
func TestFleetReadsKeepToAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.Start(t)
		f, err := OpenFleet(FleetConfig{Outbox: outbox.NewMemory(), BaseURL: srv.BaseURL(), Transport: srv.Transport(), uptime: bootClock(),
			Token: TokenFunc(func(_ context.Context, r TokenRequest) (string, error) { return srv.Token(r.Connection), nil })})
		require.NoError(t, err)
		defer f.Close()
		srv.Inject(mockserver.RateLimit(10 * time.Minute).Times(1))
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan error, 1)
		go func() {
			watched <- f.Client("a").Orders.Watch(ctx, WatchParams{Name: "pos"}, func(context.Context, *Order) error { return nil })
		}()
		time.Sleep(time.Second)
		require.False(t, f.Client("a").Status().PausedUntil.IsZero())
		for range 9 {
			f.Client("a").Wake()
			time.Sleep(time.Minute)
		}
		require.Len(t, srv.Requests(), 1)
		cancel()
		require.ErrorIs(t, <-watched, context.Canceled)
	})
}

// An outage takes all connections off line, and nothing answers: they are probed a bounded number at once, and
// everybody comes back soon after the end.
func TestFleetProbesABoundedNumberAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const connections = 150
		var hanging, most atomic.Int32
		var outage atomic.Bool
		outage.Store(true)
		api := &fakeAPI{before: func(r *http.Request) error {
			switch {
			case !outage.Load():
				return nil
			case r.Method != http.MethodGet:
				return errors.New("no route")
			}
			n := hanging.Add(1)
			defer hanging.Add(-1)
			for {
				if have := most.Load(); n <= have || most.CompareAndSwap(have, n) {
					break
				}
			}
			<-r.Context().Done()
			return r.Context().Err()
		}}
		f := newFakeFleet(t, api, func(c *FleetConfig) { c.Concurrency = 20 })
		for i := range connections {
			for lane := range 2 {
				_, err := post(f.Client(fmt.Sprint("store-", i)), fmt.Sprint(lane)).Enqueue(t.Context())
				require.NoError(t, err)
			}
		}
		time.Sleep(10 * time.Minute)
		require.LessOrEqual(t, most.Load(), int32(20))
		require.EqualValues(t, 20, hanging.Load(), "there is always somebody whose turn it is")
		outage.Store(false)
		time.Sleep(10 * time.Minute)
		for i := range connections {
			s := f.Client(fmt.Sprint("store-", i)).Status()
			require.Zero(t, s.Waiting, i)
			require.True(t, s.OfflineSince.IsZero(), i)
		}
	})
}

// counting counts how often records are asked for.
type counting struct {
	sharedMemory
	gets atomic.Int32
}

func (e *counting) Get(ctx context.Context, id string) (outbox.Record, error) {
	e.gets.Add(1)
	return e.sharedMemory.Get(ctx, id)
}

// Waits for what another process has to send look at the storage ever less often.
func TestWaitsOnSharedStorageAskLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &counting{sharedMemory: sharedMemory{outbox.NewMemory()}}
		web := newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) { c.Outbox, c.Concurrency = engine, -1 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := post(web.Client("a"), "lane").Do(ctx)
		var pending *PendingError
		require.ErrorAs(t, err, &pending)
		require.LessOrEqual(t, engine.gets.Load(), int32(24), "a minute")

		began, done := time.Now(), make(chan error, 1)
		go func() {
			_, err := post(web.Client("a"), "another").Do(t.Context())
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) { c.Outbox = engine }) // sends what waits
		require.NoError(t, <-done)
		require.Less(t, time.Since(began), time.Second, "who has just begun to wait looks soon")
	})
}
