package mockserver

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// retryAfter is a Retry-After header; "" = none. In JSON it is a number of seconds, a duration such as
// "3s", or any other string, which is sent as it is: a date, or nonsense. It is shown as a number when it
// is whole seconds, else as the string, so that what is shown means the same when it is sent back.
type retryAfter string

const maxRetryAfter = 1e9 // seconds; far beyond what means anything

// seconds rounds up: a client that waits that long has waited long enough.
func seconds(d time.Duration) retryAfter {
	return retryAfter(strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
}

func (r retryAfter) MarshalJSON() ([]byte, error) {
	if n, err := strconv.ParseInt(string(r), 10, 64); err == nil && strconv.FormatInt(n, 10) == string(r) && n >= 0 && n <= maxRetryAfter {
		return []byte(r), nil
	}
	return json.Marshal(string(r))
}

func (r *retryAfter) UnmarshalJSON(b []byte) error {
	var number float64
	var text string
	switch {
	case string(b) == "null":
		return nil
	case json.Unmarshal(b, &number) == nil:
		if number < 0 || number > maxRetryAfter {
			return fmt.Errorf("retry_after: %s is no number of seconds; a string is sent as it is", b)
		}
		*r = retryAfter(strconv.FormatInt(int64(math.Ceil(number)), 10))
		return nil
	case json.Unmarshal(b, &text) != nil || strings.TrimSpace(text) == "":
		return fmt.Errorf(`retry_after is a number of seconds, a duration such as "3s", or the header as it is to be sent, not %s`, b)
	}
	*r = retryAfter(text)
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return nil // "0" is a duration too, and "-1" or "1.5" are nonsense on purpose
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return fmt.Errorf("retry_after: %q is in the past", text)
		}
		*r = seconds(d)
	}
	return nil
}
