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
}

type expiry struct {
	at time.Time
	id string
}

type expiryHeap []expiry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *expiryHeap) Push(x any)        { *h = append(*h, x.(expiry)) }
func (h *expiryHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = slices.Delete(*h, len(*h)-1, len(*h))
	return last
}

// add notes an operation that may expire, once or often.
func (e *expiries) add(rec *outbox.Record) {
	if !rec.Expires.IsZero() && rec.State == outbox.Queued {
		e.push(expiry{rec.Expires, rec.ID})
	}
}

func (e *expiries) push(x expiry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	heap.Push(&e.next, x)
}

// due takes out at most most operations whose time is over, and returns when the next one's is.
func (e *expiries) due(now time.Time, most int) (ids []string, next time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.next) > 0 && len(ids) < most && !now.Before(e.next[0].at) {
		ids = append(ids, heap.Pop(&e.next).(expiry).id)
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
	// unableFor is how long a connection must have been unable to send before the operations of earlier
	// processes are looked through for such that expire. Opening never does.
	unableFor = time.Minute
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
		d.expiries.push(expiry{d.cfg.Now().Add(expireAgain), id})
	}
}

// ended tells of an operation that ended without an attempt.
func (d *Dispatcher) ended(rec *outbox.Record) {
	d.cfg.Observer.outcome(rec, true)
	d.waiters.wake(rec.ID)
	d.Kick()
}

// findExpiries looks once for operations of earlier processes that may expire.
func (d *Dispatcher) findExpiries() {
	for name := range d.connections {
		for q := (outbox.Query{Connection: name, States: []outbox.State{outbox.Queued}, Limit: 500}); ; {
			page, err := d.engine.List(d.ctx, q)
			if err != nil {
				if d.ctx.Err() == nil {
					d.log.Warn("flavoso.expiries_unread", "error", err)
				}
				d.mu.Lock()
				d.searched = false
				d.mu.Unlock()
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
	d.Kick()
}

// searchLocked starts findExpiries when a connection has not been able to send for long.
func (d *Dispatcher) searchLocked(c *connection, now time.Time) {
	if d.searched || now.Sub(c.since) < unableFor {
		return
	}
	d.searched = true
	d.jobs.Go(d.findExpiries)
}
