package outbox

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"
)

// memLane is a lane's unfinished records by Seq.
type memLane struct {
	name      string
	recs      []*Record
	notBefore time.Time // holds back the next head
	held      bool      // its head is parked
	due       time.Time // of the head, while the lane is in the heap
	dueSeq    uint64    // the order in which equal due times came about
	at        int       // index in the heap; -1 = not in it
}

// before reports whether l's head falls due before o's.
func (l *memLane) before(o *memLane) bool {
	if c := l.due.Compare(o.due); c != 0 {
		return c < 0
	}
	return l.dueSeq < o.dueSeq
}

// dueHeap holds lanes by when their head falls due; see [heap.Interface].
type dueHeap []*memLane

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *dueHeap) Push(x any)        { l := x.(*memLane); l.at = len(*h); *h = append(*h, l) }
func (h *dueHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	l.at = -1
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return l
}

func (c *memConn) lane(name string) *memLane {
	l := c.lanes[name]
	if l == nil {
		l = &memLane{name: name, at: -1}
		c.lanes[name] = l
	}
	return l
}

// change applies a transition to r and keeps counts, outcome order and the lane right. When it leaves
// the lane, the next record falls due at now or when the lane's hold ends. apply may set the hold.
func (m *memory) change(r *Record, now time.Time, apply func() error) error {
	m.count(r, -1)
	revision := r.Revision
	err := apply()
	if r.Revision > revision {
		m.outcomeSeq++
		r.OutcomeSeq = m.outcomeSeq
	}
	m.count(r, +1)
	c := m.conn(r.Connection)
	l := c.lane(r.Lane)
	if !r.Unfinished() {
		if i, ok := l.find(r.Seq); ok {
			l.recs = slices.Delete(l.recs, i, i+1)
			if i == 0 && len(l.recs) > 0 && l.recs[0].State.Waiting() {
				l.recs[0].Due = l.recs[0].HeadDue(now, l.notBefore)
			}
		}
	}
	if err == nil && len(l.recs) > 0 {
		l.recs[0].HoldDue(now, l.notBefore)
	}
	m.refresh(c, l)
	return err
}

// hold holds back the lane's next head until then, unless it is held longer already.
func (l *memLane) hold(until time.Time) {
	l.notBefore = latest(l.notBefore, until)
}

func (l *memLane) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(l.recs, seq, func(r *Record, s uint64) int { return cmp.Compare(r.Seq, s) })
}

// refresh puts the lane into the due heap or takes it out, as its head says.
func (m *memory) refresh(c *memConn, l *memLane) {
	held := len(l.recs) > 0 && l.recs[0].State.Parked()
	if held != l.held {
		d := -1
		if held {
			d = 1
		}
		c.counts.held += d
		m.total.held += d
		l.held = held
	}
	claimable := len(l.recs) > 0 && !held && !l.recs[0].Claimed()
	switch {
	case !claimable && l.at >= 0:
		heap.Remove(&c.due, l.at)
	case claimable && l.at < 0:
		m.dueSeq++
		l.due, l.dueSeq = l.recs[0].Due, m.dueSeq
		heap.Push(&c.due, l)
	case claimable && !l.due.Equal(l.recs[0].Due):
		m.dueSeq++
		l.due, l.dueSeq = l.recs[0].Due, m.dueSeq
		heap.Fix(&c.due, l.at)
	}
	if len(l.recs) == 0 && l.notBefore.IsZero() {
		delete(c.lanes, l.name)
	}
}

// nextDue returns the lane whose head falls due first, of the connections to include and not in skip.
func (m *memory) nextDue(includes func(connection string) bool, skip map[*memLane]bool) *memLane {
	var best *memLane
	for name, c := range m.conns {
		if !includes(name) {
			continue
		}
		if l := c.due.first(skip); l != nil && (best == nil || l.before(best)) {
			best = l
		}
	}
	return best
}

// first returns the least lane that is not in skip; nil = there is none.
func (h dueHeap) first(skip map[*memLane]bool) (best *memLane) {
	if len(h) > 0 && !skip[h[0]] {
		return h[0]
	}
	for _, l := range h {
		if !skip[l] && (best == nil || l.before(best)) {
			best = l
		}
	}
	return best
}

// NextDue implements Engine.
func (m *memory) NextDue(ctx context.Context, s Scope) (time.Time, bool, error) {
	if err := m.lock(ctx); err != nil {
		return time.Time{}, false, err
	}
	defer m.mu.Unlock()
	l := m.nextDue(s.Includes, nil)
	if l == nil {
		return time.Time{}, false, nil
	}
	return l.due, true, nil
}
