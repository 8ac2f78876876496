package dispatch

import (
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

const (
	// wakeAtMost bounds how many operations one Wake takes out of their pauses.
	wakeAtMost = 1000
	// wakeTogether bounds how many are changed at once: they share commits.
	wakeTogether = 64
)

// Wake says that the network is back: connections that are not online are probed now, and operations in
// their pause between attempts are tried now, each once: one that fails again has its pause. What Flavoso
// asked to wait for is waited for all the same.
func (d *Dispatcher) Wake() {
	d.mu.Lock()
	for _, c := range d.connections {
		c.nextProbe, c.restUntil, c.woken = time.Time{}, time.Time{}, c.condition != online
	}
	d.wakes++
	d.hurry = d.cfg.Concurrency // the first few at once, before the others are found
	if !d.waking && !d.draining {
		d.waking = true
		d.jobs.Go(d.endPauses)
	}
	d.mu.Unlock()
	d.Kick()
}

// endPauses makes what waits for its next attempt due.
func (d *Dispatcher) endPauses() {
	defer func() {
		d.mu.Lock()
		d.waking = false
		d.mu.Unlock()
		d.Kick()
	}()
	n := 0
	for name := range d.connections {
		q := outbox.Query{Connection: name, States: []outbox.State{outbox.Queued, outbox.Sent}}
		for n < wakeAtMost {
			page, err := d.engine.List(d.ctx, q)
			if err != nil {
				if d.ctx.Err() == nil {
					d.log.Warn("flavoso.wake_failed", "connection", name, "error", err)
				}
				return
			}
			n += d.makeDue(page.Records)
			if q.After = page.Next; page.Next == "" {
				break
			}
		}
	}
}

// makeDue makes those of the records due that are not, and returns how many they were.
func (d *Dispatcher) makeDue(recs []outbox.Record) int {
	now := d.cfg.Now()
	var jobs sync.WaitGroup
	slots := make(chan struct{}, wakeTogether)
	n := 0
	for i := range recs {
		rec := &recs[i]
		if rec.Claimed() || !rec.Due.After(now) {
			continue
		}
		n++
		slots <- struct{}{}
		jobs.Go(func() {
			defer func() { <-slots }()
			// One that was claimed or ended meanwhile needs no hurry any more.
			_, _ = d.engine.Set(d.ctx, outbox.Change{ID: rec.ID, Action: outbox.RetryNow, Now: now})
		})
	}
	jobs.Wait()
	return n
}
