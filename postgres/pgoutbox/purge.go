package pgoutbox

import (
	"context"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Purge deletes in batches that hold up nobody: several may run at once, each takes other rows.

// $1 before  $2 limit  $3 unacknowledged ones, too  $4 connection, "" = all
const purgeableSQL = `
SELECT ` + listColumns + `, o.latest FROM ` + both + ` WHERE p.seq = ANY (ARRAY(
	SELECT s.seq FROM {progress} s JOIN {operation} x ON x.seq = s.seq WHERE NOT s.open AND s.acked >= s.revision AND s.finished < $1::timestamptz
		AND ($4::text = '' OR s.connection = $4::text)
	ORDER BY s.finished LIMIT $2::bigint FOR UPDATE SKIP LOCKED))
AND p.due_at IS NULL
UNION ALL
SELECT ` + listColumns + `, o.latest FROM ` + both + ` WHERE p.seq = ANY (ARRAY(
	SELECT s.seq FROM {progress} s JOIN {operation} x ON x.seq = s.seq WHERE $3::boolean AND NOT s.open AND s.acked < s.revision AND s.state <> 'rejected' AND s.finished < $1::timestamptz
		AND ($4::text = '' OR s.connection = $4::text)
	ORDER BY s.finished LIMIT $2::bigint FOR UPDATE SKIP LOCKED))
AND p.due_at IS NULL`

// burySQL keeps what stays known of keys; those of operations that are not the latest under their key are not among them.
const burySQL = `INSERT INTO {key} (connection, key, id, generation, fingerprint, state, code, clean, repeat_safe, resource, until)
SELECT u.* FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::bytea[], $6::text[], $7::text[], $8::boolean[], $9::boolean[], $10::text[],
	$11::timestamptz[]) AS u (connection, key, id, generation, fingerprint, state, code, clean, repeat_safe, resource, until)
JOIN {operation} o ON o.id = u.id AND o.latest
ON CONFLICT (connection, key) DO UPDATE SET id = EXCLUDED.id, generation = EXCLUDED.generation, fingerprint = EXCLUDED.fingerprint,
	state = EXCLUDED.state, code = EXCLUDED.code, clean = EXCLUDED.clean, repeat_safe = EXCLUDED.repeat_safe, resource = EXCLUDED.resource,
	until = EXCLUDED.until`

const purgeSQL = `
WITH p AS (DELETE FROM {progress} p WHERE p.seq = ANY ($1::bigint[]))
DELETE FROM {operation} o WHERE o.seq = ANY ($1::bigint[])`

const dropKeysSQL = `DELETE FROM {key} t WHERE t.ctid = ANY (ARRAY(
	SELECT x.ctid FROM {key} x WHERE x.until < $1::timestamptz ORDER BY x.until LIMIT $2::bigint FOR UPDATE SKIP LOCKED))
	AND t.until < $1::timestamptz`

const dropHoldsSQL = `DELETE FROM {hold} h WHERE h.ctid = ANY (ARRAY(
	SELECT x.ctid FROM {hold} x WHERE x.until <= $1::timestamptz OR x.until > $2::timestamptz LIMIT $3::bigint FOR UPDATE SKIP LOCKED))
	AND (h.until <= $1::timestamptz OR h.until > $2::timestamptz)`

// Purge implements outbox.Engine.
func (e *Engine) Purge(ctx context.Context, q outbox.PurgeRequest) (n int, err error) {
	if err := e.enter(ctx); err != nil {
		return 0, err
	}
	defer e.leave()
	if q.Limit <= 0 {
		q.Limit = 1000
	}
	err = e.run(ctx, task{what: "purge"}, func(ctx context.Context, st *step) error {
		n, err = e.purge(ctx, st, &q)
		return err
	}, nil)
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (e *Engine) purge(ctx context.Context, st *step, q *outbox.PurgeRequest) (int, error) {
	c := newChanges(st)
	var recs []*stored
	err := st.begin(ctx, call{sql: e.sql.purgeable, args: []any{q.Before.Add(-st.off), q.Limit, q.Unacked, enc(q.Connection)}, row: func(scan scanner) error {
		s, latest, err := scanLatest(scan, st.off)
		if err == nil && len(recs) < q.Limit && s.Purgeable(q) {
			recs = append(recs, s)
			if !latest {
				s.Key = ""
			}
		}
		return err
	}})
	if err != nil {
		return 0, err
	}
	var calls []call
	if len(recs) > 0 {
		seqs := make([]int64, len(recs))
		for i, s := range recs {
			seqs[i] = int64(s.Seq)
			c.count(s, -1)
		}
		if args := tombstoneColumns(recs, q.Now, st.off); args != nil {
			calls = append(calls, call{sql: e.sql.bury, args: args})
		}
		calls = append(calls, call{sql: e.sql.purge, args: []any{seqs}}, call{sql: e.sql.deltas, args: deltaColumns(c.totals)})
		e.rollup.wrote()
	}
	now := q.Now.Add(-st.off)
	calls = append(calls, call{sql: e.sql.dropKeys, args: []any{now, q.Limit}},
		call{sql: e.sql.dropHolds, args: []any{now, now.Add(outbox.MaxHold), q.Limit}})
	return len(recs), st.commit(ctx, calls...)
}

func scanLatest(scan scanner, off time.Duration) (s *stored, latest bool, err error) {
	s, err = scanWhole(func(dst ...any) error { return scan(append(dst, &latest)...) }, off)
	return s, latest, err
}

// tombstoneColumns returns the arguments of burySQL, nil when no key stays known.
func tombstoneColumns(recs []*stored, now time.Time, off time.Duration) []any {
	var (
		conn, key, id, state, code, resource []string
		generation                           []int32
		fingerprint                          [][]byte
		clean, safe                          []bool
		until                                []time.Time
	)
	for _, s := range recs {
		if s.Key == "" {
			continue
		}
		t := s.TombstoneAt(now)
		conn, key, id = append(conn, enc(t.Connection)), append(key, enc(t.Key)), append(id, enc(t.ID))
		generation, fingerprint = append(generation, int32(t.Generation)), append(fingerprint, t.Fingerprint)
		state, code, resource = append(state, string(t.State)), append(code, enc(t.Code)), append(resource, enc(t.Resource))
		clean, safe, until = append(clean, t.Clean), append(safe, t.RepeatSafe), append(until, t.Until.Add(-off))
	}
	if conn == nil {
		return nil
	}
	return []any{conn, key, id, generation, fingerprint, state, code, clean, safe, resource, until}
}

func scanTombstone(scan scanner, connection, key string, off time.Duration) (*outbox.Tombstone, error) {
	t := &outbox.Tombstone{Connection: connection, Key: key}
	err := scan(&t.ID, &t.Generation, &t.Fingerprint, &t.State, &t.Code, &t.Clean, &t.RepeatSafe, &t.Resource, &t.Until)
	t.ID, t.Code, t.Resource, t.Until = dec(t.ID), dec(t.Code), dec(t.Resource), t.Until.UTC().Add(off)
	return t, err
}

// LoadState implements outbox.Engine.
func (e *Engine) LoadState(ctx context.Context, connection, name string) (value []byte, err error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	err = e.read(ctx, call{sql: e.sql.loadState, args: []any{enc(connection), enc(name)}, row: func(scan scanner) error { return scan(&value) }})
	if err != nil {
		return nil, wrap("load state", err)
	}
	return value, nil
}

// SaveState implements outbox.Engine.
func (e *Engine) SaveState(ctx context.Context, connection, name string, value []byte) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.leave()
	return e.run(ctx, task{what: "save state"}, func(ctx context.Context, st *step) error {
		if err := st.begin(ctx); err != nil {
			return err
		}
		if value == nil {
			return st.commit(ctx, call{sql: e.sql.deleteState, args: []any{enc(connection), enc(name)}})
		}
		return st.commit(ctx, call{sql: e.sql.saveState, args: []any{enc(connection), enc(name), value}})
	}, nil)
}
