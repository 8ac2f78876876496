package pgoutbox

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flavoso/flavoso-go/outbox"
)

// Texts are kept readable. PostgreSQL takes neither a NUL nor what is not UTF-8: those bytes, and the backslash that
// marks them, are escaped.
func enc(s string) string {
	if utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\\") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == 0, r == utf8.RuneError && n == 1:
			const hex = "0123456789abcdef"
			b.WriteString(`\x`)
			b.WriteByte(hex[s[i]>>4])
			b.WriteByte(hex[s[i]&15])
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

func dec(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if s[i] == 'x' && i+2 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func encAll(ss []string) []string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = enc(s)
	}
	return out
}

// text is a string in detail.
type text string

// MarshalText implements encoding.TextMarshaler.
func (t text) MarshalText() ([]byte, error) { return []byte(enc(string(t))), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *text) UnmarshalText(b []byte) error { *t = text(dec(string(b))); return nil }

// detail is what of a record's progress no statement asks for.
type detail struct {
	Exposure *exposure `json:"exposure,omitempty"`
	Last     *attempt  `json:"last,omitempty"`
	Result   *result   `json:"result,omitempty"`
}

type exposure struct {
	Claim  text          `json:"claim,omitempty"`
	At     time.Time     `json:"at,omitzero"`
	Server time.Time     `json:"server,omitzero"`
	Boot   text          `json:"boot,omitempty"`
	Uptime time.Duration `json:"uptime_ns,omitempty"`
}

type attempt struct {
	N          int           `json:"n"`
	Start      time.Time     `json:"start,omitzero"`
	End        time.Time     `json:"end,omitzero"`
	Status     int           `json:"status,omitempty"`
	Code       text          `json:"code,omitempty"`
	RequestID  text          `json:"request_id,omitempty"`
	Err        text          `json:"error,omitempty"`
	NeverSent  bool          `json:"never_sent,omitempty"`
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
	Unanswered int           `json:"unanswered,omitempty"`
}

type result struct {
	Status    int           `json:"status,omitempty"`
	Code      text          `json:"code,omitempty"`
	Clean     bool          `json:"clean,omitempty"`
	Reason    text          `json:"reason,omitempty"`
	Message   text          `json:"message,omitempty"`
	RequestID text          `json:"request_id,omitempty"`
	Header    map[text]text `json:"header,omitzero"`
	Truncated bool          `json:"truncated,omitempty"`
	Replayed  bool          `json:"replayed,omitempty"`
	ByOther   bool          `json:"by_other,omitempty"`
	Stale     bool          `json:"stale,omitempty"`
	Resource  text          `json:"resource,omitempty"`
	Note      text          `json:"note,omitempty"`
	At        time.Time     `json:"at,omitzero"`
}

// encodeDetail returns the record's detail, nil when there is none. The body of the result is kept apart.
func encodeDetail(r *outbox.Record) (*string, error) {
	var d detail
	if x := r.Exposure; x != nil {
		d.Exposure = &exposure{Claim: text(x.Claim), At: x.At, Server: x.Server, Boot: text(x.Boot), Uptime: x.Uptime}
	}
	if a := r.Last; a != nil {
		d.Last = &attempt{N: a.N, Start: a.Start, End: a.End, Status: a.Status, Code: text(a.Code), RequestID: text(a.RequestID),
			Err: text(a.Err), NeverSent: a.NeverSent, RetryAfter: a.RetryAfter, Unanswered: a.Unanswered}
	}
	if s := r.Result; s != nil {
		d.Result = &result{Status: s.Status, Code: text(s.Code), Clean: s.Clean, Reason: text(s.Reason), Message: text(s.Message),
			RequestID: text(s.RequestID), Truncated: s.Truncated, Replayed: s.Replayed, ByOther: s.ByOther, Stale: s.Stale,
			Resource: text(s.Resource), Note: text(s.Note), At: s.At}
		if s.Header != nil {
			d.Result.Header = make(map[text]text, len(s.Header))
			for k, v := range s.Header {
				d.Result.Header[text(k)] = text(v)
			}
		}
	}
	if d == (detail{}) {
		return nil, nil
	}
	b, err := json.Marshal(&d)
	s := string(b)
	return &s, err
}

func decodeDetail(b []byte, body []byte, r *outbox.Record) error {
	if b == nil {
		return nil
	}
	var d detail
	if err := json.Unmarshal(b, &d); err != nil {
		return err
	}
	if x := d.Exposure; x != nil {
		r.Exposure = &outbox.Exposure{Claim: string(x.Claim), At: x.At, Server: x.Server, Boot: string(x.Boot), Uptime: x.Uptime}
	}
	if a := d.Last; a != nil {
		r.Last = &outbox.Attempt{N: a.N, Start: a.Start, End: a.End, Status: a.Status, Code: string(a.Code), RequestID: string(a.RequestID),
			Err: string(a.Err), NeverSent: a.NeverSent, RetryAfter: a.RetryAfter, Unanswered: a.Unanswered}
	}
	if s := d.Result; s != nil {
		r.Result = &outbox.Result{Status: s.Status, Code: string(s.Code), Clean: s.Clean, Reason: string(s.Reason), Message: string(s.Message),
			RequestID: string(s.RequestID), Body: body, Truncated: s.Truncated, Replayed: s.Replayed, ByOther: s.ByOther, Stale: s.Stale,
			Resource: string(s.Resource), Note: string(s.Note), At: s.At}
		if s.Header != nil {
			r.Result.Header = make(map[string]string, len(s.Header))
			for k, v := range s.Header {
				r.Result.Header[string(k)] = string(v)
			}
		}
	}
	return nil
}
