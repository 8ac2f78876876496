package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// The error codes that decide something (F7, F8 and F10 know three of them; the others are assumed).
const (
	CodeConflict             = "conflict"
	CodeForbidden            = "forbidden"
	CodeInProgress           = "idempotency_in_progress"
	CodeInternal             = "internal"
	CodeInvalidRequest       = "invalid_request"
	CodeKeyReused            = "idempotency_key_reused"
	CodeMethodNotAllowed     = "method_not_allowed"
	CodeNotFound             = "not_found"
	CodePayloadTooLarge      = "payload_too_large"
	CodeRateLimited          = "rate_limited"
	CodeUnauthorized         = "unauthorized"
	CodeUnavailable          = "unavailable"
	CodeUnsupportedMediaType = "unsupported_media_type"
	CodeValidationFailed     = "validation_failed"
)

// Problem is what an error body says.
type Problem struct {
	// Code is the known code, wherever it stands; without one the unknown value of a field named code.
	Code string
	// Known says that Code is one of this package's constants.
	Known bool
	// Message is for people, one line, at most 500 bytes. It may hold what the request held.
	Message string
	// Param is the field it is about.
	Param string
	// Details are the single faults, at most 100.
	Details []Detail
}

// Detail is one of several faults in a request.
type Detail struct {
	Param   string `json:"param"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Bounds of what is looked at and kept of an error body.
const (
	maxProblemBytes  = 256 << 10
	maxProblemDepth  = 64
	maxProblemText   = 500
	maxProblemCode   = 100
	maxProblemDetail = 100
)

// ReadProblem finds code, message and param in an error body of whatever shape: the documented envelope,
// another envelope, a flat object, a bare string, text, HTML, nothing, or only the beginning of one of
// these. Values under "code" count before all others, shallow ones before deep ones, earlier before later.
func ReadProblem(body []byte) Problem {
	body = bytes.TrimPrefix(body[:min(len(body), maxProblemBytes)], []byte("\xef\xbb\xbf"))
	var p Problem
	var s scan
	if !s.json(body) {
		if text := strings.TrimSpace(string(body)); !strings.HasPrefix(text, "<") {
			s.see("", text, 0)
			s.message.offer(text, 0)
		}
	}
	switch {
	case s.code.found:
		p.Code, p.Known = s.code.text, true
	case s.elsewhere.found:
		p.Code, p.Known = s.elsewhere.text, true
	case s.unknown.found:
		p.Code = line(s.unknown.text, maxProblemCode)
	}
	p.Message = line(s.message.text, maxProblemText)
	p.Param = line(s.param.text, maxProblemText)
	p.Details = details(body)
	return p
}

// best keeps the shallowest of the values it is offered; the earlier one when they stand equally deep.
type best struct {
	text  string
	depth int
	found bool
}

func (b *best) offer(text string, depth int) {
	if !b.found || depth < b.depth {
		*b = best{text, depth, true}
	}
}

// scan collects candidates from an error body.
type scan struct {
	code, elsewhere, unknown, message, param best
}

// see takes in one string value and the name it stands under.
func (s *scan) see(name, text string, depth int) {
	_, known := byCode[text]
	switch {
	case name == "code" && known:
		s.code.offer(text, depth)
	case known:
		s.elsewhere.offer(text, depth)
	case name == "code":
		s.unknown.offer(text, depth)
	}
	switch name {
	case "message", "error", "detail", "title", "error_description":
		s.message.offer(text, depth)
	case "param":
		s.param.offer(text, depth)
	}
}

// json walks body as far as it is JSON; false = it does not begin like JSON. It does not recurse.
func (s *scan) json(body []byte) bool {
	type level struct {
		object bool
		name   string // the member being read; "" = a name comes next
		named  bool
	}
	var stack []level
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for n := 0; ; n++ {
		token, err := d.Token()
		if err != nil {
			return n > 0
		}
		top := len(stack) - 1
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{', '[':
				if len(stack) == maxProblemDepth {
					return true
				}
				if top >= 0 {
					stack[top].named = false
				}
				stack = append(stack, level{object: t == '{'})
			default:
				stack = stack[:top]
			}
		case string:
			if top < 0 {
				s.see("", t, 0)
				s.message.offer(t, 0)
				return true
			}
			if stack[top].object && !stack[top].named {
				stack[top].name, stack[top].named = t, true
				continue
			}
			s.see(stack[top].name, t, len(stack))
			stack[top].named = false
		default:
			if top < 0 {
				return true
			}
			stack[top].named = false
		}
	}
}

// details reads the list of single faults from the envelope as it is assumed to be.
func details(body []byte) []Detail {
	var envelope struct {
		Error struct {
			Details []Detail `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &envelope) != nil {
		return nil
	}
	all := envelope.Error.Details
	if len(all) == 0 {
		return nil
	}
	all = all[:min(len(all), maxProblemDetail)]
	for i, d := range all {
		all[i] = Detail{line(d.Param, maxProblemText), line(d.Code, maxProblemCode), line(d.Message, maxProblemText)}
	}
	return all
}

// line makes text one line of at most n bytes of valid UTF-8 without control characters.
func line(text string, n int) string {
	text = strings.ToValidUTF8(text[:min(len(text), n)], "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
}
