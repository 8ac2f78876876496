package pgtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestEveryTestHasItsOwnDatabase(t *testing.T) {
	a, b := pgtest.Pool(t), pgtest.Pool(t)
	_, err := a.Exec(t.Context(), "CREATE TABLE x (n int)")
	require.NoError(t, err)
	_, err = b.Exec(t.Context(), "SELECT * FROM x")
	require.ErrorContains(t, err, "does not exist")
	var name string
	t.Run("inner", func(t *testing.T) {
		require.NoError(t, pgtest.Pool(t).QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
	})
	var left int
	require.NoError(t, a.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname = $1", name).Scan(&left))
	require.Zero(t, left, "dropped at the end of its test")
}

func TestAClusterIsGoneAfterStop(t *testing.T) {
	pgtest.DSN(t) // skips, or fails, where there is no server
	if !pgtest.Own() {
		t.Skip("the server is not ours")
	}
	c, err := pgtest.StartCluster(false)
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), c.DSN("postgres"))
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, c.Stop())
	require.NoDirExists(t, c.Dir)
	_, err = pgx.Connect(t.Context(), c.DSN("postgres"))
	require.Error(t, err)
	require.True(t, strings.HasPrefix(filepath.Base(c.Dir), "flavoso-pg-"))
}
