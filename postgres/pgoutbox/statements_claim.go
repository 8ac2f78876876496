package pgoutbox

// Claiming. Heads are locked where they stand in the due index, and what somebody else has locked is passed over. The
// times in conditions are parameters or scalar subqueries: a volatile function would not be an index condition.

// claimable ends the statements that begin with due, the locked heads: at most $3 of a connection, and $4 of all.
const claimable = `
SELECT coalesce((SELECT l.seq FROM {progress} l WHERE l.connection = p.connection AND l.lane = p.lane AND l.open
	ORDER BY l.seq LIMIT 1), 0), h.until, ` + wholeColumns + `
FROM (SELECT d.*, row_number() OVER (PARTITION BY d.connection ORDER BY d.due_at, d.due_order) AS rank FROM due d) p
JOIN {operation} o ON o.seq = p.seq LEFT JOIN {hold} h ON h.connection = p.connection AND h.lane = p.lane
WHERE p.rank <= $3::bigint ORDER BY p.due_at, p.due_order LIMIT $4::bigint`

// dueSQL takes the first heads of all. $1 until  $2 how many to lock  $3 per connection  $4 limit
const dueSQL = `WITH due AS MATERIALIZED (
	SELECT p.* FROM {progress} p WHERE p.due_at <= $1::timestamptz ORDER BY p.due_at, p.due_order LIMIT $2::bigint FOR UPDATE SKIP LOCKED
)` + claimable

// dueFirstSQL looks at the first heads of all, and takes those of the connections that are not left out. Four times as
// many of one connection are locked as are wanted, because some may be locked by others.
//
// $1 until  $2 how many to look at  $3 per connection  $4 limit  $5 connections to leave out
const dueFirstSQL = `WITH due AS MATERIALIZED (
	SELECT p.* FROM (
		SELECT x.*, row_number() OVER (PARTITION BY x.connection ORDER BY x.due_at, x.due_order) AS rank FROM (
			SELECT p.seq, p.connection, p.due_at, p.due_order FROM {progress} p WHERE p.due_at <= $1::timestamptz
			ORDER BY p.due_at, p.due_order LIMIT $2::bigint) x
		WHERE x.connection <> ALL ($5::text[])) r
	JOIN {progress} p ON p.seq = r.seq AND p.due_at <= $1::timestamptz WHERE r.rank <= 4 * $3::bigint
	ORDER BY r.due_at, r.due_order LIMIT 4 * $4::bigint FOR UPDATE OF p SKIP LOCKED
)` + claimable

// dueMoreSQL tells whether there is more than dueFirstSQL looks at. $1 until  $2 how many it looks at
const dueMoreSQL = `SELECT EXISTS (SELECT 1 FROM {progress} p WHERE p.due_at <= $1::timestamptz
	ORDER BY p.due_at, p.due_order OFFSET $2::bigint LIMIT 1)`

// dueWalkSQL goes by the index from one connection that has lanes waiting to the next, and takes the first heads of
// each. $1 until  $2 how many connections  $3 per connection  $4 limit  $5 connections to leave out  $6 connection to start after
const dueWalkSQL = `WITH RECURSIVE walk AS (
	(SELECT p.connection, 1 AS n FROM {progress} p WHERE p.due_at IS NOT NULL AND p.connection > $6::text
		ORDER BY p.connection, p.due_at, p.due_order LIMIT 1)
	UNION ALL
	SELECT (SELECT p.connection FROM {progress} p WHERE p.due_at IS NOT NULL AND p.connection > w.connection
		ORDER BY p.connection, p.due_at, p.due_order LIMIT 1), w.n + 1
	FROM walk w WHERE w.connection IS NOT NULL AND w.n < $2::bigint
), due AS MATERIALIZED (
	SELECT p.* FROM (
		SELECT x.* FROM walk w CROSS JOIN LATERAL (
			SELECT p.seq, p.due_at, p.due_order FROM {progress} p WHERE p.connection = w.connection AND p.due_at <= $1::timestamptz
			ORDER BY p.due_at, p.due_order LIMIT 4 * $3::bigint) x
		WHERE w.connection <> ALL ($5::text[]) ORDER BY x.due_at, x.due_order LIMIT 4 * $4::bigint) r
	JOIN {progress} p ON p.seq = r.seq AND p.due_at <= $1::timestamptz ORDER BY r.due_at, r.due_order FOR UPDATE OF p SKIP LOCKED
)` + claimable

// walkedSQL tells where a walk ended; it is dueWalkSQL's list of connections.
const walkedSQL = `WITH RECURSIVE walk AS (
	(SELECT p.connection, 1 AS n FROM {progress} p WHERE p.due_at IS NOT NULL AND p.connection > $2::text
		ORDER BY p.connection, p.due_at, p.due_order LIMIT 1)
	UNION ALL
	SELECT (SELECT p.connection FROM {progress} p WHERE p.due_at IS NOT NULL AND p.connection > w.connection
		ORDER BY p.connection, p.due_at, p.due_order LIMIT 1), w.n + 1
	FROM walk w WHERE w.connection IS NOT NULL AND w.n < $1::bigint
)
SELECT w.connection FROM walk w WHERE w.connection IS NOT NULL ORDER BY w.connection`

// dueOfSQL takes the first heads of each of the connections listed. $1 until  $2 connections  $3 per connection  $4 limit
const dueOfSQL = `WITH due AS MATERIALIZED (
	SELECT h.* FROM unnest($2::text[]) c (connection) CROSS JOIN LATERAL (
		SELECT p.* FROM {progress} p WHERE p.connection = c.connection AND p.due_at <= $1::timestamptz
		ORDER BY p.due_at, p.due_order LIMIT least($3::bigint, $4::bigint) FOR UPDATE SKIP LOCKED) h
)` + claimable

const scoped = `($2::text[] IS NULL OR p.connection = ANY ($2::text[])) AND p.connection <> ALL ($3::text[])`

// lapsedSQL takes claims whose lease is over. $1 limit  $2 connections, NULL = all  $3 connections to leave out
const lapsedSQL = `WITH due AS MATERIALIZED (
	SELECT p.* FROM {progress} p WHERE p.lapse_at <= (SELECT clock_timestamp()) AND ` + scoped + `
	ORDER BY p.lapse_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
)
SELECT p.seq, NULL::timestamptz, ` + wholeColumns + ` FROM due p JOIN {operation} o ON o.seq = p.seq ORDER BY p.lapse_at`

// firstSQL takes heads by their IDs. $1 until  $2 connections, NULL = all  $3 connections to leave out  $4 ids
const firstSQL = `WITH due AS MATERIALIZED (
	SELECT p.* FROM {operation} x JOIN {progress} p ON p.seq = x.seq
	WHERE x.id = ANY ($4::text[]) AND p.due_at <= $1::timestamptz AND ` + scoped + ` FOR UPDATE OF p SKIP LOCKED
)
SELECT coalesce((SELECT l.seq FROM {progress} l WHERE l.connection = p.connection AND l.lane = p.lane AND l.open ORDER BY l.seq LIMIT 1), 0),
	h.until, ` + wholeColumns + `
FROM due p JOIN {operation} o ON o.seq = p.seq LEFT JOIN {hold} h ON h.connection = p.connection AND h.lane = p.lane`

// When the next lane falls due. A claim whose lease is over counts, from that moment on.

const nextDueSQL = `SELECT (SELECT p.due_at FROM {progress} p WHERE p.due_at IS NOT NULL ORDER BY p.due_at, p.due_order LIMIT 1),
	(SELECT p.lapse_at FROM {progress} p WHERE p.lapse_at <= (SELECT clock_timestamp()) ORDER BY p.lapse_at LIMIT 1)`

const lapsedOf = `(SELECT p.lapse_at FROM {progress} p WHERE p.lapse_at <= (SELECT clock_timestamp()) AND ` + scoped + ` ORDER BY p.lapse_at LIMIT 1)`

// $2 connections  $3 not used
const nextDueOfSQL = `SELECT (SELECT min(h.due_at) FROM unnest($2::text[]) c (connection) CROSS JOIN LATERAL (
		SELECT p.due_at FROM {progress} p WHERE p.connection = c.connection AND p.due_at IS NOT NULL ORDER BY p.due_at, p.due_order LIMIT 1) h
	WHERE $1::bigint = 0), ` + lapsedOf

// nextDueWalkSQL looks at the first heads of all, and goes through the connections only if all of those are left out.
const nextDueWalkSQL = `WITH RECURSIVE near AS MATERIALIZED (
	SELECT x.due_at FROM (SELECT p.connection, p.due_at FROM {progress} p WHERE p.due_at IS NOT NULL ORDER BY p.due_at, p.due_order LIMIT $1::bigint) x
	WHERE x.connection <> ALL ($3::text[]) ORDER BY x.due_at LIMIT 1
), walk AS (
	(SELECT p.connection FROM {progress} p WHERE p.due_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM near)
		ORDER BY p.connection, p.due_at, p.due_order LIMIT 1)
	UNION ALL
	SELECT (SELECT p.connection FROM {progress} p WHERE p.due_at IS NOT NULL AND p.connection > w.connection
		ORDER BY p.connection, p.due_at, p.due_order LIMIT 1)
	FROM walk w WHERE w.connection IS NOT NULL
)
SELECT coalesce((SELECT n.due_at FROM near n), (SELECT min(h.due_at) FROM walk w CROSS JOIN LATERAL (
		SELECT p.due_at FROM {progress} p WHERE p.connection = w.connection AND p.due_at IS NOT NULL ORDER BY p.due_at, p.due_order LIMIT 1) h
	WHERE w.connection <> ALL ($3::text[]))), ` + lapsedOf

// pollSQL tells whether there is anything to do or to read.
const pollSQL = `SELECT EXISTS (SELECT 1 FROM {progress} p WHERE p.due_at <= $1::timestamptz)
	OR EXISTS (SELECT 1 FROM {progress} p WHERE p.lapse_at <= (SELECT clock_timestamp())),
	(SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM {seq_table} s),
	(SELECT CASE WHEN o.is_called THEN o.last_value ELSE 0 END FROM {outcome_table} o), clock_timestamp()`
