package flavoso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
)

// InspectOption changes what [InspectHandler] and [ListenInspect] do.
type InspectOption func(*inspectOptions)

type inspectOptions struct {
	changes, bodies bool
	guarded         bool // a token is asked for
	token, file     string
}

// InspectChanges lets operations be changed: retry, cancel, resolve, resume. Otherwise they are only shown.
func InspectChanges() InspectOption { return func(o *inspectOptions) { o.changes = true } }

// InspectBodies shows the bodies of requests and answers to whoever asks for them. They hold guests' names;
// otherwise they are never shown.
func InspectBodies() InspectOption { return func(o *inspectOptions) { o.bodies = true } }

// InspectToken refuses requests without "Authorization: Bearer <token>": loopback alone lets in every user and
// program of the machine. The tool takes the token from FLAVOSO_INSPECT_TOKEN. With an empty one nobody is
// answered, and ListenInspect fails: it was forgotten.
func InspectToken(token string) InspectOption {
	return func(o *inspectOptions) { o.guarded, o.token = true, token }
}

// InspectHandler returns a handler that shows what a running client's outbox holds, to the command flavoso
// (flavoso outbox list --inspect http://127.0.0.1:8484) and to programs on the same machine: the file itself
// can be opened by one process only. Mount it on a loopback listener, under a path with http.StripPrefix;
// [ListenInspect] does all of it in one call. Of a [Fleet], any client shows what all connections have, and lets it
// be changed.
//
// It is read-only and shows no bodies unless options say otherwise. It answers peers on loopback only, and
// neither what a proxy hands on nor what a web page in a browser on the till may ask: the Host header must
// name loopback (DNS rebinding), an Origin must be its own. A proxy on the same machine that adds none of the
// usual headers looks like a program: where there may be one, use [InspectToken]. It may be used by many
// goroutines; after the client was closed it answers 503.
//
// All answers are JSON, with the fields that docs/operator.md lists; times are RFC 3339.
//
//	GET  /status                      totals by state, and what only the running client knows
//	GET  /operations?state=uncertain  a page {"data":[…],"next":"…"}; also connection, lane, kind, tag, key,
//	                                  unacked=true, bodies=true, limit=1…1000 (default 100), after=<next>
//	GET  /operations/{id}             one operation; bodies=true
//	POST /operations/{id}/retry       due at once
//	POST /operations/{id}/cancel      withdrawn; only what provably was never sent
//	POST /operations/{id}/resolve     {"decision":"done"|"send_again"|"abandon","body":…,"note":"…"}
//	POST /lanes/resume                {"connection":"…","lane":"…"}
//
// A change answers with the operation as it is then; /lanes/resume with {}. Errors are {"code","message"}: 400 invalid, 403
// forbidden, read_only or no_bodies, 404 not_found, 409 state, 503 closed, 500 failed, or unknown when the
// change may have been saved or not.
func InspectHandler(c *Client, opts ...InspectOption) http.Handler {
	h := &inspectHandler{client: c}
	for _, o := range opts {
		o(&h.options)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /status", h.answer(h.status))
	mux.Handle("GET /operations", h.answer(h.list))
	mux.Handle("GET /operations/{id}", h.answer(h.show))
	mux.Handle("POST /operations/{id}/retry", h.change(func(r *http.Request, of *OperationsService, id string) error {
		return of.RetryNow(r.Context(), id)
	}))
	mux.Handle("POST /operations/{id}/cancel", h.change(func(r *http.Request, of *OperationsService, id string) error {
		return of.Cancel(r.Context(), id)
	}))
	mux.Handle("POST /operations/{id}/resolve", h.change(h.resolve))
	mux.Handle("POST /lanes/resume", h.mayChange(h.resume))
	mux.Handle("/", h.answer(func(r *http.Request) (any, error) {
		return nil, &inspect.Error{Code: inspect.CodeInvalid, Message: "there is no " + r.Method + " of this path"}
	}))
	return h.guard(mux)
}

type inspectHandler struct {
	client  *Client
	options inspectOptions
}

func (h *inspectHandler) status(r *http.Request) (any, error) {
	c := h.client
	counts, err := c.engine.Counts(r.Context(), r.FormValue("connection"))
	if err != nil {
		return nil, err
	}
	now := c.Status()
	s := inspect.StatusOf(counts, now.AsOf)
	s.Reports = inspect.ReportsOf(c.engine)
	if c.cfg.OutboxPath != "" {
		s.Aside = inspect.AsideOf(c.cfg.OutboxPath)
	}
	s.Till = &inspect.Till{PID: os.Getpid(), Version: Version, Connection: c.cfg.Connection, OfflineSince: now.OfflineSince,
		PausedUntil: now.PausedUntil, AuthRequired: now.AuthRequired, Changes: h.options.changes, Bodies: h.options.bodies}
	return s, nil
}

func (h *inspectHandler) list(r *http.Request) (any, error) {
	q, err := h.query(r)
	if err != nil {
		return nil, err
	}
	page, err := h.client.engine.List(r.Context(), q)
	if err != nil {
		return nil, err
	}
	out := inspect.Page{Data: make([]inspect.Operation, len(page.Records)), Next: page.Next}
	for i := range page.Records {
		out.Data[i] = inspect.Of(&page.Records[i], q.Bodies)
	}
	return out, nil
}

func (h *inspectHandler) show(r *http.Request) (any, error) {
	q, err := h.query(r)
	if err != nil {
		return nil, err
	}
	return h.operation(r.Context(), r.PathValue("id"), q.Bodies)
}

func (h *inspectHandler) operation(ctx context.Context, id string, bodies bool) (any, error) {
	rep, err := h.client.dispatcher.Look(ctx, id)
	if err != nil {
		return nil, err
	}
	return inspect.Of(&rep.Record, bodies), nil
}

// query reads what is asked for, and refuses bodies unless they are shown here.
func (h *inspectHandler) query(r *http.Request) (outbox.Query, error) {
	q, err := inspect.ParseQuery(r.URL.Query())
	switch {
	case err != nil:
		return q, &inspect.Error{Code: inspect.CodeInvalid, Message: err.Error()}
	case q.Bodies && !h.options.bodies:
		return q, &inspect.Error{Code: inspect.CodeNoBodies, Message: "the till does not show bodies here: it was not started with flavoso.InspectBodies"}
	}
	return q, nil
}

func (h *inspectHandler) resolve(r *http.Request, of *OperationsService, id string) error {
	var x inspect.Resolution
	if err := readJSON(r, &x); err != nil {
		return err
	}
	decisions := map[string]Decision{"done": Done, "send_again": SendAgain, "abandon": Abandon}
	return of.Resolve(r.Context(), id, Resolution{Decision: decisions[x.Decision], Body: x.Body, Note: x.Note})
}

func (h *inspectHandler) resume(r *http.Request) (any, error) {
	var x inspect.Resume
	if err := readJSON(r, &x); err != nil {
		return nil, err
	}
	return struct{}{}, h.client.Operations.set(r.Context(), x.Change(h.client.cfg.now()))
}

// change answers a request that changes an operation with the operation as it is then.
func (h *inspectHandler) change(do func(r *http.Request, of *OperationsService, id string) error) http.Handler {
	return h.mayChange(func(r *http.Request) (any, error) {
		id, c := r.PathValue("id"), h.client
		if c.fleet { // its clients change what is their own
			rep, err := c.dispatcher.Look(r.Context(), id)
			if err != nil {
				return nil, err
			}
			c = c.client(rep.Record.Connection)
		}
		if err := do(r, c.Operations, id); err != nil {
			return nil, err
		}
		return h.operation(r.Context(), id, false)
	})
}

// mayChange answers a request that changes something.
func (h *inspectHandler) mayChange(do func(*http.Request) (any, error)) http.Handler {
	return h.answer(func(r *http.Request) (any, error) {
		if !h.options.changes {
			return nil, &inspect.Error{Code: inspect.CodeReadOnly,
				Message: "the till lets nothing be changed here: it was not started with flavoso.InspectChanges"}
		}
		if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
			return nil, &inspect.Error{Code: inspect.CodeInvalid, Message: "Content-Type must be application/json"}
		}
		return do(r)
	})
}

// maxInspectBody bounds what is read of a request.
const maxInspectBody = 16 << 20

func readJSON(r *http.Request, v any) error {
	d := json.NewDecoder(io.LimitReader(r.Body, maxInspectBody))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	if err != nil {
		return &inspect.Error{Code: inspect.CodeInvalid, Message: "the body must be JSON: " + err.Error()}
	}
	return nil
}

// answer writes what do returns as JSON.
func (h *inspectHandler) answer(do func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v any
		err := error(ErrClosed)
		if !h.client.closed.Load() {
			v, err = do(r)
		}
		status := http.StatusOK
		if err != nil {
			status, v = inspectError(err)
		}
		writeInspect(w, status, v)
	})
}

func writeInspect(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, fmt.Appendf(nil, `{"code":%q,"message":"the answer has no JSON form"}`, inspect.CodeFailed)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // who asked is gone
}

// inspectError gives an error its form on the wire.
func inspectError(err error) (int, *inspect.Error) {
	var own *inspect.Error
	var param *ParamError
	code, status := inspect.CodeFailed, http.StatusInternalServerError
	switch {
	case errors.As(err, &own):
		if own.Code == inspect.CodeInvalid {
			return http.StatusBadRequest, own
		}
		return http.StatusForbidden, own
	case errors.As(err, &param):
		code, status = inspect.CodeInvalid, http.StatusBadRequest
	case errors.Is(err, ErrNotFound), errors.Is(err, outbox.ErrNotFound):
		code, status = inspect.CodeNotFound, http.StatusNotFound
	case errors.Is(err, ErrState):
		code, status = inspect.CodeState, http.StatusConflict
	case errors.Is(err, ErrClosed), errors.Is(err, outbox.ErrClosed):
		code, status = inspect.CodeClosed, http.StatusServiceUnavailable
	case errors.Is(err, ErrUnknown):
		code = inspect.CodeUnknown
	}
	return status, &inspect.Error{Code: code, Message: err.Error()}
}
