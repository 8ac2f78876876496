package pgoutbox

// plannerQuickSQL is plannerSQL, and bounds waiting: the insert may have to wait for a key that an open transaction is saving
// in another lane; it must not do so for long, because it holds locks.
const plannerQuickSQL = plannerSQL + ` || set_config('lock_timeout', '500ms', true)`

// lockQuickSQL locks lanes, and waits for nobody. $1 locks
const lockQuickSQL = `SELECT l.lock FROM {lane} l
WHERE l.lock = ANY ($1::integer[]) ORDER BY l.lock FOR UPDATE SKIP LOCKED`

// insertQuickSQL saves the operations whose lane this transaction has locked and whose ID and key are new, if nothing
// else is to be considered. $30 stamp
const insertQuickSQL = `
WITH u AS MATERIALIZED (
	SELECT u.*, EXISTS (SELECT 1 FROM {progress} p WHERE p.connection = u.connection AND p.lane = u.lane AND p.open) AS busy
	FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::text[], $9::boolean[], $10::boolean[],
		$11::boolean[], $12::boolean[], $13::bytea[], $14::timestamptz[], $15::timestamptz[], $16::timestamptz[], $17::text[], $18::text[],
		$19::text[], $20::text[], $21::bigint[], $22::bytea[], $23::bytea[], $24::bigint[], $25::text[], $26::timestamptz[], $27::timestamptz[],
		$28::text[], $29::bigint[]) WITH ORDINALITY
		AS u (id, connection, lane, lock, kind, resource, key, tag, key_derived, repeat_safe, stop_lane, supersede, fingerprint, created, expires, due,
			method, target, content_type, accept, size, body, sealed, due_order, claim, claim_at, claim_until, detail, lease, n)
	WHERE current_setting('transaction_isolation') = 'read committed' AND current_setting('synchronous_commit') <> 'off'
		AND EXISTS (SELECT 1 FROM {lane} l WHERE l.lock = u.lock AND l.xmax = pg_current_xact_id()::xid OFFSET 0)
		AND NOT EXISTS (SELECT 1 FROM {operation} o WHERE o.id = u.id OFFSET 0)
		AND NOT EXISTS (SELECT 1 FROM {operation} o WHERE o.connection = u.connection AND o.key = u.key AND o.latest OFFSET 0)
		AND NOT EXISTS (SELECT 1 FROM {key} t WHERE t.connection = u.connection AND t.key = u.key OFFSET 0)
		AND NOT EXISTS (SELECT 1 FROM {hold} h WHERE h.connection = u.connection AND h.lane = u.lane OFFSET 0)
), op AS (
	INSERT INTO {operation} (seq, id, connection, lane, lock, kind, resource, key, latest, key_derived, fingerprint, repeat_safe, stop_lane, tag,
		created, expires, method, target, content_type, accept, size, body, sealed)
	SELECT nextval({seq}), id, connection, lane, lock, kind, resource, key, key <> '', key_derived, fingerprint, repeat_safe, stop_lane, tag,
		created, expires, method, target, content_type, accept, size, body, sealed
	FROM u WHERE NOT (supersede AND busy) ORDER BY n
	ON CONFLICT DO NOTHING
	RETURNING seq, id
), new AS MATERIALIZED (
	SELECT op.seq, u.*, NOT u.busy AND op.seq = min(op.seq) OVER (PARTITION BY u.connection, u.lane) AS head FROM op JOIN u ON u.id = op.id
), pr AS (
	INSERT INTO {progress} (seq, connection, lane, state, open, head, due, due_at, due_order, lapse_at, expires, generation, attempts, suspect, claim,
		claim_at, claim_until, revision, acked, outcome, superseded_by, detail, stamp)
	SELECT seq, connection, lane, 'queued', true, head, due, CASE WHEN head THEN due END, due_order, NULL, expires, 1, 0, false, '',
		NULL, NULL, 0, 0, 0, '', NULL, $30::bigint
	FROM new WHERE NOT head OR claim = ''
	UNION ALL
	SELECT seq, connection, lane, 'sent', true, true, due, NULL, due_order, clock_timestamp() + lease * interval '1 microsecond', expires, 1, 1,
		false, claim, claim_at, claim_until, 0, 0, 0, '', detail::json, $30::bigint
	FROM new WHERE head AND claim <> ''
), sum AS (
	INSERT INTO {count} (connection, queued, sent, succeeded, rejected, expired, canceled, superseded, uncertain, blocked, damaged, abandoned,
		bytes, held, unacked)
	SELECT connection, count(*) FILTER (WHERE NOT head OR claim = ''), count(*) FILTER (WHERE head AND claim <> ''), 0, 0, 0, 0, 0, 0, 0, 0, 0,
		sum(size), 0, 0
	FROM new GROUP BY connection
)
SELECT n, seq, head AND claim <> '' FROM new`

// insertAloneSQL is insertQuickSQL for one operation, with the same parameters, not in arrays: it costs half.
const insertAloneSQL = `
WITH u AS MATERIALIZED (
	SELECT EXISTS (SELECT 1 FROM {progress} p WHERE p.connection = $2::text AND p.lane = $3::text AND p.open) AS busy
	WHERE current_setting('transaction_isolation') = 'read committed' AND current_setting('synchronous_commit') <> 'off'
		AND EXISTS (SELECT 1 FROM {lane} l WHERE l.lock = $4::integer AND l.xmax = pg_current_xact_id()::xid)
		AND NOT EXISTS (SELECT 1 FROM {operation} o WHERE o.id = $1::text)
		AND NOT EXISTS (SELECT 1 FROM {operation} o WHERE o.connection = $2::text AND o.key = $7::text AND o.latest)
		AND NOT EXISTS (SELECT 1 FROM {key} t WHERE t.connection = $2::text AND t.key = $7::text)
		AND NOT EXISTS (SELECT 1 FROM {hold} h WHERE h.connection = $2::text AND h.lane = $3::text)
), op AS (
	INSERT INTO {operation} (seq, id, connection, lane, lock, kind, resource, key, latest, tag, key_derived, repeat_safe, stop_lane, fingerprint,
		created, expires, method, target, content_type, accept, size, body, sealed)
	SELECT nextval({seq}), $1::text, $2::text, $3::text, $4::integer, $5::text, $6::text, $7::text, $7::text <> '', $8::text, $9::boolean,
		$10::boolean, $11::boolean, $13::bytea, $14::timestamptz, $15::timestamptz, $17::text, $18::text, $19::text, $20::text, $21::bigint,
		$22::bytea, $23::bytea
	FROM u WHERE NOT ($12::boolean AND u.busy)
	ON CONFLICT DO NOTHING
	RETURNING seq
), new AS MATERIALIZED (
	SELECT op.seq, NOT u.busy AS head, NOT u.busy AND $25::text <> '' AS claimed FROM op, u
), pr AS (
	INSERT INTO {progress} (seq, connection, lane, state, open, head, due, due_at, due_order, lapse_at, expires, generation, attempts, suspect, claim,
		claim_at, claim_until, revision, acked, outcome, superseded_by, detail, stamp)
	SELECT n.seq, $2::text, $3::text, CASE WHEN n.claimed THEN 'sent' ELSE 'queued' END, true, n.head, $16::timestamptz,
		CASE WHEN n.head AND NOT n.claimed THEN $16::timestamptz END, $24::bigint,
		CASE WHEN n.claimed THEN clock_timestamp() + $29::bigint * interval '1 microsecond' END, $15::timestamptz, 1, n.claimed::integer, false,
		CASE WHEN n.claimed THEN $25::text ELSE '' END, CASE WHEN n.claimed THEN $26::timestamptz END, CASE WHEN n.claimed THEN $27::timestamptz END,
		0, 0, 0, '', CASE WHEN n.claimed THEN $28::text::json END, $30::bigint
	FROM new n
), sum AS (
	INSERT INTO {count} (connection, queued, sent, succeeded, rejected, expired, canceled, superseded, uncertain, blocked, damaged, abandoned,
		bytes, held, unacked)
	SELECT $2::text, (NOT n.claimed)::integer, n.claimed::integer, 0, 0, 0, 0, 0, 0, 0, 0, 0, $21::bigint, 0, 0 FROM new n
)
SELECT 1::bigint, n.seq, n.claimed FROM new n`
