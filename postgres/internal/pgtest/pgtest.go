// Package pgtest gives tests a PostgreSQL server and each test a database of its own.
//
// The server is the one that FLAVOSO_TEST_POSTGRES names (a connection string of a role that may create databases),
// or a throw-away cluster made from the binaries installed here. It listens on a unix socket in a temporary
// directory only and is run by an unprivileged user, because PostgreSQL refuses root. Without either the test is
// skipped, by name; with FLAVOSO_REQUIRE_POSTGRES=1 it fails instead.
//
// Packages call Main from TestMain, so that the cluster ends with the tests.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Environment variables.
const (
	EnvDSN     = "FLAVOSO_TEST_POSTGRES"       // use this server
	EnvRequire = "FLAVOSO_REQUIRE_POSTGRES"    // "1": no server is a failure
	EnvFsync   = "FLAVOSO_TEST_POSTGRES_FSYNC" // "on": the throw-away cluster syncs to disk, for benchmarks
)

var server struct {
	once    sync.Once
	cluster *Cluster // nil = EnvDSN
	dsn     string
	err     error
	number  atomic.Int64
}

// Main runs the tests and then ends the throw-away cluster. It returns the exit code.
func Main(m interface{ Run() int }) int {
	code := m.Run()
	if server.cluster != nil {
		if err := server.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
		}
	}
	return code
}

// Own reports whether the server is the throw-away cluster, on which nobody else works.
func Own() bool { return server.cluster != nil }

func adminDSN(t testing.TB) string {
	t.Helper()
	server.once.Do(func() {
		if server.dsn = os.Getenv(EnvDSN); server.dsn == "" {
			if server.cluster, server.err = StartCluster(os.Getenv(EnvFsync) == "on"); server.err == nil {
				server.dsn = server.cluster.DSN("postgres")
			}
		}
	})
	if server.err != nil {
		if os.Getenv(EnvRequire) == "1" {
			t.Fatalf("%s needs PostgreSQL and %s=1 is set: %v", t.Name(), EnvRequire, server.err)
		}
		t.Skipf("%s needs PostgreSQL: %v (set %s, or install PostgreSQL's server)", t.Name(), server.err, EnvDSN)
	}
	return server.dsn
}

// DSN makes a new database and returns its connection string. The database is dropped at the end of the test.
func DSN(t testing.TB) string {
	t.Helper()
	admin := adminDSN(t)
	name := fmt.Sprintf("flavoso_test_%d_%d", os.Getpid(), server.number.Add(1))
	execSQL(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { execSQL(t, admin, "DROP DATABASE "+name+" WITH (FORCE)") })
	cfg, err := pgx.ParseConfig(admin)
	if err != nil {
		t.Fatalf("%s: %v", EnvDSN, err)
	}
	return dsnOf(cfg, name)
}

// dsnOf builds a keyword/value string, which unlike a URL takes a socket directory as it is.
func dsnOf(cfg *pgx.ConnConfig, database string) string {
	parts := []string{"host=" + quote(cfg.Host), fmt.Sprintf("port=%d", cfg.Port), "user=" + quote(cfg.User), "dbname=" + quote(database)}
	if cfg.Password != "" {
		parts = append(parts, "password="+quote(cfg.Password))
	}
	if cfg.TLSConfig == nil {
		parts = append(parts, "sslmode=disable")
	}
	return strings.Join(parts, " ")
}

func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func execSQL(t testing.TB, dsn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("pgtest: %s: %v", sql, err)
	}
}

// Pool makes a new database and connects to it. configure may change the pool's configuration.
func Pool(t testing.TB, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	return Connect(t, DSN(t), configure...)
}

// Connect opens a pool on an existing database until the end of the test.
func Connect(t testing.TB, dsn string, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	for _, f := range configure {
		f(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}
