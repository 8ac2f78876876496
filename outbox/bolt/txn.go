package bolt

import (
	"bytes"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/outbox"
)

// txn is one write transaction: a wave of steps. Steps check first and write afterwards, so that one
// that fails by its own rules leaves nothing behind. A storage error of a step ends the whole wave.
type txn struct {
	reader
	tokens *tokens
	totals map[string]*counts
	heads  *cursor // looks up heads of lanes
	dirty  bool
	thin   bool // the disk is full: everything is done in the smallest way, results without their bodies
}

// newTxn begins a transaction on a file that changes entries of the index through the write buffer; without one,
// in the index itself.
func newTxn(tx *bbolt.Tx, c *tokens, f *file) (*txn, error) {
	r, err := newReader(tx, c.instance, f)
	if err != nil {
		return nil, err
	}
	if r.buffer != nil {
		r.buffer.changes = r.buffer.changes.clone()
	}
	return &txn{reader: r, tokens: c, totals: map[string]*counts{}}, nil
}

func (t *txn) put(bucket int, key, value []byte) {
	t.dirty = true
	t.fail(t.b[bucket].put(key, value, t.h.commits))
	t.flushIfFull()
}

func (t *txn) delete(bucket int, key []byte) {
	t.dirty = true
	t.fail(t.b[bucket].delete(key, t.h.commits))
	t.flushIfFull()
}

// flushIfFull empties the write buffer when it is full. On a full disk, where that takes pages that may not be
// there, it waits for as long as it can.
func (t *txn) flushIfFull() {
	limit := bufferBytes
	if t.thin {
		limit *= 16
	}
	if t.buffer != nil && t.buffer.changes.size > limit {
		t.flush()
	}
}

// finish writes what the wave gathered.
func (t *txn) finish() error {
	for name, c := range t.totals {
		key := countsKey(name)
		t.put(bMeta, key, c.encode(key))
	}
	t.finishBuffer()
	t.put(bMeta, headerKey, t.h.encode())
	return t.err
}

// total returns the totals of a connection, to be changed.
func (t *txn) total(connection string) *counts {
	c := t.totals[connection]
	if c == nil {
		v, err := t.counts(connection)
		t.fail(err)
		c = &v
		t.totals[connection] = c
	}
	return c
}

func (t *txn) count(r *entry, sign int64) {
	t.total("").add(r, sign)
	if r.Connection != "" {
		t.total(r.Connection).add(r, sign)
	}
}

func (t *txn) countHeld(connection string, n int64) {
	t.total("").held += n
	if connection != "" {
		t.total(connection).held += n
	}
}

// head returns the seq and state of a lane's first unfinished record; 0 = the lane is empty.
func (t *txn) head(connection, lane string) (uint64, outbox.State) {
	prefix := lanePrefix(connection, lane)
	if t.heads == nil {
		t.heads = t.b[bLane].cursor()
	}
	t.heads.renew()
	k, v := t.heads.seek(prefix)
	if k == nil || !bytes.HasPrefix(k, prefix) {
		return 0, ""
	}
	p, err := openFrame(tagLane, k, v)
	if err == nil && len(p) != 1 {
		err = errFrame
	}
	if err != nil {
		t.fail(err)
		return lastSeq(k), outbox.Damaged
	}
	s, err := stateOf(p[0])
	t.fail(err)
	return lastSeq(k), s
}

// last returns the seq of a lane's last unfinished record; 0 = the lane is empty.
func (t *txn) last(connection, lane string) uint64 {
	prefix := lanePrefix(connection, lane)
	k, _ := t.b[bLane].cursor().before(appendSeq(bytes.Clone(prefix), 1<<64-1))
	if k == nil || !bytes.HasPrefix(k, prefix) {
		return 0
	}
	return lastSeq(k)
}

// noHolds reports that no lane is held back, or was: most files have no hold at most times.
func (t *reader) noHolds() bool {
	if !t.lookedForHolds {
		k, _ := t.b[bHold].cursor().first()
		t.lookedForHolds, t.anyHolds = true, k != nil
	}
	return !t.anyHolds
}

// holds reports whether any lane of the connection is held back, or was.
func (t *reader) holds(connection string) bool {
	if t.noHolds() {
		return false
	}
	prefix := appendText(nil, connection)
	k, _ := t.b[bHold].cursor().seek(prefix)
	return hasPrefix(k, prefix)
}

// held reports whether r's lane is held back at now.
func (t *reader) held(r *entry, now time.Time) bool {
	return !outbox.HeldUntil(now, t.hold(r.Connection, r.Lane)).IsZero()
}

func (t *reader) hold(connection, lane string) time.Time {
	if t.noHolds() {
		return time.Time{}
	}
	key := lanePrefix(connection, lane)
	v := t.b[bHold].get(key)
	if v == nil {
		return time.Time{}
	}
	p, err := openFrame(tagHold, key, v)
	t.fail(err)
	d := decoder{b: p}
	return d.time()
}

func (t *txn) setHold(connection, lane string, until time.Time) {
	if !until.After(t.hold(connection, lane)) {
		return
	}
	key := lanePrefix(connection, lane)
	e := newFrame(tagHold, 16)
	e.time(until)
	t.put(bHold, key, e.finishFrame(key))
	t.anyHolds = true
}

// insert saves a new record as the last of its lane, and maybe its head.
func (t *txn) insert(r *entry, head bool) {
	key := seqKey(r.Seq)
	t.put(bRequest, key, encodeRequest(key, &r.Record))
	id := newFrame(tagID, 32)
	id.fixed(r.Seq)
	id.str(r.Connection)
	t.put(bID, []byte(r.ID), id.finishFrame([]byte(r.ID)))
	if r.Key != "" {
		t.putKey(r)
	}
	t.count(r, +1)
	t.putLane(r)
	if head {
		t.place(r)
	}
	t.save(r)
}

func (t *txn) putKey(r *entry) {
	key := nameKey(r.Connection, r.Key)
	e := newFrame(tagKey, 16)
	e.b = append(e.b, keyKept)
	e.fixed(r.Seq)
	t.put(bKey, key, e.finishFrame(key))
}

func (t *txn) putLane(r *entry) {
	key := laneKey(r.Connection, r.Lane, r.Seq)
	e := newFrame(tagLane, 1)
	e.b = append(e.b, stateByte(r.State))
	t.put(bLane, key, e.finishFrame(key))
}

// place gives r, the head of its lane, the entry in the due index that its state asks for: one when it waits.
func (t *txn) place(r *entry) {
	if r.State.Waiting() && r.dueSeq == 0 {
		t.h.dueSeq++
		r.dueSeq = t.h.dueSeq
		key := dueKey(r.Connection, r.Due, r.dueSeq)
		e := newFrame(tagDue, 8)
		e.fixed(r.Seq)
		t.put(bDue, key, e.finishFrame(key))
	}
}

// unplace removes r's entry from the due index.
func (t *txn) unplace(r *entry, due time.Time) {
	if r.dueSeq != 0 {
		t.delete(bDue, dueKey(r.Connection, due, r.dueSeq))
		r.dueSeq = 0
	}
}

// save writes r's mutable part where it belongs.
func (t *txn) save(r *entry) {
	r.line, r.commit = t.h.line, t.h.commits
	seq := seqKey(r.Seq)
	if r.Unfinished() {
		key := liveKey(r.Connection, r.Seq)
		t.put(bLive, key, encodeProgress(key, r))
		return
	}
	t.put(bDone, seq, encodeProgress(seq, r))
}

// change applies a transition to r and keeps everything else that depends on it: counts, the outcome
// order, the lane and its head, the due index. When r leaves its lane the next record falls due at now,
// or when the lane's hold ends.
func (t *txn) change(r *entry, now time.Time, apply func(*outbox.Record) error) error {
	before := *r
	wasHead, headState := t.head(r.Connection, r.Lane)
	revision, outcome, unacked := r.Revision, r.OutcomeSeq, r.Unacked()
	hold := t.hold(r.Connection, r.Lane)
	if err := apply(&r.Record); err != nil {
		return err
	}
	longer := t.hold(r.Connection, r.Lane).After(hold)
	if wasHead == r.Seq {
		r.HoldDue(now, hold)
	}
	t.count(&before, -1)
	if r.Revision > revision {
		t.h.outcomeSeq++
		r.OutcomeSeq = t.h.outcomeSeq
	}
	t.count(r, +1)
	t.moveOutcome(r, outcome, unacked)
	t.saveResult(r, &before)

	// What was settled goes to the end of those that fall due at the same moment.
	if !r.State.Waiting() || !r.Due.Equal(before.Due) || before.Claimed() {
		t.unplace(r, before.Due)
	}
	if r.Unfinished() {
		if r.State.Parked() != before.State.Parked() { // all that is asked of a head's state
			t.putLane(r)
		}
		if wasHead == r.Seq {
			t.place(r)
		}
	} else if before.Unfinished() {
		t.delete(bLane, laneKey(r.Connection, r.Lane, r.Seq))
		t.delete(bLive, liveKey(r.Connection, r.Seq))
	}
	t.save(r)

	newHead, newState := wasHead, headState
	if !r.Unfinished() {
		newHead, newState = t.head(r.Connection, r.Lane)
	} else if wasHead == r.Seq {
		newState = r.State
	}
	switch {
	case newHead == 0 || newHead == r.Seq:
	case newHead != wasHead:
		t.redue(newHead, r.Connection, r.Lane, func(next *entry, hold time.Time) { next.Due = next.HeadDue(now, hold) })
	case longer:
		t.redue(newHead, r.Connection, r.Lane, func(head *entry, hold time.Time) { head.HoldDue(now, hold) })
	}
	was, is := wasHead != 0 && headState.Parked(), newHead != 0 && newState.Parked()
	if was != is {
		n := int64(1)
		if was {
			n = -1
		}
		t.countHeld(r.Connection, n)
	}
	return nil
}

// redue gives the head of a lane another due time.
func (t *txn) redue(seq uint64, connection, lane string, due func(r *entry, hold time.Time)) {
	head := &entry{}
	head.Connection = connection
	t.loadProgress(head, seq)
	if !head.State.Waiting() {
		return
	}
	before := head.Due
	due(head, t.hold(connection, lane))
	if head.dueSeq != 0 && head.Due.Equal(before) {
		return
	}
	t.unplace(head, before)
	t.place(head)
	t.save(head)
}

func (t *txn) moveOutcome(r *entry, outcome uint64, unacked bool) {
	if r.OutcomeSeq != outcome {
		if outcome != 0 {
			t.delete(bOutcome, seqKey(outcome))
			if unacked {
				t.delete(bUnacked, seqKey(outcome))
			}
		}
		if r.OutcomeSeq != 0 {
			key := seqKey(r.OutcomeSeq)
			v := outcomeValue(key, r)
			t.put(bOutcome, key, v)
			if r.Unacked() {
				t.put(bUnacked, key, v)
			}
		}
	} else if unacked && !r.Unacked() {
		t.delete(bUnacked, seqKey(outcome))
	}
}

func outcomeValue(key []byte, r *entry) []byte {
	e := newFrame(tagOutcome, 32)
	e.fixed(r.Seq)
	e.str(r.Connection)
	e.time(r.Finished)
	return e.finishFrame(key)
}

// saveResult keeps the result's body in its own bucket, so that acknowledging does not rewrite it.
func (t *txn) saveResult(r, before *entry) {
	if r.Result == before.Result {
		return
	}
	key := seqKey(r.Seq)
	had := before.body
	if t.thin && r.Result != nil && r.Result.Body != nil {
		r.Result.Body, r.Result.Truncated = nil, true
	}
	r.body = r.Result != nil && r.Result.Body != nil
	switch {
	case r.body:
		e := newFrame(tagBody, len(r.Result.Body))
		e.raw(r.Result.Body)
		t.put(bBody, key, e.finishFrame(key))
	case had:
		t.delete(bBody, key)
	}
}

// tokens names claims. A claim lives as long as its engine: the stored token tells whose it is, and one of
// an earlier engine is void. Only the writer uses next.
type tokens struct {
	instance string // starts every token of this engine
	n        uint64
}

func (c *tokens) next() string {
	c.n++
	return c.instance + strconv.FormatUint(c.n, 10)
}
