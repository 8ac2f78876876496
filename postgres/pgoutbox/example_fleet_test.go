package pgoutbox_test

import (
	"context"
	"database/sql"
	"log"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// openReadmeFleet is what a worker does; any number of them may run.
func openReadmeFleet(ctx context.Context, pool *pgxpool.Pool, tokens flavoso.TokenSource, baseURL string) (*flavoso.Fleet, *pgoutbox.Engine, error) {
	if err := pgoutbox.Migrate(ctx, pool); err != nil {
		return nil, nil, err
	}
	engine := pgoutbox.New(pool, pgoutbox.Options{})
	fleet, err := flavoso.OpenFleet(flavoso.FleetConfig{Outbox: engine, Token: tokens, BaseURL: baseURL})
	return fleet, engine, err
}

// reserve saves the app's own row and the operation for Flavoso in one transaction.
func reserve(ctx context.Context, pool *pgxpool.Pool, fleet *flavoso.Fleet, ref string, params flavoso.BookingParams) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO reservation (ref) VALUES ($1)", ref); err != nil {
			return err
		}
		_, err := fleet.Client("store-42").Bookings.Create(ref, params).EnqueueTx(ctx, pgoutbox.Tx(tx))
		return err
	})
}

// reserveSQL is reserve for an application on database/sql.
func reserveSQL(ctx context.Context, db *sql.DB, fleet *flavoso.Fleet, ref string, params flavoso.BookingParams) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "INSERT INTO reservation (ref) VALUES ($1)", ref); err != nil {
		return err
	}
	if _, err := fleet.Client("store-42").Bookings.Create(ref, params).EnqueueTx(ctx, pgoutbox.SQLTx(tx)); err != nil {
		return err
	}
	return tx.Commit()
}

// TestTheReadmesFleetRuns on a real server.
func TestTheReadmesFleetRuns(t *testing.T) {
	srv := mockserver.Start(t)
	pool := pgtest.Pool(t)
	ctx := t.Context()
	tokens := flavoso.TokenFunc(func(_ context.Context, r flavoso.TokenRequest) (string, error) { return srv.Token(r.Connection), nil })
	fleet, engine, err := openReadmeFleet(ctx, pool, tokens, srv.BaseURL())
	require.NoError(t, err)
	defer func() {
		require.NoError(t, fleet.Close())
		require.NoError(t, engine.Close())
	}()
	_, err = pool.Exec(ctx, "CREATE TABLE reservation (ref text PRIMARY KEY)")
	require.NoError(t, err)
	params := flavoso.BookingParams{PartySize: 4, StartsAt: time.Now().Add(48 * time.Hour), Customer: flavoso.BookingCustomer{Name: "Zoë"}}

	require.NoError(t, reserve(ctx, pool, fleet, "R-1", params))
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	require.NoError(t, reserveSQL(ctx, db, fleet, "R-2", params))
	require.Error(t, reserve(ctx, pool, fleet, "R-1", params)) // the row is there already
	require.NoError(t, fleet.Client("store-42").Flush(ctx))
	require.Len(t, srv.Effects(), 2)
}

// An application on database/sql joins its own transaction, too.
func ExampleSQLTx() {
	var (
		ctx   = context.Background()
		db    *sql.DB
		fleet *flavoso.Fleet
	)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "INSERT INTO reservation (ref) VALUES ('R-1')"); err != nil {
		log.Fatal(err)
	}
	_, err = fleet.Client("store-42").Bookings.Create("R-1", flavoso.BookingParams{PartySize: 4}).EnqueueTx(ctx, pgoutbox.SQLTx(tx))
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
}
