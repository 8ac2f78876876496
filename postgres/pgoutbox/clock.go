package pgoutbox

import (
	"sync/atomic"
	"time"
)

// skewed is how far this machine's clock may be from the database's before times are corrected. Clocks that agree so
// far are left alone: what was saved is read as it was.
const skewed = time.Second

// clock translates between the wall clock of this machine, which callers use, and the database's, in which times are
// kept. Machines whose clocks differ thus mean the same moments, and the age of what another one has sent is right.
type clock struct {
	now    func() time.Time
	offset atomic.Int64 // what is added to the database's time to get ours
	order  atomic.Int64
}

func (c *clock) off() time.Duration { return time.Duration(c.offset.Load()) }

// saw takes in that the database's clock showed at between two readings of ours.
func (c *clock) saw(before, at, after time.Time) {
	d := before.Add(after.Sub(before) / 2).Sub(at)
	slack := skewed + after.Sub(before)/2
	if have := c.off(); (d - have).Abs() <= slack {
		return
	}
	if d.Abs() <= slack {
		d = 0
	}
	c.offset.Store(int64(d))
}

// next returns a number that rises with time: what falls due at the same moment goes in this order.
func (c *clock) next() int64 {
	for {
		last := c.order.Load()
		n := max(c.now().Add(-c.off()).UnixNano(), last+1)
		if c.order.CompareAndSwap(last, n) {
			return n
		}
	}
}
