package overlay

// Clock lets a till's wall clock and boot clock follow the environment, so that a run can set them: the
// client asks these two for the time wherever a till's time matters. Nothing else of the product is touched.
//
// The variable holds the boot's name, how long the machine was suspended, and jumps of the wall clock, each
// after some time of the process: "boot 2;90000s;0s:-1h;30ms:25h".
var Clock = []Patch{
	{Dir: ".", Old: "		c.now = time.Now\n", New: "		c.now = tortureClock.now\n"},
	{Dir: ".", Old: "		c.uptime = dispatch.MachineUptime()\n", New: "		c.uptime = tortureClock.uptime(dispatch.MachineUptime())\n"},
	{Dir: ".", New: clockCode},
}

// Pace makes a till as quick as the mock server of a run, where an aborted request keeps its key for less than
// a second instead of Flavoso's two minutes (F9): how long it waits for such a request to be over.
var Pace = []Patch{
	{Dir: "internal/dispatch", Old: "	secondLook = 10 * time.Second\n", New: "	secondLook = 200 * time.Millisecond\n"},
	{Dir: "internal/dispatch", Old: "	leaseOver = 2*time.Minute + 30*time.Second\n", New: "	leaseOver = 1500 * time.Millisecond\n"},
}

// FleetPace makes leases and the taking over of what a dead worker left as quick as that.
var FleetPace = []Patch{
	{Dir: "internal/dispatch", Old: "	leaseMargin = 30 * time.Second\n", New: "	leaseMargin = 1000 * time.Millisecond\n"},
	{Dir: "internal/dispatch", Old: "	leaseSpare  = 10 * time.Second\n", New: "	leaseSpare  = 300 * time.Millisecond\n"},
	{Dir: ".", Old: "	takeOverAfter = time.Minute\n", New: "	takeOverAfter = time.Second\n"},
	{Dir: ".", Old: "	takeOverEvery = 20 * time.Second\n", New: "	takeOverEvery = 300 * time.Millisecond\n"},
	{Dir: ".", Old: "	afterOther = time.Second\n", New: "	afterOther = 100 * time.Millisecond\n"},
}

const clockCode = `package flavoso

import (
	"os"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/internal/dispatch"
)

type setClock struct {
	start time.Time
	boot  string
	slept time.Duration
	jumps []clockJump
}

type clockJump struct{ after, by time.Duration }

var tortureClock = newSetClock(os.Getenv("FLAVOSO_TORTURE_CLOCK"))

func newSetClock(text string) *setClock {
	c := &setClock{start: time.Now()}
	fields := strings.Split(text, ";")
	if len(fields) < 2 {
		return c
	}
	c.boot = fields[0]
	c.slept, _ = time.ParseDuration(fields[1])
	for _, f := range fields[2:] {
		after, by, _ := strings.Cut(f, ":")
		var j clockJump
		j.after, _ = time.ParseDuration(after)
		j.by, _ = time.ParseDuration(by)
		c.jumps = append(c.jumps, j)
	}
	return c
}

func (c *setClock) now() time.Time {
	now := time.Now()
	if len(c.jumps) == 0 {
		return now
	}
	passed := now.Sub(c.start)
	t := now.Round(0)
	for _, j := range c.jumps {
		if passed >= j.after {
			t = t.Add(j.by)
		}
	}
	return t
}

func (c *setClock) uptime(machine dispatch.Uptime) dispatch.Uptime {
	return func() (string, time.Duration) {
		boot, up := machine()
		return boot + c.boot, up + c.slept
	}
}
`
