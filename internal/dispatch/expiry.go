package dispatch

import (
	"container/heap"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// expiries knows when operations become pointless, so that they end on time also while their connection
// is off line, their lane is held, or others are before them. Claims end those that they come across.
type expiries struct {
	ages *ages

	mu   sync.Mutex
	next expiryHeap
	byID map[string]*expiry
}

type expiry struct {
	at    time.Duration // on the steady clock
	id    string
	index int // in the heap; -1 = its time is over, and it was told so

	saved, expires time.Time // by the wall clock
	vague          bool      // its time counts from when it was met; see ages.left
}

type expiryHeap []*expiry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *expiryHeap) Push(x any) {
	e := x.(*expiry)
	e.index = len(*h)
	*h = append(*h, e)
}
func (h *expiryHeap) Pop() any {
	last := (*h)[len(*h)-1]
	last.index = -1
	*h = slices.Delete(*h, len(*h)-1, len(*h))
	return last
}

// add notes an operation that may expire, once or often: its time goes on from when it was met first.
func (e *expiries) add(rec *outbox.Record) {
	if rec.Expires.IsZero() || rec.State != outbox.Queued {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byID[rec.ID]; x != nil {
		if x.index < 0 {
			heap.Push(&e.next, x)
		}
		return
	}
	if e.byID == nil {
		e.byID = map[string]*expiry{}
	}
	x := &expiry{id: rec.ID, saved: rec.Created, expires: rec.Expires}
	e.date(x)
	e.byID[rec.ID] = x
	heap.Push(&e.next, x)
}

func (e *expiries) date(x *expiry) {
	var left time.Duration
	left, x.vague = e.ages.left(x.saved, x.expires)
	x.at = e.ages.steady() + left
}

// again notes that an operation could not be ended, and is to be a little later.
func (e *expiries) again(id string, after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byID[id]; x != nil && x.index < 0 {
		x.at = e.ages.steady() + after
		heap.Push(&e.next, x)
	}
}

// clockSet looks again at those of which no clock told how old they are, now that the wall clock was set.
func (e *expiries) clockSet() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.byID {
		if x.vague && x.index >= 0 {
			if left, vague := e.ages.left(x.saved, x.expires); !vague {
				x.at, x.vague = e.ages.steady()+left, false
			}
		}
	}
	heap.Init(&e.next)
}

// when returns when an operation's time is over, on the steady clock, if it was noted.
func (e *expiries) when(id string) (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byID[id]; x != nil {
		return x.at, true
	}
	return 0, false
}

// drop forgets an operation that cannot expire any more.
func (e *expiries) drop(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byID[id]; x != nil {
		delete(e.byID, id)
		if x.index >= 0 {
			heap.Remove(&e.next, x.index)
		}
	}
}

// due tells of at most most operations whose time is over, once of each, and how long it is until the next one's is;
// false = there is no other.
func (e *expiries) due(most int) (ids []string, wait time.Duration, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.ages.steady()
	for len(e.next) > 0 && len(ids) < most && now >= e.next[0].at {
		ids = append(ids, heap.Pop(&e.next).(*expiry).id)
	}
	if len(e.next) > 0 {
		return ids, max(e.next[0].at-now, 0), true
	}
	return ids, 0, false
}

const (
	// expireTogether bounds how many operations are ended at once: they share commits.
	expireTogether = 64
	// expireAgain is the pause after the storage refused to end one.
	expireAgain = time.Second
	// searchAfter is how long after the start the operations of earlier processes are looked through for
	// such that expire. Opening never does, and most have been claimed or ended by then.
	searchAfter = time.Minute
	// searchEvery is how often that is done where other processes may have gone without ending theirs.
	searchEvery = 10 * time.Minute
	// longestExpiry is further ahead than any expiry.
	longestExpiry = 100 * 365 * 24 * time.Hour
)

// expireDue ends what is pointless by now, and returns when to do it again; zero = there is nothing else.
func (d *Dispatcher) expireDue() time.Time {
	if d.ages.note() {
		d.expiries.clockSet()
	}
	ids, wait, more := d.expiries.due(expireTogether)
	var jobs sync.WaitGroup
	for _, id := range ids {
		jobs.Go(func() { d.expire(id) })
	}
	jobs.Wait()
	if !more {
		return time.Time{}
	}
	return d.cfg.Now().Add(wait)
}

// expire ends one operation, unless it may have been sent. One that is claimed at this moment is not
// ended; should it turn out not to have been sent, settling notes it again.
func (d *Dispatcher) expire(id string) {
	now := d.cfg.Now()
	rec, err := d.engine.Set(d.ctx, outbox.Change{ID: id, Action: outbox.Expire, Now: now, Overdue: !d.shared})
	switch {
	case err == nil:
		d.ended(&rec)
	case d.shared && errors.Is(err, outbox.ErrState) && rec.State == outbox.Queued && !rec.Claimed():
		// Its time is not over by the clock that the storage goes by.
		d.expiries.again(id, min(max(rec.Expires.Sub(now), expireAgain), searchEvery))
	case errors.Is(err, outbox.ErrState), errors.Is(err, outbox.ErrNotFound), errors.Is(err, outbox.ErrClosed):
		d.mu.Lock()
		_, working := d.working[id]
		d.mu.Unlock()
		if !working {
			d.expiries.drop(id)
		}
	default:
		d.log.Warn("flavoso.expire_failed", "operation", id, "error", err)
		d.expiries.again(id, expireAgain)
	}
}

// ended tells of an operation that ended without an attempt.
func (d *Dispatcher) ended(rec *outbox.Record) {
	d.forget(rec.ID)
	d.cfg.Observer.outcome(rec, true)
	d.waiters.wake(rec.ID)
	d.Kick()
}

// forget drops what is remembered of an operation that is over.
func (d *Dispatcher) forget(id string) {
	d.expiries.drop(id)
	d.foreign.forget(id)
	d.surprises.forget(id)
}

// findExpiries looks for operations of earlier processes that may expire: once, and where other processes
// share the storage now and again, for what expires before the next time.
func (d *Dispatcher) findExpiries() {
	before := d.cfg.Now().Add(longestExpiry)
	if d.shared {
		before = d.cfg.Now().Add(2 * searchEvery)
	}
	for _, name := range d.names() {
		for q := (outbox.Query{Connection: name, States: []outbox.State{outbox.Queued}, Limit: 500, ExpiringBefore: before}); ; {
			page, err := d.engine.List(d.ctx, q)
			if err != nil {
				if d.ctx.Err() == nil {
					d.log.Warn("flavoso.expiries_unread", "error", err)
				}
				d.mu.Lock()
				d.searchAt = time.Now().Add(searchAfter)
				d.mu.Unlock()
				d.Kick()
				return
			}
			for i := range page.Records {
				d.expiries.add(&page.Records[i])
			}
			if q.After = page.Next; page.Next == "" {
				break
			}
		}
	}
	if d.shared {
		d.mu.Lock()
		d.searchAt = time.Now().Add(searchEvery)
		d.mu.Unlock()
	}
	d.Kick()
}

// searchLocked starts findExpiries when it is time to, and returns when that will be; zero = it was.
func (d *Dispatcher) searchLocked(now time.Time) time.Time {
	left := time.Until(d.searchAt)
	switch {
	case d.searchAt.IsZero() || d.draining:
		return time.Time{}
	case left > 0:
		return now.Add(left)
	}
	d.searchAt = time.Time{}
	d.jobs.Go(d.findExpiries)
	return time.Time{}
}
