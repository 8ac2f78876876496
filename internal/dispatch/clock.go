package dispatch

import (
	"strings"
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

// processBoot begins the name that stands in for a boot where the machine cannot tell one from another.
const processBoot = "process "

// processUptime tells the time since it was made under the given name. The monotonic clock may stand still
// while a machine sleeps, and the wall clock may be set: what they say at most is what counts, so that an
// age may be too high and never too low.
func processUptime(name string, now func() time.Time) Uptime {
	start := now()
	return func() (string, time.Duration) {
		t := now()
		return name, max(t.Sub(start), t.Round(0).Sub(start.Round(0)))
	}
}

// clock knows Flavoso's time, as far as it can be known. A till's own wall clock is
// never believed: it may start in 1970, and be set at any moment.
type clock struct {
	uptime Uptime
	wall   func() time.Time

	mu     sync.Mutex
	server time.Time // Flavoso's time when the anchor was set
	wallAt time.Time // the wall clock then
	local  time.Time // our reading at that moment; its monotonic part does the arithmetic
	boot   string
	up     time.Duration
	saved  time.Time // Flavoso's time of the anchor that was saved last
}

// observe takes the Date of an authored answer that arrived now.
func (c *clock) observe(date, now time.Time) {
	if date.IsZero() {
		return
	}
	boot, up := c.uptime()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.wallAt, c.local, c.boot, c.up = date, c.wall(), now, boot, up
}

// reading returns the anchor and how long ago it was set: at least, and at most. The time is zero when
// there is no anchor.
func (c *clock) reading() (server time.Time, least, most time.Duration) {
	boot, up := c.uptime()
	now := c.wall()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.IsZero() {
		return time.Time{}, 0, 0
	}
	// The monotonic reading stands still while a machine sleeps; the uptime clock does not.
	least = max(time.Since(c.local), 0)
	if boot != "" && boot == c.boot && !strings.HasPrefix(boot, processBoot) {
		least = max(least, up-c.up)
	}
	// A machine that was suspended from outside may show it on the wall clock alone. That one may also have
	// been set: then the anchor seems older than it is, and costs a control read.
	most = max(least, now.Round(0).Sub(c.wallAt.Round(0)))
	return c.server, least, most
}

// now returns Flavoso's time, or zero when no recent enough anchor tells it.
func (c *clock) now() time.Time {
	server, _, most := c.reading()
	if server.IsZero() || most > anchorAge {
		return time.Time{}
	}
	return server.Add(most)
}

// mark is the exposure that a claim made now would set. Here an old anchor will do: local clocks can only
// have lost time since, so that the operation will seem older than it is, never younger.
func (c *clock) mark() outbox.Mark {
	boot, up := c.uptime()
	server, least, _ := c.reading()
	if !server.IsZero() {
		server = server.Add(least)
	}
	return outbox.Mark{Now: c.wall(), Server: server, Boot: boot, Uptime: up}
}

// age returns how long ago an exposure was, or false when no clock tells.
func (c *clock) age(e *outbox.Exposure) (time.Duration, bool) {
	if now := c.now(); !now.IsZero() && !e.Server.IsZero() {
		// Two answers may come from servers whose clocks differ a little; a mark from the future is no mark.
		if age := now.Sub(e.Server); age > -time.Minute {
			return max(age, 0), true
		}
	}
	if boot, up := c.uptime(); boot != "" && boot == e.Boot && up >= e.Uptime {
		return up - e.Uptime, true
	}
	return 0, false
}
