package flavoso

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// sharedMemory is an engine that says that other processes have its storage open, too.
type sharedMemory struct{ outbox.Engine }

func (sharedMemory) Shared() bool { return true }

// A machine that slept until its lease had nearly ended begins no request: another process may take over any
// moment. The wall clock alone shows that it slept.
func TestNoRequestBeginsWhenItsLeaseMayEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newWallClock(time.Now())
		var asked atomic.Int32
		api := &fakeAPI{}
		c := newFakeTill(t, api, func(c *Config) {
			c.Outbox = sharedMemory{outbox.NewMemory()}
			c.AttemptTimeout = 5 * time.Second // a lease of 35 s
			c.now, c.uptime = clock.now, clock.uptime
			c.Token = TokenFunc(func(context.Context, TokenRequest) (string, error) {
				if asked.Add(1) == 1 {
					clock.sleep(40 * time.Second)
				}
				return "token", nil
			})
		})
		call := post(c, "lane")
		_, err := call.Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, api.count())
		o, _ := call.Outcome()
		require.Equal(t, 2, o.Attempts, "the first one was not sent")
	})
}

// What a process that only saves keeps is for others to hand over and to remove.
func TestSavingOnlyRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := outbox.NewMemory()
		var handed atomic.Int32
		worker := func(take bool) *Fleet {
			return newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) {
				c.Outbox, c.KeepFinished = engine, time.Hour
				c.OnOutcome = func(context.Context, *Client, Outcome) error {
					if !take {
						return context.DeadlineExceeded
					}
					handed.Add(1)
					return nil
				}
			})
		}
		f := worker(false)
		_, err := post(f.Client("a"), "lane").Do(t.Context())
		require.NoError(t, err)
		require.NoError(t, f.Close())

		web := newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) {
			c.Outbox, c.Concurrency, c.KeepFinished = engine, -1, time.Hour
		})
		time.Sleep(12 * time.Hour)
		require.NoError(t, web.Close())
		worker(true)
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, handed.Load())
	})
}

// Where processes share the storage, its clock decides what is over. An operation that it holds to be not over yet,
// as the wall clock was set back a little, ends a little later, and not when somebody looks through all.
func TestExpiryOnSharedStorageWhoseClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newWallClock(time.Now())
		c := newFakeTill(t, &fakeAPI{}, func(c *Config) {
			c.Outbox = sharedMemory{outbox.NewMemory()}
			c.now, c.uptime = clock.now, clock.uptime
			c.Token = TokenFunc(func(context.Context, TokenRequest) (string, error) { return "", errors.New("no token") })
		})
		_, err := post(c, "first").Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(10 * time.Minute) // whoever looks through all has just done so
		p, err := post(c, "lane").WithExpiry(5 * time.Minute).Enqueue(t.Context())
		require.NoError(t, err)
		clock.jump(-30 * time.Second)
		time.Sleep(5*time.Minute + 35*time.Second)
		require.Equal(t, StateExpired, stateOf(t, c, p.ID()))
	})
}

// lapsing is a shared engine that takes no verdicts for a while, and whose leases end when they are told to.
type lapsing struct {
	sharedMemory
	failing atomic.Bool
	claim   atomic.Pointer[outbox.Settlement]
}

func (e *lapsing) Settle(ctx context.Context, s ...outbox.Settlement) ([]outbox.Settled, error) {
	if e.failing.Load() {
		e.claim.Store(&s[0])
		return nil, errors.New("the storage is away")
	}
	return e.sharedMemory.Settle(ctx, s...)
}

// lapse ends the lease of the claim whose verdict was not taken.
func (e *lapsing) lapse(ctx context.Context) error {
	c, now := e.claim.Load(), time.Now()
	_, err := e.sharedMemory.Settle(ctx, outbox.Settlement{ID: c.ID, Claim: c.Claim, Now: now, To: outbox.Queued, Due: now})
	return err
}

// A verdict that is known and could not be saved is not asked for again by the process that knows it, also when the
// lease ended meanwhile: the caller was told, and the next answer may be another.
func TestAKnownVerdictOutlivesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &lapsing{sharedMemory: sharedMemory{outbox.NewMemory()}}
		var asked atomic.Int32
		api := &fakeAPI{status: func(*http.Request) int {
			if asked.Add(1) == 1 {
				return http.StatusConflict
			}
			return http.StatusOK
		}}
		var saved atomic.Int32
		c := newFakeTill(t, api, func(c *Config) {
			c.Outbox = engine
			c.Hooks.Finished = func(o Outcome) {
				if o.Durable {
					saved.Add(1)
				}
			}
		})
		engine.failing.Store(true)
		call := post(c, "lane")
		_, err := call.Do(t.Context())
		require.ErrorIs(t, err, ErrConflict)
		require.NoError(t, engine.lapse(t.Context()))
		time.Sleep(5 * time.Second)
		engine.failing.Store(false)
		time.Sleep(5 * time.Minute)
		o, _ := call.Outcome()
		require.Equal(t, StateRejected, o.State)
		require.True(t, o.Durable)
		require.Equal(t, 1, api.count())
		require.EqualValues(t, 1, saved.Load())
	})
}
