package pgoutbox

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// load returns the calls that read and lock the records named by ids, and what is to be known of their lanes. Records
// are locked in the order of Seq, and of lanes nothing is waited for, so that steps never wait for each other in a circle.
func (c *changes) load(ids []string) []call {
	sql := &c.st.e.sql
	keys := encAll(ids)
	return append([]call{{sql: sql.byID, args: []any{keys}, row: c.addRecord}}, c.loadLanes(keys)...)
}

func (c *changes) addRecord(scan scanner) error {
	s, err := scanWhole(scan, c.st.off)
	if err != nil {
		return err
	}
	c.add(s)
	return nil
}

// add takes in a record of the step.
func (c *changes) add(s *stored) {
	if have := c.records[s.ID]; have != nil {
		s = have
	}
	c.records[s.ID] = s
	l := c.lane(s)
	if l == nil {
		l = &lane{}
		c.lanes[laneName{s.Connection, s.Lane}] = l
	}
	l.put(s)
}

// put adds an unfinished record in its place.
func (l *lane) put(s *stored) {
	if !s.Unfinished() || slices.ContainsFunc(l.recs, func(r *stored) bool { return r.Seq == s.Seq }) {
		return
	}
	l.recs = append(l.recs, s)
	slices.SortFunc(l.recs, func(a, b *stored) int { return cmp.Compare(a.Seq, b.Seq) })
}

// loadLanes returns the calls that read the lanes of records that have been read before.
func (c *changes) loadLanes(keys []string) []call {
	sql := &c.st.e.sql
	free := map[int32]bool{}
	return []call{
		{sql: sql.tryLanes, args: []any{keys}, row: func(scan scanner) error {
			var n int32
			err := scan(&n)
			free[n] = true
			return err
		}},
		{sql: sql.next, args: []any{keys}, row: func(scan scanner) error {
			s, err := scanProgress(scan, c.st.off)
			if err != nil {
				return err
			}
			if l := c.lane(s); l != nil {
				l.put(s)
			}
			return nil
		}},
		{sql: sql.lanes, args: []any{keys}, row: func(scan scanner) error {
			var conn, name string
			var lowest int64
			var hold *time.Time
			if err := scan(&conn, &name, &lowest, &hold); err != nil {
				return err
			}
			at := laneName{dec(conn), dec(name)}
			if l := c.lanes[at]; l != nil {
				l.lowest, l.free = lowest, free[laneLock(at.connection, at.lane)]
				if hold != nil {
					l.hold = hold.UTC().Add(c.st.off)
				}
			}
			return nil
		}},
	}
}

// whole returns the calls that read and lock all of a lane. They are made before anything is locked besides records of
// this lane, because they wait.
func (c *changes) whole(connection, name string) []call {
	args := []any{enc(connection), enc(name)}
	return []call{{sql: c.st.e.sql.wholeLane, args: args, row: c.addRecord}, {sql: c.st.e.sql.holdOf, args: args, row: func(scan scanner) error {
		var until time.Time
		err := scan(&until)
		if l := c.lanes[laneName{connection, name}]; l != nil {
			l.hold = until.UTC().Add(c.st.off)
		}
		return err
	}}}
}

// read runs statements outside of a step, in one round trip.
func (e *Engine) read(ctx context.Context, calls ...call) error {
	var err error
	st := &step{e: e}
	calls = append([]call{st.plannerCall(e.sql.planner)}, calls...)
	for try := range 3 {
		if try > 0 && !e.pause(ctx, try) {
			break
		}
		if err = (pgxSession{e.pool}).do(ctx, calls...); !isBroken(err) && !isRefused(err) {
			return err
		}
	}
	return err
}
