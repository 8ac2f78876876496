package outboxtest

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// model is what an engine must be equal to: plain maps and loops over everything. Only the rules of
// single records (outbox.Decide and the methods of Record) are shared with the engines; what an engine
// adds — lanes, order, keys, counts — is done here in the most obvious way.
type model struct {
	recs    []*outbox.Record // every record kept, by Seq
	tombs   map[connKey]outbox.Tombstone
	latest  map[connKey]string // the key's latest operation
	holds   map[connKey]time.Time
	state   map[connKey][]byte
	seq     uint64
	outcome uint64
	purged  int
	added   int
}

type connKey struct{ conn, name string }

func newModel() *model {
	return &model{tombs: map[connKey]outbox.Tombstone{}, latest: map[connKey]string{}, holds: map[connKey]time.Time{}, state: map[connKey][]byte{}}
}

func (m *model) find(id string) *outbox.Record {
	for _, r := range m.recs {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// lane returns the lane's unfinished records in order.
func (m *model) lane(conn, lane string) (out []*outbox.Record) {
	for _, r := range m.recs {
		if r.Connection == conn && r.Lane == lane && r.Unfinished() {
			out = append(out, r)
		}
	}
	return out
}

func (m *model) head(r *outbox.Record) bool {
	l := m.lane(r.Connection, r.Lane)
	return len(l) > 0 && l[0] == r
}

// change applies a transition and lets the lane's next record fall due when r was its head and left.
func (m *model) change(r *outbox.Record, now time.Time, apply func() error) error {
	was := m.head(r)
	revision := r.Revision
	if err := apply(); err != nil {
		return err
	}
	if r.Revision > revision {
		m.outcome++
		r.OutcomeSeq = m.outcome
	}
	if l := m.lane(r.Connection, r.Lane); was && !r.Unfinished() && len(l) > 0 && l[0].State.Waiting() {
		l[0].Due = l[0].HeadDue(now, m.holds[connKey{r.Connection, r.Lane}])
	}
	if l := m.lane(r.Connection, r.Lane); len(l) > 0 {
		l[0].HoldDue(now, m.holds[connKey{r.Connection, r.Lane}])
	}
	return nil
}

// hold holds back the next head of r's lane until then, unless it is held longer already.
func (m *model) hold(r *outbox.Record, until time.Time) {
	if k := (connKey{r.Connection, r.Lane}); until.After(m.holds[k]) {
		m.holds[k] = until
	}
}

// add returns what Add must answer; the claim's token comes from the engine's answer.
func (m *model) add(a *outbox.Addition, token string) (outbox.Added, error) {
	if r := m.find(a.Record.ID); r != nil {
		return outbox.Added{Decision: outbox.FoundOperation, Record: *r.Clone()}, nil
	}
	key := connKey{a.Record.Connection, a.Record.Key}
	var prev *outbox.Tombstone
	var kept *outbox.Record
	if id, ok := m.latest[key]; ok && a.Record.Key != "" {
		t, gone := m.tombs[key]
		if !gone {
			kept = m.find(id)
			t = kept.Tombstone()
		}
		prev = &t
	}
	choice := outbox.Decide(prev, a)
	if choice.Decision != outbox.AddedNew {
		if kept != nil {
			return outbox.Added{Decision: choice.Decision, Record: *kept.Clone()}, nil
		}
		if choice.Decision == outbox.FoundOperation {
			choice.Decision = outbox.FoundTombstone
		}
		return outbox.Added{Decision: choice.Decision, Record: prev.Record(), Tombstone: *prev}, nil
	}
	r := outbox.NewRecord(a, choice.Generation, m.seq+1)
	lane := m.lane(r.Connection, r.Lane)
	c := m.counts(r.Connection)
	have := c.Waiting() + c.States[outbox.Uncertain] + c.States[outbox.Blocked]
	var old *outbox.Record
	if a.Supersede && len(lane) > 0 && lane[len(lane)-1].CanSupersede(r) {
		old = lane[len(lane)-1]
		have, c.Bytes = have-1, c.Bytes-old.Size()
	}
	if err := outbox.CheckLimits(a.Limits, have, c.Bytes, r); err != nil {
		return outbox.Added{}, err
	}
	out := outbox.Added{Decision: outbox.AddedNew}
	if old != nil {
		_ = m.change(old, a.Now, func() error { old.ApplySupersede(r.ID, a.Now); return nil })
		out.Superseded = old.ID
	}
	m.seq++
	m.added++
	m.recs = append(m.recs, r)
	if r.Key != "" {
		m.latest[key] = r.ID
		delete(m.tombs, key)
	}
	if m.head(r) {
		r.HoldDue(a.Now, m.holds[connKey{r.Connection, r.Lane}])
		if a.Claim != nil && !r.Due.After(a.Claim.Now) {
			r.ApplyClaim(token, *a.Claim)
		}
	}
	out.Record = *r.Clone()
	return out, nil
}

// due returns the claimable heads of a scope that fall due until then, in order.
func (m *model) due(s outbox.Scope, until time.Time) (out []*outbox.Record) {
	for _, r := range m.recs {
		if s.Includes(r.Connection) && r.State.Waiting() && !r.Claimed() && m.head(r) && !r.Due.After(until) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *outbox.Record) int { return a.Due.Compare(b.Due) })
	return out
}

// claimable returns what a claim may take, in order.
func (m *model) claimable(q *outbox.ClaimRequest) []*outbox.Record {
	return slices.DeleteFunc(m.due(q.Scope, q.Until()), func(r *outbox.Record) bool {
		return !outbox.HeldUntil(q.Now, m.holds[connKey{r.Connection, r.Lane}]).IsZero()
	})
}

func (m *model) settle(s *outbox.Settlement) (outbox.Settled, bool) {
	r := m.find(s.ID)
	if r == nil {
		return outbox.Settled{Err: outbox.ErrNotFound}, false
	}
	var out outbox.Settled
	out.Err = m.change(r, s.Now, func() error {
		err := r.ApplySettlement(s)
		if err == nil {
			m.hold(r, s.Hold())
		}
		return err
	})
	if out.Err == nil && r.State == outbox.Rejected && r.StopLaneOnReject {
		for _, b := range m.lane(r.Connection, r.Lane) {
			_ = m.change(b, s.Now, func() error {
				if b.ApplyLaneStop(s.Now) {
					out.Blocked++
				}
				return nil
			})
		}
	}
	out.Record = *r.Clone()
	return out, true
}

func (m *model) set(c *outbox.Change) (outbox.Record, error) {
	if c.ID != "" {
		r := m.find(c.ID)
		if r == nil {
			return outbox.Record{}, outbox.ErrNotFound
		}
		err := m.change(r, c.Now, func() error {
			err := r.ApplyChange(c)
			if err == nil {
				m.hold(r, c.Hold(r))
			}
			return err
		})
		return *r.Clone(), err
	}
	var first *outbox.Record
	for _, r := range m.lane(c.Connection, c.Lane) {
		if r.State == outbox.Blocked && m.change(r, c.Now, func() error { return r.ApplyChange(c) }) == nil && first == nil {
			first = r
		}
	}
	if first == nil {
		return outbox.Record{}, outbox.ErrNotFound
	}
	return *first.Clone(), nil
}

// purgeable returns which records Purge may delete.
func (m *model) purgeable(p *outbox.PurgeRequest) (ids []string) {
	for _, r := range m.recs {
		if r.Purgeable(p) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func (m *model) purge(p *outbox.PurgeRequest) {
	m.recs = slices.DeleteFunc(m.recs, func(r *outbox.Record) bool {
		if !r.Purgeable(p) {
			return false
		}
		m.purged++
		if key := (connKey{r.Connection, r.Key}); r.Key != "" && m.latest[key] == r.ID {
			m.tombs[key] = r.TombstoneAt(p.Now)
		}
		return true
	})
	for key, t := range m.tombs {
		if p.Now.After(t.Until) {
			delete(m.tombs, key)
			delete(m.latest, key)
		}
	}
}

func (m *model) list(q *outbox.Query) (out []*outbox.Record) {
	for _, r := range m.recs {
		if q.Matches(r) {
			out = append(out, r)
		}
	}
	if q.ByOutcome {
		slices.SortFunc(out, func(a, b *outbox.Record) int { return cmp.Compare(a.OutcomeSeq, b.OutcomeSeq) })
	}
	return out
}

func (m *model) counts(conn string) outbox.Counts {
	c := outbox.Counts{States: map[outbox.State]int{}, LastSeq: m.seq}
	for _, r := range m.recs {
		if conn != "" && r.Connection != conn {
			continue
		}
		c.States[r.State]++
		if r.Unfinished() {
			c.Bytes += r.Size()
		}
		if r.State.Parked() && m.head(r) {
			c.HeldLanes++
		}
		if r.Unacked() {
			c.Unacked++
		}
		if r.State.Waiting() && c.Oldest.IsZero() {
			c.Oldest = r.Created
		}
	}
	return c
}

// forgetClaims is what a reopen does where claims end with their engine.
func (m *model) forgetClaims() {
	for _, r := range m.recs {
		r.Claim = outbox.Claim{}
	}
}

func sameState(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
