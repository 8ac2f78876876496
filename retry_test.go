package flavoso

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
