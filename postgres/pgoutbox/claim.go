package pgoutbox

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

const (
	// ahead is how many heads are looked at in the order they fell due before connections are gone through one by one,
	// and around how many connections a claim goes through at most.
	ahead  = 512
	around = 512
	// rounds bounds how often a claim looks again for heads behind what could not be claimed.
	rounds = 4
)

// turn is where the next claim goes on in its way through the connections.
type turn struct {
	mu    sync.Mutex
	after string
}

func (t *turn) get() string { t.mu.Lock(); defer t.mu.Unlock(); return t.after }

func (t *turn) set(after string) { t.mu.Lock(); defer t.mu.Unlock(); t.after = after }

// Claim implements outbox.Engine. Claims whose lease is over are taken over before what is due.
func (e *Engine) Claim(ctx context.Context, q outbox.ClaimRequest) ([]outbox.Record, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	var out []outbox.Record
	for range rounds {
		if q.Limit <= len(out) || q.Connections != nil && len(q.Connections) == 0 {
			break
		}
		recs, again, err := e.claim(ctx, &q, out)
		if err != nil {
			if len(out) > 0 {
				break // they are claimed; what follows is claimed another time
			}
			return nil, err
		}
		out = append(out, recs...)
		if !again {
			break
		}
	}
	return out, nil
}

// claiming is one step of Claim.
type claiming struct {
	*changes
	q      *outbox.ClaimRequest
	limit  int
	count  map[string]int // by connection
	seen   map[uint64]bool
	taken  map[laneName]bool // of which an earlier step of the call has taken one
	picked []*stored
	over   []*stored // expired ones and ghosts: their lanes go on
	later  []int64   // not the first of their lane
	passed int       // lanes that are held back
}

// candidate is a locked row that may be claimed.
type candidate struct {
	*stored
	lowest int64 // the first unfinished record of its lane
	hold   time.Time
}

// claim makes one step. again = lanes went on, and their heads may be due now.
func (e *Engine) claim(ctx context.Context, q *outbox.ClaimRequest, before []outbox.Record) (out []outbox.Record, again bool, err error) {
	var c *claiming
	err = e.run(ctx, task{what: "claim"}, func(ctx context.Context, st *step) error {
		c = &claiming{changes: newChanges(st), q: q, limit: q.Limit - len(before), count: map[string]int{}, seen: map[uint64]bool{}, taken: map[laneName]bool{}}
		for i := range before {
			c.count[before[i].Connection]++
			c.taken[laneName{before[i].Connection, before[i].Lane}] = true
		}
		if err := c.find(ctx); err != nil {
			return err
		}
		if len(c.picked)+len(c.over)+len(c.later) == 0 {
			return nil
		}
		if err := c.goOn(ctx); err != nil {
			return err
		}
		for _, s := range c.picked {
			if s.State != outbox.Expired {
				_ = c.change(s, q.Now, func() error { s.claim(q.Mark); return nil })
			}
		}
		var more []call
		if len(c.later) > 0 {
			more = append(more, call{sql: e.sql.demote, args: []any{c.later}})
		}
		return c.write(ctx, more...)
	}, func(ctx context.Context, st *step) (bool, error) { return c.committed(ctx, st) })
	if err != nil {
		return nil, false, err
	}
	for _, s := range c.picked {
		out = append(out, c.done(&s.Record))
		if s.State == outbox.Expired {
			e.tell()
		}
	}
	again = len(c.later) > 0 || slices.ContainsFunc(c.over, func(s *stored) bool { return !slices.Contains(c.picked, s) })
	return out, again, nil
}

// find locks what can be claimed.
func (c *claiming) find(ctx context.Context) error {
	sql, q := &c.st.e.sql, c.q
	var conns []string
	if q.Connections != nil {
		conns = encAll(q.Connections)
	}
	except := encAll(q.Except)
	until := q.Until().Add(-c.st.off)
	var first, lapsed, due []candidate
	more := false // there is more than was looked at
	calls := []call{{sql: sql.lapsed, args: []any{c.limit, conns, except}, row: c.row(&lapsed)}}
	if len(q.First) > 0 {
		calls = append(calls, call{sql: sql.first, args: []any{until, conns, except, encAll(q.First)}, row: c.row(&first)})
	}
	look := func(scale int) []call {
		limit, per := c.limit*scale, c.per(scale)
		switch {
		case q.Connections != nil:
			return []call{{sql: sql.dueOf, args: []any{until, c.listed(), per, limit}, row: c.row(&due)}}
		case q.PerConnection == 0 && len(q.Except) == 0:
			return []call{{sql: sql.due, args: []any{until, limit, per, limit}, row: c.row(&due)}}
		}
		return []call{{sql: sql.dueFirst, args: []any{until, ahead, per, limit, except}, row: c.row(&due)},
			{sql: sql.dueMore, args: []any{until, ahead}, row: func(scan scanner) error { return scan(&more) }}}
	}
	if err := c.st.begin(ctx, append(calls, look(1)...)...); err != nil {
		return err
	}
	slices.SortStableFunc(first, func(a, b candidate) int { return slices.Index(q.First, a.ID) - slices.Index(q.First, b.ID) })
	c.pick(first)
	c.pick(lapsed)
	c.pick(due)
	for scale := 4; c.passed > 0 && len(c.picked) < c.limit && c.limit*scale <= ahead; scale *= 4 {
		// Lanes that are held back may stand in front of others.
		c.passed, due = 0, nil
		if err := c.st.s.do(ctx, look(scale)...); err != nil {
			return err
		}
		c.pick(due)
	}
	if more && len(c.picked) < c.limit {
		return c.walk(ctx, until)
	}
	return nil
}

// listed returns the connections asked for by name.
func (c *claiming) listed() []string {
	conns := make([]string, 0, len(c.q.Connections))
	for _, conn := range c.q.Connections {
		if name := enc(conn); c.q.Includes(conn) && !slices.Contains(conns, name) {
			conns = append(conns, name)
		}
	}
	return conns
}

// walk goes through the connections that have lanes waiting, on from where the last claim has stopped.
func (c *claiming) walk(ctx context.Context, until time.Time) error {
	after := c.st.e.turn.get()
	for _, from := range []string{after, ""} {
		leave := encAll(c.q.Except)
		for conn, n := range c.count {
			if c.q.Full(n) {
				leave = append(leave, enc(conn))
			}
		}
		var due []candidate
		visited := 0
		err := c.st.s.do(ctx,
			call{sql: c.st.e.sql.dueWalk, args: []any{until, around, c.per(1), c.limit, leave, from}, row: c.row(&due)},
			call{sql: c.st.e.sql.walked, args: []any{around, from}, row: func(scan scanner) error { visited++; return scan(&after) }})
		if err != nil {
			return err
		}
		c.pick(due)
		if visited < around {
			after = ""
		}
		c.st.e.turn.set(after)
		if visited == around || from == "" {
			break
		}
	}
	return nil
}

// per is how many of one connection are looked at.
func (c *claiming) per(scale int) int {
	if c.q.PerConnection > 0 {
		return c.q.PerConnection * scale
	}
	return math.MaxInt32
}

func (c *claiming) row(into *[]candidate) func(scanner) error {
	return func(scan scanner) error {
		var x candidate
		var hold *time.Time
		s, err := scanWhole(scan, c.st.off, &x.lowest, &hold)
		if err != nil {
			return err
		}
		if x.stored = s; hold != nil {
			x.hold = hold.UTC().Add(c.st.off)
		}
		*into = append(*into, x)
		return nil
	}
}

// pick takes what can be claimed, and notes what is to be put right.
func (c *claiming) pick(found []candidate) {
	for _, x := range found {
		s := x.stored
		switch {
		case c.seen[s.Seq]:
		case s.ghost():
			c.seen[s.Seq] = true
			c.over = append(c.over, s)
		case x.lowest != int64(s.Seq):
			c.seen[s.Seq] = true
			c.later = append(c.later, int64(s.Seq))
		case len(c.picked) >= c.limit, c.taken[laneName{s.Connection, s.Lane}], c.q.Full(c.count[s.Connection]):
		case !outbox.HeldUntil(c.q.Now, x.hold).IsZero():
			c.seen[s.Seq] = true
			c.passed++
		default:
			c.seen[s.Seq] = true
			c.count[s.Connection]++
			c.picked = append(c.picked, s)
			if s.PastExpiry(c.q.Now) {
				c.over = append(c.over, s)
			}
		}
	}
}

// goOn ends what has expired, and lets its lanes go on and those that nobody could tell the next record of.
func (c *claiming) goOn(ctx context.Context) error {
	if len(c.over) == 0 {
		return nil
	}
	var ids []string
	for _, s := range append(slices.Clone(c.over), c.picked...) {
		c.records[s.ID] = s
	}
	for _, s := range c.over {
		c.add(s)
		ids = append(ids, s.ID)
	}
	for _, s := range c.picked {
		if l := c.lane(s); l != nil {
			l.put(s)
		}
	}
	if err := c.st.s.do(ctx, c.loadLanes(encAll(ids))...); err != nil {
		return err
	}
	for _, s := range c.over {
		if !s.ghost() {
			_ = c.change(s, c.q.Now, func() error { s.ApplyExpire(c.q.Now); return nil })
			continue
		}
		c.touch(s, *s)
		if l := c.lane(s); l.sure() && len(l.recs) > 0 {
			if next := l.recs[0]; !next.head && next.State.Waiting() && !next.Claimed() {
				was := *next
				next.Due = next.HeadDue(c.q.Now, l.hold)
				c.touch(next, was)
			}
		}
	}
	return nil
}
