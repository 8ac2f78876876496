package pgidem

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// States, policies and hold rules as the table has them.
const (
	stateProcessing = 1
	stateCompleted  = 2
	stateFailed     = 3
	stateUncertain  = 4
)

// statements are the engine's SQL with the schema filled in.
type statements struct {
	claim, finish, own, release, extend, markEffect, markUncertain, get, list, listOpen, sweep, stats, count string
	reconcile, reconcileDelete, exists, read, insertFinished                                                 string
}

func newStatements(schema string) statements {
	prefix := ""
	if schema != "" {
		prefix = pgx.Identifier{schema}.Sanitize() + "."
	}
	fill := strings.NewReplacer("{table}", prefix+"flavoso_idempotency",
		"{generation}", "nextval('"+strings.ReplaceAll(prefix, "'", "''")+"flavoso_idempotency_generation')",
		"{regclass}", "'"+strings.ReplaceAll(prefix, "'", "''")+"flavoso_idempotency'::regclass")
	var s statements
	for _, x := range []struct {
		dst *string
		sql string
	}{{&s.claim, claimSQL}, {&s.finish, finishSQL}, {&s.own, ownSQL}, {&s.release, releaseSQL}, {&s.extend, extendSQL},
		{&s.markEffect, markEffectSQL}, {&s.markUncertain, markUncertainSQL}, {&s.get, getSQL}, {&s.list, listSQL},
		{&s.listOpen, strings.Replace(listSQL, "WHERE", "WHERE t.state IN (1, 4) AND", 1)},
		{&s.sweep, sweepSQL}, {&s.stats, statsSQL}, {&s.count, countSQL}, {&s.reconcile, reconcileSQL}, {&s.reconcileDelete, reconcileDeleteSQL},
		{&s.exists, existsSQL}, {&s.read, readSQL}, {&s.insertFinished, insertFinishedSQL}} {
		*x.dst = fill.Replace(x.sql)
	}
	return s
}

const recordColumns = `t.tenant, t.operation, t.key, t.state, t.generation, t.fingerprint, t.effect, t.note, t.status,
	coalesce(octet_length(t.result), 0)::bigint, t.created_at, t.lease_until, t.finished_at, t.expires_at`

// claimSQL reads first. Only a statement that finds something to take over, to park or to insert writes, so a
// replay costs neither a transaction id nor WAL. It locks with SKIP LOCKED: a record whose owner has written
// but not committed counts as running. No row at all: another claim inserted the record after this snapshot.
//
// $1 id  $2 owner  $3 fingerprint  $4 lease µs  $5 retention µs  $6 policy  $7 hold_from  $8 tenant  $9 operation  $10 key
const claimSQL = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
cur AS MATERIALIZED (
	SELECT t.*, t.fingerprint = $3::bytea AS same,
		t.state = 1 AND t.lease_until <= clock.now AS lapsed,
		t.state IN (2, 3) AND t.expires_at <= clock.now AS gone
	FROM {table} t, clock WHERE t.id = $1::bytea),
free AS MATERIALIZED (
	SELECT t.id, t.state <> 1 AS gone, t.state = 1 AND (t.effect OR t.policy = 1) AS park
	FROM {table} t, cur, clock
	WHERE t.id = $1::bytea AND t.generation = cur.generation AND t.state = cur.state AND (
		cur.gone AND t.expires_at <= clock.now
		OR cur.lapsed AND t.lease_until <= clock.now AND (cur.same OR t.policy = 2 AND NOT t.effect))
	FOR UPDATE OF t SKIP LOCKED),
taken AS (
	UPDATE {table} t SET owner = $2::uuid, generation = {generation}, state = 1,
		fingerprint = $3::bytea, retention_us = $5::bigint, policy = $6::smallint, hold_from = $7::smallint,
		created_at = CASE WHEN free.gone THEN clock.now ELSE t.created_at END,
		lease_until = clock.now + $4::bigint * interval '1 microsecond', finished_at = NULL,
		expires_at = CASE WHEN $7::smallint = 1 THEN clock.now + $5::bigint * interval '1 microsecond' END,
		status = 0, effect = false, note = '', result = NULL
	FROM free, clock WHERE t.id = free.id AND NOT free.park
	RETURNING t.*, free.gone AS was_gone),
parked AS (
	UPDATE {table} t SET state = 4, note = '` + lapsedNote + `'
	FROM free WHERE t.id = free.id AND free.park
	RETURNING t.*),
fresh AS (
	INSERT INTO {table} (id, owner, generation, retention_us, created_at, lease_until, expires_at, state, policy, hold_from,
		fingerprint, tenant, operation, key)
	SELECT $1::bytea, $2::uuid, {generation}, $5::bigint, clock.now, clock.now + $4::bigint * interval '1 microsecond',
		CASE WHEN $7::smallint = 1 THEN clock.now + $5::bigint * interval '1 microsecond' END, 1, $6::smallint, $7::smallint,
		$3::bytea, $8::text, $9::text, $10::text
	FROM clock WHERE NOT EXISTS (SELECT 1 FROM cur)
	ON CONFLICT (id) DO NOTHING
	RETURNING *)
SELECT 'n', NULL::bytea, ` + recordColumns + ` FROM fresh t
UNION ALL SELECT CASE WHEN t.was_gone THEN 'n' ELSE 't' END, NULL, ` + recordColumns + ` FROM taken t
UNION ALL SELECT 'p', NULL, ` + recordColumns + ` FROM parked t
UNION ALL SELECT CASE
		WHEN t.gone THEN 'i' -- somebody else is about to reuse it
		WHEN NOT t.same THEN 'm'
		WHEN t.state = 1 THEN 'i'
		WHEN t.state = 4 THEN 'u'
		ELSE 'r' END,
	CASE WHEN t.same THEN t.result END, ` + recordColumns + ` FROM cur t
	WHERE NOT EXISTS (SELECT 1 FROM taken) AND NOT EXISTS (SELECT 1 FROM parked)`

// lapsedNote equals idempotency.LapsedNote; a test compares them.
const lapsedNote = "the lease ended without a result"

// finishSQL has no clock in its predicate: a late completion by the rightful owner counts.
//
// $1 id  $2 owner  $3 generation  $4 state  $5 status  $6 result
const finishSQL = `
UPDATE {table} t SET state = $4::smallint, status = $5::smallint, result = $6::bytea, note = '',
	finished_at = clock_timestamp(),
	expires_at = CASE WHEN t.hold_from = 1 THEN t.expires_at ELSE clock_timestamp() + t.retention_us * interval '1 microsecond' END
WHERE t.id = $1::bytea AND t.owner = $2::uuid AND t.generation = $3::bigint AND t.state IN (1, 4)
RETURNING t.lease_until <= clock_timestamp()`

// ownSQL tells why a step changed nothing.
const ownSQL = `SELECT t.state FROM {table} t WHERE t.id = $1::bytea AND t.owner = $2::uuid AND t.generation = $3::bigint`

const releaseSQL = `DELETE FROM {table} t
WHERE t.id = $1::bytea AND t.owner = $2::uuid AND t.generation = $3::bigint AND t.state IN (1, 4)`

const extendSQL = `UPDATE {table} t SET lease_until = clock_timestamp() + $4::bigint * interval '1 microsecond'
WHERE t.id = $1::bytea AND t.owner = $2::uuid AND t.generation = $3::bigint AND t.state IN (1, 4)
RETURNING t.lease_until`

const markEffectSQL = `UPDATE {table} t SET effect = true
WHERE t.id = $1::bytea AND t.owner = $2::uuid AND t.generation = $3::bigint AND t.state IN (1, 4)`

const markUncertainSQL = `UPDATE {table} t SET state = 4, note = $4::text
WHERE t.id = $1::bytea AND t.owner = $2::uuid AND t.generation = $3::bigint AND t.state IN (1, 4)`

const getSQL = `SELECT t.result, ` + recordColumns + ` FROM {table} t
WHERE t.id = $1::bytea AND NOT (t.state IN (2, 3) AND t.expires_at <= clock_timestamp())`

// $1 after  $2 tenant  $3 states, NULL = all  $4 limit
const listSQL = `SELECT ` + recordColumns + ` FROM {table} t
WHERE t.id > $1::bytea AND ($2::text = '' OR t.tenant = $2::text) AND ($3::smallint[] IS NULL OR t.state = ANY ($3::smallint[]))
	AND NOT (t.state IN (2, 3) AND t.expires_at <= clock_timestamp())
ORDER BY t.id LIMIT $4::integer`

// sweepSQL: the scalar subquery makes the clock an index condition; SKIP LOCKED lets several sweeps share the work.
const sweepSQL = `
WITH gone AS (
	DELETE FROM {table} t WHERE t.ctid = ANY (ARRAY(
		SELECT s.ctid FROM {table} s
		WHERE s.state IN (2, 3) AND s.expires_at <= (SELECT clock_timestamp())
		ORDER BY s.expires_at LIMIT $1::integer FOR UPDATE SKIP LOCKED))
		AND t.state IN (2, 3) AND t.expires_at <= (SELECT clock_timestamp())
	RETURNING pg_column_size(t.*) AS size)
SELECT count(*), coalesce(sum(size), 0)::bigint FROM gone`

// statsSQL reads by the partial indexes. Only a table of a few pages is counted; a larger one is estimated from the
// planner's figures.
const statsSQL = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT
	(SELECT count(*) FROM {table} WHERE state = 1),
	(SELECT count(*) FROM {table} WHERE state = 4),
	(SELECT count(*) FROM {table}, clock WHERE state = 1 AND lease_until <= clock.now),
	(SELECT extract(epoch FROM clock.now - min(created_at)) FROM {table} WHERE state = 1)::float8,
	(SELECT extract(epoch FROM clock.now - min(created_at)) FROM {table} WHERE state = 4)::float8,
	(SELECT extract(epoch FROM clock.now - finished_at) FROM {table}
		WHERE state IN (2, 3) AND expires_at > (SELECT now FROM clock) ORDER BY expires_at LIMIT 1)::float8,
	(SELECT count(*) FROM {table} WHERE state IN (2, 3) AND expires_at <= (SELECT now FROM clock)),
	(SELECT extract(epoch FROM clock.now - min(expires_at)) FROM {table}
		WHERE state IN (2, 3) AND expires_at <= (SELECT now FROM clock))::float8,
	pg_total_relation_size({regclass}),
	pg_relation_size({regclass}),
	(SELECT CASE WHEN relpages > 0 AND reltuples >= 0 THEN reltuples / relpages ELSE -1 END FROM pg_class WHERE oid = {regclass})::float8
FROM clock`

const countSQL = `SELECT count(*) FROM {table}`

// $1 id  $2 generation  $3 state  $4 status  $5 result  $6 retention µs, 0 = the record's own
const reconcileSQL = `
UPDATE {table} t SET owner = NULL, state = $3::smallint, status = $4::smallint, result = $5::bytea, note = '',
	retention_us = CASE WHEN $6::bigint > 0 THEN $6::bigint ELSE t.retention_us END,
	finished_at = clock_timestamp(),
	expires_at = CASE WHEN t.hold_from = 1 THEN t.expires_at
		ELSE clock_timestamp() + CASE WHEN $6::bigint > 0 THEN $6::bigint ELSE t.retention_us END * interval '1 microsecond' END
WHERE t.id = $1::bytea AND t.generation = $2::bigint AND (t.state = 4 OR t.state = 1 AND t.lease_until <= clock_timestamp())`

const reconcileDeleteSQL = `DELETE FROM {table} t
WHERE t.id = $1::bytea AND t.generation = $2::bigint AND (t.state = 4 OR t.state = 1 AND t.lease_until <= clock_timestamp())`

const existsSQL = `SELECT 1 FROM {table} t
WHERE t.id = $1::bytea AND NOT (t.state IN (2, 3) AND t.expires_at <= clock_timestamp())`

// readSQL is the look of InTx at the record, after its lock. $1 id  $2 fingerprint
const readSQL = `SELECT t.fingerprint = $2::bytea, t.state IN (2, 3) AND t.expires_at <= clock_timestamp(),
	t.state = 1 AND t.lease_until <= clock_timestamp(), t.policy, t.owner, t.result, ` + recordColumns + `
FROM {table} t WHERE t.id = $1::bytea`

// insertFinishedSQL stores effect and result in one step. What it replaces is the record InTx has read, by its generation.
//
// $1 id  $2 owner  $3 fingerprint  $4 retention µs  $5 hold_from  $6 tenant  $7 operation  $8 key  $9 state  $10 status  $11 result
// $12 generation that was read, 0 = none
const insertFinishedSQL = `
INSERT INTO {table} AS t (id, owner, generation, retention_us, created_at, lease_until, finished_at, expires_at, state, policy, hold_from,
	status, fingerprint, tenant, operation, key, result)
SELECT $1::bytea, $2::uuid, {generation}, $4::bigint, transaction_timestamp(), now.at, now.at,
	CASE WHEN $5::smallint = 1 THEN transaction_timestamp() ELSE now.at END + $4::bigint * interval '1 microsecond', $9::smallint, 0, $5::smallint,
	$10::smallint, $3::bytea, $6::text, $7::text, $8::text, $11::bytea
FROM (SELECT clock_timestamp() AS at) now
ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner, generation = EXCLUDED.generation, retention_us = EXCLUDED.retention_us,
	created_at = EXCLUDED.created_at, lease_until = EXCLUDED.lease_until, finished_at = EXCLUDED.finished_at, expires_at = EXCLUDED.expires_at,
	state = EXCLUDED.state, policy = 0, hold_from = EXCLUDED.hold_from, status = EXCLUDED.status, effect = false, note = '',
	fingerprint = EXCLUDED.fingerprint, result = EXCLUDED.result
	WHERE t.generation = $12::bigint
RETURNING ` + recordColumns
