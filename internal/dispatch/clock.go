package dispatch

import (
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// anchorAge is how long an authored Date header tells Flavoso's time. Longer, a till's oscillator or a
// suspended machine could have drifted away from it unnoticed.
const anchorAge = 10 * time.Minute

// Uptime names the machine's boot and says how long ago it was, on a clock that nobody sets and that
// counts suspended time. An empty boot means that the machine cannot tell.
type Uptime func() (boot string, up time.Duration)

// clock knows Flavoso's time, as far as it can be known. A till's own wall clock is
// never believed: it may start in 1970, and be set at any moment.
type clock struct {
	uptime Uptime
	wall   func() time.Time

	mu     sync.Mutex
	server time.Time // Flavoso's time when the anchor was set
	local  time.Time // our reading at that moment; its monotonic part does the arithmetic
	boot   string
	up     time.Duration
}

// observe takes the Date of an authored answer that arrived now.
func (c *clock) observe(date, now time.Time) {
	if date.IsZero() {
		return
	}
	boot, up := c.uptime()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.local, c.boot, c.up = date, now, boot, up
}

// reading returns Flavoso's time by the anchor and how old the anchor is; zero when there is none.
func (c *clock) reading() (time.Time, time.Duration) {
	boot, up := c.uptime()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.IsZero() {
		return time.Time{}, 0
	}
	// The monotonic reading stands still while a machine sleeps; the uptime clock does not.
	since := max(time.Since(c.local), 0)
	if boot != "" && boot == c.boot {
		since = max(since, up-c.up)
	}
	return c.server.Add(since), since
}

// now returns Flavoso's time, or zero when no recent enough anchor tells it.
func (c *clock) now() time.Time {
	now, since := c.reading()
	if since > anchorAge {
		return time.Time{}
	}
	return now
}

// mark is the exposure that a claim made now would set. Here an old anchor will do: local clocks can only
// have lost time since, so that the operation will seem older than it is, never younger.
func (c *clock) mark() outbox.Mark {
	boot, up := c.uptime()
	server, _ := c.reading()
	return outbox.Mark{Now: c.wall(), Server: server, Boot: boot, Uptime: up}
}

// age returns how long ago an exposure was, or false when no clock tells.
func (c *clock) age(e *outbox.Exposure) (time.Duration, bool) {
	if now := c.now(); !now.IsZero() && !e.Server.IsZero() {
		return max(now.Sub(e.Server), 0), true
	}
	if boot, up := c.uptime(); boot != "" && boot == e.Boot && up >= e.Uptime {
		return up - e.Uptime, true
	}
	return 0, false
}
