package mockserver

import (
	"encoding/json"
	"fmt"
	"time"
)

// Fault is something that goes wrong between a client and the server, and when it does. Make one with a
// constructor such as [DropResponse], narrow it with methods, and hand it to [Server.Inject]. A Fault is
// a value: every method returns a changed copy, and the same one may be injected many times.
//
// Faults sit outside the idempotency layer: they decide what happens to a request on its way in and to
// an answer on its way out, never what is stored. The exceptions say so: [CrashBeforeCommit],
// [CrashAfterCommit] and [Fault.NotHeld].
//
// Rules are asked in the order they were injected. Delays add up; the first other fault that fires ends
// the search, so that two faults with Times(1) make a script: the first call meets the first one, the
// second call the second.
//
// A fault that means nothing or can never fire is refused by Inject: see [Injected.Err].
type Fault struct{ spec faultSpec }

// faultSpec is a fault as the admin API writes it.
type faultSpec struct {
	Name       string   `json:"fault"`
	Method     string   `json:"method,omitzero"`
	Path       string   `json:"path,omitzero"`
	Connection string   `json:"connection,omitzero"`
	Nth        int      `json:"nth,omitzero"`
	Times      int      `json:"times,omitzero"`
	Ratio      *float64 `json:"ratio,omitzero"`
	Optional   bool     `json:"optional,omitzero"`

	Code       int        `json:"code,omitzero"`
	ErrorCode  string     `json:"error_code,omitzero"`
	Body       *string    `json:"body,omitzero"`
	RetryAfter retryAfter `json:"retry_after,omitzero"`
	Bytes      *int       `json:"bytes,omitzero"`
	Delay      duration   `json:"delay,omitzero"`
	Stage      string     `json:"stage,omitzero"`
	NotHeld    bool       `json:"not_held,omitzero"`
}

// duration is written as "1.5s" in JSON.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	if err == nil {
		var v time.Duration
		v, err = time.ParseDuration(text)
		*d = duration(v)
	}
	if err != nil {
		return fmt.Errorf(`a duration is written like "250ms" or "2m", not %s`, b)
	}
	return nil
}

// The stages of a request at which a delay or a hang can sit.
const (
	// StageBefore: the request is on its way; nothing has been looked at yet.
	StageBefore = "before"
	// StageInHandler: the key is claimed and the operation runs; repeats get 409 in progress (F8).
	StageInHandler = "in_handler"
	// StageAfter: everything is committed, the answer is on its way.
	StageAfter = "after"
)

// The names of the faults, as the admin API and [Request].Fault have them.
const (
	faultRefuse            = "refuse"
	faultReset             = "reset"
	faultDropResponse      = "drop_response"
	faultStatus            = "status"
	faultStatusAfterCommit = "status_after_commit"
	faultTruncate          = "truncate"
	faultDrip              = "drip"
	faultDelay             = "delay"
	faultHang              = "hang"
	faultCrashBefore       = "crash_before_commit"
	faultCrashAfter        = "crash_after_commit"
	faultRateLimit         = "rate_limit"
	faultPortal            = "portal"
	faultProxyError        = "proxy_error"
	faultUnknownEnum       = "unknown_enum"
	faultLate              = "late"
)

var faultNames = []string{
	faultRefuse, faultReset, faultDropResponse, faultStatus, faultStatusAfterCommit, faultTruncate, faultDrip,
	faultDelay, faultHang, faultCrashBefore, faultCrashAfter, faultRateLimit, faultPortal, faultProxyError,
	faultUnknownEnum, faultLate,
}

// Refuse makes connections fail as if nothing were listening. Over Transport the dial itself is refused,
// so that provably nothing was sent. Over TCP a server cannot refuse single dials: it resets the
// connection when a request comes, and does not note it; the admin API stays reachable. Connections kept
// alive are closed when it is injected. It takes no method, path or connection.
func Refuse() Fault { return Fault{faultSpec{Name: faultRefuse}} }

// Reset breaks the connection (RST) before the request is looked at: no effect.
func Reset() Fault { return Fault{faultSpec{Name: faultReset}} }

// DropResponse lets the request be executed and committed, then closes the connection without a byte
// of the answer.
func DropResponse() Fault { return Fault{faultSpec{Name: faultDropResponse}} }

// Status answers with a status, as Flavoso would word it, before anything is executed (D12).
func Status(code int) Fault { return Fault{faultSpec{Name: faultStatus, Code: code}} }

// StatusAfterCommit lets the request be executed and committed, then answers with a status instead of
// the result (D12). What is held is the result, unless NotHeld.
func StatusAfterCommit(code int) Fault {
	return Fault{faultSpec{Name: faultStatusAfterCommit, Code: code}}
}

// Truncate sends the right Content-Length and only the first n bytes of the body, then closes.
func Truncate(n int) Fault { return Fault{faultSpec{Name: faultTruncate, Bytes: &n}} }

// Drip sends the body n bytes at a time and waits d after each.
func Drip(n int, d time.Duration) Fault {
	return Fault{faultSpec{Name: faultDrip, Bytes: &n, Delay: duration(d)}}
}

// Delay makes the request wait for d, before it is looked at unless [Fault.At] says another stage. A
// client that leaves meanwhile does not stop it (D15).
func Delay(d time.Duration) Fault { return Fault{faultSpec{Name: faultDelay, Delay: duration(d)}} }

// Hang never answers: until the client leaves or the server closes. Nothing is executed, unless
// [Fault.At] says another stage.
func Hang() Fault { return Fault{faultSpec{Name: faultHang}} }

// CrashBeforeCommit lets the process "die" with the key claimed and nothing done: the connection
// closes, the key stays in progress until the lease ends (F9, D17).
func CrashBeforeCommit() Fault { return Fault{faultSpec{Name: faultCrashBefore}} }

// CrashAfterCommit lets the process "die" after the effect and before the result is held: the key stays
// in progress until the lease ends, and then the request is executed again (F9, D17).
func CrashAfterCommit() Fault { return Fault{faultSpec{Name: faultCrashAfter}} }

// RateLimit answers 429 with Retry-After in whole seconds, rounded up; 0 sends no Retry-After.
func RateLimit(retryAfter time.Duration) Fault {
	return Fault{faultSpec{Name: faultRateLimit}}.RetryAfter(retryAfter)
}

// Portal answers 200 with the HTML of a captive portal: not from Flavoso, nothing is executed.
func Portal() Fault { return Fault{faultSpec{Name: faultPortal}} }

// ProxyError answers 502 with a proxy's HTML: not from Flavoso, nothing is executed.
func ProxyError() Fault { return Fault{faultSpec{Name: faultProxyError}} }

// UnknownEnum executes the request and shows, in this answer only, a status no client knows and a field
// no client knows; in a list every entry has them.
func UnknownEnum() Fault { return Fault{faultSpec{Name: faultUnknownEnum}} }

// Late closes the connection at once and executes the request after d, when the client has long given up.
func Late(d time.Duration) Fault { return Fault{faultSpec{Name: faultLate, Delay: duration(d)}} }

// On limits the fault to a method and a path such as "/orders/{id}/accept", relative to the base URL: a
// path that begins with /v1 is refused. A segment in braces matches any one segment; "" matches every
// method, or the path of every operation of the API. A request that asks for no operation, one to an
// unknown path or with a method the path has not, meets only faults whose path names it.
func (f Fault) On(method, path string) Fault { f.spec.Method, f.spec.Path = method, path; return f }

// For limits the fault to one connection.
func (f Fault) For(connection string) Fault { f.spec.Connection = connection; return f }

// Nth lets the fault fire from the nth matching request on, and only once unless Times says more.
func (f Fault) Nth(n int) Fault { f.spec.Nth = n; return f }

// Times lets the fault fire n times, then no more. Without it, or with 0, the fault fires until it is
// removed.
func (f Fault) Times(n int) Fault { f.spec.Times = n; return f }

// Ratio lets the fault fire at random: 0 never, 1 always. The same seed gives the same draws. A fault
// with a ratio may stay unfired.
func (f Fault) Ratio(r float64) Fault { f.spec.Ratio = &r; return f }

// Optional lets a fault stay unfired without failing the test.
func (f Fault) Optional() Fault { f.spec.Optional = true; return f }

// At moves a delay or a hang to a stage: StageBefore, StageInHandler or StageAfter.
func (f Fault) At(stage string) Fault { f.spec.Stage = stage; return f }

// RetryAfter adds Retry-After to the answer of Status, StatusAfterCommit, RateLimit and ProxyError, in
// whole seconds, rounded up.
func (f Fault) RetryAfter(d time.Duration) Fault {
	f.spec.RetryAfter = ""
	if d > 0 {
		f.spec.RetryAfter = seconds(d)
	}
	return f
}

// RetryAfterHeader adds Retry-After exactly as given: a date, or nonsense.
func (f Fault) RetryAfterHeader(v string) Fault { f.spec.RetryAfter = retryAfter(v); return f }

// Code sets the error code in the body of a status fault, such as "conflict"; by default it follows
// from the status.
func (f Fault) Code(code string) Fault { f.spec.ErrorCode = code; return f }

// Body replaces the body of a status fault, for answers that do not look like Flavoso's.
func (f Fault) Body(body string) Fault { f.spec.Body = &body; return f }

// NotHeld makes StatusAfterCommit free the key: as F10 says of a 5xx, the repeat is executed, although
// the effect is there already (D12).
func (f Fault) NotHeld() Fault { f.spec.NotHeld = true; return f }

// String returns the fault as the admin API writes it.
func (f Fault) String() string { return f.spec.String() }

func (f faultSpec) String() string {
	b, err := json.Marshal(f)
	if err != nil {
		return f.Name
	}
	return string(b)
}
