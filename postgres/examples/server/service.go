package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/postgres/pgidem"
)

// service is everything the server knows.
type service struct {
	pool    *pgxpool.Pool
	engine  *pgidem.Engine
	log     *slog.Logger
	bank    *bank
	client  bankClient
	orders  http.Handler
	charges http.Handler
}

func newService(ctx context.Context, pool *pgxpool.Pool, base string, log *slog.Logger) (*service, error) {
	if err := pgidem.Migrate(ctx, pool); err != nil {
		return nil, err
	}
	_, err := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant text NOT NULL, item text NOT NULL)")
	if err != nil {
		return nil, err
	}
	s := &service{pool: pool, engine: pgidem.New(pool), log: log, bank: newBank(), client: bankClient{base: base + "/bank"}}
	opts := idempotency.Options{
		Tenant:     func(r *http.Request) (string, error) { return tenantOf(r), nil },
		Operation:  func(r *http.Request) string { return r.Pattern },
		RequireKey: true,
		Logger:     log,
	}
	if s.orders, err = pgidem.NewHandler(pool, opts, createOrder); err != nil {
		return nil, err
	}
	protect, err := idempotency.NewMiddleware(s.engine, opts)
	if err != nil {
		return nil, err
	}
	s.charges = protect(http.HandlerFunc(s.createCharge))
	return s, nil
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /orders", authenticated(s.orders))
	mux.Handle("GET /orders", authenticated(http.HandlerFunc(s.listOrders)))
	mux.Handle("POST /charges", authenticated(s.charges))
	mux.HandleFunc("POST /reconcile", func(w http.ResponseWriter, r *http.Request) {
		settled, err := s.reconcile(r.Context())
		if err != nil {
			s.log.Error("reconcile", "error", err)
			http.Error(w, "see the log", http.StatusInternalServerError)
			return
		}
		writeJSON(w, http.StatusOK, map[string]int{"settled": settled})
	})
	mux.Handle("/bank/", http.StripPrefix("/bank", s.bank.routes()))
	return mux
}

// tenantOf takes 'Authorization: Bearer till-1' for the caller till-1. A real service checks the token.
func tenantOf(r *http.Request) string {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !strings.HasPrefix(name, "till-") {
		return ""
	}
	return name
}

// authenticated comes before the idempotency layer: a caller without a name reserves no key.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tenantOf(r) == "" {
			http.Error(w, "Authorization: Bearer till-<n> is required", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

type order struct {
	ID   int64  `json:"id"`
	Item string `json:"item"`
}

// createOrder runs inside the transaction that also stores its answer.
func createOrder(ctx context.Context, tx pgx.Tx, r *http.Request) (idempotency.Result, error) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Item == "" {
		return jsonResult(http.StatusUnprocessableEntity, map[string]string{"error": "item is required"})
	}
	err := tx.QueryRow(ctx, "INSERT INTO orders (tenant, item) VALUES ($1, $2) RETURNING id", tenantOf(r), o.Item).Scan(&o.ID)
	if err != nil {
		return idempotency.Result{}, err
	}
	return jsonResult(http.StatusCreated, o)
}

func (s *service) listOrders(w http.ResponseWriter, r *http.Request) {
	rows, err := s.pool.Query(r.Context(), "SELECT id, item FROM orders WHERE tenant = $1 ORDER BY id", tenantOf(r))
	if err == nil {
		var list []order
		if list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[order]); err == nil {
			writeJSON(w, http.StatusOK, list)
			return
		}
	}
	s.log.Error("list orders", "error", err)
	http.Error(w, "see the log", http.StatusInternalServerError)
}

// upkeep deletes expired records and looks into unknown results, until ctx ends.
func (s *service) upkeep(ctx context.Context, reconcileEvery time.Duration) {
	sweep := time.NewTicker(time.Minute)
	defer sweep.Stop()
	var reconcile <-chan time.Time
	if reconcileEvery > 0 {
		t := time.NewTicker(reconcileEvery)
		defer t.Stop()
		reconcile = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			for more := true; more && ctx.Err() == nil; {
				rep, err := s.engine.Sweep(ctx, 1000)
				if err != nil {
					s.log.Error("sweep", "error", err)
				}
				more = rep.More
			}
		case <-reconcile:
			if _, err := s.reconcile(ctx); err != nil {
				s.log.Error("reconcile", "error", err)
			}
		}
	}
}

func jsonResult(status int, v any) (idempotency.Result, error) {
	body, err := json.Marshal(v)
	return idempotency.Result{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, err
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	res, err := jsonResult(status, v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = res.Send(w) // the client may be gone
}
