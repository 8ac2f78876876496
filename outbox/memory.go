package outbox

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"
)

// NewMemory returns an engine that keeps everything in memory: for tests, and for programs that choose
// to lose what is waiting when they end. It keeps the whole contract of [Engine] except durability.
func NewMemory() Engine {
	return &memory{
		recs:    map[string]*Record{},
		conns:   map[string]*memConn{},
		total:   memCounts{states: map[State]int{}},
		keys:    map[connName]*Tombstone{},
		state:   map[connName][]byte{},
		changed: make(chan struct{}, 1),
	}
}

type connName struct{ conn, name string }

type memory struct {
	mu         sync.Mutex
	closed     bool
	seq        uint64
	outcomeSeq uint64
	dueSeq     uint64
	recs       map[string]*Record
	order      []*Record // every record kept, by Seq
	conns      map[string]*memConn
	total      memCounts
	keys       map[connName]*Tombstone
	state      map[connName][]byte
	changed    chan struct{}
}

// memConn is what one connection has.
type memConn struct {
	lanes  map[string]*memLane
	due    dueHeap // lanes whose head waits unclaimed
	counts memCounts
}

type memCounts struct {
	states  map[State]int
	bytes   int64
	held    int
	unacked int
}

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

type dueHeap []*memLane

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	if c := h[i].due.Compare(h[j].due); c != 0 {
		return c < 0
	}
	return h[i].dueSeq < h[j].dueSeq
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *dueHeap) Push(x any)   { l := x.(*memLane); l.at = len(*h); *h = append(*h, l) }
func (h *dueHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	l.at = -1
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return l
}

func (m *memory) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	return nil
}

func (m *memory) signal() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *memory) conn(name string) *memConn {
	c := m.conns[name]
	if c == nil {
		c = &memConn{lanes: map[string]*memLane{}, counts: memCounts{states: map[State]int{}}}
		m.conns[name] = c
	}
	return c
}

func (c *memConn) lane(name string) *memLane {
	l := c.lanes[name]
	if l == nil {
		l = &memLane{name: name, at: -1}
		c.lanes[name] = l
	}
	return l
}

// count adds or removes (sign -1) what r contributes to the totals.
func (m *memory) count(r *Record, sign int) {
	for _, c := range []*memCounts{&m.conn(r.Connection).counts, &m.total} {
		c.states[r.State] += sign
		if c.states[r.State] == 0 {
			delete(c.states, r.State)
		}
		if r.Unfinished() {
			c.bytes += int64(sign) * r.Size()
		}
		if r.Unacked() {
			c.unacked += sign
		}
	}
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

// Add implements Engine.
func (m *memory) Add(ctx context.Context, a Addition) (Added, error) {
	if a.Tx != nil {
		return Added{}, ErrTxUnsupported
	}
	if err := m.lock(ctx); err != nil {
		return Added{}, err
	}
	defer m.mu.Unlock()
	if r := m.recs[a.Record.ID]; r != nil {
		return Added{Decision: FoundOperation, Record: *r.Clone()}, nil
	}
	key := connName{a.Record.Connection, a.Record.Key}
	prev := m.keys[key]
	if a.Record.Key == "" {
		prev = nil
	}
	var kept *Record
	if prev != nil {
		if kept = m.recs[prev.ID]; kept != nil {
			t := kept.Tombstone()
			prev = &t
		}
	}
	choice := Decide(prev, &a)
	if choice.Decision != AddedNew {
		return foundIn(choice.Decision, kept, prev), nil
	}

	r := NewRecord(&a, choice.Generation, m.seq+1)
	c := m.conn(r.Connection)
	l := c.lane(r.Lane)
	have, bytes := 0, c.counts.bytes
	for s, n := range c.counts.states {
		if s.Waiting() || s.Parked() {
			have += n
		}
	}
	var old *Record
	if a.Supersede && len(l.recs) > 0 && l.recs[len(l.recs)-1].CanSupersede(r) {
		old = l.recs[len(l.recs)-1]
		have, bytes = have-1, bytes-old.Size()
	}
	if err := CheckLimits(a.Limits, have, bytes, r); err != nil {
		m.refresh(c, l)
		return Added{}, err
	}
	out := Added{Decision: AddedNew}
	m.seq++
	if old != nil {
		_ = m.change(old, a.Now, func() error { old.ApplySupersede(r.ID, a.Now); return nil })
		out.Superseded = old.ID
		l = c.lane(r.Lane)
	}
	m.recs[r.ID] = r
	m.order = append(m.order, r)
	if r.Key != "" {
		m.keys[key] = &Tombstone{ID: r.ID}
	}
	l.recs = append(l.recs, r)
	if len(l.recs) == 1 {
		r.HoldDue(a.Now, l.notBefore)
		if a.Claim != nil && !r.Due.After(wall(a.Claim.Now)) {
			r.ApplyClaim(rand.Text(), *a.Claim)
		}
	}
	m.count(r, +1)
	m.refresh(c, l)
	m.signal()
	out.Record = *r.Clone()
	return out, nil
}

// foundIn builds Add's answer for a key that is known.
func foundIn(d Decision, kept *Record, t *Tombstone) Added {
	out := Added{Decision: d}
	if kept != nil {
		out.Record = *kept.Clone()
		return out
	}
	out.Record, out.Tombstone = t.Record(), *t
	out.Tombstone.Fingerprint = cloneBytes(t.Fingerprint)
	if d == FoundOperation {
		out.Decision = FoundTombstone
	}
	return out
}

// Claim implements Engine.
func (m *memory) Claim(ctx context.Context, q ClaimRequest) ([]Record, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var out []Record
	taken := map[*memLane]bool{}
	count := map[string]int{} // by connection
	take := func(l *memLane) {
		r := l.recs[0]
		taken[l] = true
		count[r.Connection]++
		_ = m.change(r, q.Now, func() error {
			if q.Expires(r) {
				r.ApplyExpire(q.Now)
			} else {
				r.ApplyClaim(rand.Text(), q.Mark)
			}
			return nil
		})
		out = append(out, *r.Clone())
	}
	held := func(l *memLane) bool { return !HeldUntil(q.Now, l.notBefore).IsZero() }
	includes := func(connection string) bool {
		return q.Scope.Includes(connection) && !q.Full(count[connection])
	}
	until := q.Until()
	for _, id := range q.First {
		r := m.recs[id]
		if r == nil || len(out) >= q.Limit || !includes(r.Connection) {
			continue
		}
		l := m.conns[r.Connection].lanes[r.Lane]
		if l != nil && l.at >= 0 && l.recs[0] == r && !l.due.After(until) && !taken[l] && !held(l) {
			take(l)
		}
	}
	for len(out) < q.Limit {
		l := m.nextDue(includes, taken)
		if l == nil || l.due.After(until) {
			break
		}
		if held(l) {
			taken[l] = true
			continue
		}
		take(l)
	}
	if slices.ContainsFunc(out, func(r Record) bool { return r.State == Expired }) {
		m.signal() // an outcome is known, and the next of its lane is due
	}
	return out, nil
}

// nextDue returns the lane whose head falls due first, of the connections to include and not in skip.
func (m *memory) nextDue(includes func(connection string) bool, skip map[*memLane]bool) *memLane {
	var best *memLane
	for name, c := range m.conns {
		if !includes(name) {
			continue
		}
		for _, l := range c.due.first(skip) {
			if best == nil || (dueHeap{l, best}).Less(0, 1) {
				best = l
			}
		}
	}
	return best
}

// first returns the heap's least lane that is not in skip, as a slice of at most one.
func (h dueHeap) first(skip map[*memLane]bool) []*memLane {
	if len(h) == 0 {
		return nil
	}
	if !skip[h[0]] {
		return h[:1]
	}
	var best *memLane
	for _, l := range h {
		if !skip[l] && (best == nil || (dueHeap{l, best}).Less(0, 1)) {
			best = l
		}
	}
	if best == nil {
		return nil
	}
	return []*memLane{best}
}

// Settle implements Engine.
func (m *memory) Settle(ctx context.Context, ss ...Settlement) ([]Settled, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	out := make([]Settled, len(ss))
	for i := range ss {
		s := &ss[i]
		r := m.recs[s.ID]
		if r == nil {
			out[i].Err = ErrNotFound
			continue
		}
		out[i] = m.settle(r, s)
	}
	m.signal()
	return out, nil
}

func (m *memory) settle(r *Record, s *Settlement) (out Settled) {
	c := m.conn(r.Connection)
	l := c.lane(r.Lane)
	out.Err = m.change(r, s.Now, func() error {
		err := r.ApplySettlement(s)
		if err == nil {
			l.hold(s.Hold())
		}
		return err
	})
	if out.Err == nil && r.State == Rejected && r.StopLaneOnReject {
		for _, b := range l.recs {
			_ = m.change(b, s.Now, func() error {
				if b.ApplyLaneStop(s.Now) {
					out.Blocked++
				}
				return nil
			})
		}
	}
	out.Record = *r.Clone()
	return out
}

// Set implements Engine.
func (m *memory) Set(ctx context.Context, q Change) (Record, error) {
	if err := m.lock(ctx); err != nil {
		return Record{}, err
	}
	defer m.mu.Unlock()
	if q.ID == "" && q.Lane != "" {
		return m.resumeLane(&q)
	}
	r := m.recs[q.ID]
	if r == nil {
		return Record{}, ErrNotFound
	}
	err := m.change(r, q.Now, func() error {
		err := r.ApplyChange(&q)
		if err == nil {
			m.conn(r.Connection).lane(r.Lane).hold(q.Hold(r))
		}
		return err
	})
	m.signal()
	return *r.Clone(), err
}

func (m *memory) resumeLane(q *Change) (Record, error) {
	if q.Action != ResolveSendAgain {
		return Record{}, ErrState
	}
	var first *Record
	if c := m.conns[q.Connection]; c != nil && c.lanes[q.Lane] != nil {
		for _, r := range c.lanes[q.Lane].recs {
			if r.State != Blocked {
				continue
			}
			if err := m.change(r, q.Now, func() error { return r.ApplyChange(q) }); err == nil && first == nil {
				first = r
			}
		}
	}
	if first == nil {
		return Record{}, ErrNotFound
	}
	m.signal()
	return *first.Clone(), nil
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

// Changed implements Engine.
func (m *memory) Changed() <-chan struct{} { return m.changed }

// Close implements Engine.
func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
