package pgoutbox_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/outboxtest"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	os.Exit(pgtest.MainNoLeaks(m))
}

// fresh gives every test empty tables in one database.
func fresh(pool *pgxpool.Pool, o pgoutbox.Options) func(testing.TB) outboxtest.Storage {
	return func(t testing.TB) outboxtest.Storage {
		empty(t, pool)
		return outboxtest.Storage{
			Open:    func() (outbox.Engine, error) { return pgoutbox.New(pool, o), nil },
			Reopens: true,
			Shared:  true,
		}
	}
}

// empty makes the tables as Migrate has made them.
func empty(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(context.Background(), `TRUNCATE flavoso_outbox_operation, flavoso_outbox_progress, flavoso_outbox_hold, flavoso_outbox_key,
		flavoso_outbox_count, flavoso_outbox_state; ALTER SEQUENCE flavoso_outbox_seq RESTART; ALTER SEQUENCE flavoso_outbox_outcome RESTART`)
	require.NoError(t, err)
}

func TestEngineKeepsTheContract(t *testing.T) {
	pool := pgtest.Pool(t)
	require.NoError(t, pgoutbox.Migrate(t.Context(), pool))
	outboxtest.Run(t, fresh(pool, pgoutbox.Options{}))
}
