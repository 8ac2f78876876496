package flavoso

import (
	"sync"
	"time"
)

// wallClock is a till's clock that can be set, and a machine that can sleep and be booted again. Its time
// has no monotonic reading, as if every comparison went over what is stored.
type wallClock struct {
	mu    sync.Mutex
	start time.Time // of the boot, by the test's clock
	off   time.Duration
	slept time.Duration
	boot  string
}

// newWallClock starts at t.
func newWallClock(t time.Time) *wallClock {
	return &wallClock{start: time.Now(), off: time.Until(t), boot: "boot 1"}
}

func (c *wallClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off).Round(0)
}

func (c *wallClock) uptime() (string, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.boot, time.Since(c.start) + c.slept
}

// jump sets the wall clock by d, forward or back.
func (c *wallClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// sleep suspends the machine: the wall clock and the time since boot go on, the monotonic clock does not.
func (c *wallClock) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
	c.slept += d
}

// reboot starts the machine again.
func (c *wallClock) reboot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start, c.slept, c.boot = time.Now(), 0, c.boot+"+"
}
