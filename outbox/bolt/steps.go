package bolt

import (
	"cmp"
	"slices"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// The steps of outbox.Engine, each inside a write transaction that it may share with others.

func (t *txn) add(a *outbox.Addition) (outbox.Added, error) {
	in := &a.Record
	if r := t.find(in.ID, true); r != nil {
		return outbox.Added{Decision: outbox.FoundOperation, Record: r.Record}, nil
	}
	kept, prev, err := t.lookup(in.Connection, in.Key)
	if t.fail(err); t.err != nil {
		return outbox.Added{}, t.err
	}
	choice := outbox.Decide(prev, a)
	if choice.Decision != outbox.AddedNew {
		if kept != nil {
			return outbox.Added{Decision: choice.Decision, Record: kept.Record}, nil
		}
		if choice.Decision == outbox.FoundOperation {
			choice.Decision = outbox.FoundTombstone
		}
		return outbox.Added{Decision: choice.Decision, Record: prev.Record(), Tombstone: *prev}, nil
	}

	r := &entry{Record: *outbox.NewRecord(a, choice.Generation, t.h.seq+1)}
	r.size = r.Size()
	var old *entry
	if a.Supersede {
		if seq := t.last(r.Connection, r.Lane); seq != 0 {
			if l := t.load(seq, r.Connection, false); l.CanSupersede(&r.Record) {
				old = l
			}
		}
	}
	have, bytes := t.total(r.Connection).unfinished(), t.total(r.Connection).bytes
	if old != nil {
		have, bytes = have-1, bytes-old.size
	}
	if err := outbox.CheckLimits(a.Limits, int(have), bytes, &r.Record); err != nil {
		return outbox.Added{}, err
	}

	out := outbox.Added{Decision: outbox.AddedNew}
	if old != nil {
		out.Superseded = old.ID
		err := t.change(old, a.Now, func(o *outbox.Record) error { o.ApplySupersede(r.ID, a.Now); return nil })
		if err != nil {
			return outbox.Added{}, err
		}
	}
	t.h.seq++
	first, _ := t.head(r.Connection, r.Lane)
	if first == 0 {
		r.HoldDue(a.Now, t.hold(r.Connection, r.Lane))
		if a.Claim != nil && !r.Due.After(a.Claim.Now) {
			r.ApplyClaim(t.tokens.next(), *a.Claim)
		}
	}
	t.insert(r, first == 0)
	out.Record = r.Record
	return out, nil
}

// lookup returns what is known of a key: its latest record while that is kept, and its tombstone. Both
// are nil when the key is new.
func (t *reader) lookup(connection, key string) (*entry, *outbox.Tombstone, error) {
	if key == "" {
		return nil, nil, nil
	}
	k := nameKey(connection, key)
	v := t.b[bKey].get(k)
	if v == nil {
		return nil, nil, nil
	}
	p, err := openFrame(tagKey, k, v)
	if err == nil && len(p) == 0 {
		err = errFrame
	}
	if err != nil {
		return nil, nil, err
	}
	d := decoder{b: p[1:]}
	if p[0] == keyKept {
		r := t.load(d.fixed(), connection, true)
		tomb := r.Tombstone()
		return r, &tomb, d.err
	}
	tomb := &outbox.Tombstone{Connection: connection, Key: key}
	return nil, tomb, decodeTombstone(&d, tomb)
}

// dueHead is an entry of the due index.
type dueHead struct {
	due        time.Time
	dueSeq     uint64
	seq        uint64
	connection string
}

// dueHeads returns the scope's heads in the order they fell due, without those to skip, at most limit of
// each connection and none that falls due after until (zero = any time).
func (t *reader) dueHeads(s outbox.Scope, until time.Time, limit int, skip func(dueHead) bool) []dueHead {
	var out []dueHead
	each := func(connection string) {
		prefix := appendText(nil, connection)
		n := 0
		c := t.b[bDue].cursor()
		for k, v := c.seek(prefix); hasPrefix(k, prefix) && n < limit; k, v = c.next() {
			due, rest, ok := cutTime(k[len(prefix):])
			if !until.IsZero() && due.After(until) {
				break
			}
			seq, err := seqOf(tagDue, k, v)
			if err == nil && (!ok || len(rest) != 8) {
				err = errFrame
			}
			if t.fail(err); err != nil {
				continue
			}
			if h := (dueHead{due, lastSeq(k), seq, connection}); !skip(h) {
				out = append(out, h)
				n++
			}
		}
	}
	if s.Connections != nil {
		for _, name := range s.Connections {
			if s.Includes(name) {
				each(name)
			}
		}
	} else {
		c := t.b[bDue].cursor()
		for k, _ := c.first(); k != nil; {
			name, _, ok := cutText(k)
			if !ok {
				k, _ = c.next()
				continue
			}
			if s.Includes(name) {
				each(name)
			}
			k, _ = c.seek(afterText(name))
		}
	}
	slices.SortFunc(out, func(a, b dueHead) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.dueSeq, b.dueSeq))
	})
	return out
}

func (t *txn) claim(q *outbox.ClaimRequest) []outbox.Record {
	var out []outbox.Record
	type lane struct{ connection, name string }
	taken := map[lane]bool{}
	count := map[string]int{} // by connection
	take := func(r *entry) {
		taken[lane{r.Connection, r.Lane}] = true
		count[r.Connection]++
		_ = t.change(r, q.Now, func(o *outbox.Record) error {
			if q.Expires(o) {
				o.ApplyExpire(q.Now)
			} else {
				o.ApplyClaim(t.tokens.next(), q.Mark)
			}
			return nil
		})
		out = append(out, r.Record)
	}
	until := q.Until()
	for _, id := range q.First {
		if len(out) >= q.Limit {
			break
		}
		r := t.find(id, true)
		if r == nil || !r.State.Waiting() || r.dueSeq == 0 || r.Claimed() || !q.Scope.Includes(r.Connection) ||
			q.Full(count[r.Connection]) || r.Due.After(until) || taken[lane{r.Connection, r.Lane}] || t.held(r, q.Now) {
			continue
		}
		take(r)
	}
	if len(out) >= q.Limit {
		return out
	}
	skip := func(h dueHead) bool {
		return t.claimed(h) || t.holds(h.connection) && t.held(t.load(h.seq, h.connection, false), q.Now)
	}
	heads := t.dueHeads(q.Scope, until, q.Limit+len(out), skip)
	out = slices.Grow(out, min(len(heads), q.Limit-len(out)))
	for _, h := range heads {
		if len(out) >= q.Limit {
			break
		}
		if q.Full(count[h.connection]) {
			continue
		}
		r := t.load(h.seq, h.connection, true)
		if !r.State.Waiting() || r.dueSeq == 0 || taken[lane{r.Connection, r.Lane}] {
			continue
		}
		take(r)
	}
	return out
}

func (t *txn) settle(s *outbox.Settlement) (out outbox.Settled) {
	r := t.find(s.ID, true)
	if r == nil {
		return outbox.Settled{Err: outbox.ErrNotFound}
	}
	out.Err = t.change(r, s.Now, func(o *outbox.Record) error {
		if err := o.ApplySettlement(s); err != nil {
			return err
		}
		t.setHold(o.Connection, o.Lane, s.Hold())
		return nil
	})
	if out.Err == nil {
		if s.NextGeneration && r.State.Waiting() && r.Key != "" {
			t.putKey(r)
		}
		if r.State == outbox.Rejected && r.StopLaneOnReject {
			out.Blocked = t.stopLane(r, s.Now)
		}
	}
	out.Record = r.Record
	return out
}

// laneSeqs returns the unfinished records of a lane in order.
func (t *txn) laneSeqs(connection, lane string) []uint64 {
	var out []uint64
	prefix := lanePrefix(connection, lane)
	c := t.b[bLane].cursor()
	for k, _ := c.seek(prefix); hasPrefix(k, prefix); k, _ = c.next() {
		out = append(out, lastSeq(k))
	}
	return out
}

func (t *txn) stopLane(r *entry, now time.Time) (n int) {
	for _, seq := range t.laneSeqs(r.Connection, r.Lane) {
		b := t.load(seq, r.Connection, false)
		err := t.change(b, now, func(o *outbox.Record) error {
			if !o.ApplyLaneStop(now) {
				return outbox.ErrState
			}
			return nil
		})
		if err == nil {
			n++
		}
	}
	return n
}

func (t *txn) set(c *outbox.Change) (outbox.Record, error) {
	if c.ID == "" && c.Lane != "" {
		return t.resumeLane(c)
	}
	r := t.find(c.ID, true)
	if r == nil {
		return outbox.Record{}, outbox.ErrNotFound
	}
	err := t.change(r, c.Now, func(o *outbox.Record) error {
		if err := o.ApplyChange(c); err != nil {
			return err
		}
		t.setHold(o.Connection, o.Lane, c.Hold(o))
		return nil
	})
	return r.Record, err
}

func (t *txn) resumeLane(c *outbox.Change) (outbox.Record, error) {
	if c.Action != outbox.ResolveSendAgain {
		return outbox.Record{}, outbox.ErrState
	}
	var first *entry
	for _, seq := range t.laneSeqs(c.Connection, c.Lane) {
		r := t.load(seq, c.Connection, true)
		if r.State != outbox.Blocked {
			continue
		}
		if err := t.change(r, c.Now, func(o *outbox.Record) error { return o.ApplyChange(c) }); err == nil && first == nil {
			first = r
		}
	}
	if first == nil {
		return outbox.Record{}, outbox.ErrNotFound
	}
	return first.Record, nil
}

func (t *txn) ack(id string, revision int) error {
	r := t.find(id, false)
	if r == nil {
		return outbox.ErrNotFound
	}
	if acked := r.Acked; max(acked, min(revision, r.Revision)) == acked {
		return nil
	}
	return t.change(r, time.Time{}, func(o *outbox.Record) error { o.ApplyAck(revision); return nil })
}

// purgeScan bounds how many outcomes that must stay one Purge passes over.
const purgeScan = 4096

// purge goes on behind the outcome numbered from, where the purge before stopped, and returns how many
// records it deleted and where it stopped: outcomes that must stay do not keep it from those behind them.
func (t *txn) purge(p *outbox.PurgeRequest, from uint64) (n int, stopped uint64) {
	limit := p.Limit
	if limit <= 0 {
		limit = 1000
	}
	if t.thin {
		limit = 1 // deleting takes new pages before it gives old ones back
	}
	var old []*entry
	passed := 0
	c := t.b[bOutcome].cursor()
	k, v := c.seek(seqKey(from + 1))
	for wrapped := from == 0; len(old) < limit && passed < purgeScan; k, v = c.next() {
		if k == nil && !wrapped {
			wrapped = true
			k, v = c.first()
		}
		if k == nil || wrapped && from > 0 && lastSeq(k) > from {
			stopped = 0 // everything was looked at
			break
		}
		seq, connection, finished, err := outcomeOf(k, v)
		if t.fail(err); err != nil {
			return 0, 0
		}
		stopped = lastSeq(k)
		if !finished.Before(p.Before) || p.Connection != "" && p.Connection != connection {
			passed++
			continue
		}
		if r := t.load(seq, connection, false); r.Purgeable(p) {
			old = append(old, r)
		} else {
			passed++
		}
	}
	for _, r := range old {
		t.remove(r, p.Now)
	}
	t.purgeTombstones(p.Now, limit)
	t.purgeHolds(p.Now, limit)
	return len(old), stopped
}

// purgeHolds deletes holds that have ended.
func (t *txn) purgeHolds(now time.Time, limit int) {
	var gone [][]byte
	c := t.b[bHold].cursor()
	passed := 0
	for k, v := c.first(); k != nil && len(gone) < limit && passed < purgeScan; k, v = c.next() {
		p, err := openFrame(tagHold, k, v)
		if t.fail(err); err != nil {
			return
		}
		d := decoder{b: p}
		if passed++; outbox.HeldUntil(now, d.time()).IsZero() {
			gone = append(gone, clone(k))
		}
	}
	for _, k := range gone {
		t.delete(bHold, k)
	}
}

func (t *txn) remove(r *entry, now time.Time) {
	key := seqKey(r.Seq)
	t.count(r, -1)
	for _, b := range []int{bRequest, bDone, bBody} {
		t.delete(b, key)
	}
	t.delete(bID, []byte(r.ID))
	t.delete(bOutcome, seqKey(r.OutcomeSeq))
	t.delete(bUnacked, seqKey(r.OutcomeSeq))
	if r.Key == "" {
		return
	}
	k := nameKey(r.Connection, r.Key)
	p, err := openFrame(tagKey, k, t.b[bKey].get(k))
	if err != nil || len(p) != 9 || p[0] != keyKept || lastSeq(p) != r.Seq {
		return // a later record stands under the key
	}
	tomb := r.TombstoneAt(now)
	t.put(bKey, k, encodeTombstone(k, &tomb))
	until := append(appendTime(nil, tomb.Until), k...)
	t.put(bTombstone, until, newFrame(tagTombstone, 0).finishFrame(until))
}

func (t *txn) purgeTombstones(now time.Time, limit int) {
	var gone [][]byte
	c := t.b[bTombstone].cursor()
	for k, _ := c.first(); k != nil && len(gone) < limit; k, _ = c.next() {
		until, _, ok := cutTime(k)
		if ok && !now.After(until) {
			break
		}
		gone = append(gone, clone(k))
	}
	for _, k := range gone {
		t.delete(bTombstone, k)
		until, key, ok := cutTime(k)
		if !ok {
			continue
		}
		p, err := openFrame(tagKey, key, t.b[bKey].get(key))
		if err != nil || len(p) == 0 || p[0] != keyGone {
			continue // the key lives again
		}
		d := decoder{b: p[1:]}
		var tomb outbox.Tombstone
		if decodeTombstone(&d, &tomb) == nil && !tomb.Until.After(until) {
			t.delete(bKey, key)
		}
	}
}

func (t *txn) saveState(connection, name string, value []byte) {
	key := nameKey(connection, name)
	if value == nil {
		t.delete(bState, key)
		return
	}
	e := newFrame(tagState, len(value))
	e.raw(value)
	t.put(bState, key, e.finishFrame(key))
}

func (t *reader) loadState(connection, name string) ([]byte, error) {
	key := nameKey(connection, name)
	v := t.b[bState].get(key)
	if v == nil {
		return nil, nil
	}
	p, err := openFrame(tagState, key, v)
	if err != nil {
		return nil, err
	}
	return append([]byte{}, p...), nil
}
