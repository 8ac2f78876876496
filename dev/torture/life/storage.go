package life

import (
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/plan"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

// Storage puts the plan's troubles under the outbox.
func (t *Life) Storage(o *bolt.Options) {
	disk := bolttest.NewDisk()
	disk.Attach(o)
	var power *power
	if t.Plan.PowerCut {
		power = newPower(t, disk)
	}
	for _, p := range bolttest.Points() {
		disk.At(p, func() {
			if p == bolt.PointCommitBegin && t.death.answered.Swap(false) {
				t.death.at(plan.AnswerRead)
			}
			if t.Plan.Slow > 0 && (p == bolt.PointCommitMeta || p == bolt.PointCommitSync) {
				time.Sleep(time.Duration(rand.Int64N(int64(t.Plan.Slow))))
			}
			if power != nil {
				power.at(p)
				return
			}
			t.death.at(string(p))
		})
	}
	for _, f := range t.Plan.Disk {
		arm := func() { armFault(disk, f) }
		if f.After == 0 {
			arm()
		} else {
			time.AfterFunc(f.After, arm)
		}
	}
}

func armFault(disk *bolttest.Disk, f plan.DiskFault) {
	ops := map[string]bolttest.Op{"write": bolttest.WriteData, "sync": bolttest.SyncData, "meta": bolttest.WriteMeta,
		"sync-meta": bolttest.SyncMeta, "full": bolttest.WriteData}
	op := ops[f.Op]
	switch {
	case f.Op == "full":
		disk.FailWith(op, f.Times, syscall.ENOSPC)
	case f.Every > 0:
		disk.FailEvery(op, f.Every)
	default:
		disk.Fail(op, f.Times)
	}
}

// power is the power supply of this life's disk. When it fails, the file keeps what a sync had reached and any
// part of what was written since, the last piece possibly torn.
type power struct {
	life   *Life
	disk   *bolttest.Disk
	stable []byte // the file as the last sync left it
	seen   int    // writes that are in stable
}

func newPower(t *Life, disk *bolttest.Disk) *power {
	disk.Record()
	return &power{life: t, disk: disk}
}

func (p *power) at(point bolt.Point) {
	path := p.life.Plan.Outbox
	switch point {
	case bolt.PointCommitBegin:
		// Nothing is on its way between two commits.
		data, err := os.ReadFile(path)
		if err != nil {
			return
		}
		p.stable, p.seen = data, len(p.disk.Writes())
	case bolt.PointCommitDone, bolt.PointCommitFailed:
		p.stable = nil // what is written now goes to a copy of the file, which has no name yet
	case bolt.PointCommitMeta, bolt.PointCommitSync:
		if p.stable == nil || p.life.Plan.Point != "power" || p.life.death.passes.Add(1) != int64(p.life.Plan.Nth)+1 {
			return
		}
		image := p.image(point == bolt.PointCommitSync)
		if err := os.WriteFile(path+".image", image, 0o600); err != nil {
			return
		}
		if err := os.Rename(path+".image", path); err != nil {
			return
		}
		p.life.death.die("power: " + string(point))
	}
}

// image is the file after the power has failed: in the data pages of a commit, or in its meta page.
func (p *power) image(inMeta bool) []byte {
	rnd := p.life.death.rnd
	image := append([]byte(nil), p.stable...)
	apply := func(w bolttest.Write, n int) {
		if need := w.At + int64(n); int64(len(image)) < need {
			image = append(image, make([]byte, need-int64(len(image)))...)
		}
		copy(image[w.At:], w.Data[:n])
	}
	const sector = 512
	for _, w := range p.disk.Writes()[p.seen:] {
		switch {
		case w.Meta:
			// The meta page is small enough to be written whole or not at all, or to be torn at any byte.
			switch rnd.IntN(3) {
			case 0:
			case 1:
				apply(w, len(w.Data))
			default:
				apply(w, rnd.IntN(len(w.Data)))
			}
		case inMeta: // a sync has reached the data pages
			apply(w, len(w.Data))
		case rnd.IntN(2) == 0:
			apply(w, len(w.Data))
		case rnd.IntN(2) == 0:
			apply(w, rnd.IntN(len(w.Data)/sector+1)*sector)
		}
	}
	if info, err := os.Stat(p.life.Plan.Outbox); err == nil && int64(len(image)) < info.Size() && rnd.IntN(2) == 0 {
		image = append(image, make([]byte, info.Size()-int64(len(image)))...) // the file had grown, and that arrived
	}
	return image
}
