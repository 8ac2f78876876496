package idempotency

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// OperationsConfig configures NewOperations.
type OperationsConfig struct {
	// Prefix is the path below which operations can be polled, for example "/operations/". Required; it ends with a slash.
	Prefix string
	// Tenant names the authenticated caller of a poll, as Options.Tenant does. Required: an operation is shown
	// to its own tenant only.
	Tenant func(*http.Request) (string, error)
	// After is how long the first request waits for its handler before it is answered 202 too. 0 = until the handler returns.
	After time.Duration
	// PollAfter is the Retry-After of 202 and of a poll that found the operation running. Default 1 s.
	PollAfter time.Duration
	// WriteProblem renders 404, 405 and 503. Default WriteProblem.
	WriteProblem func(w http.ResponseWriter, r *http.Request, p Problem)
}

// Operations makes operations visible while they run (S9, S10): requests get 202 with the Location of an
// operation resource, the same for every repeat of a key, and Operations is the handler of that resource.
//
// With After, handlers may outlive their request. They run in goroutines that Shutdown waits for.
type Operations struct {
	engine Engine
	cfg    OperationsConfig

	mu      sync.Mutex
	closing bool
	running map[*execution]struct{}
	idle    chan struct{} // closed when closing and nothing runs
}

// ErrShutdown is the cause of the end of a handler's context when Operations.Shutdown ran out of time.
var ErrShutdown = errors.New("idempotency: shutting down")

// NewOperations makes the operation resource of an engine's records.
func NewOperations(engine Engine, cfg OperationsConfig) (*Operations, error) {
	switch {
	case engine == nil:
		return nil, errors.New("idempotency: an engine is required")
	case cfg.Tenant == nil:
		return nil, errors.New("idempotency: OperationsConfig.Tenant is required")
	case !strings.HasSuffix(cfg.Prefix, "/"):
		return nil, fmt.Errorf("idempotency: OperationsConfig.Prefix %q must end with a slash", cfg.Prefix)
	case cfg.After < 0:
		return nil, errors.New("idempotency: OperationsConfig.After is negative")
	}
	setDefault(&cfg.PollAfter, time.Second)
	if cfg.WriteProblem == nil {
		cfg.WriteProblem = WriteProblem
	}
	return &Operations{engine: engine, cfg: cfg, running: make(map[*execution]struct{}), idle: make(chan struct{})}, nil
}

// OperationResource answers repeats with 202 and the Location of the operation while the first request runs.
// ops must be made from the middleware's engine.
func OperationResource(ops *Operations) DuplicatePolicy { return DuplicatePolicy{ops: ops} }

// Location returns the path of the operation of a scope.
func (o *Operations) Location(s Scope) string { return o.cfg.Prefix + s.ID().String() }

func (o *Operations) accepted(w http.ResponseWriter, r *http.Request, g *Gate, rec Record) {
	g.opts.WriteProblem(w, r, Problem{Status: http.StatusAccepted, Code: ProblemAccepted, Record: rec,
		Location: o.Location(rec.Scope), RetryAfter: o.cfg.PollAfter,
		Detail: "The operation is running. Poll the location for its state."})
}

// serve runs a handler that may outlive its request.
func (o *Operations) serve(w http.ResponseWriter, r *http.Request, x *execution, next http.Handler, body []byte) {
	x.rec.init(w, x)
	x.rec.w = nil // the request may end first, so nothing reaches the client before the end
	if !o.begin(x) {
		x.m.send(w, r, x.run(next, r, body))
		return
	}
	// The handler must not read from a connection that ends before it does.
	r2 := r.Clone(context.WithoutCancel(r.Context()))
	done := make(chan outlived, 1)
	go func() {
		defer o.end(x)
		var out outlived
		defer func() { done <- out }()
		defer func() {
			if !out.returned { // here nobody above would recover: one request must not end the process
				x.m.opts.Logger.ErrorContext(x, "idempotency.handler_panicked", "operation", x.claim.Scope.Operation,
					"id", x.claim.Scope.ID().String(), "panic", fmt.Sprint(recover()), "stack", string(debug.Stack()))
			}
		}()
		out.reply = x.run(next, r2, body)
		out.returned = true
	}()
	timer := time.NewTimer(o.cfg.After)
	defer timer.Stop()
	select {
	case out := <-done:
		if !out.returned {
			panic(http.ErrAbortHandler) // the panic itself has been logged
		}
		x.m.send(w, r, out.reply)
	case <-timer.C:
		o.accepted(w, r, x.m.Gate, Record{Scope: x.claim.Scope, State: Processing, Generation: x.claim.Generation})
	}
}

// outlived is what a handler in its own goroutine came to.
type outlived struct {
	reply    reply
	returned bool
}

func (o *Operations) begin(x *execution) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return false
	}
	o.running[x] = struct{}{}
	return true
}

func (o *Operations) end(x *execution) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.running, x)
	if o.closing && len(o.running) == 0 {
		close(o.idle)
	}
}

// Shutdown lets running handlers finish. When ctx ends first, it ends their contexts with the cause
// ErrShutdown, waits for them to return, and returns the context's error. Handlers that begin later stay
// within their requests. It may be called more than once.
func (o *Operations) Shutdown(ctx context.Context) error {
	o.mu.Lock()
	if !o.closing {
		o.closing = true
		if len(o.running) == 0 {
			close(o.idle)
		}
	}
	o.mu.Unlock()
	select {
	case <-o.idle:
		return nil
	case <-ctx.Done():
	}
	o.mu.Lock()
	for x := range o.running {
		x.cancel(ErrShutdown)
	}
	o.mu.Unlock()
	<-o.idle
	return ctx.Err()
}

// operationView is the JSON of an operation resource.
type operationView struct {
	Object    string      `json:"object"`
	ID        string      `json:"id"`
	State     State       `json:"state"`
	CreatedAt time.Time   `json:"created_at"`
	Answer    *answerView `json:"answer,omitempty"`
}

type answerView struct {
	Status      int             `json:"status"`
	ContentType string          `json:"content_type,omitempty"`
	Location    string          `json:"location,omitempty"`
	Body        json.RawMessage `json:"body,omitempty"`        // a JSON body
	BodyBase64  string          `json:"body_base64,omitempty"` // any other
	Unavailable bool            `json:"unavailable,omitempty"` // too large to be stored
}

// ServeHTTP answers polls: 200 with {"object":"operation","id","state","created_at"} and, when finished,
// "answer" with the status and body that the first request got or would have got. Another tenant's
// operation, an unknown and an expired one are 404.
func (o *Operations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		o.cfg.WriteProblem(w, r, Problem{Status: http.StatusMethodNotAllowed, Code: ProblemMethod})
		return
	}
	tenant, err := o.cfg.Tenant(r)
	if err != nil || tenant == "" {
		o.cfg.WriteProblem(w, r, Problem{Status: http.StatusInternalServerError, Code: ProblemTenantMissing,
			Detail: "The caller could not be determined.", Err: err})
		return
	}
	notFound := Problem{Status: http.StatusNotFound, Code: ProblemNotFound, Detail: "There is no such operation."}
	id, err := ParseID(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	if err != nil {
		o.cfg.WriteProblem(w, r, notFound)
		return
	}
	rec, res, err := o.engine.Get(r.Context(), id)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && rec.Scope.Tenant != tenant:
		o.cfg.WriteProblem(w, r, notFound)
		return
	case err != nil && !errors.Is(err, ErrResultFormat):
		o.cfg.WriteProblem(w, r, Problem{Status: http.StatusServiceUnavailable, Code: ProblemUnavailable,
			RetryAfter: o.cfg.PollAfter, Detail: "The operation's state cannot be read now.", Err: err})
		return
	}
	view := operationView{Object: "operation", ID: id.String(), State: rec.State, CreatedAt: rec.CreatedAt.UTC()}
	if rec.State.Finished() {
		view.Answer = answerOf(res, err)
	} else {
		Problem{RetryAfter: o.cfg.PollAfter}.SetHeaders(w.Header())
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(view); err != nil {
		o.cfg.WriteProblem(w, r, Problem{Status: http.StatusInternalServerError, Code: ProblemUnavailable, Err: err})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(buf.Bytes())
}

func answerOf(res Result, err error) *answerView {
	a := &answerView{Status: res.Status, ContentType: res.Header.Get("Content-Type"), Location: res.Header.Get("Location")}
	mediaType, _, _ := mime.ParseMediaType(a.ContentType)
	switch {
	case err != nil || res.Omitted:
		a.Unavailable = true
	case (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")) && json.Valid(res.Body):
		a.Body = res.Body
	default:
		a.BodyBase64 = base64.StdEncoding.EncodeToString(res.Body)
	}
	return a
}
