package outbox

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Get implements Engine.
func (m *memory) Get(ctx context.Context, id string) (Record, error) {
	if err := m.lock(ctx); err != nil {
		return Record{}, err
	}
	defer m.mu.Unlock()
	r := m.recs[id]
	if r == nil {
		return Record{}, ErrNotFound
	}
	return *r.Clone(), nil
}

// List implements Engine.
func (m *memory) List(ctx context.Context, q Query) (Page, error) {
	if err := m.lock(ctx); err != nil {
		return Page{}, err
	}
	defer m.mu.Unlock()
	after, limit, err := q.Start()
	if err != nil {
		return Page{}, err
	}
	var hits []*Record
	for _, r := range m.order {
		if q.Matches(r) && q.position(r) > after {
			hits = append(hits, r)
		}
	}
	if q.ByOutcome {
		slices.SortFunc(hits, func(a, b *Record) int { return cmp.Compare(a.OutcomeSeq, b.OutcomeSeq) })
	}
	if q.Newest && q.Connection != "" && q.Key != "" {
		var newest *Record
		for _, r := range m.order {
			if r.Connection == q.Connection && r.Key == q.Key {
				newest = r
			}
		}
		hits = slices.DeleteFunc(hits, func(r *Record) bool { return r != newest })
	}
	var p Page
	if len(hits) > limit {
		hits = hits[:limit]
		p.Next = strconv.FormatUint(q.position(hits[limit-1]), 10)
	}
	for _, r := range hits {
		c := r.Clone()
		if !q.Bodies {
			c.StripBodies()
		}
		p.Records = append(p.Records, *c)
	}
	return p, nil
}

// Counts implements Engine.
func (m *memory) Counts(ctx context.Context, connection string) (Counts, error) {
	if err := m.lock(ctx); err != nil {
		return Counts{}, err
	}
	defer m.mu.Unlock()
	from := &m.total
	if connection != "" {
		from = &memCounts{}
		if c := m.conns[connection]; c != nil {
			from = &c.counts
		}
	}
	out := Counts{States: map[State]int{}, Bytes: from.bytes, HeldLanes: from.held, Unacked: from.unacked, LastSeq: m.seq}
	maps.Copy(out.States, from.states)
	if out.Waiting() > 0 {
		for _, r := range m.order {
			if r.State.Waiting() && (connection == "" || r.Connection == connection) {
				out.Oldest = r.Created
				break
			}
		}
	}
	return out, nil
}

// Ack implements Engine.
func (m *memory) Ack(ctx context.Context, id string, revision int) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	r := m.recs[id]
	if r == nil {
		return ErrNotFound
	}
	m.count(r, -1)
	r.ApplyAck(revision)
	m.count(r, +1)
	return nil
}

// Purge implements Engine.
func (m *memory) Purge(ctx context.Context, p PurgeRequest) (int, error) {
	if err := m.lock(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	limit := p.Limit
	if limit <= 0 {
		limit = 1000
	}
	n := 0
	m.order = slices.DeleteFunc(m.order, func(r *Record) bool {
		if n >= limit || !r.Purgeable(&p) {
			return false
		}
		n++
		m.count(r, -1)
		delete(m.recs, r.ID)
		key := connName{r.Connection, r.Key}
		if t := m.keys[key]; r.Key != "" && t != nil && t.ID == r.ID {
			tomb := r.TombstoneAt(p.Now)
			m.keys[key] = &tomb
		}
		return true
	})
	old := 0
	for key, t := range m.keys {
		if m.recs[t.ID] == nil && p.Now.After(t.Until) && old < limit {
			delete(m.keys, key)
			old++
		}
	}
	for _, c := range m.conns {
		for name, l := range c.lanes {
			if HeldUntil(p.Now, l.notBefore).IsZero() {
				l.notBefore = time.Time{}
			}
			if len(l.recs) == 0 && l.notBefore.IsZero() {
				delete(c.lanes, name)
			}
		}
	}
	return n, nil
}

// LoadState implements Engine.
func (m *memory) LoadState(ctx context.Context, connection, name string) ([]byte, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return cloneBytes(m.state[connName{connection, name}]), nil
}

// SaveState implements Engine.
func (m *memory) SaveState(ctx context.Context, connection, name string, value []byte) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if value == nil {
		delete(m.state, connName{connection, name})
		return nil
	}
	m.state[connName{connection, name}] = cloneBytes(value)
	return nil
}
