package mockserver

import "net/http"

// problem is a refusal as the API words it. Param and details point into the request's body with JSON
// pointers.
type problem struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Param   string   `json:"param,omitzero"`
	Details []detail `json:"details,omitzero"`
}

// detail is one of several faults of a body.
type detail struct {
	Param   string `json:"param"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The error codes and their statuses. The first three and the two idempotency codes are documented
// (F7, F8, F10); the others are assumptions.
const (
	codeKeyReused        = "idempotency_key_reused"
	codeInProgress       = "idempotency_in_progress"
	codeConflict         = "conflict"
	codeInvalidRequest   = "invalid_request"
	codeUnauthorized     = "unauthorized"
	codeForbidden        = "forbidden"
	codeNotFound         = "not_found"
	codeMethodNotAllowed = "method_not_allowed"
	codeTooLarge         = "payload_too_large"
	codeMediaType        = "unsupported_media_type"
	codeValidation       = "validation_failed"
	codeRateLimited      = "rate_limited"
	codeInternal         = "internal"
	codeUnavailable      = "unavailable"
)

var codeStatus = map[string]int{
	codeKeyReused: 422, codeInProgress: 409, codeConflict: 409, codeInvalidRequest: 400, codeUnauthorized: 401,
	codeForbidden: 403, codeNotFound: 404, codeMethodNotAllowed: 405, codeTooLarge: 413, codeMediaType: 415,
	codeValidation: 422, codeRateLimited: 429, codeInternal: 500, codeUnavailable: 503,
}

// codeFor is the error code an answer with this status carries when nothing else is said.
func codeFor(status int) string {
	switch status {
	case http.StatusConflict:
		return codeConflict
	case http.StatusUnprocessableEntity:
		return codeValidation
	}
	for code, s := range codeStatus {
		if s == status {
			return code
		}
	}
	if status >= 500 {
		return codeInternal
	}
	return codeInvalidRequest
}

func (p *problem) status() int { return codeStatus[p.Code] }

func conflict(message string) *problem { return &problem{Code: codeConflict, Message: message} }

func notFound(what, id string) *problem {
	return &problem{Code: codeNotFound, Message: "no " + what + " with the id " + id}
}

// findings collects everything that is wrong with a body, so that one answer names all of it.
type findings []detail

func (f *findings) add(pointer, code, message string) {
	*f = append(*f, detail{pointer, code, message})
}

// problem returns nil when nothing is wrong.
func (f findings) problem() *problem {
	if len(f) == 0 {
		return nil
	}
	return &problem{Code: codeValidation, Message: f[0].Message, Param: f[0].Param, Details: f}
}
