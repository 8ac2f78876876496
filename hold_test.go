package flavoso

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// writes notes when the writes of a test began, and lets the first of them fail as one does that may still
// arrive.
type writes struct {
	mu sync.Mutex
	at []time.Time
}

func (w *writes) before(r *http.Request) error {
	if r.Method == http.MethodGet {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = append(w.at, time.Now())
	if len(w.at) == 1 {
		return errors.New("timeout")
	}
	return nil
}

func (w *writes) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.at)
}

// TestNothingHurriesALanePastItsHold: after an ambiguous attempt of a write without a key the next write of
// its lane waits for an attempt timeout, so that the late one cannot overwrite it.
func TestNothingHurriesALanePastItsHold(t *testing.T) {
	for _, tc := range []struct {
		name  string
		hurry func(t *testing.T, c *Client, next string)
	}{
		{"nothing", func(*testing.T, *Client, string) {}},
		{"flush", func(t *testing.T, c *Client, _ string) { require.NoError(t, c.Flush(t.Context())) }},
		{"wake", func(_ *testing.T, c *Client, _ string) { c.Wake() }},
		{"retry now", func(t *testing.T, c *Client, next string) {
			require.NoError(t, c.Operations.RetryNow(t.Context(), next))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w writes
				c := newFakeTill(t, &fakeAPI{before: w.before}, nil)
				_, err := put(c, "menu", 1).Enqueue(t.Context())
				require.NoError(t, err)
				next, err := put(c, "menu", 2).Enqueue(t.Context())
				require.NoError(t, err)
				for w.count() < 2 { // until the first is over
					time.Sleep(time.Millisecond)
				}
				synctest.Wait()
				tc.hurry(t, c, next.ID())
				_, err = next.Wait(forHours(t, 1))
				require.NoError(t, err)
				require.Len(t, w.at, 3)
				require.GreaterOrEqual(t, w.at[2].Sub(w.at[0]), 30*time.Second)
				require.Less(t, w.at[2].Sub(w.at[0]), time.Minute)
			})
		})
	}
}

// TestDecidingAnAmbiguousWriteHoldsItsLane: who gives up a write, or vouches for it, does not call its
// request back.
func TestDecidingAnAmbiguousWriteHoldsItsLane(t *testing.T) {
	for _, decision := range []Decision{Abandon, Done} {
		synctest.Test(t, func(t *testing.T) {
			var w writes
			c := newFakeTill(t, &fakeAPI{before: w.before}, func(cfg *Config) {
				cfg.Retry = ExponentialJitter{Base: 20 * time.Second, Floor: 10 * time.Second}
			})
			p, err := put(c, "menu", 1).Enqueue(t.Context())
			require.NoError(t, err)
			next, err := put(c, "menu", 2).Enqueue(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Second)
			require.NoError(t, c.Operations.Resolve(t.Context(), p.ID(), Resolution{Decision: decision}))
			_, err = next.Wait(forHours(t, 1))
			require.NoError(t, err)
			require.Len(t, w.at, 2)
			require.GreaterOrEqual(t, w.at[1].Sub(w.at[0]), 30*time.Second)
		})
	}
}

// TestDecidingWhatWasNeverSentHoldsNothing: there is nothing that could arrive late.
func TestDecidingWhatWasNeverSentHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		w.at = make([]time.Time, 1)
		api := &fakeAPI{before: w.before}
		hold := make(chan struct{})
		api.before = func(r *http.Request) error {
			if r.URL.Path == "/v1/things/first" {
				<-hold
			}
			return w.before(r)
		}
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Concurrency = 1 })
		_, err := post(c, "first").Enqueue(t.Context())
		require.NoError(t, err)
		p, err := put(c, "menu", 1).Enqueue(t.Context())
		require.NoError(t, err)
		next, err := put(c, "menu", 2).Enqueue(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Operations.Resolve(t.Context(), p.ID(), Resolution{Decision: Abandon}))
		began := time.Now()
		close(hold)
		_, err = next.Wait(t.Context())
		require.NoError(t, err)
		require.Less(t, time.Since(began), time.Second)
	})
}
