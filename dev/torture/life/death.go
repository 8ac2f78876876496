package life

import (
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/flavoso/flavoso-go/dev/torture/account"
)

// death knows where this life ends.
type death struct {
	life     *Life
	passes   atomic.Int64 // of the point
	answered atomic.Bool  // an answer was read, and no commit has begun since
	rnd      *rand.Rand
}

func newDeath(t *Life) *death {
	return &death{life: t, rnd: rand.New(rand.NewPCG(t.Plan.Seed, 7))}
}

// at ends the process at a point if this is where it ends.
func (d *death) at(point string) {
	if d.due(point) {
		d.die(point)
	}
}

// due counts a pass of a point and reports whether it is the last one.
func (d *death) due(point string) bool {
	return point == d.life.Plan.Point && d.passes.Add(1) == int64(d.life.Plan.Nth)+1
}

// die kills the process as kill -9 does.
func (d *death) die(point string) {
	d.life.acc.Write(account.Event{What: account.Dying, Text: point})
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		os.Exit(137)
	}
	select {}
}
