package pgidem_test

import (
	"context"
	"log"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/postgres/pgidem"
)

func tenantOf(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }

func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/orders")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := pgidem.Migrate(ctx, pool); err != nil {
		log.Fatal(err)
	}
	protect, err := idempotency.NewMiddleware(pgidem.New(pool), idempotency.Options{Tenant: tenantOf})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("POST /orders", protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})))
}

// Effect and result in one transaction of the handler, under a claim of the middleware.
func ExampleEngine_CompleteTx() {
	var (
		pool   *pgxpool.Pool
		engine *pgidem.Engine
	)
	_ = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		claim, _ := idempotency.ClaimFrom(ctx)
		result := idempotency.Result{Status: http.StatusCreated, Body: []byte("ordered")}
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO orders (item) VALUES ('pizza')"); err != nil {
				return err
			}
			return engine.CompleteTx(ctx, tx, claim, result)
		})
		if err != nil {
			idempotency.SetOutcome(ctx, idempotency.NoEffect) // rolled back; if it was committed after all, what is stored stands
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		_ = result.Send(w)
	})
}

// No claim and no lease: lock, effect and finished record are one transaction.
func ExampleInTx() {
	ctx := context.Background()
	var pool *pgxpool.Pool
	res, err := pgidem.InTx(ctx, pool, idempotency.ClaimRequest{
		Scope:       idempotency.Scope{Tenant: "store-42", Operation: "import", Key: "batch-7"},
		Fingerprint: idempotency.NewFingerprint(16, []byte("the batch")),
		Retention:   24 * 3600e9,
	}, func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		_, err := tx.Exec(ctx, "INSERT INTO orders (item) VALUES ('pizza')")
		return idempotency.Result{Status: http.StatusCreated}, err
	})
	if err == nil && res.Decision == idempotency.Replay {
		log.Print("done before: ", res.Result.Status)
	}
}
