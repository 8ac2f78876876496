package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Retry-After is believed up to these bounds: a proxy's word counts less than Flavoso's.
const (
	MaxRetryAfterAuthored = time.Hour
	MaxRetryAfterOther    = time.Minute
)

// ParseRetryAfter reads the value of a Retry-After header: whole seconds, or one of the three HTTP date
// forms, which is measured against now. Anything else is false. A moment that has passed is 0; what does
// not fit is the largest duration.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false
	}
	if seconds, ok := parseSeconds(value); ok {
		return seconds, true
	}
	t, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return max(t.Sub(now), 0), true
}

func parseSeconds(value string) (time.Duration, bool) {
	if strings.Trim(value, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n > int64(math.MaxInt64/time.Second) {
		return math.MaxInt64, true
	}
	return time.Duration(n) * time.Second, true
}

// retryAfter returns the answer's Retry-After, bounded; 0 = none. A date is measured against the
// answer's own Date, so that the clock of this machine does not matter.
func retryAfter(h http.Header, authored bool, now time.Time) time.Duration {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	bound := MaxRetryAfterOther
	if authored {
		bound = MaxRetryAfterAuthored
	}
	for _, value := range h.Values("Retry-After") {
		if d, ok := ParseRetryAfter(value, now); ok {
			return min(d, bound)
		}
	}
	return 0
}
