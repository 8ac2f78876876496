package bolt

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/outbox"
)

// Report says what was found wrong with an outbox and what became of it.
type Report = outbox.Report

// Reports returns what was found wrong since the engine was opened; see [outbox.Reports].
func (e *Engine) Reports() []Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.reports)
}

func (e *Engine) report(r Report) {
	e.mu.Lock()
	e.reports = append(e.reports, r)
	e.mu.Unlock()
	e.log().Error("outbox.damage_found", "path", e.path, "cause", r.Cause, "kept_aside", r.Aside,
		"salvaged", r.Salvaged, "damaged", r.Damaged, "lost", r.Lost, "suspect", r.Suspect)
}

func (e *Engine) log() *slog.Logger {
	if e.opts.Logger != nil {
		return e.opts.Logger
	}
	return slog.New(slog.DiscardHandler)
}

// salvageInUse salvages the file that a reader found damaged, unless that was done meanwhile.
func (e *Engine) salvageInUse(f *file, cause error) error {
	if e.file != f {
		return nil
	}
	if err := e.inPlace(); err != nil {
		return err
	}
	start := time.Now()
	err := e.salvage(cause)
	if err != nil {
		e.fail(err, start)
		return fmt.Errorf("%w: %w", outbox.ErrFault, err)
	}
	return nil
}

// salvage replaces the damaged file at the engine's path by a new one with everything that can still be
// read, and keeps the damaged one aside.
func (e *Engine) salvage(cause error) error {
	f, err := os.Open(e.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	pages, err := openPages(f)
	if err != nil {
		return err
	}
	c, _ := collect(pages)
	c.instance, c.durable = e.tokens.instance, e.commits
	return e.rebuild(c, cause)
}

// rebuild writes what was collected into a new file and puts that in place of the damaged one.
func (e *Engine) rebuild(c *collection, cause error) error {
	if err := e.at(PointCopyBegin); err != nil {
		return err
	}
	if !c.hasHeader && len(c.requests) == 0 && len(c.progress) == 0 && !e.opts.StartFresh {
		if e.mark.commits == 0 {
			return fmt.Errorf("%w: this is no outbox file, or all of it was overwritten; nothing was changed: %w", outbox.ErrDamaged, cause)
		}
		return fmt.Errorf("%w: nothing in it can be read: %w", outbox.ErrDamaged, cause)
	}
	h := c.nextHeader(max(e.mark.commits, e.tried), e.mark.id)
	r := Report{At: time.Now(), Cause: cause.Error()}
	err := e.build(h, func(db *bbolt.DB) error {
		// The damaged file gets its second name first: no crash leaves it without one.
		if err := c.restore(db, &h, &r); err != nil {
			return err
		}
		if r.Aside = e.asideName(); r.Aside == "" {
			return errors.New("no name left to keep the damaged file under")
		}
		if err := keepAside(e.path, r.Aside); err != nil {
			return err
		}
		return e.at(PointAsideMoved)
	}, PointCopyWritten)
	if err != nil {
		return err
	}
	err = e.publish(PointCopyRenamed, (*file).abandon)
	if e.moved {
		e.salvaged = &r
	}
	if err != nil {
		return err
	}
	return e.swap((*file).abandon)
}

// salvageInPlace tells of a salvage whose file is in use now.
func (e *Engine) salvageInPlace() {
	if e.salvaged == nil {
		return
	}
	e.salvages++
	e.report(*e.salvaged)
	e.salvaged = nil
	e.bringMarkUp()
}

// asideName returns a free name for a damaged file.
func (e *Engine) asideName() string {
	for i := 1; i < 10000; i++ {
		name := fmt.Sprintf("%s.damaged-%d", e.path, i)
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
	return ""
}

// keepAside gives the damaged file a second name, or copies it where the file system has no links.
func keepAside(path, aside string) error {
	if os.Link(path, aside) == nil {
		return nil
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err == nil {
		err = to.Sync()
	}
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	return err
}

// nextHeader numbers on where the damaged file stopped, past everything that was seen and every commit
// that was tried. id is the outbox's where the file does not tell it.
func (c *collection) nextHeader(tried uint64, id string) header {
	h := c.header
	if h.id == "" {
		if h.id = id; h.id == "" {
			h.id = rand.Text()
		}
	}
	h.commits = max(h.commits, tried) + 1
	for seq := range c.seqs() {
		h.seq = max(h.seq, seq)
	}
	for seq, f := range c.progress {
		var r entry
		if decodeProgress(f.key(seq), c.read(f), &r) == nil {
			h.outcomeSeq, h.dueSeq, h.commits = max(h.outcomeSeq, r.OutcomeSeq), max(h.dueSeq, r.dueSeq), max(h.commits, r.commit+1)
			h.line = max(h.line, r.line)
		}
	}
	if !c.hasHeader {
		// The last commits may be gone with it: leave room, so that no number is given twice.
		h.seq, h.outcomeSeq, h.commits = h.seq+1<<20, h.outcomeSeq+1<<20, h.commits+1<<20
	}
	h.line++
	h.buffered = 0
	return h
}

// seqs returns the numbers of all records of which there is any trace.
func (c *collection) seqs() map[uint64]bool {
	all := map[uint64]bool{}
	for seq := range c.requests {
		all[seq] = true
	}
	for seq, f := range c.progress {
		if f.current || c.requests[seq].there() {
			all[seq] = true
		}
	}
	for _, m := range []map[uint64][2]string{c.lanes, c.ids, c.keySeqs} {
		for seq := range m {
			all[seq] = all[seq] || !c.stale
		}
	}
	maps.DeleteFunc(all, func(seq uint64, there bool) bool { return seq == 0 || !there })
	return all
}

// restoreBatch bounds the transactions in which a salvaged file is written.
const restoreBatch = 2000

// restore writes records, and every index anew from them.
func (c *collection) restore(db *bbolt.DB, h *header, rep *Report) error {
	in := func(fn func(*txn)) error {
		return db.Update(func(tx *bbolt.Tx) error {
			t, err := newTxn(tx, &tokens{}, nil)
			if err != nil {
				return err
			}
			t.h = *h
			fn(t)
			*h = t.h
			return t.finish()
		})
	}
	err := in(func(t *txn) {
		for key, f := range c.tombs {
			t.put(bKey, []byte(key), f.value)
			var tomb outbox.Tombstone
			d := decoder{b: f.value[3 : len(f.value)-4]}
			if decodeTombstone(&d, &tomb) == nil {
				until := append(appendTime(nil, tomb.Until), key...)
				t.put(bTombstone, until, newFrame(tagTombstone, 0).finishFrame(until))
			}
		}
		for key, f := range c.states {
			t.put(bState, []byte(key), f.value)
		}
		for key, f := range c.holds {
			t.put(bHold, []byte(key), f.value)
		}
	})
	if err != nil {
		return err
	}
	seqs := slices.Sorted(maps.Keys(c.seqs()))
	heads := map[[2]string]uint64{}
	for batch := range slices.Chunk(seqs, restoreBatch) {
		err := in(func(t *txn) {
			for _, seq := range batch {
				r := c.record(seq, t, rep)
				if r == nil {
					continue
				}
				t.restore(r, c.read(c.bodies[seq]))
				if lane := [2]string{r.Connection, r.Lane}; r.Unfinished() && heads[lane] == 0 {
					heads[lane] = seq
				}
			}
		})
		if err != nil {
			return err
		}
	}
	lanes := slices.SortedFunc(maps.Keys(heads), func(a, b [2]string) int { return int(int64(heads[a]) - int64(heads[b])) })
	for batch := range slices.Chunk(lanes, restoreBatch) {
		err := in(func(t *txn) {
			for _, lane := range batch {
				r := t.load(heads[lane], lane[0], false)
				if r.State.Parked() {
					t.countHeld(r.Connection, 1)
				}
				t.place(r)
				t.save(r)
			}
		})
		if err != nil {
			return err
		}
	}
	var expected int64
	for _, n := range c.total.states {
		expected += n
	}
	rep.Lost = max(0, int(expected)-rep.Salvaged-rep.Damaged)
	if !c.hasTotal {
		rep.Lost = -1
	}
	return nil
}

// restore saves a salvaged record with everything that points at it.
func (t *txn) restore(r *entry, body []byte) {
	key := seqKey(r.Seq)
	t.put(bRequest, key, encodeRequest(key, &r.Record))
	id := newFrame(tagID, 32)
	id.fixed(r.Seq)
	id.str(r.Connection)
	t.put(bID, []byte(r.ID), id.finishFrame([]byte(r.ID)))
	if r.Key != "" && !t.tombIsNewer(r) {
		t.putKey(r)
	}
	had := r.body
	if r.body = body != nil; r.body {
		t.put(bBody, key, body)
	} else if had && r.Result != nil {
		r.Result.Truncated = true
	}
	t.count(r, +1)
	if r.Unfinished() {
		t.putLane(r)
	}
	if r.OutcomeSeq != 0 {
		out := seqKey(r.OutcomeSeq)
		t.put(bOutcome, out, outcomeValue(out, r))
		if r.Unacked() {
			t.put(bUnacked, out, outcomeValue(out, r))
		}
	}
	t.save(r)
}

// tombIsNewer reports whether a later record than r stood under r's key and was purged. Generations do not
// always tell: what was canceled or cleanly refused leaves its generation to the next. That one was purged
// after r was accepted, and an earlier one before.
func (t *txn) tombIsNewer(r *entry) bool {
	_, prev, _ := t.lookup(r.Connection, r.Key)
	if prev == nil || prev.ID == r.ID || r.Unfinished() || prev.Until.IsZero() {
		return false
	}
	if prev.Generation != r.Generation {
		return prev.Generation > r.Generation
	}
	return prev.Since().After(r.Created)
}

// record puts a record together from what was found of it; nil = there is nothing to keep.
func (c *collection) record(seq uint64, t *txn, rep *Report) *entry {
	r := &entry{}
	p, hasProgress := c.progress[seq]
	q, hasRequest := c.requests[seq]
	if !hasProgress && !q.current && !c.traced(seq) {
		return nil
	}
	var progressErr, requestErr error = errFrame, errFrame
	if hasProgress {
		progressErr = decodeProgress(p.key(seq), c.read(p), r)
		if conn, _, ok := cutText(p.key(seq)); ok {
			r.Connection = conn
		}
	}
	if hasRequest {
		requestErr = decodeRequest(seqKey(seq), c.read(q), &r.Record)
	}
	r.Seq, r.dueSeq = seq, 0
	if !p.current || r.commit > c.durable || c.instance == "" || !strings.HasPrefix(r.Claim.Token, c.instance) {
		r.Claim = outbox.Claim{}
	}
	if progressErr == nil && requestErr == nil {
		r.WireKey = outbox.WireKey(r.Key, r.Generation)
		c.whole(r, p.current, t, rep)
		return r
	}
	c.fillIn(r, seq)
	if t.b[bID].get([]byte(r.ID)) != nil {
		return nil // an index entry of a record that another one stands for
	}
	if r.State.Final() && progressErr == nil {
		// Over, and known to be: only what was sent is unreadable.
		rep.Damaged++
		r.WireKey = outbox.WireKey(r.Key, r.Generation)
		return r
	}
	rep.Damaged++
	r.Generation = max(r.Generation, 1)
	r.WireKey = outbox.WireKey(r.Key, r.Generation)
	r.ApplySuspect()
	if r.Exposure == nil {
		r.Exposure = &outbox.Exposure{At: r.Created}
	}
	r.Suspect = true
	r.ApplyDamage("damaged", time.Now())
	t.h.outcomeSeq++
	r.OutcomeSeq = t.h.outcomeSeq
	r.Acked = min(r.Acked, r.Revision-1)
	return r
}

func (c *collection) traced(seq uint64) bool {
	return !c.stale && (c.ids[seq] != [2]string{} || c.lanes[seq] != [2]string{} || c.keySeqs[seq] != [2]string{})
}

// whole finishes a record that was read completely. Unfinished ones count as sent from now on; one that
// may be an old version, and that no key protects, is not sent again without a decision.
func (c *collection) whole(r *entry, current bool, t *txn, rep *Report) {
	rep.Salvaged++
	if !r.Unfinished() {
		return
	}
	rep.Suspect++
	claim := r.Claim
	r.ApplySuspect()
	if r.State.Waiting() {
		r.Claim = claim // somebody here works on it, and will settle it
	}
	if !current && r.State.Waiting() && (r.Key == "" || !r.RepeatSafe) {
		now := time.Now()
		_ = r.ApplyChange(&outbox.Change{Action: outbox.Park, To: outbox.Uncertain, Now: now, Result: &outbox.Result{Reason: "salvaged"}})
		t.h.outcomeSeq++
		r.OutcomeSeq = t.h.outcomeSeq
	}
}

// fillIn completes a record from the indexes that named it.
func (c *collection) fillIn(r *entry, seq uint64) {
	if v, ok := c.ids[seq]; ok {
		if r.ID == "" {
			r.ID = v[0]
		}
		if r.Connection == "" {
			r.Connection = v[1]
		}
	}
	if v, ok := c.lanes[seq]; ok {
		if r.Connection == "" {
			r.Connection = v[0]
		}
		if r.Lane == "" {
			r.Lane = v[1]
		}
	}
	if v, ok := c.keySeqs[seq]; ok {
		if r.Connection == "" {
			r.Connection = v[0]
		}
		if r.Key == "" {
			r.Key = v[1]
		}
	}
	if r.ID == "" {
		r.ID = fmt.Sprintf("damaged-%d", seq)
	}
}
