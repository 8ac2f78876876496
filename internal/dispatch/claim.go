package dispatch

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// idleClaim is the pause after a claim that found nothing although something was said to be due.
const idleClaim = 10 * time.Millisecond

// look starts as much as may run, and returns when to look again; zero = when something changes.
func (d *Dispatcher) look() (time.Time, error) {
	if err := d.resolveDoubts(); err != nil {
		return time.Time{}, err
	}
	next := d.expireDue()
	d.mu.Lock()
	now := d.cfg.Now()
	next = earlier(next, d.superviseLocked(now))
	next = earlier(next, d.searchLocked(now))
	d.mu.Unlock()
	groups := []group{well, careful}
	// Whoever comes last may find no place left: nobody is always last.
	rand.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	for _, g := range groups {
		again, err := d.claim(g, now)
		if err != nil {
			return time.Time{}, err
		}
		next = earlier(next, again)
	}
	return next, nil
}

// group is which connections one claim serves: those that are well, or the careful and the busy, which must not
// take more than their part.
type group int

const (
	well group = iota
	careful
)

// share is a group as it is at one moment.
type share struct {
	scope outbox.Scope
	busy  []*connection // those of the careful group, whose places are taken before the claim
	each  int           // places of one connection that the claim may take; 0 = any
}

// shareLocked returns those of a group that may be claimed from now, and false when there are none; the caller
// holds mu.
func (d *Dispatcher) shareLocked(g group, now time.Time) (s share, some bool) {
	switch {
	case d.draining || d.roomLocked() == 0:
		return share{}, false
	case g == careful:
		for c := range d.roster.special {
			free := c.pace.free()
			if !c.able(now) || free == 0 {
				continue
			}
			s.busy = append(s.busy, c)
			s.scope.Connections = append(s.scope.Connections, c.Name)
			if s.each == 0 || free < s.each {
				s.each = free
			}
		}
		return s, len(s.busy) > 0
	case d.roster.open != nil:
		for c := range d.roster.special {
			s.scope.Except = append(s.scope.Except, c.Name)
		}
		s.each = d.roster.places
		return s, true
	}
	for name, c := range d.roster.byName {
		if _, special := d.roster.special[c]; !special {
			s.scope.Connections = append(s.scope.Connections, name)
		}
	}
	return s, len(s.scope.Connections) > 0
}

// asked is a request for a claim, and when it was made on the monotonic clock, which a record does not keep.
type asked struct {
	outbox.Mark
	at time.Time
}

const (
	// leaseMargin is how much longer than its attempt a claim on shared storage lasts, and leaseSpare how much
	// of that is left when the attempt has to be over.
	leaseMargin = 30 * time.Second
	leaseSpare  = 10 * time.Second
	// longBody is the size of body that the lease of a claim allows for when it is not known what it takes. An
	// attempt with a larger one has no longer than its lease.
	longBody = 512 << 10
)

// asking begins a claim of an operation whose body has n bytes.
func (d *Dispatcher) asking(n int) asked {
	a := asked{Mark: d.clock.mark(), at: time.Now()}
	if d.shared {
		a.Lease = d.cfg.AttemptTimeout(n) + leaseMargin
	}
	return a
}

// claim starts what is due of a group, and returns when to look at it again.
func (d *Dispatcher) claim(g group, now time.Time) (time.Time, error) {
	due, ok := now, true
	if !d.shared {
		// Asking costs no commit, and takes no place away from an operation that is submitted meanwhile. Where
		// others may be faster it tells little, and costs as much as trying.
		d.mu.Lock()
		s, some := d.shareLocked(g, now)
		d.mu.Unlock()
		if !some {
			return time.Time{}, nil
		}
		var err error
		if due, ok, err = d.engine.NextDue(d.ctx, s.scope); err != nil {
			return time.Time{}, err
		}
	}
	d.mu.Lock()
	s, some := d.shareLocked(g, now) // what was submitted meanwhile has taken places
	if !some {
		d.mu.Unlock()
		return time.Time{}, nil // look is called again when a place is given back
	}
	req := d.asking(longBody)
	q := outbox.ClaimRequest{Scope: s.scope, Mark: req.Mark, KeepExpired: !d.shared}
	if ok && due.Sub(now) > hurryAhead {
		// No delay is that long: the wall clock was set back since. What waits is tried now.
		d.hurry, d.hurryBy = max(d.hurry, 1), due
	}
	hurried, wakes := d.hurry > 0, d.wakes
	if hurried {
		q.DueBy = later(now.Add(hurryAhead), d.hurryBy)
		d.hurryBy = time.Time{}
	}
	if !ok || due.After(q.Until()) {
		d.hurry = 0 // nothing waits that hurrying would help
		d.mu.Unlock()
		return due, nil
	}
	most := d.cfg.Concurrency
	if hurried {
		most = d.hurry
	}
	q.Limit = d.takeLocked(&s, most, now)
	q.PerConnection = s.each
	q.First = append(q.First, d.fresh...)
	d.mu.Unlock()

	recs, err := d.engine.Claim(d.ctx, q)
	d.claimFailed(err)
	started := make([]*outbox.Record, 0, len(recs))
	members := make([]*connection, 0, len(recs))
	for i := range recs {
		if recs[i].State != outbox.Expired {
			started = append(started, &recs[i])
			members = append(members, d.meet(d.ctx, recs[i].Connection))
		}
	}
	d.mu.Lock()
	if hurried && wakes == d.wakes {
		if d.hurry -= len(recs); len(recs) < q.Limit {
			d.hurry = 0 // nothing waits any more
		}
	}
	d.jobs.Add(len(started))
	d.settlePlacesLocked(&s, q.Limit, members, now)
	d.mu.Unlock()
	for i := range recs {
		d.noLongerFresh(recs[i].ID)
		if recs[i].State == outbox.Expired {
			d.ended(&recs[i])
		}
	}
	for i, rec := range started {
		d.start(members[i], *rec, req)
	}
	switch {
	case err != nil:
		return time.Time{}, err
	case len(recs) > 0:
		d.Kick() // there may be more, and places for it
		return time.Time{}, nil
	case d.shared:
		if due, ok, err = d.engine.NextDue(d.ctx, s.scope); err != nil || !ok {
			return time.Time{}, err
		}
		return later(due, now.Add(idleClaim)), nil
	}
	return now.Add(idleClaim), nil
}

// takeLocked takes as many places as a share may fill, at most most, before it is known how many it will.
func (d *Dispatcher) takeLocked(s *share, most int, now time.Time) int {
	n := min(d.roomLocked(), most)
	if s.busy == nil {
		d.claiming = s.each
	} else {
		s.each = min(s.each, n)
		n = min(n, s.each*len(s.busy))
		for _, c := range s.busy {
			d.occupyLocked(c, s.each, now)
		}
	}
	d.inflight += n
	return n
}

// settlePlacesLocked gives back the places that were taken for a share and are not filled by started, whose
// connections are given. Those that were given up to make room for others of them are remembered again.
func (d *Dispatcher) settlePlacesLocked(s *share, taken int, started []*connection, now time.Time) {
	d.claiming = 0
	d.inflight += len(started) - taken
	for _, c := range s.busy {
		d.occupyLocked(c, -s.each, now)
	}
	for i, c := range started {
		if known := d.roster.byName[c.Name]; known == nil {
			d.roster.add(c, now)
		} else {
			started[i] = known
		}
		d.occupyLocked(started[i], 1, now)
	}
	if len(started) < taken {
		signal(d.idle)
		if len(d.fresh) > 0 {
			d.Kick() // something was submitted that found no place
		}
	}
}

// claimFailed notes that claims may have been made that nobody here knows of. When to see to them is the
// caller's: the loop has its pause after a failure.
func (d *Dispatcher) claimFailed(err error) {
	var unknown *outbox.SaveError
	if errors.As(err, &unknown) && !d.shared {
		d.mu.Lock()
		d.doubtful = true
		d.mu.Unlock()
	}
}

// stray notes a claim that was found and that nobody here holds: it was made by a step whose result stayed
// unknown.
func (d *Dispatcher) stray(rec *outbox.Record) {
	d.mu.Lock()
	ours := !rec.Claimed() || !rec.Claim.Until.IsZero() || d.working[rec.ID] == rec.Claim.Token
	d.doubtful = d.doubtful || !ours
	d.mu.Unlock()
	if !ours {
		d.Kick()
	}
}

// doubtState is the name of a value that is never there.
const doubtState = "doubt"

// resolveDoubts gives back claims that were made by a step whose result stayed unknown. Nothing was sent
// under them; without this their lanes would wait until the outbox is opened again. A claim with a lease
// ends by itself.
func (d *Dispatcher) resolveDoubts() error {
	d.mu.Lock()
	doubtful := d.doubtful
	d.doubtful = false
	d.mu.Unlock()
	if !doubtful {
		return nil
	}
	err := d.giveBackAll()
	if err != nil {
		d.mu.Lock()
		d.doubtful = true
		d.mu.Unlock()
	}
	if errors.Is(err, errUndecided) {
		return nil // whoever works on it ends with a kick
	}
	return err
}

// errUndecided says that it cannot be told yet whose a claim is.
var errUndecided = errors.New("dispatch: a claim may be about to be used")

func (d *Dispatcher) giveBackAll() error {
	// An engine that stopped at the failure shows what it holds once it can save again, and not before.
	if err := d.engine.SaveState(d.ctx, "", doubtState, nil); err != nil {
		return err
	}
	var undecided error
	for _, name := range d.names() {
		switch err := d.giveBack(name); {
		case errors.Is(err, errUndecided):
			undecided = err
		case err != nil:
			return err
		}
	}
	return undecided
}

func (d *Dispatcher) giveBack(connection string) error {
	var undecided error
	for q := (outbox.Query{Connection: connection, States: []outbox.State{outbox.Sent}}); ; {
		page, err := d.engine.List(d.ctx, q)
		if err != nil {
			return err
		}
		var back []outbox.Settlement
		d.mu.Lock()
		for i := range page.Records {
			rec := &page.Records[i]
			if !rec.Claimed() || !rec.Claim.Until.IsZero() {
				continue
			}
			switch token, working := d.working[rec.ID]; {
			case working && token == "":
				undecided = errUndecided
			case token != rec.Claim.Token:
				now := d.cfg.Now()
				back = append(back, outbox.Settlement{ID: rec.ID, Claim: rec.Claim.Token, Now: now,
					To: outbox.Queued, Due: now, NeverSent: true})
			}
		}
		d.mu.Unlock()
		if len(back) > 0 {
			settled, err := d.engine.Settle(d.ctx, back...)
			if err != nil {
				return err
			}
			for i := range settled {
				d.expiries.add(&settled[i].Record)
				d.waiters.wake(back[i].ID)
			}
		}
		if q.After = page.Next; page.Next == "" {
			return undecided
		}
	}
}
