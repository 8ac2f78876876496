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
	mu   sync.Mutex
	next expiryHeap
	byID map[string]*expiry
}

type expiry struct {
	at    time.Time
	id    string
	index int // in the heap
}

type expiryHeap []*expiry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *expiryHeap) Push(x any) {
	e := x.(*expiry)
	e.index = len(*h)
	*h = append(*h, e)
}
func (h *expiryHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = slices.Delete(*h, len(*h)-1, len(*h))
	return last
}

// add notes an operation that may expire, once or often.
func (e *expiries) add(rec *outbox.Record) {
	if !rec.Expires.IsZero() && rec.State == outbox.Queued {
		e.push(rec.ID, rec.Expires)
	}
}

// push notes that an operation is to be ended at a moment.
func (e *expiries) push(id string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byID[id]; x != nil {
		x.at = at
		heap.Fix(&e.next, x.index)
		return
	}
	if e.byID == nil {
		e.byID = map[string]*expiry{}
	}
	x := &expiry{at: at, id: id}
	e.byID[id] = x
	heap.Push(&e.next, x)
}

// drop forgets an operation that cannot expire any more.
func (e *expiries) drop(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.byID[id]; x != nil {
		delete(e.byID, id)
		heap.Remove(&e.next, x.index)
	}
}

// due takes out at most most operations whose time is over, and returns when the next one's is.
func (e *expiries) due(now time.Time, most int) (ids []string, next time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.next) > 0 && len(ids) < most && !now.Before(e.next[0].at) {
		id := heap.Pop(&e.next).(*expiry).id
		delete(e.byID, id)
		ids = append(ids, id)
	}
	if len(e.next) > 0 {
		next = e.next[0].at
	}
	return ids, next
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

// expireDue ends what is pointless by now, and returns when to do it again.
func (d *Dispatcher) expireDue() time.Time {
	ids, next := d.expiries.due(d.cfg.Now(), expireTogether)
	var jobs sync.WaitGroup
	for _, id := range ids {
		jobs.Go(func() { d.expire(id) })
	}
	jobs.Wait()
	return next
}

// expire ends one operation, unless it may have been sent. One that is claimed at this moment is not
// ended; should it turn out not to have been sent, settling notes it again.
func (d *Dispatcher) expire(id string) {
	rec, err := d.engine.Set(d.ctx, outbox.Change{ID: id, Action: outbox.Expire, Now: d.cfg.Now()})
	switch {
	case err == nil:
		d.ended(&rec)
	case errors.Is(err, outbox.ErrState), errors.Is(err, outbox.ErrNotFound), errors.Is(err, outbox.ErrClosed):
	default:
		d.log.Warn("flavoso.expire_failed", "operation", id, "error", err)
		d.expiries.push(id, d.cfg.Now().Add(expireAgain))
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
