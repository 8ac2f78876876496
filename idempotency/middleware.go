package idempotency

import (
	"context"
	"errors"
	"net/http"
	"time"
)

type middleware struct {
	*Gate
	engine Engine
}

// NewMiddleware returns a middleware that protects handlers by records in engine. An error says which
// option is missing or senseless.
//
// The order is: method, form of the key, tenant, bounded body, fingerprint, claim, handler, classify, persist,
// and only then send. The handler runs in the request's goroutine, but its context does not end when the client
// leaves (D15); it ends when the lease is lost. See Options and the package documentation.
func NewMiddleware(engine Engine, opts Options) (func(http.Handler) http.Handler, error) {
	if engine == nil {
		return nil, errors.New("idempotency: an engine is required")
	}
	gate, err := NewGate(opts)
	if err != nil {
		return nil, err
	}
	m := &middleware{Gate: gate, engine: engine}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}, nil
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	req, body, passage := m.Admit(w, r)
	switch passage {
	case Answered:
		return
	case Unprotected:
		next.ServeHTTP(w, r)
		return
	}
	base := context.WithoutCancel(r.Context())
	began := time.Now()
	res, err := m.claim(base, req, began)
	if err == nil && res.Decision == InProgress && m.opts.OnDuplicate.wait > 0 {
		res, began, err = m.await(r.Context(), req, res)
	}
	switch {
	case err != nil:
		m.engineDown(w, r, next, body, err)
	case res.Decision == New || res.Decision == TakenOver:
		x := newExecution(base, m, res.Claim, began.Add(m.opts.Lease))
		if ops := m.opts.OnDuplicate.ops; ops != nil && ops.cfg.After > 0 {
			ops.serve(w, r, x, next, body)
			return
		}
		x.rec.init(w, x)
		m.send(w, r, x.run(next, r, body))
	case res.Decision == InProgress && m.opts.OnDuplicate.ops != nil:
		m.opts.OnDuplicate.ops.accepted(w, r, m.Gate, res.Record)
	default:
		m.Refuse(w, r, res)
	}
}

// claim asks the engine. It does not follow the client's context: a claim that is committed while its client
// leaves would block the key until the lease ends.
func (m *middleware) claim(base context.Context, req ClaimRequest, began time.Time) (ClaimResult, error) {
	ctx := withDeadline(base, began.Add(m.opts.SaveTimeout))
	defer ctx.stop()
	res, err := m.engine.Claim(ctx, req)
	e := Event{Kind: EventClaim, Operation: req.Scope.Operation, Decision: res.Decision, Err: err}
	if err != nil {
		e.Kind, e.Decision = EventEngineError, ""
	}
	if m.opts.Observe != nil {
		e.Duration = time.Since(began)
		m.opts.Observe(e)
	}
	return res, err
}

// await repeats the claim until something else than InProgress comes back. Asking the engine anew each time
// keeps 'is it done?' and 'may I run it?' one atomic decision.
func (m *middleware) await(ctx context.Context, req ClaimRequest, res ClaimResult) (ClaimResult, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, m.opts.OnDuplicate.wait)
	defer cancel()
	base := context.WithoutCancel(ctx)
	pause := newBackOff(20*time.Millisecond, 500*time.Millisecond)
	timer := time.NewTimer(pause.NextBackOff())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return res, time.Time{}, nil
		case <-timer.C:
		}
		began := time.Now()
		next, err := m.claim(base, req, began)
		if err != nil || next.Decision != InProgress {
			return next, began, err
		}
		res = next
		timer.Reset(pause.NextBackOff())
	}
}

func (m *middleware) engineDown(w http.ResponseWriter, r *http.Request, next http.Handler, body []byte, err error) {
	if m.opts.FailOpen != nil && m.opts.FailOpen(r) {
		m.observe(Event{Kind: EventFailedOpen, Operation: m.opts.Operation(r), Err: err})
		m.opts.Logger.WarnContext(r.Context(), "idempotency.failed_open",
			"operation", m.opts.Operation(r), "error", err)
		next.ServeHTTP(w, WithBody(r, body))
		return
	}
	m.Unavailable(w, r, err)
}

func (m *middleware) send(w http.ResponseWriter, r *http.Request, rep reply) {
	switch {
	case rep.sent:
	case rep.problem != nil:
		m.opts.WriteProblem(w, r, *rep.problem)
	default:
		h := w.Header()
		clear(h)
		for name, values := range rep.result.Header { // nobody else has them
			h[name] = values
		}
		_ = rep.result.send(w) // the client may be gone; it repeats and gets the replay
	}
}

func (m *middleware) log(x *execution, name string, err error, more ...any) {
	args := []any{"operation", x.claim.Scope.Operation, "id", x.claim.Scope.ID().String(), "generation", x.claim.Generation}
	args = append(args, more...)
	if err != nil {
		args = append(args, "error", err)
	}
	m.opts.Logger.WarnContext(x, name, args...)
}
