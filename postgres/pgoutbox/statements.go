package pgoutbox

import "strings"

// statements are the engine's SQL with the names filled in.
type statements struct {
	lockQuick, insertQuick, insertAlone, plannerQuick, clock, planner, lockLane, look, tombstone, intoLane, lastOfLane, insert string
	totals, oldest, oldestOfAll, last, merge                                                                                   string
	byID, tryLanes, next, lanes, wholeLane, update, hold, holdOf, deltas, demote, stamps                                       string
	due, dueFirst, dueMore, dueWalk, walked, dueOf, lapsed, first                                                              string
	nextDue, nextDueOf, nextDueWalk, poll                                                                                      string
	get, adopt, purgeable, bury, purge, dropKeys, dropHolds, loadState, saveState, deleteState                                 string
	fill                                                                                                                       func(string) string
}

func newStatements(schema string) statements {
	fill := names(schema)
	var s statements
	for _, x := range []struct {
		dst *string
		sql string
	}{
		{&s.clock, clockSQL}, {&s.planner, plannerSQL}, {&s.lockQuick, lockQuickSQL}, {&s.insertQuick, insertQuickSQL}, {&s.insertAlone, insertAloneSQL}, {&s.plannerQuick, plannerQuickSQL}, {&s.lockLane, lockLaneSQL}, {&s.look, lookSQL}, {&s.tombstone, tombstoneSQL}, {&s.intoLane, intoLaneSQL},
		{&s.lastOfLane, lastOfLaneSQL}, {&s.insert, insertSQL}, {&s.totals, totalsSQL}, {&s.oldest, oldestSQL}, {&s.oldestOfAll, oldestOfAllSQL},
		{&s.last, lastSQL}, {&s.merge, mergeSQL}, {&s.byID, byIDSQL}, {&s.tryLanes, tryLanesSQL}, {&s.next, nextSQL},
		{&s.lanes, lanesSQL}, {&s.wholeLane, wholeLaneSQL}, {&s.update, updateSQL}, {&s.hold, holdSQL}, {&s.holdOf, holdOfSQL}, {&s.deltas, deltasSQL}, {&s.demote, demoteSQL},
		{&s.due, dueSQL}, {&s.dueFirst, dueFirstSQL}, {&s.dueMore, dueMoreSQL}, {&s.dueWalk, dueWalkSQL}, {&s.walked, walkedSQL}, {&s.dueOf, dueOfSQL}, {&s.lapsed, lapsedSQL}, {&s.first, firstSQL},
		{&s.nextDue, nextDueSQL}, {&s.nextDueOf, nextDueOfSQL}, {&s.nextDueWalk, nextDueWalkSQL}, {&s.stamps, stampsSQL},
		{&s.get, getSQL}, {&s.adopt, adoptSQL}, {&s.poll, pollSQL}, {&s.purgeable, purgeableSQL}, {&s.purge, purgeSQL},
		{&s.bury, burySQL}, {&s.dropKeys, dropKeysSQL}, {&s.dropHolds, dropHoldsSQL}, {&s.loadState, loadStateSQL}, {&s.saveState, saveStateSQL},
		{&s.deleteState, deleteStateSQL},
	} {
		*x.dst = fill.Replace(x.sql)
	}
	s.fill = fill.Replace
	return s
}

const both = `{operation} o JOIN {progress} p ON p.seq = o.seq`

// clockSQL comes first in a transaction of the application.
const clockSQL = `SELECT clock_timestamp(), current_setting('synchronous_commit')`

// plannerSQL comes first in a transaction of the engine's own. Every statement is written for its indexes; a plan that was
// made while the tables were small, or that counts on statistics of yesterday, must not read all of them. It also saves
// the planning.
const plannerSQL = `SELECT clock_timestamp(), current_setting('synchronous_commit'),
	set_config('plan_cache_mode', 'force_generic_plan', true) || set_config('enable_seqscan', 'off', true) ||
	set_config('enable_bitmapscan', 'off', true) || set_config('enable_hashjoin', 'off', true) || set_config('enable_mergejoin', 'off', true) ||
	set_config('jit', 'off', true)`

// Adding. Every statement takes plain values, so that it runs with any driver of database/sql.

// lockLaneSQL is held to the end of the transaction: numbers given under it are in the order of the commits.
const lockLaneSQL = `SELECT l.lock FROM {lane} l WHERE l.lock = $1::integer FOR UPDATE`

// $1 id  $2 connection  $3 key
const lookSQL = `
SELECT true, ` + wholeColumns + ` FROM ` + both + ` WHERE o.id = $1::text
UNION ALL
SELECT false, ` + wholeColumns + ` FROM ` + both + ` WHERE o.connection = $2::text AND o.key = $3::text AND o.latest`

const tombstoneSQL = `SELECT t.id, t.generation, t.fingerprint, t.state, t.code, t.clean, t.repeat_safe, t.resource, t.until
FROM {key} t WHERE t.connection = $1::text AND t.key = $2::text`

// intoLaneSQL tells what a new record of a lane finds there. $1 connection  $2 lane
const intoLaneSQL = `SELECT coalesce((SELECT p.seq FROM {progress} p WHERE p.connection = $1::text AND p.lane = $2::text AND p.open ORDER BY p.seq LIMIT 1), 0),
	(SELECT h.until FROM {hold} h WHERE h.connection = $1::text AND h.lane = $2::text), current_setting('transaction_isolation')`

const lastOfLaneSQL = `SELECT ` + wholeColumns + ` FROM ` + both + `
WHERE p.seq = (SELECT l.seq FROM {progress} l WHERE l.connection = $1::text AND l.lane = $2::text AND l.open ORDER BY l.seq DESC LIMIT 1)
FOR UPDATE OF p`

// insertSQL saves a new operation, unless its ID or its key was saved meanwhile, or what it is to replace under its key
// has changed.
const insertSQL = `
WITH replaced AS (
	UPDATE {operation} o SET latest = false WHERE o.seq = $20::bigint AND o.latest RETURNING o.seq
), op AS (
	INSERT INTO {operation} (seq, id, connection, lane, lock, kind, resource, key, latest, key_derived, fingerprint, repeat_safe, stop_lane, tag,
		created, expires, method, target, content_type, accept, size, body, sealed)
	SELECT nextval({seq}), $1::text, $2::text, $3::text, $4::integer, $5::text, $6::text, $7::text, $7::text <> '', $8::boolean, $9::bytea,
		$10::boolean, $11::boolean, $12::text, $13::timestamptz, $14::timestamptz, $15::text, $16::text, $17::text, $18::text, $19::bigint,
		$21::bytea, $22::bytea
	WHERE $20::bigint = 0 OR EXISTS (SELECT 1 FROM replaced)
	ON CONFLICT DO NOTHING
	RETURNING seq
), pr AS (
	INSERT INTO {progress} (seq, connection, lane, state, open, head, due, due_at, due_order, lapse_at, expires, generation, attempts, suspect, claim,
		claim_at, claim_until, revision, acked, outcome, superseded_by, detail, stamp)
	SELECT op.seq, $2::text, $3::text, $23::text, true, $24::boolean, $25::timestamptz, $26::timestamptz, $27::bigint,
		clock_timestamp() + $28::bigint * interval '1 microsecond', $14::timestamptz, $29::integer, $30::integer, false, $31::text, $32::timestamptz,
		$33::timestamptz, 0, 0, 0, '', $34::text::json, $35::bigint
	FROM op
), gone AS (
	DELETE FROM {key} t USING op WHERE t.connection = $2::text AND t.key = $7::text
), sum AS (
	INSERT INTO {count} (connection, queued, sent, succeeded, rejected, expired, canceled, superseded, uncertain, blocked, damaged, abandoned,
		bytes, held, unacked)
	SELECT $2::text, ($23::text = 'queued')::integer, ($23::text = 'sent')::integer, 0, 0, 0, 0, 0, 0, 0, 0, 0, $19::bigint, 0, 0 FROM op
)
SELECT seq FROM op`

// Totals.

const sumColumns = `sum(c.queued), sum(c.sent), sum(c.succeeded), sum(c.rejected), sum(c.expired), sum(c.canceled), sum(c.superseded),
	sum(c.uncertain), sum(c.blocked), sum(c.damaged), sum(c.abandoned), sum(c.bytes), sum(c.held), sum(c.unacked)`

const countColumns = `connection, queued, sent, succeeded, rejected, expired, canceled, superseded, uncertain, blocked, damaged, abandoned, bytes, held, unacked`

// $1 connection, NULL = all
var totalsSQL = `SELECT ` + strings.ReplaceAll(strings.ReplaceAll(sumColumns, "sum(", "coalesce(sum("), "),", "), 0)::bigint,") + `, 0)::bigint
FROM {count} c WHERE $1::text IS NULL OR c.connection = $1::text`

const oldestSQL = `SELECT o.created FROM {progress} p JOIN {operation} o ON o.seq = p.seq
WHERE p.connection = $1::text AND p.open AND p.generation > 0 AND p.state IN ('queued', 'sent') ORDER BY p.seq LIMIT 1`

// openConnections goes by the index from one connection that has something unfinished to the next.
const openConnections = `c AS (
	(SELECT p.connection FROM {progress} p WHERE p.open AND p.generation > 0 ORDER BY p.connection, p.seq LIMIT 1)
	UNION ALL
	SELECT (SELECT p.connection FROM {progress} p WHERE p.open AND p.generation > 0 AND p.connection > c.connection ORDER BY p.connection, p.seq LIMIT 1)
	FROM c WHERE c.connection IS NOT NULL
)`

const oldestOfAllSQL = `WITH RECURSIVE ` + openConnections + `
SELECT o.created FROM {operation} o WHERE o.seq = (SELECT min(f.seq) FROM c CROSS JOIN LATERAL (
	SELECT p.seq FROM {progress} p WHERE p.connection = c.connection AND p.open AND p.generation > 0 AND p.state IN ('queued', 'sent')
	ORDER BY p.seq LIMIT 1) f)`

const lastSQL = `SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM {seq_table} s`

// mergeSQL makes one row of many. Whoever reads meanwhile sees either; a second merge takes other rows.
var mergeSQL = `
WITH gone AS (
	DELETE FROM {count} c WHERE c.ctid = ANY (ARRAY(SELECT x.ctid FROM {count} x LIMIT $1::integer FOR UPDATE SKIP LOCKED))
	RETURNING c.*
)
INSERT INTO {count} (` + countColumns + `) SELECT c.connection, ` + sumColumns + ` FROM gone c GROUP BY c.connection`

// Steps on what is there.

// $1 ids
const byIDSQL = `SELECT ` + wholeColumns + ` FROM ` + both + ` WHERE o.id = ANY ($1::text[]) ORDER BY p.seq FOR UPDATE OF p`

// tryLanesSQL waits for nobody: a lane whose lock is taken is being added to. $1 locks
const tryLanesSQL = `SELECT l.lock FROM {lane} l
WHERE l.lock = ANY (ARRAY(SELECT o.lock FROM {operation} o WHERE o.id = ANY ($1::text[]))) ORDER BY l.lock FOR UPDATE SKIP LOCKED`

const lanesOf = `(SELECT DISTINCT o.connection, o.lane FROM {operation} o WHERE o.id = ANY ($1::text[])) l`

const lowestOther = `SELECT n.seq FROM {progress} n WHERE n.connection = l.connection AND n.lane = l.lane AND n.open
		AND n.seq <> ALL (ARRAY(SELECT o.seq FROM {operation} o WHERE o.id = ANY ($1::text[]))) ORDER BY n.seq LIMIT 1`

// nextSQL locks the first record of each lane besides those of the step; one that is locked is left out.
const nextSQL = `SELECT ` + progressColumns + `, p.body
FROM ` + lanesOf + ` CROSS JOIN LATERAL (` + lowestOther + `) x JOIN {progress} p ON p.seq = x.seq FOR UPDATE OF p SKIP LOCKED`

// lanesSQL comes after nextSQL and sees at least as much.
const lanesSQL = `SELECT l.connection, l.lane, coalesce((` + lowestOther + `), 0), h.until
FROM ` + lanesOf + ` LEFT JOIN {hold} h ON h.connection = l.connection AND h.lane = l.lane`

// wholeLaneSQL waits for whoever changes one of them. $1 connection  $2 lane
const wholeLaneSQL = `SELECT ` + wholeColumns + ` FROM ` + both + `
WHERE p.connection = $1::text AND p.lane = $2::text AND p.open ORDER BY p.seq FOR UPDATE OF p`

const holdOfSQL = `SELECT h.until FROM {hold} h WHERE h.connection = $1::text AND h.lane = $2::text`

// updateSQL writes what has changed of many records, and gives their outcomes numbers in the order of the step.
// $1 how many outcomes
const updateSQL = `
WITH a AS MATERIALIZED (
	SELECT i, nextval({outcome}) AS v FROM generate_series(1, $1::bigint) i
), w AS (
	UPDATE {progress} p SET state = u.state, open = u.state IN {open}, head = u.head, due = u.due, due_at = u.due_at, due_order = u.due_order,
		lapse_at = coalesce(clock_timestamp() + u.lease * interval '1 microsecond', u.lapse_at), generation = u.generation, attempts = u.attempts,
		suspect = u.suspect, claim = u.claim, claim_at = u.claim_at, claim_until = u.claim_until, revision = u.revision, acked = u.acked,
		outcome = coalesce((SELECT a.v FROM a WHERE a.i = u.outcome - 4611686018427387904), u.outcome), finished = u.finished,
		superseded_by = u.superseded_by, detail = u.detail::json, body = u.body, stamp = $2::bigint
	FROM unnest($3::bigint[], $4::text[], $5::boolean[], $6::timestamptz[], $7::timestamptz[], $8::bigint[], $9::timestamptz[], $10::bigint[],
		$11::integer[], $12::integer[], $13::boolean[], $14::text[], $15::timestamptz[], $16::timestamptz[], $17::integer[], $18::integer[],
		$19::bigint[], $20::timestamptz[], $21::text[], $22::text[], $23::bytea[])
		AS u (seq, state, head, due, due_at, due_order, lapse_at, lease, generation, attempts, suspect, claim, claim_at, claim_until, revision,
			acked, outcome, finished, superseded_by, detail, body)
	WHERE p.seq = u.seq
)
SELECT a.v FROM a ORDER BY a.i`

// $1 connections  $2 lanes  $3 until
const holdSQL = `
INSERT INTO {hold} AS h (connection, lane, until) SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[])
ON CONFLICT (connection, lane) DO UPDATE SET until = greatest(h.until, EXCLUDED.until)`

const deltasSQL = `
INSERT INTO {count} (` + countColumns + `)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
	$10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])`

// demoteSQL takes what is not first of its lane out of the due index. Its rows are locked by the step.
const demoteSQL = `UPDATE {progress} p SET head = false, due_at = NULL WHERE p.seq = ANY ($1::bigint[])
	AND EXISTS (SELECT 1 FROM {progress} x WHERE x.connection = p.connection AND x.lane = p.lane AND x.open AND x.seq < p.seq)`

// stampsSQL tells which step wrote records last, when nobody is writing them. $1 seqs
const stampsSQL = `SELECT p.seq, p.stamp, p.outcome FROM {progress} p WHERE p.seq = ANY ($1::bigint[]) ORDER BY p.seq FOR UPDATE`

const getSQL = `SELECT ` + wholeColumns + ` FROM ` + both + ` WHERE o.id = $1::text`

const loadStateSQL = `SELECT s.value FROM {state} s WHERE s.connection = $1::text AND s.name = $2::text`

const saveStateSQL = `INSERT INTO {state} (connection, name, value) VALUES ($1::text, $2::text, $3::bytea)
ON CONFLICT (connection, name) DO UPDATE SET value = EXCLUDED.value`

const deleteStateSQL = `DELETE FROM {state} s WHERE s.connection = $1::text AND s.name = $2::text`
