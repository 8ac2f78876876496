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

// errNotHeld rolls back what Options.Hold does not take for the operation's result.
var errNotHeld = errors.New("pgidem: the answer is not held")

// NewHandler returns a handler whose effect and stored answer are one transaction. Of idempotency.Options, those about
// leases, saving and large answers do not apply, and Observe hears of what was refused or ran without a key only. A
// transaction is not waited for and there is nothing to fail open to: OnDuplicate other than FailFast, and FailOpen,
// are an error. A request without a key runs unprotected, in a transaction of its own, unless Options.RequireKey is set.
//
// The client gets: what fn returned, or its replay; 409, 422 as from the middleware; 503 when fn returned an error, or
// the database is down (nothing happened); 503 result_unknown when the result of the commit is unknown. An answer that
// Options.Hold does not hold is sent and everything is rolled back: the key is free.
// fn runs on a context that does not end when the client leaves, and not later than Options.HandlerTimeout.
func NewHandler(pool *pgxpool.Pool, opts idempotency.Options, fn HandlerFunc, o ...Option) (*Handler, error) {
	gate, err := idempotency.NewGate(opts)
	switch {
	case err != nil:
		return nil, err
	case pool == nil:
		return nil, errors.New("pgidem: a pool is required")
	case fn == nil:
		return nil, errors.New("pgidem: a function that does the work is required")
	case opts.OnDuplicate != idempotency.FailFast:
		return nil, errors.New("pgidem: Options.OnDuplicate: a transaction is not waited for; only FailFast is possible")
	case opts.FailOpen != nil:
		return nil, errors.New("pgidem: Options.FailOpen: without the database nothing can run")
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
		res    idempotency.ClaimResult
		answer idempotency.Result
		err    error
	)
	for range serializationTries {
		res, err = h.conf.inTx(ctx, h.pool, req, func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
			var err error
			answer, err = h.fn(ctx, tx, idempotency.WithBody(r.WithContext(ctx), body))
			if err == nil && !h.holds(answer) {
				err = errNotHeld
			}
			return h.gate.Stored(answer), err
		})
		if !errors.Is(err, idempotency.ErrSerialization) {
			break
		}
	}
	switch {
	case errors.Is(err, errNotHeld):
		_ = answer.Send(w) // the client may be gone; a repeat runs
	case errors.Is(err, ErrCommitUnknown):
		h.gate.Refuse(w, r, idempotency.ClaimResult{Decision: idempotency.Uncertain, Err: err})
	case err != nil:
		h.gate.Unavailable(w, r, err)
	case res.Decision == idempotency.New:
		_ = answer.Send(w) // the client may be gone; it repeats and gets the replay
	default:
		h.gate.Refuse(w, r, res)
	}
}

func (h *Handler) holds(answer idempotency.Result) bool {
	return h.gate.Options().Hold(answer.Status, answer.Header, answer.Body)
}

func (h *Handler) unprotected(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	var res idempotency.Result
	err := pgx.BeginTxFunc(ctx, h.pool, h.conf.tx, func(tx pgx.Tx) (err error) {
		res, err = h.fn(ctx, tx, r)
		if err == nil && !h.holds(res) {
			err = errNotHeld
		}
		return err
	})
	if err != nil && !errors.Is(err, errNotHeld) {
		h.gate.Unavailable(w, r, err)
		return
	}
	_ = res.Send(w)
}
