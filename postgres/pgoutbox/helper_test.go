package pgoutbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// newPool migrates a database of its own.
func newPool(t testing.TB, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Pool(t, configure...)
	require.NoError(t, pgoutbox.Migrate(context.Background(), pool))
	return pool
}

// open opens an engine until the end of the test.
func open(t testing.TB, pool *pgxpool.Pool, opts ...pgoutbox.Options) *pgoutbox.Engine {
	t.Helper()
	var o pgoutbox.Options
	for _, opt := range opts {
		o = opt
	}
	e := pgoutbox.New(pool, o)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// newEngine is open on a database of its own.
func newEngine(t testing.TB, configure ...func(*pgxpool.Config)) (*pgoutbox.Engine, *pgxpool.Pool) {
	t.Helper()
	pool := newPool(t, configure...)
	return open(t, pool), pool
}

// op returns an operation to add.
func op(id, lane string, opts ...func(*outbox.Addition)) outbox.Addition {
	a := outbox.Addition{Record: outbox.Record{
		ID: id, Connection: "store-1", Lane: lane, Kind: "orders.accept", Resource: id,
		Key: "key-" + id, KeyDerived: true, Fingerprint: []byte("content of " + id), RepeatSafe: true,
		Request: outbox.Request{Method: "POST", Target: "/orders/" + id + "/accept", ContentType: "application/json", Body: []byte(`{"id":"` + id + `"}`)},
	}, Now: time.Now()}
	for _, o := range opts {
		o(&a)
	}
	return a
}

func of(connection string) func(*outbox.Addition) {
	return func(a *outbox.Addition) { a.Record.Connection = connection }
}

func keyless(a *outbox.Addition) { a.Record.Key, a.Record.KeyDerived = "", false }

func mustAdd(t testing.TB, e outbox.Engine, a outbox.Addition) outbox.Added {
	t.Helper()
	out, err := e.Add(context.Background(), a)
	require.NoError(t, err)
	return out
}

func mark(lease time.Duration) outbox.Mark { return outbox.Mark{Now: time.Now(), Lease: lease} }

func mustClaim(t testing.TB, e outbox.Engine, q outbox.ClaimRequest) []outbox.Record {
	t.Helper()
	if q.Now.IsZero() {
		q.Mark = mark(time.Hour)
	}
	out, err := e.Claim(context.Background(), q)
	require.NoError(t, err)
	return out
}

func ids(recs []outbox.Record) []string {
	out := []string{}
	for _, r := range recs {
		out = append(out, r.ID)
	}
	return out
}

// success settles a claimed record as done.
func success(r outbox.Record) outbox.Settlement {
	return outbox.Settlement{ID: r.ID, Claim: r.Claim.Token, Now: time.Now(), To: outbox.Succeeded,
		Last: &outbox.Attempt{N: r.Attempts, Status: 200}, Result: &outbox.Result{Status: 200, Body: []byte("{}")}}
}

func mustSettle(t testing.TB, e outbox.Engine, s outbox.Settlement) outbox.Settled {
	t.Helper()
	out, err := e.Settle(context.Background(), s)
	require.NoError(t, err)
	return out[0]
}

func mustGet(t testing.TB, e outbox.Engine, id string) outbox.Record {
	t.Helper()
	r, err := e.Get(context.Background(), id)
	require.NoError(t, err)
	return r
}

// checkTables compares what the engine keeps with what it should be, looking at everything.
func checkTables(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	for what, sql := range map[string]string{
		"a lane whose first record is not its head": `SELECT count(*) FROM (SELECT DISTINCT ON (connection, lane) * FROM flavoso_outbox_progress
			WHERE open ORDER BY connection, lane, seq) p WHERE NOT head AND NOT EXISTS (SELECT 1 FROM flavoso_outbox_progress g
			WHERE g.connection = p.connection AND g.lane = p.lane AND NOT g.open AND g.due_at IS NOT NULL)`,
		"a waiting head that is not in the due index": `SELECT count(*) FROM flavoso_outbox_progress WHERE head AND open AND claim = ''
			AND state IN ('queued', 'sent') AND due_at IS DISTINCT FROM due`,
		"a claim that never lapses":          `SELECT count(*) FROM flavoso_outbox_progress WHERE claim <> '' AND (lapse_at IS NULL OR due_at IS NOT NULL)`,
		"in an index without being a head":   `SELECT count(*) FROM flavoso_outbox_progress WHERE open AND NOT head AND (due_at IS NOT NULL OR lapse_at IS NOT NULL)`,
		"an operation without progress":      `SELECT count(*) FROM flavoso_outbox_operation o FULL JOIN flavoso_outbox_progress p USING (seq) WHERE o.seq IS NULL OR p.seq IS NULL`,
		"totals that are not the sums":       `SELECT count(*) FROM (` + countedSQL + ` EXCEPT ` + keptSQL + `) x`,
		"sums that are not the totals":       `SELECT count(*) FROM (` + keptSQL + ` EXCEPT ` + countedSQL + `) x`,
		"a key with an operation and a tomb": `SELECT count(*) FROM flavoso_outbox_key k JOIN flavoso_outbox_operation o ON o.connection = k.connection AND o.key = k.key AND o.latest`,
	} {
		var n int
		require.NoError(t, pool.QueryRow(context.Background(), sql).Scan(&n), what)
		require.Zero(t, n, what)
	}
}

const countedSQL = `(SELECT p.connection, count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'sent'), count(*) FILTER (WHERE state = 'succeeded'),
	count(*) FILTER (WHERE state = 'rejected'), count(*) FILTER (WHERE state = 'uncertain'), count(*) FILTER (WHERE state = 'blocked'),
	coalesce(sum(o.size) FILTER (WHERE open), 0), count(*) FILTER (WHERE open AND head AND state IN ('uncertain', 'blocked', 'damaged')),
	count(*) FILTER (WHERE outcome > 0 AND acked < revision)
	FROM flavoso_outbox_progress p JOIN flavoso_outbox_operation o USING (seq) GROUP BY p.connection)`

const keptSQL = `(SELECT connection, sum(queued)::bigint, sum(sent)::bigint, sum(succeeded)::bigint, sum(rejected)::bigint, sum(uncertain)::bigint, sum(blocked)::bigint,
	sum(bytes), sum(held)::bigint, sum(unacked)::bigint FROM flavoso_outbox_count GROUP BY connection
	HAVING sum(queued + sent + succeeded + rejected + uncertain + blocked + expired + canceled + superseded + abandoned + damaged) > 0)`
