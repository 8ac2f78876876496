package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// Class is what an exchange means.
type Class int

const (
	// Broken: no answer. A reset, an early end, a timeout, no connection. Repeat.
	Broken Class = iota
	// Success: an authored 2xx, whole. The body may be empty or unreadable.
	Success
	// SuccessCut: an authored 2xx whose body did not arrive whole. It was done; repeat for the body.
	SuccessCut
	// InProgress: the first request with this key still runs (F8). Repeat.
	InProgress
	// Conflict: 409 conflict, 404, 410. A rejection if no earlier attempt can have caused it; otherwise
	// read the resource first.
	Conflict
	// KeyReused: the key stands for another request (F7), or, when no earlier attempt may have been
	// sent, a rejection was replayed: another sender used this key.
	KeyReused
	// Rejected: Flavoso decided against the request.
	Rejected
	// Unauthorized: the token was refused before anything happened.
	Unauthorized
	// Forbidden: this token may not do it, or not any more.
	Forbidden
	// Retry: Flavoso could not do it now, or did not say what it decided. Repeat.
	Retry
	// NotAuthored: somebody else answered, a portal or a proxy. No verdict. Repeat slowly.
	NotAuthored
)

var classNames = [...]string{
	Broken: "broken", Success: "success", SuccessCut: "success_cut", InProgress: "in_progress",
	Conflict: "conflict", KeyReused: "key_reused", Rejected: "rejected", Unauthorized: "unauthorized",
	Forbidden: "forbidden", Retry: "retry", NotAuthored: "not_authored",
}

func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return "invalid"
	}
	return classNames[c]
}

// Facts is what is known beside the exchange itself.
type Facts struct {
	// SeenRequestID says that this connection has had an answer with F1's X-Request-Id before: from then
	// on an answer without one is not Flavoso's.
	SeenRequestID bool
	// Clean says that no earlier attempt may have been sent.
	Clean bool
}

// Verdict is what an exchange means, and what of it is worth keeping.
type Verdict struct {
	Class Class
	// Authored says that Flavoso itself answered.
	Authored bool
	// NeverSent says that the request provably never reached a peer.
	NeverSent bool
	Status    int
	// Problem is what an error body said; zero for a success.
	Problem
	// RequestID is the answer's X-Request-Id; "" when it does not have F1's form.
	RequestID string
	// Replayed says that this is the held first answer (F6). Its absence proves nothing (D21).
	Replayed bool
	// RetryAfter is how long the answer asks to wait, bounded; 0 = it does not.
	RetryAfter time.Duration
	// Date is Flavoso's clock; zero = not known from this answer.
	Date time.Time
	// Reason says in words why there is no usable answer; "" when there is one. It holds neither
	// credentials nor bodies.
	Reason string
}

// byStatus: where the status decides, whatever the body says. Any 5xx is Retry, too.
var byStatus = map[int]Class{
	http.StatusUnauthorized:    Unauthorized,
	http.StatusForbidden:       Forbidden,
	http.StatusRequestTimeout:  Retry,
	http.StatusTooEarly:        Retry,
	http.StatusTooManyRequests: Retry,
}

// byCode: what a known code means in any other 4xx.
var byCode = map[string]Class{
	CodeConflict:             Conflict,
	CodeForbidden:            Forbidden,
	CodeInProgress:           InProgress,
	CodeInternal:             Retry,
	CodeInvalidRequest:       Rejected,
	CodeKeyReused:            KeyReused,
	CodeMethodNotAllowed:     Rejected,
	CodeNotFound:             Conflict,
	CodePayloadTooLarge:      Rejected,
	CodeRateLimited:          Retry,
	CodeUnauthorized:         Unauthorized,
	CodeUnavailable:          Retry,
	CodeUnsupportedMediaType: Rejected,
	CodeValidationFailed:     Rejected,
}

// Judge says what an exchange means. now is this machine's clock; it is used only for a Retry-After that
// is a date in an answer without a Date.
func Judge(x Exchange, f Facts, now time.Time) Verdict {
	v := Verdict{NeverSent: x.NeverSent, Status: x.Status}
	if x.Status == 0 {
		v.Class, v.Reason = Broken, "no answer"
		if x.Err != nil {
			v.Reason = x.Err.Error()
		}
		return v
	}
	v.RequestID = requestID(x.Header)
	v.Authored = authored(x, f, v.RequestID)
	v.RetryAfter = retryAfter(x.Header, v.Authored, now)
	if !v.Authored {
		v.Class, v.Reason = NotAuthored, "the answer is not Flavoso's"
		return v
	}
	v.Replayed = x.Header.Get("Idempotent-Replayed") == "true"
	if date, err := http.ParseTime(x.Header.Get("Date")); err == nil {
		v.Date = date
	}
	if x.Status < 300 {
		v.Class = Success
		if !x.Whole {
			v.Class, v.Reason = SuccessCut, "the answer broke off"
		}
		return v
	}
	v.Problem = ReadProblem(x.Body)
	v.Class = judgeProblem(x, v.Problem)
	if v.Class == Retry && v.Code == "" && !x.Whole {
		v.Reason = "the answer broke off"
	}
	if f.Clean && v.Replayed && (v.Class == Conflict || v.Class == Rejected) {
		v.Class = KeyReused
	}
	return v
}

// judgeProblem says what an authored answer other than 2xx means.
func judgeProblem(x Exchange, p Problem) Class {
	if x.Status >= 500 {
		return Retry
	}
	if class, ok := byStatus[x.Status]; ok {
		return class
	}
	gone := x.Status == http.StatusNotFound || x.Status == http.StatusGone
	switch class := byCode[p.Code]; {
	case p.Known && class == Rejected && gone:
		return Conflict // an earlier attempt may be why it is gone
	case p.Known:
		return class
	case gone:
		return Conflict
	case !x.Whole:
		return Retry // the code may have been in the part that is missing
	case x.Status != http.StatusConflict:
		return Rejected
	case p.Code != "":
		return Conflict // a code that came later than this release
	}
	// A 409 that does not say which one it is: in progress or conflict. Repeating is right for both.
	return Retry
}

// authored reports whether Flavoso itself gave the answer. Redirects are never followed, so the answer
// comes from the configured origin; a portal or proxy on the way may still have given it.
func authored(x Exchange, f Facts, requestID string) bool {
	if x.Status < 200 || x.Status >= 300 && x.Status < 400 || x.Status >= 600 {
		return false
	}
	if requestID != "" {
		return true
	}
	return !f.SeenRequestID && x.Whole && jsonObject(x.Body)
}

func jsonObject(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && body[0] == '{' && json.Valid(body)
}

// requestID returns the X-Request-Id of F1's form; "" = there is none.
func requestID(h http.Header) string {
	for _, id := range h.Values("X-Request-Id") {
		if validRequestID(id) {
			return id
		}
	}
	return ""
}

func validRequestID(id string) bool {
	const prefix, digits = "req_", 24
	if len(id) != len(prefix)+digits || id[:len(prefix)] != prefix {
		return false
	}
	for _, c := range []byte(id[len(prefix):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Kept returns the headers of the answer that are kept with an outcome.
func (x *Exchange) Kept() map[string]string {
	var kept map[string]string
	for _, name := range [...]string{"Content-Type", "Location", "Etag"} {
		if value := x.Header.Get(name); value != "" {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = value
		}
	}
	return kept
}
