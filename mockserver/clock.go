package mockserver

import (
	"sync"
	"time"
)

// Clock is a server's own time: the machine's time plus an offset that only tests move. Everything the
// server decides by time (24 hours of a held answer, the 2-minute lease, accept deadlines, the Date
// header) follows it, and no other server's clock moves with it. It is safe for concurrent use.
//
// Faults that make a request wait (delay, drip, late) wait in the machine's time, because that is what
// the client on the other end measures.
type Clock struct {
	mu     sync.Mutex
	offset time.Duration
}

// Now returns the server's time, in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset).UTC()
}

// Advance moves the clock by d and returns the new time. A negative d moves it back.
func (c *Clock) Advance(d time.Duration) time.Time {
	c.mu.Lock()
	c.offset += d
	c.mu.Unlock()
	return c.Now()
}

// Set moves the clock to t. It goes on running from there.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = time.Until(t)
}
