package pgoutbox

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// totals are what a connection has, or by how much a step changes that.
type totals struct {
	states               [11]int64 // in the order of outbox.States
	bytes, held, unacked int64
}

func (t *totals) targets() []any {
	dst := make([]any, 0, len(t.states)+3)
	for i := range t.states {
		dst = append(dst, &t.states[i])
	}
	return append(dst, &t.bytes, &t.held, &t.unacked)
}

// count adds or removes (sign -1) what a record contributes to its connection's totals.
func (c *changes) count(s *stored, sign int64) {
	t := c.totals[s.Connection]
	if t == nil {
		t = &totals{}
		c.totals[s.Connection] = t
	}
	t.states[slices.Index(outbox.States(), s.State)] += sign
	if s.Unfinished() {
		t.bytes += sign * s.size
	}
	if s.head && s.State.Parked() {
		t.held += sign
	}
	if s.Unacked() {
		t.unacked += sign
	}
}

// deltaColumns returns the arguments of deltasSQL, nil when nothing has changed.
func deltaColumns(of map[string]*totals) []any {
	var conns []string
	columns := make([][]int64, 14)
	for conn, t := range of {
		if *t == (totals{}) {
			continue
		}
		conns = append(conns, enc(conn))
		for i, v := range t.targets() {
			columns[i] = append(columns[i], *v.(*int64))
		}
	}
	if conns == nil {
		return nil
	}
	args := []any{conns}
	for _, col := range columns {
		args = append(args, col)
	}
	return args
}

// totalsCall reads the totals of one connection, or of all with nil.
func (e *Engine) totalsCall(connection *string, t *totals) call {
	var conn *string
	if connection != nil {
		name := enc(*connection)
		conn = &name
	}
	return call{sql: e.sql.totals, args: []any{conn}, row: func(scan scanner) error { return scan(t.targets()...) }}
}

// Counts implements outbox.Engine.
func (e *Engine) Counts(ctx context.Context, connection string) (outbox.Counts, error) {
	if err := e.enter(ctx); err != nil {
		return outbox.Counts{}, err
	}
	defer e.leave()
	var t totals
	var last int64
	var oldest time.Time
	of, oldestCall := &connection, call{sql: e.sql.oldest, args: []any{enc(connection)}}
	if connection == "" {
		of, oldestCall = nil, call{sql: e.sql.oldestOfAll}
	}
	oldestCall.row = func(scan scanner) error { return scan(&oldest) }
	off := e.clock.off()
	err := e.read(ctx, e.totalsCall(of, &t), oldestCall, call{sql: e.sql.last, row: func(scan scanner) error { return scan(&last) }})
	if err != nil {
		return outbox.Counts{}, wrap("counts", err)
	}
	out := outbox.Counts{States: map[outbox.State]int{}, Bytes: t.bytes, HeldLanes: int(t.held), Unacked: int(t.unacked), LastSeq: uint64(last)}
	for i, s := range outbox.States() {
		if t.states[i] != 0 {
			out.States[s] = int(t.states[i])
		}
	}
	if !oldest.IsZero() {
		out.Oldest = oldest.UTC().Add(off)
	}
	return out, nil
}

const (
	// rollupFrom is how many rows of totals are left alone, and rollupMost how many are merged in one step.
	rollupFrom = 1000
	rollupMost = 20000
	// rollupPolls is after how many polls the rows are merged in any case: a process that died left some, too.
	rollupPolls = 300
)

// rollup remembers how much there is to merge.
type rollup struct {
	rows  atomic.Int64 // that this engine has written
	polls int
}

func (r *rollup) wrote() { r.rows.Add(1) }

// mergeTotals makes few rows of many when there are enough of them. The poller calls it.
func (e *Engine) mergeTotals(ctx context.Context) error {
	if e.rollup.polls++; e.rollup.polls < rollupPolls && e.rollup.rows.Load() < rollupFrom {
		return nil
	}
	e.rollup.polls = 0
	e.rollup.rows.Store(0)
	_, err := e.pool.Exec(ctx, e.sql.merge, rollupMost)
	return err
}
