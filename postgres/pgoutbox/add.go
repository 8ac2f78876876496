package pgoutbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Add implements outbox.Engine.
func (e *Engine) Add(ctx context.Context, a outbox.Addition) (outbox.Added, error) {
	if err := e.enter(ctx); err != nil {
		return outbox.Added{}, err
	}
	defer e.leave()
	if a.Tx != nil {
		return e.addIn(ctx, &a)
	}
	var lost error // a COMMIT was not answered
	if x := e.newQuick(&a); x != nil {
		if err := e.adds.do(ctx, &e.tasks, x, e.addQuick); err != nil {
			return outbox.Added{}, err
		}
		if out := x.answer(); out != nil || x.err != nil {
			return *cmp.Or(out, &outbox.Added{}), x.err
		}
		lost = x.lost
	}
	var ad *adding
	superseded := ""
	err := e.run(ctx, task{what: "add", id: a.Record.ID, lost: lost}, func(ctx context.Context, st *step) error {
		ad = &adding{a: &a, st: st}
		if err := st.begin(ctx, ad.reads()...); err != nil {
			return err
		}
		if lost != nil && ad.byID != nil {
			ad.out = outbox.Added{Decision: outbox.AddedNew, Record: ad.byID.Record, Superseded: superseded}
			return nil
		}
		if ad.decide() {
			return nil
		}
		insert, err := ad.insert()
		if err != nil {
			return err
		}
		var rest []call
		if ad.replaced == nil {
			rest = []call{insert}
		} else {
			// What is replaced must not end before its successor is there for certain.
			if err := st.s.do(ctx, insert); err != nil || ad.seq == 0 {
				return errors.Join(err, errRaced)
			}
			if rest, err = ad.replaced.calls(); err != nil {
				return err
			}
		}
		err = st.commit(ctx, rest...)
		var unknown *errUnknown
		if errors.As(err, &unknown) {
			lost, superseded = unknown.err, ad.out.Superseded
		}
		if err == nil && ad.seq == 0 {
			return errRaced
		}
		return err
	}, nil)
	if err != nil {
		return outbox.Added{}, err
	}
	return ad.answer()
}

// adding is one addition: what is read, what is decided, what is written.
type adding struct {
	a  *outbox.Addition
	st *step

	byID, byKey *stored
	tomb        *outbox.Tombstone
	lowest      int64 // of the lane's unfinished records; 0 = it has none
	hold        time.Time
	isolation   string
	last        *stored // of the lane
	have        totals

	r        stored // the new record
	replaced *changes
	out      outbox.Added
	refused  error
	seq      int64
}

// reads returns the calls that lock the lane and read what the decision needs. The lock is a statement of its own, so
// that the others see all that was committed before.
func (ad *adding) reads() []call {
	r, sql, st := &ad.a.Record, &ad.st.e.sql, ad.st
	conn, name := enc(r.Connection), enc(r.Lane)
	calls := []call{
		{sql: sql.lockLane, args: []any{laneLock(r.Connection, r.Lane)}, row: func(scan scanner) error { var n int32; return scan(&n) }},
	}
	if ad.a.Supersede {
		calls = append(calls, call{sql: sql.lastOfLane, args: []any{conn, name}, row: func(scan scanner) (err error) {
			ad.last, err = scanWhole(scan, st.off)
			return err
		}})
	}
	calls = append(calls, call{sql: sql.look, args: []any{enc(r.ID), conn, enc(r.Key)}, row: func(scan scanner) error {
		var byID bool
		s, err := scanWhole(scan, st.off, &byID)
		if byID {
			ad.byID = s
		} else {
			ad.byKey = s
		}
		return err
	}}, call{sql: sql.intoLane, args: []any{conn, name}, row: func(scan scanner) error {
		var hold *time.Time
		err := scan(&ad.lowest, &hold, &ad.isolation)
		if hold != nil {
			ad.hold = hold.UTC().Add(st.off)
		}
		return err
	}})
	if r.Key != "" {
		calls = append(calls, call{sql: sql.tombstone, args: []any{conn, enc(r.Key)}, row: func(scan scanner) (err error) {
			ad.tomb, err = scanTombstone(scan, r.Connection, r.Key, st.off)
			return err
		}})
	}
	if ad.a.Limits.Operations > 0 || ad.a.Limits.Bytes > 0 {
		calls = append(calls, st.e.totalsCall(&r.Connection, &ad.have))
	}
	return calls
}

// decide makes the new record, or the answer when there is nothing to save.
func (ad *adding) decide() (answered bool) {
	a := ad.a
	if ad.byID != nil {
		ad.out = outbox.Added{Decision: outbox.FoundOperation, Record: ad.byID.Record}
		return true
	}
	prev := ad.tomb
	if ad.byKey != nil {
		t := ad.byKey.Tombstone()
		prev = &t
	}
	choice := outbox.Decide(prev, a)
	if choice.Decision != outbox.AddedNew {
		ad.found(choice.Decision, prev)
		return true
	}
	ad.r = stored{Record: *outbox.NewRecord(a, choice.Generation, 0), lock: laneLock(a.Record.Connection, a.Record.Lane)}
	r := &ad.r
	have, bytes := 0, ad.have.bytes
	for i, s := range outbox.States() {
		if s.Waiting() || s.Parked() {
			have += int(ad.have.states[i])
		}
	}
	old := ad.last
	if old != nil && !old.CanSupersede(&r.Record) {
		old = nil
	}
	if old != nil {
		have, bytes = have-1, bytes-old.size
	}
	if ad.refused = outbox.CheckLimits(a.Limits, have, bytes, &r.Record); ad.refused != nil {
		return true
	}
	empty := ad.lowest == 0
	if old != nil {
		empty = empty || ad.lowest == int64(old.Seq)
		ad.out.Superseded = old.ID
		ad.replaced = newChanges(ad.st)
		_ = ad.replaced.change(old, a.Now, func() error { old.ApplySupersede(r.ID, a.Now); return nil })
	}
	ad.enterLane(empty)
	return false
}

// enterLane puts the new record at the end of its lane.
func (ad *adding) enterLane(empty bool) {
	r := &ad.r
	r.size = r.Size()
	// A snapshot of the whole transaction may be older than the lock: nothing that it shows of the lane is certain.
	// The record then enters the due index in any case, and whoever claims sees whether it is the head.
	stale := ad.isolation != "read committed"
	r.head = empty || stale
	if empty {
		r.HoldDue(ad.a.Now, ad.hold)
	}
	round(&r.Record)
	if m := ad.a.Claim; m != nil && empty && !stale && !r.Due.After(m.Now) {
		r.claim(*m)
	}
	if r.head && !r.Claimed() {
		r.dueAt, r.dueOrder = r.Due.Add(-ad.st.off), ad.st.e.clock.next()
	}
}

// claim gives the record to a new claim.
func (s *stored) claim(m outbox.Mark) {
	s.Claim = outbox.Claim{}
	s.ApplyClaim(rand.Text(), m)
	round(&s.Record)
	s.lease = takeover(&s.Record, m)
	s.dueAt = time.Time{}
}

// insert returns the call that saves the new record; seq stays 0 when somebody was faster.
func (ad *adding) insert() (call, error) {
	s := &ad.r
	r := *s.Clone()
	shift(&r, -ad.st.off)
	replaces := int64(0)
	if ad.byKey != nil {
		replaces = int64(ad.byKey.Seq)
	}
	var lease *int64
	if s.lease > 0 {
		us := s.lease.Microseconds()
		lease = &us
	}
	detail, err := encodeDetail(&r)
	args := []any{enc(r.ID), enc(r.Connection), enc(r.Lane), s.lock, enc(r.Kind), enc(r.Resource), enc(r.Key), r.KeyDerived, r.Fingerprint, r.RepeatSafe,
		r.StopLaneOnReject, enc(r.Tag), r.Created, orNull(r.Expires), enc(r.Request.Method), enc(r.Request.Target), enc(r.Request.ContentType),
		enc(r.Request.Accept), s.size, replaces, r.Request.Body, r.Sealed, string(r.State), s.head, r.Due, orNull(s.dueAt), s.dueOrder, lease,
		r.Generation, r.Attempts, enc(r.Claim.Token), orNull(r.Claim.At), orNull(r.Claim.Until), detail, ad.st.stamp}
	return call{sql: ad.st.e.sql.insert, args: args, row: func(scan scanner) error { return scan(&ad.seq) }}, err
}

// found fills the answer for a key that is known.
func (ad *adding) found(d outbox.Decision, prev *outbox.Tombstone) {
	ad.out.Decision = d
	if ad.byKey != nil {
		ad.out.Record = ad.byKey.Record
		return
	}
	ad.out.Record, ad.out.Tombstone = prev.Record(), *prev
	if d == outbox.FoundOperation {
		ad.out.Decision = outbox.FoundTombstone
	}
}

func (ad *adding) answer() (outbox.Added, error) {
	if ad.refused != nil {
		return outbox.Added{}, ad.refused
	}
	if ad.seq != 0 {
		ad.r.Seq = uint64(ad.seq)
		ad.out.Decision, ad.out.Record = outbox.AddedNew, *ad.r.Clone()
	}
	if ad.out.Decision == outbox.AddedNew {
		ad.st.e.rollup.wrote()
		if ad.a.Tx == nil {
			ad.st.e.tell()
		}
	}
	return ad.out, nil
}
