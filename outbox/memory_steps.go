package outbox

import (
	"context"
	"crypto/rand"
	"slices"
)

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
