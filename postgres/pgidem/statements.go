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
	look, insert, claim, finish, own, release, extend, markEffect, markUncertain, get, list, listOpen, sweep, stats, count string
	reconcile, reconcileDelete, exists, read, insertFinished, mine                                                         string
}

func newStatements(schema string) statements {
	fill := names(schema)
	var s statements
	for _, x := range []struct {
		dst *string
		sql string
	}{{&s.look, lookSQL}, {&s.insert, insertSQL}, {&s.claim, claimSQL}, {&s.finish, finishSQL}, {&s.own, ownSQL}, {&s.release, releaseSQL}, {&s.extend, extendSQL},
		{&s.markEffect, markEffectSQL}, {&s.markUncertain, markUncertainSQL}, {&s.get, getSQL}, {&s.list, listSQL},
		{&s.listOpen, strings.Replace(listSQL, "WHERE", "WHERE t.state IN (1, 4) AND", 1)},
		{&s.sweep, sweepSQL}, {&s.stats, statsSQL}, {&s.count, countSQL}, {&s.reconcile, reconcileSQL}, {&s.reconcileDelete, reconcileDeleteSQL},
		{&s.exists, existsSQL}, {&s.read, readSQL}, {&s.insertFinished, insertFinishedSQL}, {&s.mine, mineSQL}} {
		*x.dst = fill.Replace(x.sql)
	}
	return s
}

// names fills in the names of what Migrate has made.
func names(schema string) *strings.Replacer {
	prefix := ""
	if schema != "" {
		prefix = pgx.Identifier{schema}.Sanitize() + "."
	}
	inLiteral := strings.ReplaceAll(prefix, "'", "''")
	return strings.NewReplacer("{table}", prefix+"flavoso_idempotency", "{claim}", prefix+"flavoso_idempotency_claim_1",
		"{generation}", "nextval('"+inLiteral+"flavoso_idempotency_generation')",
		"{regclass}", "'"+inLiteral+"flavoso_idempotency'::regclass")
}

const recordColumns = `t.tenant, t.operation, t.key, coalesce(octet_length(t.result), 0)::bigint, ` + stateColumns

// stateColumns are what of a record its scope and its result do not tell.
const stateColumns = `t.state, t.generation, t.fingerprint, t.effect, t.note, t.status, t.created_at, t.lease_until, t.finished_at, t.expires_at`

// lookSQL comes before every claim: a repeat that meets a settled record costs this one look by the primary key, writes
// nothing and waits for nobody. The clock is the server's.
//
// $1 id
const lookSQL = `SELECT clock_timestamp(), t.result, ` + stateColumns + ` FROM {table} t WHERE t.id = $1::bytea`

// insertSQL follows when there is nothing. No row = another claim was faster.
//
// $1 id  $2 owner  $3 fingerprint  $4 lease µs  $5 retention µs  $6 policy  $7 hold_from  $8 tenant  $9 operation  $10 key
const insertSQL = `INSERT INTO {table} AS t (id, owner, generation, retention_us, created_at, lease_until, expires_at, state, policy,
	hold_from, fingerprint, tenant, operation, key)
SELECT $1::bytea, $2::bytea, {generation}, $5::bigint, now.at, now.at + $4::bigint * interval '1 microsecond',
	CASE WHEN $7::smallint = 1 THEN now.at + $5::bigint * interval '1 microsecond' END, 1, $6::smallint,
	$7::smallint, $3::bytea, $8::text, $9::text, $10::text
FROM (SELECT clock_timestamp() AS at) now
ON CONFLICT (id) DO NOTHING
RETURNING '` + kindNew + `', t.result, ` + stateColumns

// claimSQL follows when what is there has lapsed or expired, or another claim was faster. Parameters as insertSQL.
var claimSQL = `SELECT w.kind, (w.t).result, ` + strings.ReplaceAll(stateColumns, "t.", "(w.t).") + `
FROM {claim}($1::bytea, $2::bytea, $3::bytea, $4::bigint, $5::bigint, $6::smallint, $7::smallint, $8::text, $9::text, $10::text) w`

// claimFunction decides a claim and writes it. In READ COMMITTED each of its statements sees what was committed
// before it, so a lost race shows at the next. It locks with SKIP LOCKED: a record whose owner has written but
// not committed counts as running.
const claimFunction = `
CREATE FUNCTION {claim}(p_id bytea, p_owner bytea, p_fingerprint bytea, p_lease bigint, p_retention bigint,
	p_policy smallint, p_hold_from smallint, p_tenant text, p_operation text, p_key text,
	OUT kind text, OUT t {table})
LANGUAGE plpgsql VOLATILE AS $claim$
DECLARE
	now    timestamptz := clock_timestamp();
	lapsed boolean;
	gone   boolean;
BEGIN
	LOOP
		-- Before the insert, which would wait for an owner that has written and not committed.
		SELECT x.* INTO t FROM {table} x WHERE x.id = p_id;
		IF NOT FOUND THEN
			INSERT INTO {table} AS x (id, owner, generation, retention_us, created_at, lease_until, expires_at, state, policy,
				hold_from, fingerprint, tenant, operation, key)
			VALUES (p_id, p_owner, {generation}, p_retention, now, now + p_lease * interval '1 microsecond',
				CASE WHEN p_hold_from = 1 THEN now + p_retention * interval '1 microsecond' END, 1, p_policy,
				p_hold_from, p_fingerprint, p_tenant, p_operation, p_key)
			ON CONFLICT (id) DO NOTHING
			RETURNING x.* INTO t;
			CONTINUE WHEN NOT FOUND; -- another claim was faster
			kind := 'n';
			RETURN;
		END IF;
		kind := CASE WHEN t.fingerprint = p_fingerprint OR t.state <> 1 THEN 'i' ELSE 'm' END;
		SELECT x.* INTO t FROM {table} x WHERE x.id = p_id FOR UPDATE SKIP LOCKED;
		IF NOT FOUND THEN
			SELECT x.* INTO t FROM {table} x WHERE x.id = p_id;
			CONTINUE WHEN NOT FOUND; -- deleted meanwhile
			RETURN; -- somebody is at work on it
		END IF;
		lapsed := t.state = 1 AND t.lease_until <= now;
		gone := t.state IN (2, 3) AND t.expires_at <= now;
		IF NOT gone THEN
			IF t.fingerprint <> p_fingerprint AND NOT (lapsed AND t.policy = 2 AND NOT t.effect) THEN
				kind := 'm';
				RETURN;
			END IF;
			IF NOT lapsed THEN
				kind := CASE t.state WHEN 1 THEN 'i' WHEN 4 THEN 'u' ELSE 'r' END;
				RETURN;
			END IF;
			IF t.effect OR t.policy = 1 THEN
				UPDATE {table} x SET state = 4, note = '` + lapsedNote + `' WHERE x.id = p_id RETURNING x.* INTO t;
				kind := 'p';
				RETURN;
			END IF;
		END IF;
		UPDATE {table} x SET owner = p_owner, generation = {generation}, state = 1, fingerprint = p_fingerprint,
			retention_us = p_retention, policy = p_policy, hold_from = p_hold_from,
			created_at = CASE WHEN gone THEN now ELSE x.created_at END,
			lease_until = now + p_lease * interval '1 microsecond', finished_at = NULL,
			expires_at = CASE WHEN p_hold_from = 1 THEN now + p_retention * interval '1 microsecond' END,
			status = 0, effect = false, note = '', result = NULL
		WHERE x.id = p_id RETURNING x.* INTO t;
		kind := CASE WHEN gone THEN 'n' ELSE 't' END;
		RETURN;
	END LOOP;
END $claim$;
`

// lapsedNote equals idempotency.LapsedNote; a test compares them.
const lapsedNote = "the lease ended without a result"

// finishSQL has no clock in its predicate: a late completion by the rightful owner counts.
//
// $1 id  $2 owner  $3 generation  $4 state  $5 status  $6 result
const finishSQL = `
UPDATE {table} t SET state = $4::smallint, status = $5::smallint, result = $6::bytea, note = '',
	finished_at = clock_timestamp(),
	expires_at = CASE WHEN t.hold_from = 1 THEN t.expires_at ELSE clock_timestamp() + t.retention_us * interval '1 microsecond' END
WHERE t.id = $1::bytea AND t.owner = $2::bytea AND t.generation = $3::bigint AND t.state IN (1, 4)
RETURNING t.lease_until <= clock_timestamp()`

// ownSQL tells why a step changed nothing.
const ownSQL = `SELECT t.state FROM {table} t WHERE t.id = $1::bytea AND t.owner = $2::bytea AND t.generation = $3::bigint`

const releaseSQL = `DELETE FROM {table} t
WHERE t.id = $1::bytea AND t.owner = $2::bytea AND t.generation = $3::bigint AND t.state IN (1, 4)`

const extendSQL = `UPDATE {table} t SET lease_until = clock_timestamp() + $4::bigint * interval '1 microsecond'
WHERE t.id = $1::bytea AND t.owner = $2::bytea AND t.generation = $3::bigint AND t.state IN (1, 4)
RETURNING t.lease_until`

const markEffectSQL = `UPDATE {table} t SET effect = true
WHERE t.id = $1::bytea AND t.owner = $2::bytea AND t.generation = $3::bigint AND t.state IN (1, 4)`

const markUncertainSQL = `UPDATE {table} t SET state = 4, note = $4::text
WHERE t.id = $1::bytea AND t.owner = $2::bytea AND t.generation = $3::bigint AND t.state IN (1, 4)`

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

// mineSQL tells whether a call of InTx has committed. $1 id  $2 owner
const mineSQL = `SELECT EXISTS (SELECT 1 FROM {table} t WHERE t.id = $1::bytea AND t.owner = $2::bytea)`

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
SELECT $1::bytea, $2::bytea, {generation}, $4::bigint, transaction_timestamp(), now.at, now.at,
	CASE WHEN $5::smallint = 1 THEN transaction_timestamp() ELSE now.at END + $4::bigint * interval '1 microsecond', $9::smallint, 0, $5::smallint,
	$10::smallint, $3::bytea, $6::text, $7::text, $8::text, $11::bytea
FROM (SELECT clock_timestamp() AS at) now
ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner, generation = EXCLUDED.generation, retention_us = EXCLUDED.retention_us,
	created_at = EXCLUDED.created_at, lease_until = EXCLUDED.lease_until, finished_at = EXCLUDED.finished_at, expires_at = EXCLUDED.expires_at,
	state = EXCLUDED.state, policy = 0, hold_from = EXCLUDED.hold_from, status = EXCLUDED.status, effect = false, note = '',
	fingerprint = EXCLUDED.fingerprint, result = EXCLUDED.result
	WHERE t.generation = $12::bigint
RETURNING ` + recordColumns
