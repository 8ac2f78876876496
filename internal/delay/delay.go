// Package delay is the one rule for how long to wait between attempts.
package delay

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// The defaults of the rule.
const (
	Base  = 500 * time.Millisecond
	Floor = 50 * time.Millisecond
	Cap   = time.Minute
)

// Default is Jitter with the defaults.
func Default(attempt int) time.Duration { return Jitter(attempt, Base, Floor, Cap) }

// Jitter returns a duration drawn uniformly from [floor, min(most, base·2^attempt)]; attempt counts from
// 0. It depends on nothing else, so that an attempt number that was stored is all that is needed to go on
// after a restart. A span that is empty gives its upper end. Overflow saturates.
func Jitter(attempt int, base, floor, most time.Duration) time.Duration {
	upper := min(grow(base, attempt), most)
	if upper <= floor {
		return max(upper, 0)
	}
	// An interval of half the span, randomised by factor 1, is uniform on the whole span.
	half := (upper - floor) / 2
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(half),
		backoff.WithMaxInterval(half),
		backoff.WithRandomizationFactor(1),
		backoff.WithMultiplier(1),
		backoff.WithMaxElapsedTime(0),
	)
	return min(floor+max(b.NextBackOff(), 0), upper)
}

// grow returns base·2^n, or the largest duration when that does not fit.
func grow(base time.Duration, n int) time.Duration {
	if base <= 0 {
		return 0
	}
	if n <= 0 {
		return base
	}
	if n >= 63 || base > math.MaxInt64>>n {
		return math.MaxInt64
	}
	return base << n
}
