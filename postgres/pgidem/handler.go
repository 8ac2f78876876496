package pgidem

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go/idempotency"
)

// HandlerFunc does the work of one request inside tx. See TxFunc. r has its whole body.
type HandlerFunc func(ctx context.Context, tx pgx.Tx, r *http.Request) (idempotency.Result, error)

// Handler serves requests by InTx, with the checks and answers of the idempotency middleware.
type Handler struct {
	pool *pgxpool.Pool
	gate *idempotency.Gate
	fn   HandlerFunc
	conf config
}

// serializationTries is how often a request is run that keeps losing races above READ COMMITTED.
const serializationTries = 5

// NewHandler returns a handler whose effect and stored answer are one transaction. Of idempotency.Options, those about
// leases, handlers and large answers do not apply. A request without a key runs unprotected, in a transaction of its
// own, unless Options.RequireKey is set.
//
// The client gets: what fn returned, or its replay; 409, 422 as from the middleware; 503 when fn returned an error, or
// the database is down (nothing happened); 503 result_unknown when the result of the commit is unknown.
// fn runs on a context that does not end when the client leaves, and not later than Options.HandlerTimeout.
func NewHandler(pool *pgxpool.Pool, opts idempotency.Options, fn HandlerFunc, o ...Option) (*Handler, error) {
	gate, err := idempotency.NewGate(opts)
	if err != nil {
		return nil, err
	}
	return &Handler{pool: pool, gate: gate, fn: fn, conf: newConfig(o)}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, body, passage := h.gate.Admit(w, r)
	ctx := context.WithoutCancel(r.Context())
	switch passage {
	case idempotency.Answered:
		return
	case idempotency.Unprotected:
		h.unprotected(ctx, w, r)
		return
	}
	if limit := h.gate.Options().HandlerTimeout; limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, idempotency.ErrHandlerTimeout)
		defer stop()
	}
	var (
		res idempotency.ClaimResult
		err error
	)
	for range serializationTries {
		res, err = h.conf.inTx(ctx, h.pool, req, func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
			return h.fn(ctx, tx, idempotency.WithBody(r.WithContext(ctx), body))
		})
		if !errors.Is(err, idempotency.ErrSerialization) {
			break
		}
	}
	switch {
	case errors.Is(err, ErrCommitUnknown):
		h.gate.Refuse(w, r, idempotency.ClaimResult{Decision: idempotency.Uncertain, Err: err})
	case err != nil:
		h.gate.Unavailable(w, r, err)
	case res.Decision == idempotency.New:
		_ = res.Result.Send(w) // the client may be gone; it repeats and gets the replay
	default:
		h.gate.Refuse(w, r, res)
	}
}

func (h *Handler) unprotected(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	var res idempotency.Result
	err := pgx.BeginTxFunc(ctx, h.pool, h.conf.tx, func(tx pgx.Tx) (err error) {
		res, err = h.fn(ctx, tx, r)
		return err
	})
	if err != nil {
		h.gate.Unavailable(w, r, err)
		return
	}
	_ = res.Send(w)
}
