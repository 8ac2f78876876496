package flavoso

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

func TestExponentialJitterSpans(t *testing.T) {
	for name, c := range map[string]struct {
		policy   ExponentialJitter
		attempt  int
		low, top time.Duration
	}{
		"default, first":    {ExponentialJitter{}, 0, 50 * time.Millisecond, 500 * time.Millisecond},
		"default, fourth":   {ExponentialJitter{}, 3, 50 * time.Millisecond, 4 * time.Second},
		"default, for ever": {ExponentialJitter{}, math.MaxInt, 50 * time.Millisecond, time.Minute},
		"own":               {ExponentialJitter{Base: time.Second, Cap: 3 * time.Second, Floor: 2 * time.Second}, 9, 2 * time.Second, 3 * time.Second},
		"no floor":          {ExponentialJitter{Floor: -1}, 0, 0, 500 * time.Millisecond},
		"no cap":            {ExponentialJitter{Cap: -1}, 20, 50 * time.Millisecond, 500 * time.Millisecond << 20},
		"no cap, for ever":  {ExponentialJitter{Cap: -1}, math.MaxInt, 50 * time.Millisecond, math.MaxInt64},
		"below the floor":   {ExponentialJitter{Base: time.Millisecond}, 0, time.Millisecond, time.Millisecond},
	} {
		var seen time.Duration
		for range 300 {
			d := c.policy.Delay(c.attempt)
			assert.GreaterOrEqual(t, d, c.low, name)
			assert.LessOrEqual(t, d, c.top, name)
			seen = max(seen, d)
		}
		assert.GreaterOrEqual(t, seen, c.low/2+c.top/2, "%s: never in the upper half", name)
	}
}

func TestExponentialJitterValidates(t *testing.T) {
	for _, ok := range []ExponentialJitter{{}, {Floor: -1, Cap: -1}, {Base: 1, Cap: 2, Floor: 1}, {Floor: time.Hour, Cap: -1}} {
		assert.NoError(t, ok.validate(), "%+v", ok)
	}
	for _, bad := range []ExponentialJitter{{Base: -1}, {Floor: 2, Cap: 1}, {Floor: 2 * time.Minute}} {
		assert.ErrorIs(t, bad.validate(), ErrNotSaved, "%+v", bad)
	}
}

var _ RetryPolicy = ExponentialJitter{}

// policyFunc is a delay rule of the application's own.
type policyFunc func(attempt int) time.Duration

func (f policyFunc) Delay(attempt int) time.Duration { return f(attempt) }

// TestNoDelayPolicyEndsTheProgram: whatever the application's rule says, or if it panics, what it is asked about is tried
// again after a while: not at once and for ever, and not never.
func TestNoDelayPolicyEndsTheProgram(t *testing.T) {
	for name, policy := range map[string]policyFunc{
		"it panics":     func(int) time.Duration { panic("a mistake in the delay policy") },
		"none":          func(int) time.Duration { return 0 },
		"negative":      func(int) time.Duration { return -time.Hour },
		"beyond bounds": func(int) time.Duration { return math.MaxInt64 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var outcomes, orders []time.Time
				taken := func(tries *[]time.Time) error {
					if *tries = append(*tries, time.Now()); len(*tries) < 4 {
						return errors.New("not yet")
					}
					return nil
				}
				s := newTill(t, func(c *Config) {
					c.Retry = policy
					c.OnOutcome = func(context.Context, *Client, Outcome) error { return taken(&outcomes) }
				})
				id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
				ctx, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
				defer cancel()
				s.srv.Inject(mockserver.Status(503).On("GET", "/orders/{id}").Times(2))
				order, err := s.Orders.Get(ctx, id)
				require.NoError(t, err)
				require.Equal(t, OrderPending, order.Status)
				_, err = s.Orders.Accept(id, AcceptParams{}).Do(ctx)
				require.NoError(t, err)
				require.ErrorIs(t, s.Orders.Watch(ctx, WatchParams{Name: "kitchen"}, func(context.Context, *Order) error { return taken(&orders) }), context.DeadlineExceeded)
				for _, tries := range [][]time.Time{outcomes, orders} {
					require.Len(t, tries, 4)
					for i, at := range tries[1:] {
						require.True(t, at.After(tries[i]), "a pause before each try: %v", tries)
					}
				}
			})
		})
	}
}
