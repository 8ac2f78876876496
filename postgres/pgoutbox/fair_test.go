package pgoutbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// flood gives a connection so many lanes that are due, and as many operations that are over.
func flood(t testing.TB, pool *pgxpool.Pool, connection string, n int) {
	t.Helper()
	for _, sql := range []string{`
INSERT INTO flavoso_outbox_operation SELECT nextval('flavoso_outbox_seq'), $1::text || i, $1::text, 'lane-' || i, i % 65536, 'orders.accept', '', 'key-' || i,
	true, true, 'f', true, false, '', now() - interval '1 hour', NULL, 'POST', '/orders', '', '', 10, 'body', NULL FROM generate_series(1, 2 * $2::integer) i`, `
INSERT INTO flavoso_outbox_progress SELECT o.seq, $1::text, o.lane, CASE WHEN o.seq % 2 = 0 THEN 'queued' ELSE 'succeeded' END, o.seq % 2 = 0, o.seq % 2 = 0,
	o.created, CASE WHEN o.seq % 2 = 0 THEN o.created END, o.seq, NULL, NULL, 1, 0, false, '', NULL, NULL, (o.seq % 2)::integer, 0, o.seq * (o.seq % 2),
	CASE WHEN o.seq % 2 = 1 THEN now() END, '', NULL, NULL, 0 FROM flavoso_outbox_operation o WHERE o.connection = $1::text AND $2::integer > 0`, `
INSERT INTO flavoso_outbox_count SELECT $1::text, $2::integer, 0, $2::integer, 0, 0, 0, 0, 0, 0, 0, 0, 10 * $2::integer, 0, $2::integer`,
	} {
		_, err := pool.Exec(context.Background(), sql, connection, n)
		require.NoError(t, err)
	}
	_, err := pool.Exec(context.Background(), "SELECT setval('flavoso_outbox_outcome', (SELECT max(outcome) FROM flavoso_outbox_progress))")
	require.NoError(t, err)
}

// One connection with very many due lanes does not keep another with one lane waiting, although that one fell due later.
func TestAFloodedConnectionDoesNotKeepOthersWaiting(t *testing.T) {
	pool := newPool(t)
	flood(t, pool, "flooded", 100_000)
	e := open(t, pool)
	checkTables(t, pool)
	for i := range 3 {
		mustAdd(t, e, op(fmt.Sprint("one-", i), "lane", of(fmt.Sprint("quiet-", i))))
	}
	per := map[string]int{}
	for _, r := range mustClaim(t, e, outbox.ClaimRequest{Limit: 8, PerConnection: 2}) {
		per[r.Connection]++
	}
	require.Equal(t, map[string]int{"flooded": 2, "quiet-0": 1, "quiet-1": 1, "quiet-2": 1}, per)

	mustAdd(t, e, op("two", "lane 2", of("quiet-1")))
	require.Equal(t, []string{"two"}, ids(mustClaim(t, e, outbox.ClaimRequest{Limit: 8, Scope: outbox.Scope{Except: []string{"flooded"}}})))
	mustAdd(t, e, op("three", "lane 3", of("quiet-1")))
	due, ok, err := e.NextDue(t.Context(), outbox.Scope{Except: []string{"flooded"}})
	require.NoError(t, err)
	require.True(t, ok)
	require.WithinDuration(t, time.Now(), due, time.Minute)
	require.Equal(t, []string{"three"}, ids(mustClaim(t, e, outbox.ClaimRequest{Limit: 8, Scope: outbox.Scope{Connections: []string{"quiet-1"}}})))
	require.Len(t, mustClaim(t, e, outbox.ClaimRequest{Limit: 8}), 8, "without a bound the oldest go first")
}

// More connections than a claim goes through: each gets its turn.
func TestEveryConnectionGetsItsTurn(t *testing.T) {
	pool := newPool(t)
	e := open(t, pool)
	flood(t, pool, "a flooded one", 600)
	const quiet = 1200
	_, err := pool.Exec(t.Context(), `
INSERT INTO flavoso_outbox_operation SELECT nextval('flavoso_outbox_seq'), 'q' || i, 'quiet-' || i, 'lane', i, 'k', '', '', false, false, NULL, true, false, '',
	now(), NULL, 'POST', '/', '', '', 1, NULL, NULL FROM generate_series(1, $1::integer) i`, quiet)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
INSERT INTO flavoso_outbox_progress SELECT o.seq, o.connection, o.lane, 'queued', true, true, o.created, o.created, o.seq, NULL, NULL, 1, 0, false, '', NULL,
	NULL, 0, 0, 0, NULL, '', NULL, NULL, 0 FROM flavoso_outbox_operation o WHERE o.connection LIKE 'quiet-%'`)
	require.NoError(t, err)
	served := map[string]bool{}
	for range 40 {
		for _, r := range mustClaim(t, e, outbox.ClaimRequest{Limit: 64, PerConnection: 1}) {
			served[r.Connection] = true
		}
	}
	require.Len(t, served, quiet+1)
}

// planOf returns the plan that a step uses.
func planOf(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) string {
	t.Helper()
	var plan []string
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), pgoutbox.Statement("planner")); err != nil {
			return err
		}
		rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF) "+sql, args...)
		if err != nil {
			return err
		}
		plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}))
	return strings.Join(plan, "\n")
}

// However much there is, no step reads all of a table, whether there are statistics of it or not.
func TestStepsReadByIndexes(t *testing.T) {
	for _, analyzed := range []bool{false, true} {
		t.Run(fmt.Sprintf("analyzed %v", analyzed), func(t *testing.T) {
			pool := newPool(t)
			flood(t, pool, "flooded", 100_000)
			flood(t, pool, "second", 10)
			if analyzed {
				_, err := pool.Exec(t.Context(), "ANALYZE")
				require.NoError(t, err)
			}
			now, none, one := time.Now(), []string{}, []string{"flooded"}
			list := func(q outbox.Query) []any {
				sql, args := pgoutbox.ListStatement(&q)
				return append([]any{sql}, args...)
			}
			_, err := pool.Exec(t.Context(), "UPDATE flavoso_outbox_progress SET acked = revision WHERE seq < 50000 AND NOT open")
			require.NoError(t, err)
			for name, c := range map[string][]any{
				"look":                 {pgoutbox.Statement("look"), "flooded1", "flooded", "key-1"},
				"intoLane":             {pgoutbox.Statement("intoLane"), "flooded", "lane-1"},
				"lastOfLane":           {pgoutbox.Statement("lastOfLane"), "flooded", "lane-1"},
				"byID":                 {pgoutbox.Statement("byID"), []string{"flooded1", "flooded2"}},
				"tryLanes":             {pgoutbox.Statement("tryLanes"), []string{"flooded1", "flooded2"}},
				"next":                 {pgoutbox.Statement("next"), []string{"flooded1", "flooded2"}},
				"lanes":                {pgoutbox.Statement("lanes"), []string{"flooded1", "flooded2"}},
				"due":                  {pgoutbox.Statement("due"), now, 32, 32, 32},
				"dueFirst":             {pgoutbox.Statement("dueFirst"), now, 512, 4, 32, one},
				"dueMore":              {pgoutbox.Statement("dueMore"), now, 512},
				"dueWalk":              {pgoutbox.Statement("dueWalk"), now, 512, 4, 32, one, ""},
				"dueOf":                {pgoutbox.Statement("dueOf"), now, one, 4, 32},
				"lapsed":               {pgoutbox.Statement("lapsed"), 32, nil, none},
				"first":                {pgoutbox.Statement("first"), now, nil, none, []string{"flooded2"}},
				"nextDue":              {pgoutbox.Statement("nextDue")},
				"nextDueOf":            {pgoutbox.Statement("nextDueOf"), 0, one, none},
				"nextDueWalk":          {pgoutbox.Statement("nextDueWalk"), 512, nil, one},
				"oldest":               {pgoutbox.Statement("oldest"), "second"},
				"oldestOfAll":          {pgoutbox.Statement("oldestOfAll")},
				"purgeable":            {pgoutbox.Statement("purgeable"), now.Add(-time.Hour), 100, true, ""},
				"list unacked":         list(outbox.Query{ByOutcome: true, Unacked: true, Limit: 50}),
				"list unacked of":      list(outbox.Query{ByOutcome: true, Unacked: true, Connection: "second", Limit: 50}),
				"list waiting":         list(outbox.Query{States: []outbox.State{outbox.Queued, outbox.Sent}, Limit: 50}),
				"list waiting of":      list(outbox.Query{States: []outbox.State{outbox.Queued}, Connection: "second", Limit: 50}),
				"list parked of lane":  list(outbox.Query{States: []outbox.State{outbox.Blocked}, Connection: "flooded", Lane: "lane-2", Limit: 1}),
				"list all":             list(outbox.Query{Limit: 50}),
				"list by key":          list(outbox.Query{Connection: "flooded", Key: "key-1"}),
				"list expiring before": list(outbox.Query{Connection: "flooded", States: []outbox.State{outbox.Queued}, ExpiringBefore: now, Limit: 50}),
			} {
				plan := planOf(t, pool, c[0].(string), c[1:]...)
				require.NotContains(t, strings.ReplaceAll(plan, "Seq Scan on flavoso_outbox_hold", ""), "Seq Scan on flavoso", "%s:\n%s", name, plan)
				require.Less(t, rowsRead(plan), 20_000, "%s:\n%s", name, plan)
			}
		})
	}
}

// rowsRead returns the most rows that some node of the plan has returned or thrown away.
func rowsRead(plan string) (most int) {
	for _, line := range strings.Split(plan, "\n") {
		for _, mark := range []string{"(actual rows=", "Rows Removed by Filter: "} {
			var n int
			if _, after, ok := strings.Cut(line, mark); ok {
				if _, err := fmt.Sscan(strings.FieldsFunc(after, func(r rune) bool { return r < '0' || r > '9' })[0], &n); err == nil {
					most = max(most, n)
				}
			}
		}
	}
	return most
}
