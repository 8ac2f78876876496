package pgidem_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/idempotency/idempotencytest"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgidem"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	os.Exit(pgtest.MainNoLeaks(m))
}

// newEngine migrates a database of its own.
func newEngine(t testing.TB, configure ...func(*pgxpool.Config)) (*pgidem.Engine, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.Pool(t, configure...)
	require.NoError(t, pgidem.Migrate(context.Background(), pool))
	return pgidem.New(pool), pool
}

// advance moves the engine's time forward: the records move back.
func advance(t testing.TB, pool *pgxpool.Pool, schema string, d time.Duration) {
	t.Helper()
	table := "flavoso_idempotency"
	if schema != "" {
		table = schema + "." + table
	}
	_, err := pool.Exec(context.Background(), fmt.Sprintf(`UPDATE %s SET created_at = created_at - $1::bigint * interval '1 microsecond',
		lease_until = lease_until - $1::bigint * interval '1 microsecond', finished_at = finished_at - $1::bigint * interval '1 microsecond',
		expires_at = expires_at - $1::bigint * interval '1 microsecond'`, table), d.Microseconds())
	require.NoError(t, err)
}

// fixtures gives every fixture a schema of its own in one database.
func fixtures(pool *pgxpool.Pool, takeovers int) idempotencytest.Factory {
	n := 0
	return func(t *testing.T) idempotencytest.Fixture {
		n++
		schema := fmt.Sprintf("suite_%d", n)
		opt := pgidem.WithSchema(schema)
		require.NoError(t, pgidem.Migrate(context.Background(), pool, opt))
		return idempotencytest.Fixture{
			Engine:    pgidem.New(pool, opt),
			Advance:   func(d time.Duration) { advance(t, pool, schema, d) },
			Takeovers: takeovers,
			// The engine never asks the process's clock, so another handle's skew cannot matter.
			Open: func(time.Duration) idempotency.Engine { return pgidem.New(pool, opt) },
		}
	}
}

func TestEnginePassesTheSuite(t *testing.T) {
	idempotencytest.Run(t, fixtures(pgtest.Pool(t), 0))
}

func request(key string) idempotency.ClaimRequest {
	return idempotency.ClaimRequest{Scope: idempotency.Scope{Tenant: "t", Operation: "POST /orders", Key: key},
		Fingerprint: idempotency.NewFingerprint(200, []byte("payload")), Lease: time.Minute, Retention: time.Hour}
}

func mustClaim(t testing.TB, e idempotency.Engine, req idempotency.ClaimRequest, want idempotency.Decision) idempotency.ClaimResult {
	t.Helper()
	res, err := e.Claim(context.Background(), req)
	require.NoError(t, err)
	require.Equal(t, want, res.Decision)
	return res
}
