package dispatch

import (
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

const (
	// redateEvery is how often a part of the backlog is looked through for due times that a wall clock left
	// behind: an outbox written today and read in 1970 has all of them far ahead.
	redateEvery = time.Minute
	// redatePage is how many operations are looked at in one go.
	redatePage = 100
	// stepBack is how far the wall clock must go back to be noticed, and stepLimit how far ahead due times
	// may lie after that.
	stepBack  = 5 * time.Second
	stepLimit = 2 * time.Minute
)

// redater makes due what only a wall clock that was set back keeps from being sent. The loop's goroutine
// owns it.
type redater struct {
	d       *Dispatcher
	wall    time.Time // at the last pass
	mono    time.Time // at the last pass, with its monotonic reading
	next    time.Time // when to look at the next page, on the monotonic clock
	after   string    // where the scan stands
	stepped bool      // the scan goes on because the clock was seen to step back
}

// pass looks at a page when it is time to. It comes after the first look, which nothing slow may delay.
func (r *redater) pass() {
	d := r.d
	if d.shared {
		return // its due times are the storage's own
	}
	now, mono := d.cfg.Now().Round(0), time.Now()
	if !r.wall.IsZero() && now.Sub(r.wall) < mono.Sub(r.mono)-stepBack {
		r.stepped, r.after, r.next = true, "", mono
		d.mu.Lock()
		for c := range d.roster.special {
			c.restUntil, c.nextProbe = time.Time{}, time.Time{} // asked for by nobody but this client
			d.roster.sort(c, now)
		}
		d.mu.Unlock()
	}
	r.wall, r.mono = now, mono
	if mono.Before(r.next) {
		return
	}
	r.next = mono.Add(redateEvery)
	limit := hurryAhead
	if r.stepped {
		limit = stepLimit
	}
	page, err := d.engine.List(d.ctx, outbox.Query{States: []outbox.State{outbox.Queued, outbox.Sent}, After: r.after, Limit: redatePage})
	if err != nil {
		return // the loop meets the same trouble and tells
	}
	for i := range page.Records {
		rec := &page.Records[i]
		if rec.Claimed() || !rec.Due.After(now) || rec.Due.Sub(now) <= limit && !datedAhead(rec, now) || !d.sendsFor(rec.Connection) {
			continue
		}
		// One that was claimed, ended or taken away meanwhile needs nothing.
		_, _ = d.engine.Set(d.ctx, outbox.Change{ID: rec.ID, Action: outbox.RetryNow, Now: now})
	}
	if r.after = page.Next; r.after == "" {
		r.stepped = false
	} else if r.stepped {
		r.next = mono // all of the backlog is looked through at once
		d.Kick()
	}
}

// datedAhead reports whether a record was last written under a wall clock that was ahead of today's: so is its
// due time.
func datedAhead(rec *outbox.Record, now time.Time) bool {
	written := rec.Created
	if rec.Last != nil {
		written = rec.Last.End
	}
	return written.After(now.Add(stepBack))
}
