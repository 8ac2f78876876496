package idempotency

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Options configure NewMiddleware. Only Tenant is required; the zero value of every other field is its default.
type Options struct {
	// Tenant names the authenticated caller of a request (S2). Required. An error or an empty name refuses
	// the request with 500 and a log line: it never means 'everyone'.
	Tenant func(*http.Request) (string, error)

	// Operation is part of the scope (S2). Default MethodAndPath. ConstantOperation("") compares the path
	// by the fingerprint instead: the same key on another path is a mismatch (D1).
	Operation func(*http.Request) string

	// Fingerprint binds the key to the request (S5). Default RawBytes (F7).
	Fingerprint FingerprintFunc

	// Hold decides whether an answer is the operation's result. Default HoldAll. It is asked only when the
	// handler has not said what happened (SetOutcome).
	Hold HoldFunc

	// OnDuplicate says what a repeat gets while the first request runs (S9). Default FailFast.
	OnDuplicate DuplicatePolicy

	// OnLeaseLost says what a lease that ended without a result means. Default Takeover.
	OnLeaseLost LeasePolicy

	// Retention is how long results are held (S15). Default 24 h.
	Retention time.Duration
	// HoldFrom is where the retention starts. Default FromCompletion.
	HoldFrom HoldFrom

	// Lease is how long a claim counts without a sign of life. Default 2 min.
	Lease time.Duration
	// Heartbeat is how often a running handler's lease is extended. Default Lease/3; negative = never,
	// and then the handler's context ends with the lease.
	Heartbeat time.Duration
	// HandlerTimeout ends the handler's context, with the cause ErrHandlerTimeout, and its heartbeats. 0 = no limit.
	HandlerTimeout time.Duration
	// SaveTimeout bounds the attempts to save a result, in total, and a claim. Default the smaller of 10 s and Lease/2.
	SaveTimeout time.Duration

	// Methods that are protected. Default POST (F2). Requests with another method pass untouched.
	Methods []string
	// RequireKey refuses protected requests without a key with 400. By default they run unprotected (D7).
	RequireKey bool
	// ValidateKey checks the form of a key before anything else is looked at. Default ValidateKey: 1 to
	// 255 printable ASCII characters (F3).
	ValidateKey func(key string) error
	// MaxBody is the largest request body in bytes; a larger one is refused with 413. Default 1 MiB.
	MaxBody int64
	// MaxResult is the largest answer body in bytes that is stored; a larger one reaches the first client
	// and leaves a record without body (ResultGone). Default 1 MiB.
	MaxResult int64

	// FailOpen runs the handler unprotected when the engine does not answer a claim, for requests where it
	// returns true. Default never: 503, and the handler does not run. Every such run is reported to Observe.
	FailOpen func(*http.Request) bool

	// DropHeaders are answer headers that are sent to the first client and never stored, besides the
	// ones in DefaultDropHeaders.
	DropHeaders []string

	// WriteProblem renders every answer that the middleware itself gives. Default WriteProblem (RFC 9457).
	WriteProblem func(w http.ResponseWriter, r *http.Request, p Problem)
	// RetryAfter is the hint on 409 in progress and on 503. Default 1 s; negative = no hint (D20).
	RetryAfter time.Duration

	// Logger receives what an operator must know. Default: silent. Keys and bodies are never logged.
	Logger *slog.Logger
	// Observe, if set, is called once for everything that Event names. It must be quick and safe for concurrent use.
	Observe func(Event)
}

// MethodAndPath is the default Operation: the same key on another path is another operation.
func MethodAndPath(r *http.Request) string { return r.Method + " " + r.URL.EscapedPath() }

// ConstantOperation returns an Operation that is the same for every request: the key alone decides.
func ConstantOperation(name string) func(*http.Request) string {
	return func(*http.Request) string { return name }
}

// HoldFunc reports whether an answer is the operation's result: stored and replayed. Otherwise the key
// is free again and a repeat runs. body holds at most Options.MaxResult bytes; it must not be kept or changed.
type HoldFunc func(status int, header http.Header, body []byte) bool

// HoldAll holds every answer, 5xx too: what the handler answered is the result.
func HoldAll(int, http.Header, []byte) bool { return true }

// HoldExcept5xx holds every answer below 500 (F10, without its rule for conflicts).
func HoldExcept5xx(status int, _ http.Header, _ []byte) bool { return status < 500 }

// DuplicatePolicy says what a repeat gets while the first request runs: FailFast, Wait or OperationResource.
type DuplicatePolicy struct {
	wait time.Duration
	ops  *Operations
}

// FailFast answers 409 at once (F8).
var FailFast DuplicatePolicy

// Wait lets a repeat wait up to most for the first request's result, and not longer than its own context.
// Nothing is held meanwhile, in particular no database connection: the engine is asked again in growing
// intervals, from 20 ms to 500 ms with jitter. Then 409 follows, as with FailFast.
func Wait(most time.Duration) DuplicatePolicy { return DuplicatePolicy{wait: most} }

// ValidateKey accepts 1 to 255 printable ASCII characters, space included (F3, D9).
func ValidateKey(key string) error {
	if len(key) == 0 {
		return fmt.Errorf("idempotency key is empty")
	}
	if len(key) > 255 {
		return fmt.Errorf("idempotency key has %d characters; 255 are allowed", len(key))
	}
	for i := 0; i < len(key); i++ {
		if key[i] < 0x20 || key[i] > 0x7e {
			return fmt.Errorf("idempotency key has a character that is not printable ASCII at position %d", i)
		}
	}
	return nil
}

// DefaultDropHeaders lists the answer headers that are never stored: they belong to one exchange and not to
// the result (D21).
func DefaultDropHeaders() []string {
	return []string{
		HeaderReplayed, "Set-Cookie", "Date", "X-Request-Id", "Server-Timing", "Traceparent", "Tracestate",
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
		"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
	}
}
