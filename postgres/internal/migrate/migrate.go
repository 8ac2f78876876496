// Package migrate brings the tables of this module's components to the version the code needs.
package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrNewer says that the tables were made by a newer release. Nothing was changed.
var ErrNewer = errors.New("postgres: the tables were made by a newer release")

// Beginner begins a transaction: *pgxpool.Pool and *pgx.Conn do.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// lockKey serialises all migrations of a database. It is one constant, so that two components that are migrated by
// two processes cannot both create the version table.
const lockKey = 0x666c61766f736f // "flavoso"

// Run applies the steps that have not been applied yet, in one transaction. Step i leads to version i+1. It may be
// run any number of times and by any number of processes at once. schema "" means the first one of the search path.
func Run(ctx context.Context, db Beginner, schema, component string, steps []string) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", int64(lockKey)); err != nil {
			return err
		}
		if schema != "" {
			name := pgx.Identifier{schema}.Sanitize()
			if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+name); err != nil {
				return err
			}
			// For this transaction only: the steps need not name the schema.
			if _, err := tx.Exec(ctx, "SET LOCAL search_path TO "+name); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS flavoso_schema (
			component text PRIMARY KEY, version integer NOT NULL, changed_at timestamptz NOT NULL DEFAULT clock_timestamp())`)
		if err != nil {
			return err
		}
		var have int
		err = tx.QueryRow(ctx, "SELECT version FROM flavoso_schema WHERE component = $1::text", component).Scan(&have)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		switch {
		case have > len(steps):
			return fmt.Errorf("%w: %s is at version %d, this release knows %d", ErrNewer, component, have, len(steps))
		case have == len(steps):
			return nil
		}
		for i, step := range steps[have:] {
			if _, err := tx.Exec(ctx, step, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("step to version %d: %w", have+i+1, err)
			}
		}
		_, err = tx.Exec(ctx, `INSERT INTO flavoso_schema (component, version) VALUES ($1::text, $2::integer)
			ON CONFLICT (component) DO UPDATE SET version = EXCLUDED.version, changed_at = clock_timestamp()`, component, len(steps))
		return err
	})
	if err != nil && !errors.Is(err, ErrNewer) {
		return fmt.Errorf("postgres: migrating %s: %w", component, err)
	}
	return err
}
