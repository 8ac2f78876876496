package outbox

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// Includes reports whether the scope selects the connection.
func (s Scope) Includes(connection string) bool {
	if s.Connections != nil && !slices.Contains(s.Connections, connection) {
		return false
	}
	return !slices.Contains(s.Except, connection)
}

// Matches reports whether the query selects the record, leaving aside order and page.
func (q *Query) Matches(r *Record) bool {
	switch {
	case q.Connection != "" && r.Connection != q.Connection,
		q.Lane != "" && r.Lane != q.Lane,
		q.Kind != "" && r.Kind != q.Kind,
		q.Tag != "" && r.Tag != q.Tag,
		q.Key != "" && r.Key != q.Key,
		q.States != nil && !slices.Contains(q.States, r.State),
		q.ByOutcome && r.OutcomeSeq == 0,
		q.Unacked && !r.Unacked(),
		!q.ExpiringBefore.IsZero() && (r.State != Queued || r.Expires.IsZero() || !r.Expires.Before(q.ExpiringBefore)):
		return false
	}
	return true
}

// position is where the record stands in the query's order; a page's Next is the last one's, in decimal.
func (q *Query) position(r *Record) uint64 {
	if q.ByOutcome {
		return r.OutcomeSeq
	}
	return r.Seq
}

// StripBodies removes what Query.Bodies = false leaves out.
func (r *Record) StripBodies() {
	r.Request.Body = nil
	r.Sealed = nil
	if r.Result != nil {
		res := *r.Result
		res.Body = nil
		r.Result = &res
	}
}

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
		slices.SortFunc(hits, func(a, b *Record) int { return int(int64(a.OutcomeSeq) - int64(b.OutcomeSeq)) })
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

// Start returns the position behind which the page starts and how many records it may hold.
func (q *Query) Start() (after uint64, limit int, err error) {
	limit = q.Limit
	if limit <= 0 {
		limit = 100
	}
	if q.After != "" {
		after, err = strconv.ParseUint(q.After, 10, 64)
	}
	return after, limit, err
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
	for s, n := range from.states {
		out.States[s] = n
	}
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
