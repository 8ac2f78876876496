package idempotency

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Gate is everything of the middleware that happens before a claim and for refused claims. NewMiddleware uses it; it
// is exported for handlers that claim by other means, for example inside a database transaction.
type Gate struct {
	opts    Options
	dropped []string
}

// NewGate checks the options and fills in their defaults.
func NewGate(opts Options) (*Gate, error) {
	if opts.Tenant == nil {
		return nil, errors.New("idempotency: Options.Tenant is required: it names the authenticated caller that keys belong to")
	}
	for _, d := range []struct {
		name string
		v    int64
	}{{"Retention", int64(opts.Retention)}, {"Lease", int64(opts.Lease)}, {"HandlerTimeout", int64(opts.HandlerTimeout)},
		{"SaveTimeout", int64(opts.SaveTimeout)}, {"MaxBody", opts.MaxBody}, {"MaxResult", opts.MaxResult}} {
		if d.v < 0 {
			return nil, fmt.Errorf("idempotency: Options.%s is negative", d.name)
		}
	}
	switch opts.OnLeaseLost {
	case "", Takeover, Uncertain, FreeKey:
	default:
		return nil, fmt.Errorf("idempotency: Options.OnLeaseLost %q is none of Takeover, Uncertain, FreeKey", opts.OnLeaseLost)
	}
	switch opts.HoldFrom {
	case "", FromCompletion, FromReceipt:
	default:
		return nil, fmt.Errorf("idempotency: Options.HoldFrom %q is none of FromCompletion, FromReceipt", opts.HoldFrom)
	}
	setDefault(&opts.Retention, 24*time.Hour)
	setDefault(&opts.Lease, 2*time.Minute)
	setDefault(&opts.Heartbeat, opts.Lease/3)
	setDefault(&opts.SaveTimeout, min(10*time.Second, opts.Lease/2))
	setDefault(&opts.RetryAfter, time.Second)
	setDefault(&opts.MaxBody, 1<<20)
	setDefault(&opts.MaxResult, 1<<20)
	setDefault(&opts.OnLeaseLost, Takeover)
	setDefault(&opts.HoldFrom, FromCompletion)
	if opts.Heartbeat >= opts.Lease {
		return nil, fmt.Errorf("idempotency: Options.Heartbeat %v must be shorter than the lease %v", opts.Heartbeat, opts.Lease)
	}
	if opts.Operation == nil {
		opts.Operation = MethodAndPath
	}
	if opts.Fingerprint == nil {
		opts.Fingerprint = RawBytes
	}
	if opts.Hold == nil {
		opts.Hold = HoldAll
	}
	if opts.ValidateKey == nil {
		opts.ValidateKey = ValidateKey
	}
	if opts.WriteProblem == nil {
		opts.WriteProblem = WriteProblem
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if len(opts.Methods) == 0 {
		opts.Methods = []string{http.MethodPost}
	}
	g := &Gate{opts: opts}
	for _, name := range append(DefaultDropHeaders(), opts.DropHeaders...) {
		g.dropped = append(g.dropped, http.CanonicalHeaderKey(name))
	}
	return g, nil
}

// clock is the time where somebody wants to know how long things take. Looking at it is a good part of what a
// short request costs.
func (g *Gate) clock() time.Time {
	if g.opts.Observe == nil {
		return time.Time{}
	}
	return time.Now()
}

// since is the time since clock told began.
func since(began time.Time) time.Duration {
	if began.IsZero() {
		return 0
	}
	return time.Since(began)
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Options returns the options with their defaults filled in.
func (g *Gate) Options() Options { return g.opts }

// HeaderKey is the request header with the client's key.
const HeaderKey = "Idempotency-Key"

// HeaderReplayed marks a replay: its value is "true" (F6). First answers do not have it (D22).
const HeaderReplayed = "Idempotent-Replayed"

// Passage says how a request leaves Admit.
type Passage int

const (
	// Answered: the request was refused and the answer has been written.
	Answered Passage = iota
	// Unprotected: another method, or no key: the request goes on as it is.
	Unprotected
	// Admitted: the ClaimRequest is valid and the body has been read whole.
	Admitted
)

// Admit checks, in this order: method, form of the key, tenant, size of the body, fingerprint. Nothing is
// stored, so a refused request reserves no key (S2). body is the whole request body.
func (g *Gate) Admit(w http.ResponseWriter, r *http.Request) (req ClaimRequest, body []byte, p Passage) {
	if !slices.Contains(g.opts.Methods, r.Method) {
		return req, nil, Unprotected
	}
	values, present := r.Header[HeaderKey]
	if !present || len(values) == 0 {
		if g.opts.RequireKey {
			g.refuse(w, r, Problem{Status: http.StatusBadRequest, Code: ProblemKeyMissing,
				Detail: "The header " + HeaderKey + " is required here."})
			return req, nil, Answered
		}
		g.observe(Event{Kind: EventPassed})
		return req, nil, Unprotected
	}
	if len(values) > 1 {
		g.refuse(w, r, Problem{Status: http.StatusBadRequest, Code: ProblemKeyInvalid,
			Detail: "The header " + HeaderKey + " was sent more than once."})
		return req, nil, Answered
	}
	if err := g.opts.ValidateKey(values[0]); err != nil {
		g.refuse(w, r, Problem{Status: http.StatusBadRequest, Code: ProblemKeyInvalid, Detail: err.Error(), Err: err})
		return req, nil, Answered
	}
	tenant, err := g.opts.Tenant(r)
	if err != nil || tenant == "" {
		if err == nil {
			err = errors.New("idempotency: Options.Tenant returned an empty name")
		}
		g.opts.Logger.ErrorContext(r.Context(), "idempotency.no_tenant", "method", r.Method, "path", r.URL.Path, "error", err)
		g.refuse(w, r, Problem{Status: http.StatusInternalServerError, Code: ProblemTenantMissing,
			Detail: "The caller could not be determined.", Err: err})
		return req, nil, Answered
	}
	body, problem := g.readBody(w, r)
	if problem != nil {
		g.refuse(w, r, *problem)
		return req, nil, Answered
	}
	fp, err := g.opts.Fingerprint(r, body)
	if err != nil {
		g.refuse(w, r, Problem{Status: http.StatusBadRequest, Code: ProblemFingerprint,
			Detail: "The request body is not in the form this operation needs.", Err: err})
		return req, nil, Answered
	}
	return ClaimRequest{
		Scope:       Scope{Tenant: tenant, Operation: g.opts.Operation(r), Key: values[0]},
		Fingerprint: fp, Lease: g.opts.Lease, Retention: g.opts.Retention,
		HoldFrom: g.opts.HoldFrom, OnLeaseLost: g.opts.OnLeaseLost,
	}, body, Admitted
}

func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, p Problem) {
	g.observe(Event{Kind: EventRefused, Err: p.Err})
	g.opts.WriteProblem(w, r, p)
}

func (g *Gate) observe(e Event) {
	if g.opts.Observe != nil {
		g.opts.Observe(e)
	}
}

func (g *Gate) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > g.opts.MaxBody {
		return nil, tooLarge(g.opts.MaxBody)
	}
	size := int64(bytes.MinRead)
	if r.ContentLength >= 0 {
		size = min(r.ContentLength, 64<<10) + 1 // the last byte is for seeing the end
	}
	buf := make([]byte, 0, size)
	for {
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > g.opts.MaxBody:
			w.Header().Set("Connection", "close") // the rest is not worth reading
			return nil, tooLarge(g.opts.MaxBody)
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, brokenOff(err)
		case len(buf) == cap(buf):
			buf = slices.Grow(buf, len(buf))
		}
	}
}

func brokenOff(err error) *Problem {
	var limit *http.MaxBytesError
	if errors.As(err, &limit) { // of an outer handler, and smaller than ours
		return tooLarge(limit.Limit)
	}
	return &Problem{Status: http.StatusBadRequest, Code: ProblemBodyIncomplete, Detail: "The request body broke off.", Err: err}
}

func tooLarge(limit int64) *Problem {
	return &Problem{Status: http.StatusRequestEntityTooLarge, Code: ProblemBodyTooLarge,
		Detail: fmt.Sprintf("The request body is larger than %d bytes.", limit)}
}

// Refuse answers a claim that gives no right to run: it replays the result, or says why there is none. It
// must not be called for New and TakenOver.
func (g *Gate) Refuse(w http.ResponseWriter, r *http.Request, res ClaimResult) {
	p := Problem{Record: res.Record, Err: res.Err}
	switch res.Decision {
	case Replay:
		g.Replay(w, res.Result)
		return
	case Mismatch:
		p.Status, p.Code = http.StatusUnprocessableEntity, ProblemMismatch
		p.Detail = "This idempotency key was used for another request. A new operation needs a new key."
	case InProgress:
		p.Status, p.Code, p.RetryAfter = http.StatusConflict, ProblemInProgress, g.retryAfter()
		p.Detail = "The first request with this idempotency key is still running. Repeat it shortly, with the same key."
	case ResultGone:
		p.Status, p.Code = http.StatusConflict, ProblemResultGone
		p.Detail = "The operation is finished, but its answer cannot be repeated. It is not run again."
		if res.Err != nil {
			g.opts.Logger.ErrorContext(r.Context(), "idempotency.result_unreadable",
				"operation", res.Record.Scope.Operation, "id", res.Record.Scope.ID().String(), "error", res.Err)
		}
	default:
		p = g.unknown(p.Err)
		p.Record = res.Record
	}
	g.opts.WriteProblem(w, r, p)
}

func (g *Gate) retryAfter() time.Duration { return max(g.opts.RetryAfter, 0) }

func (g *Gate) unknown(err error) Problem {
	return Problem{Status: http.StatusServiceUnavailable, Code: ProblemResultUnknown, RetryAfter: g.retryAfter(), Err: err,
		Detail: "It is not known whether the operation was carried out. Repeat it later, with the same key; it is not run twice."}
}

// Unavailable answers 503: the engine is down and nothing ran.
func (g *Gate) Unavailable(w http.ResponseWriter, r *http.Request, err error) {
	g.opts.Logger.ErrorContext(r.Context(), "idempotency.engine_unavailable",
		"operation", g.opts.Operation(r), "error", err)
	g.opts.WriteProblem(w, r, Problem{Status: http.StatusServiceUnavailable, Code: ProblemUnavailable, RetryAfter: g.retryAfter(), Err: err,
		Detail: "The operation was not carried out. Repeat it later, with the same key."})
}

// Replay writes a stored result with the mark of a replay (F6).
func (g *Gate) Replay(w http.ResponseWriter, res Result) {
	h := w.Header()
	copyHeader(h, res.Header)
	h[HeaderReplayed] = []string{"true"}
	if h.Get("Access-Control-Allow-Origin") != "" {
		// A browser shows the mark to its script only if it is exposed. An outer CORS handler's list stays.
		h.Add("Access-Control-Expose-Headers", HeaderReplayed)
	}
	_ = res.send(w) // the client may be gone; it repeats
}

// Stored returns what of an answer is stored: all but the headers that belong to one exchange
// (DefaultDropHeaders, Options.DropHeaders, trailers). The answer itself is not changed.
func (g *Gate) Stored(answer Result) Result {
	for name := range answer.Header {
		if g.drops(name) {
			kept := make(http.Header, len(answer.Header))
			for name, values := range answer.Header {
				if !g.drops(name) {
					kept[name] = values
				}
			}
			answer.Header = kept
			break
		}
	}
	return answer
}

func (g *Gate) drops(name string) bool {
	return slices.Contains(g.dropped, http.CanonicalHeaderKey(name)) || strings.HasPrefix(name, http.TrailerPrefix)
}

// WithBody returns a copy of r with a body that was read already.
func WithBody(r *http.Request, body []byte) *http.Request {
	r2 := new(http.Request)
	*r2 = *r
	setBody(r2, new(bodyReader), body)
	return r2
}

func setBody(r *http.Request, b *bodyReader, body []byte) {
	r.ContentLength = int64(len(body))
	if len(body) == 0 {
		r.Body = http.NoBody
		return
	}
	b.Reset(body)
	r.Body = b
}

type bodyReader struct{ bytes.Reader }

func (*bodyReader) Close() error { return nil }
