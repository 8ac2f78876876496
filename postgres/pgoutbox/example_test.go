package pgoutbox_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/orders")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := pgoutbox.Migrate(ctx, pool); err != nil {
		log.Fatal(err)
	}
	engine := pgoutbox.New(pool, pgoutbox.Options{})
	defer engine.Close()
	counts, err := engine.Counts(ctx, "store-42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting:", counts.Waiting())
}

// An order and the operation that reports it are one commit.
func ExampleTx() {
	ctx := context.Background()
	var (
		pool   *pgxpool.Pool
		engine *pgoutbox.Engine
	)
	accept := outbox.Record{
		ID: "01J8Z0", Connection: "store-42", Lane: "order:17", Kind: "orders.accept", Resource: "17",
		Key: "accept-17", Fingerprint: []byte("accept 17"), RepeatSafe: true,
		Request: outbox.Request{Method: http.MethodPost, Target: "/orders/17/accept"},
	}
	_ = func() error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE orders SET accepted = true WHERE id = 17"); err != nil {
				return err
			}
			added, err := engine.Add(ctx, outbox.Addition{Record: accept, Now: time.Now(), Tx: pgoutbox.Tx(tx)})
			if err == nil && added.Decision == outbox.FoundOtherUse {
				err = fmt.Errorf("accept-17 was used for something else: %s", added.Record.ID)
			}
			return err
		})
	}
}
