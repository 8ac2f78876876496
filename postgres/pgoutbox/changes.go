package pgoutbox

import (
	"context"
	"slices"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// pending marks an outcome whose number is given when the step is written.
const pending = uint64(1) << 62

// A lane that was being added to when it was looked at is left alone for a while, longer each time.
const (
	recheckLeast = 20 * time.Millisecond
	recheckMost  = time.Second
)

// changes collects what a step does to records and their lanes, and writes it.
type changes struct {
	st       *step
	lanes    map[laneName]*lane
	records  map[string]*stored // those of the step, by ID
	before   map[int64]stored   // what has changed, as it was read
	dirty    []*stored
	outcomes int
	given    []uint64
	totals   map[string]*totals
}

type laneName struct{ connection, lane string }

// lane is what a step knows of a lane.
type lane struct {
	recs   []*stored // unfinished ones by Seq: those of the step, and the first besides them; or all
	lowest int64     // the first one besides those of the step, as it was seen last; 0 = there is none
	free   bool      // nobody is adding to it
	hold   time.Time
	moved  bool // hold has changed
}

func newChanges(st *step) *changes {
	return &changes{st: st, lanes: map[laneName]*lane{}, records: map[string]*stored{}, before: map[int64]stored{}, totals: map[string]*totals{}}
}

func (c *changes) lane(r *stored) *lane { return c.lanes[laneName{r.Connection, r.Lane}] }

// sure reports whether recs begins with the lane's head.
func (l *lane) sure() bool {
	if l.lowest == 0 {
		return true
	}
	return slices.ContainsFunc(l.recs, func(r *stored) bool { return int64(r.Seq) <= l.lowest })
}

// touch notes that a record has changed from what it was.
func (c *changes) touch(s *stored, was stored) {
	if _, ok := c.before[int64(s.Seq)]; !ok {
		c.before[int64(s.Seq)] = was
		c.dirty = append(c.dirty, s)
	}
}

// change applies a transition to a record, and lets the next of its lane fall due when it leaves it.
func (c *changes) change(s *stored, now time.Time, apply func() error) error {
	was := *s
	if err := apply(); err != nil {
		*s = was
		return err
	}
	c.touch(s, was)
	if s.Revision > was.Revision {
		c.outcomes++
		s.OutcomeSeq = pending + uint64(c.outcomes)
	}
	l := c.lane(s)
	if l == nil {
		return nil
	}
	first := len(l.recs) > 0 && l.recs[0] == s && l.sure()
	if !s.Unfinished() {
		l.recs = slices.DeleteFunc(l.recs, func(r *stored) bool { return r == s })
	}
	if len(l.recs) == 0 || !l.sure() {
		return nil
	}
	head, old := l.recs[0], *l.recs[0]
	if first && head != s && head.State.Waiting() {
		head.Due = head.HeadDue(now, l.hold)
	}
	head.HoldDue(now, l.hold)
	if !head.Due.Equal(old.Due) {
		c.touch(head, old)
	}
	return nil
}

// holdBack holds back the lane of s until then, unless it is held longer already.
func (c *changes) holdBack(s *stored, until time.Time) {
	if l := c.lane(s); l != nil && until.After(l.hold) {
		l.hold, l.moved = until, true
	}
}

// index brings the entries of the due index in line with what has become of the lanes.
func (c *changes) index() {
	for _, l := range c.lanes {
		for i, r := range l.recs {
			if was := *r; l.sure() {
				r.head = i == 0
				c.enter(r)
				if r.head != was.head || !r.dueAt.Equal(was.dueAt) {
					c.touch(r, was)
				}
			}
		}
	}
	for _, s := range c.dirty {
		round(&s.Record)
		if s.Unfinished() {
			c.enter(s)
			continue
		}
		l, was := c.lane(s), c.before[int64(s.Seq)]
		if l == nil && was.ghost() {
			continue // the step has not looked at the lane: the entry stays until one does
		}
		// What is over stays in the index only when it was its lane's head and nobody can tell which is the next. (What is
		// superseded makes place for the next in the same step.)
		stays := l != nil && (was.head || was.ghost()) && !(len(l.recs) > 0 && l.sure()) && !(l.free && l.lowest == 0)
		s.head, s.lapseAt, s.lease, s.dueAt = false, time.Time{}, 0, time.Time{}
		if stays {
			s.dueAt, s.dueOrder = c.st.at, c.st.e.clock.next()
			if was.ghost() {
				since := s.dueAt.Sub(s.Finished.Add(-c.st.off))
				s.dueAt = s.dueAt.Add(min(max(since/2, recheckLeast), recheckMost))
			}
		}
	}
}

// enter sets the entry of an unfinished record.
func (c *changes) enter(s *stored) {
	due := time.Time{}
	if s.head && s.State.Waiting() && !s.Claimed() {
		due = s.Due.Truncate(time.Microsecond).Add(-c.st.off)
	}
	if !s.Claimed() {
		s.lapseAt, s.lease = time.Time{}, 0
	}
	if !due.Equal(s.dueAt) {
		s.dueAt = due
		if !due.IsZero() {
			s.dueOrder = c.st.e.clock.next()
		}
	}
}

// write writes everything and commits.
func (c *changes) write(ctx context.Context, more ...call) error {
	calls, err := c.calls()
	if err != nil {
		return err
	}
	return c.st.commit(ctx, append(calls, more...)...)
}

// calls returns the statements that write everything.
func (c *changes) calls() ([]call, error) {
	c.index()
	var calls []call
	if len(c.dirty) > 0 {
		args, err := c.columns()
		if err != nil {
			return nil, err
		}
		c.given = nil
		calls = append(calls, call{sql: c.st.e.sql.update, args: args, row: func(scan scanner) error {
			var n int64
			err := scan(&n)
			c.given = append(c.given, uint64(n))
			return err
		}})
	}
	var conns, names []string
	var until []time.Time
	for name, l := range c.lanes {
		if l.moved {
			conns, names = append(conns, enc(name.connection)), append(names, enc(name.lane))
			until = append(until, l.hold.Add(-c.st.off))
		}
	}
	if len(conns) > 0 {
		calls = append(calls, call{sql: c.st.e.sql.hold, args: []any{conns, names, until}})
	}
	for _, s := range c.dirty {
		was := c.before[int64(s.Seq)]
		c.count(&was, -1)
		c.count(s, +1)
	}
	if args := deltaColumns(c.totals); args != nil {
		calls = append(calls, call{sql: c.st.e.sql.deltas, args: args})
		c.st.e.rollup.wrote()
	}
	return calls, nil
}

// columns returns the arguments of updateSQL.
func (c *changes) columns() ([]any, error) {
	n := len(c.dirty)
	var (
		seq, order, lease, outcome           = make([]int64, n), make([]int64, n), make([]*int64, n), make([]int64, n)
		state, claim, superseded             = make([]string, n), make([]string, n), make([]string, n)
		head, suspect                        = make([]bool, n), make([]bool, n)
		due                                  = make([]time.Time, n)
		dueAt, lapse, claimAt, claimUntil    = make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n)
		finished                             = make([]*time.Time, n)
		generation, attempts, revision, seen = make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, n)
		detail                               = make([]*string, n)
		body                                 = make([][]byte, n)
		err                                  error
	)
	for i, s := range c.dirty {
		r := *s.Clone()
		shift(&r, -c.st.off)
		seq[i], order[i], outcome[i] = int64(r.Seq), s.dueOrder, int64(r.OutcomeSeq)
		if s.lease > 0 {
			us := s.lease.Microseconds()
			lease[i] = &us
		}
		state[i], claim[i], superseded[i] = string(r.State), enc(r.Claim.Token), enc(r.SupersededBy)
		head[i], suspect[i] = s.head, r.Suspect
		due[i], dueAt[i], lapse[i] = r.Due, orNull(s.dueAt), orNull(s.lapseAt)
		claimAt[i], claimUntil[i], finished[i] = orNull(r.Claim.At), orNull(r.Claim.Until), orNull(r.Finished)
		generation[i], attempts[i], revision[i], seen[i] = int32(r.Generation), int32(r.Attempts), int32(r.Revision), int32(r.Acked)
		if detail[i], err = encodeDetail(&r); err != nil {
			return nil, err
		}
		if r.Result != nil {
			body[i] = r.Result.Body
		}
	}
	return []any{c.outcomes, c.st.stamp, seq, state, head, due, dueAt, order, lapse, lease, generation, attempts, suspect, claim, claimAt,
		claimUntil, revision, seen, outcome, finished, superseded, detail, body}, nil
}

// done returns a record as the step has left it.
func (c *changes) done(r *outbox.Record) outbox.Record {
	out := *r.Clone()
	round(&out)
	if k := out.OutcomeSeq; k > pending {
		out.OutcomeSeq = 0
		if i := int(k - pending - 1); i < len(c.given) {
			out.OutcomeSeq = c.given[i]
		}
	}
	return out
}

// committed finds out whether a step whose COMMIT was not answered has been done: its rows carry its stamp, or they
// are as they were. It waits for the lost transaction to end, because that holds the rows.
func (c *changes) committed(ctx context.Context, st *step) (bool, error) {
	seqs := make([]int64, 0, len(c.dirty))
	for _, s := range c.dirty {
		seqs = append(seqs, int64(s.Seq))
	}
	ours, untouched := 0, 0
	outcomes := map[int64]uint64{}
	err := st.begin(ctx, call{sql: st.e.sql.stamps, args: []any{seqs}, row: func(scan scanner) error {
		var seq, stamp, outcome int64
		if err := scan(&seq, &stamp, &outcome); err != nil {
			return err
		}
		switch stamp {
		case c.st.stamp:
			ours++
			outcomes[seq] = uint64(outcome)
		case c.before[seq].stamp:
			untouched++
		}
		return nil
	}})
	switch {
	case err != nil:
		return false, err
	case ours > 0:
		c.given = make([]uint64, c.outcomes)
		for _, s := range c.dirty {
			if k := s.OutcomeSeq; k > pending {
				c.given[k-pending-1] = outcomes[int64(s.Seq)]
			}
		}
		return true, nil
	case untouched == len(seqs):
		return false, nil
	}
	return false, errOthers
}
