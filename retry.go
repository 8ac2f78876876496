package flavoso

import (
	"math"
	"time"

	"github.com/flavoso/flavoso-go/internal/delay"
	"github.com/flavoso/flavoso-go/internal/dispatch"
)

// RetryPolicy says how long to wait between attempts.
//
// Delay is called with the number of failures so far, from 0. It must depend on nothing else (chance
// aside): after a restart the delays go on from the stored number. It may be called from many goroutines.
// There is no last attempt: an operation is never given up because of their number. A longer Retry-After of
// Flavoso's counts instead. Delays above two hours are cut, and for one that panics a minute is waited.
type RetryPolicy interface {
	Delay(attempt int) time.Duration
}

// leastDelay keeps a policy of no delays from asking storage and servers again and again without a pause.
const leastDelay = time.Millisecond

// delay is what the policy says, within bounds, for what the dispatcher does not send: reads, outcomes, watches.
func (c Config) delay(attempt int) time.Duration {
	return max(dispatch.Bounded(c.Retry.Delay)(attempt), leastDelay)
}

// ExponentialJitter draws each delay uniformly from [Floor, min(Cap, Base·2ⁿ)], so that the tills of a
// city do not come back all at once. It is the default policy.
type ExponentialJitter struct {
	Base  time.Duration // upper end of the first delay; 0 = 500 ms
	Cap   time.Duration // upper end of all delays; 0 = 60 s, negative = none
	Floor time.Duration // lower end of all delays; 0 = 50 ms, negative = none
}

// Delay implements [RetryPolicy].
func (j ExponentialJitter) Delay(attempt int) time.Duration {
	base, most, floor := orDefault(j.Base, delay.Base), orDefault(j.Cap, delay.Cap), orDefault(j.Floor, delay.Floor)
	if most < 0 {
		most = math.MaxInt64
	}
	return delay.Jitter(attempt, base, max(floor, 0), most)
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// validate is part of checking a Config.
func (j ExponentialJitter) validate() error {
	base, most, floor := orDefault(j.Base, delay.Base), orDefault(j.Cap, delay.Cap), orDefault(j.Floor, delay.Floor)
	switch {
	case base < 0:
		return &ParamError{Field: "Config.Retry", Rule: "Base must not be negative"}
	case most >= 0 && floor > most:
		return &ParamError{Field: "Config.Retry", Rule: "Floor must not be above Cap"}
	}
	return nil
}
