package idempotency

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Problem is an answer of the middleware itself.
type Problem struct {
	Status     int
	Code       ProblemCode
	Detail     string        // for the client; never holds a key or a tenant
	RetryAfter time.Duration // 0 = no hint
	Location   string        // of the operation resource, with ProblemAccepted
	Record     Record        // the record that was met, if there is one
	Err        error         // for the log; may hold internals
}

// ProblemCode says which rule an answer follows from. Clients branch on it (a 409 or 422 may also come from
// the handler).
type ProblemCode string

const (
	ProblemKeyMissing     ProblemCode = "idempotency_key_missing" // 400, RequireKey
	ProblemKeyInvalid     ProblemCode = "idempotency_key_invalid" // 400: empty, too long, not ASCII, two field lines
	ProblemTenantMissing  ProblemCode = "tenant_missing"          // 500
	ProblemBodyTooLarge   ProblemCode = "body_too_large"          // 413
	ProblemBodyIncomplete ProblemCode = "body_incomplete"         // 400: the request broke off; nothing was claimed
	ProblemFingerprint    ProblemCode = "fingerprint_failed"      // 400: Fingerprint returned an error
	ProblemMismatch       ProblemCode = "idempotency_key_reused"  // 422
	ProblemInProgress     ProblemCode = "idempotency_in_progress" // 409
	ProblemResultGone     ProblemCode = "result_unavailable"      // 409: done, but the answer cannot be repeated
	ProblemResultUnknown  ProblemCode = "result_unknown"          // 503: may have been done; repeat later with the same key
	ProblemUnavailable    ProblemCode = "idempotency_unavailable" // 503: the engine is down; nothing ran
	ProblemAccepted       ProblemCode = "operation_accepted"      // 202: poll Location
	ProblemNotFound       ProblemCode = "operation_not_found"     // 404, from the operation resource
	ProblemMethod         ProblemCode = "method_not_allowed"      // 405, from the operation resource
)

// WriteProblem renders p as application/problem+json (RFC 9457) with the member "code".
func WriteProblem(w http.ResponseWriter, _ *http.Request, p Problem) {
	body, err := json.Marshal(struct {
		Title  string      `json:"title"`
		Status int         `json:"status"`
		Code   ProblemCode `json:"code"`
		Detail string      `json:"detail,omitempty"`
	}{http.StatusText(p.Status), p.Status, p.Code, p.Detail})
	if err != nil { // cannot happen: plain strings and an int
		body = nil
	}
	p.SetHeaders(w.Header())
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client may be gone
}

// SetHeaders sets Retry-After (whole seconds, rounded up) and Location as p asks for. For own renderers.
func (p Problem) SetHeaders(h http.Header) {
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if p.Location != "" {
		h.Set("Location", p.Location)
	}
}
