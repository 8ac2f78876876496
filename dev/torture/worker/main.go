// Command worker is one life of a worker of a fleet in a torture run: many connections, one outbox in
// PostgreSQL that other workers use at the same time; see package life.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/dev/torture/life"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

func main() {
	if err := life.Run(open); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func open(t *life.Life) (*life.Session, error) {
	ctx := context.Background()
	p := t.Plan
	pool, err := pgxpool.New(ctx, p.Outbox)
	if err != nil {
		return nil, err
	}
	if p.Migrate {
		if err := pgoutbox.Migrate(ctx, pool); err != nil {
			pool.Close()
			return nil, err
		}
	}
	engine := pgoutbox.New(pool, pgoutbox.Options{Poll: 100 * time.Millisecond})
	cfg := flavoso.FleetConfig{
		Outbox: engine, BaseURL: p.BaseURL, Token: flavoso.TokenFunc(t.Token), Retry: t.Retry(), MaxWait: life.MaxWait,
		AttemptTimeout: p.AttemptTimeout, Concurrency: 8, KeepFinished: -1, Transport: t.Transport(), OnOutcome: t.OnOutcome, Hooks: t.Hooks(),
	}
	if p.Purge {
		cfg.KeepFinished = 20 * time.Millisecond
	}
	fleet, err := flavoso.OpenFleet(cfg)
	if err != nil {
		err = errors.Join(err, engine.Close())
		pool.Close()
		return nil, err
	}
	s := &life.Session{
		Close: func() error {
			err := errors.Join(fleet.Close(), engine.Close())
			pool.Close()
			return err
		},
		InTx: func(ctx context.Context, commit bool, work func(outbox.Tx) error) error {
			tx, err := pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it changes nothing
			if err := save(ctx, tx); err != nil {
				return err
			}
			if err := work(pgoutbox.Tx(tx)); err != nil || !commit {
				return err
			}
			return tx.Commit(ctx)
		},
	}
	for _, c := range p.Connections {
		s.Clients = append(s.Clients, fleet.Client(c))
	}
	return s, nil
}

// save stands for what the application itself writes in the transaction.
func save(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SELECT pg_sleep(random() * 0.002)")
	return err
}
