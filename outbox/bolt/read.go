package bolt

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

func (t *reader) nextDue(s outbox.Scope) (time.Time, bool) {
	heads := t.dueHeads(s, time.Time{}, 1, t.claimed)
	if len(heads) == 0 {
		return time.Time{}, false
	}
	return heads[0].due, true
}

// claimed reports whether somebody works on a head. Claimed heads keep their place in the index; the
// stored claim tells them.
func (t *reader) claimed(h dueHead) bool {
	key := liveKey(h.connection, h.seq)
	line, token, err := decodeClaim(key, t.b[bLive].get(key))
	t.fail(err)
	return len(token) > 0 && t.holdsClaim(line, string(token))
}

// oldest returns when the oldest waiting record was accepted. Finished records are in another bucket, so
// only parked ones are passed over.
func (t *reader) oldest(connection string) time.Time {
	if connection != "" {
		_, created := t.oldestOf(appendText(nil, connection))
		return created
	}
	var at time.Time
	var least uint64
	for _, name := range t.liveConnections() {
		if seq, created := t.oldestOf(appendText(nil, name)); seq != 0 && (least == 0 || seq < least) {
			least, at = seq, created
		}
	}
	return at
}

func (t *reader) oldestOf(prefix []byte) (uint64, time.Time) {
	c := t.b[bLive].cursor()
	for k, v := c.seek(prefix); hasPrefix(k, prefix); k, v = c.next() {
		if s := peekState(v); !s.Waiting() {
			continue
		}
		var r entry
		t.fail(decodeProgress(k, v, &r))
		return lastSeq(k), r.Created
	}
	return 0, time.Time{}
}

// peekState reads the state of a progress value without checking it.
func peekState(v []byte) outbox.State {
	if len(v) < 3 {
		return outbox.Damaged
	}
	s, err := stateOf(v[2])
	if err != nil {
		return outbox.Damaged
	}
	return s
}

// listScan bounds how many records one transaction of List looks at: a long read transaction would keep
// pages from being used again.
const listScan = 2000

// List implements [outbox.Engine]. A page is read in several short transactions, so records that change
// meanwhile appear as they are when the list comes to them.
func (e *Engine) List(ctx context.Context, q outbox.Query) (p outbox.Page, err error) {
	after, limit, err := q.Start()
	if err != nil {
		return p, err
	}
	for more := true; more; {
		var next outbox.Page
		var at uint64
		err := e.view(ctx, func(t *reader) error {
			next = outbox.Page{Records: p.Records[:len(p.Records):len(p.Records)]} // may run again
			at, more = t.list(&q, after, limit, &next)
			return nil
		})
		if err != nil {
			return outbox.Page{}, err
		}
		p, after = next, at
	}
	return p, nil
}

// list appends to p what follows after in the query's order, and reports where it stopped and whether
// there may be more to look at for this page.
func (t *reader) list(q *outbox.Query, after uint64, limit int, p *outbox.Page) (uint64, bool) {
	next := t.walk(q, after)
	for scanned := 0; ; scanned++ {
		at, seq, connection, ok := next()
		if !ok || t.err != nil {
			return after, false
		}
		if scanned == listScan {
			return after, true
		}
		t.visited++
		r := t.listed(q, seq, connection)
		if r != nil && len(p.Records) == limit {
			p.Next = strconv.FormatUint(after, 10)
			return after, false
		}
		after = at
		if r == nil {
			continue
		}
		if !q.Bodies {
			r.StripBodies()
		}
		p.Records = append(p.Records, r.Record)
	}
}

// listed loads a record when the query selects it. The connection is empty where the walk does not tell.
func (t *reader) listed(q *outbox.Query, seq uint64, connection string) *entry {
	if connection == "" {
		key := seqKey(seq)
		if v := t.b[bDone].get(key); v != nil && q.States != nil && !slices.Contains(q.States, peekState(v)) {
			return nil // without reading what was accepted
		}
		var head outbox.Record
		if err := decodeRequest(key, t.b[bRequest].get(key), &head); err != nil {
			t.fail(err)
			return nil
		}
		connection = head.Connection
		if q.Lane != "" && head.Lane != q.Lane || q.Key != "" && head.Key != q.Key ||
			q.Kind != "" && head.Kind != q.Kind || q.Tag != "" && head.Tag != q.Tag {
			return nil
		}
	}
	if q.Connection != "" && connection != q.Connection || q.States != nil && !t.mayBe(q.States, seq, connection) {
		return nil
	}
	r := t.load(seq, connection, q.Bodies)
	if !q.Matches(&r.Record) {
		return nil
	}
	return r
}

// mayBe reports whether a record may be in one of the states, by a glance at its stored state byte.
func (t *reader) mayBe(states []outbox.State, seq uint64, connection string) bool {
	v := t.b[bLive].get(liveKey(connection, seq))
	if v == nil {
		v = t.b[bDone].get(seqKey(seq))
	}
	s := peekState(v)
	for _, want := range states {
		if s == want || want == outbox.Sent && s == outbox.Queued {
			return true
		}
	}
	return false
}
