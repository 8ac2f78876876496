package pgoutbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Get implements outbox.Engine.
func (e *Engine) Get(ctx context.Context, id string) (outbox.Record, error) {
	if err := e.enter(ctx); err != nil {
		return outbox.Record{}, err
	}
	defer e.leave()
	var found *stored
	off := e.clock.off()
	err := e.read(ctx, call{sql: e.sql.get, args: []any{enc(id)}, row: func(scan scanner) (err error) {
		found, err = scanWhole(scan, off)
		return err
	}})
	switch {
	case err != nil:
		return outbox.Record{}, wrap("get", err)
	case found == nil:
		return outbox.Record{}, outbox.ErrNotFound
	}
	return found.Record, nil
}

// List implements outbox.Engine.
func (e *Engine) List(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	if err := e.enter(ctx); err != nil {
		return outbox.Page{}, err
	}
	defer e.leave()
	after, limit, err := q.Start()
	if err != nil {
		return outbox.Page{}, err
	}
	off := e.clock.off()
	sql, args := e.listStatement(&q, after, limit, off)
	var p outbox.Page
	var last *stored
	err = e.read(ctx, call{sql: sql, args: args, row: func(scan scanner) error {
		s, err := scanWhole(scan, off)
		if err != nil {
			return err
		}
		if len(p.Records) == limit {
			p.Next = strconv.FormatUint(position(&q, last), 10)
			return nil
		}
		if last = s; !q.Bodies {
			s.StripBodies()
		}
		p.Records = append(p.Records, s.Record)
		return nil
	}})
	if err != nil {
		return outbox.Page{}, wrap("list", err)
	}
	return p, nil
}

func position(q *outbox.Query, s *stored) uint64 {
	if q.ByOutcome {
		return s.OutcomeSeq
	}
	return s.Seq
}

// listStatement returns the statement that reads one page and one record more. Its conditions are those of the indexes.
func (e *Engine) listStatement(q *outbox.Query, after uint64, limit int, off time.Duration) (string, []any) {
	args := []any{int64(after), limit + 1}
	var where []string
	add := func(condition string, arg any) {
		args = append(args, arg)
		where = append(where, fmt.Sprintf(condition, len(args)))
	}
	order := "p.seq"
	if q.ByOutcome {
		order = "p.outcome"
		where = append(where, "p.outcome > 0")
	}
	where = append(where, order+" > $1::bigint")
	if q.Connection != "" {
		add("p.connection = $%d::text", enc(q.Connection))
	}
	if q.Lane != "" {
		add("p.lane = $%d::text", enc(q.Lane))
	}
	open := q.States != nil
	if q.States != nil {
		states := make([]string, len(q.States))
		for i, s := range q.States {
			states[i] = string(s)
			open = open && (s.Waiting() || s.Parked())
		}
		add("p.state = ANY ($%d::text[])", states)
	}
	switch {
	case open && q.Lane == "":
		where = append(where, "p.open AND p.generation > 0")
	case open:
		where = append(where, "p.open")
	}
	if q.Unacked {
		where = append(where, "p.outcome > 0 AND p.acked < p.revision")
	}
	if !q.ExpiringBefore.IsZero() {
		add("p.state = 'queued' AND p.expires < $%d::timestamptz", q.ExpiringBefore.Add(-off))
	}
	from, with := both, ""
	each := strings.Join(where, " AND ") // of progress alone
	if q.Kind != "" {
		add("o.kind = $%d::text", enc(q.Kind))
	}
	if q.Tag != "" {
		add("o.tag = $%d::text", enc(q.Tag))
	}
	if q.Key != "" {
		add("o.key = $%d::text", enc(q.Key))
	}
	switch {
	case q.Key != "" && q.Connection != "":
		args = append(args, enc(q.Connection), enc(q.Key))
		from = fmt.Sprintf(keyed, len(args)-1, len(args))
		order += " + 0" // there are few, and they are found by their key
	case open && q.Connection == "" && q.Lane == "" && q.Kind+q.Tag+q.Key == "" && !q.ByOutcome && !q.Unacked && q.ExpiringBefore.IsZero():
		with = "WITH RECURSIVE " + openConnections
		from = "c CROSS JOIN LATERAL (SELECT p.* FROM {progress} p WHERE p.connection = c.connection AND " + each +
			" ORDER BY p.seq LIMIT $2::bigint) p JOIN {operation} o ON o.seq = p.seq"
	}
	columns := listColumns
	if q.Bodies {
		columns = wholeColumns
	}
	return e.sql.fill(fmt.Sprintf("%s SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT $2::bigint", with, columns, from, strings.Join(where, " AND "), order)), args
}

// keyed selects all operations under a key.
const keyed = `(SELECT k.seq FROM {operation} k WHERE k.connection = $%[1]d::text AND k.key = $%[2]d::text AND k.latest
	UNION ALL SELECT k.seq FROM {operation} k WHERE k.connection = $%[1]d::text AND k.key = $%[2]d::text AND NOT k.latest AND k.key <> '') k
	JOIN {operation} o ON o.seq = k.seq JOIN {progress} p ON p.seq = k.seq`

// NextDue implements outbox.Engine. A claim whose lease is over is due since then.
func (e *Engine) NextDue(ctx context.Context, s outbox.Scope) (next time.Time, ok bool, err error) {
	if err := e.enter(ctx); err != nil {
		return next, false, err
	}
	defer e.leave()
	off := e.clock.off()
	if s.Connections != nil && len(s.Connections) == 0 {
		return next, false, nil
	}
	c := call{sql: e.sql.nextDue}
	switch {
	case s.Connections != nil:
		var conns []string
		for _, conn := range s.Connections {
			if s.Includes(conn) {
				conns = append(conns, enc(conn))
			}
		}
		c = call{sql: e.sql.nextDueOf, args: []any{0, conns, []string{}}}
		if conns == nil {
			return next, false, nil
		}
	case len(s.Except) > 0:
		c = call{sql: e.sql.nextDueWalk, args: []any{ahead, nil, encAll(s.Except)}}
	}
	c.row = func(scan scanner) error {
		var due, lapsed *time.Time
		err := scan(&due, &lapsed)
		if due != nil {
			next, ok = due.UTC().Add(off), true
		}
		if at := utc(lapsed); lapsed != nil && (!ok || at.Add(off).Before(next)) {
			next, ok = at.Add(off), true
		}
		return err
	}
	if err := e.read(ctx, c); err != nil {
		return time.Time{}, false, wrap("next due", err)
	}
	return next, ok, nil
}
