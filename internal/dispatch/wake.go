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
	for c := range d.roster.special {
		d.wakeLocked(c)
	}
	d.wakes++
	d.hurry = d.cfg.Concurrency // the first few at once, before the others are found
	d.mu.Unlock()
	for _, name := range d.names() {
		d.endPausesOf(name)
	}
	d.Kick()
}

// WakeConnection is Wake for one connection.
func (d *Dispatcher) WakeConnection(name string) {
	d.mu.Lock()
	if c := d.roster.byName[name]; c != nil {
		d.wakeLocked(c)
	}
	d.mu.Unlock()
	d.endPausesOf(name)
	d.Kick()
}

func (d *Dispatcher) wakeLocked(c *connection) {
	c.nextProbe, c.restUntil, c.woken = time.Time{}, time.Time{}, c.condition != online
	d.roster.sort(c, d.cfg.Now())
}

// endPausesOf starts endPauses unless it is running.
func (d *Dispatcher) endPausesOf(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.waking[name] && !d.draining {
		d.waking[name] = true
		d.jobs.Go(func() { d.endPauses(name) })
	}
}

// endPauses makes what waits for its next attempt due; of all connections with "".
func (d *Dispatcher) endPauses(name string) {
	defer func() {
		d.mu.Lock()
		delete(d.waking, name)
		d.mu.Unlock()
		d.Kick()
	}()
	q := outbox.Query{Connection: name, States: []outbox.State{outbox.Queued, outbox.Sent}}
	for n := 0; n < wakeAtMost; {
		page, err := d.engine.List(d.ctx, q)
		if err != nil {
			if d.ctx.Err() == nil {
				d.log.Warn("flavoso.wake_failed", "connection", name, "error", err)
			}
			return
		}
		n += d.makeDue(page.Records)
		if q.After = page.Next; page.Next == "" {
			return
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
