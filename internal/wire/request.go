package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/flavoso/flavoso-go/outbox"
)

// keyHeader is the map key under which the Idempotency-Key header is set. It is not the canonical form
// on purpose: net/http repeats a request by itself when a reused connection dies and the canonical key
// is present, and that would be a second request that nobody counted or checked the window for. On the
// wire header names have no case.
const keyHeader = "idempotency-key"

// Why a request never left: it is not a matter of the network, and trying again will not help.
var (
	ErrBadToken   = errors.New("the access token is empty or holds characters that no header can carry")
	ErrBadRequest = errors.New("the request cannot be sent as it is")
)

func badRequest(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadRequest, fmt.Sprintf(format, args...))
}

// request makes the HTTP request: the frozen parts as they are, plus key and credentials.
func (s *Sender) request(r outbox.Request, key, token string) (*http.Request, error) {
	u, err := s.url(r.Target)
	if err != nil {
		return nil, err
	}
	if !validMethod(r.Method) {
		return nil, badRequest("invalid method")
	}
	if !validToken(token) {
		return nil, ErrBadToken
	}
	agent := s.UserAgent
	if agent == "" {
		agent = "flavoso-go"
	}
	h := http.Header{"Authorization": {"Bearer " + token}}
	for _, field := range [...]struct{ name, value string }{
		{"User-Agent", agent}, {"Accept", r.Accept}, {"Content-Type", r.ContentType}, {keyHeader, key},
	} {
		if field.value == "" {
			continue
		}
		if !printable(field.value) || strings.Trim(field.value, " ") != field.value {
			return nil, badRequest("header %s holds what HTTP cannot carry unchanged", field.name)
		}
		h[field.name] = []string{field.value}
	}
	req := &http.Request{
		Method:     r.Method,
		URL:        u,
		Host:       u.Host,
		Header:     h,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Body:       http.NoBody,
	}
	if len(r.Body) > 0 {
		// GetBody stays nil: without it net/http cannot send the body a second time.
		req.Body = io.NopCloser(bytes.NewReader(r.Body))
		req.ContentLength = int64(len(r.Body))
	}
	return req, nil
}

// url places target below the base, byte for byte as it is.
func (s *Sender) url(target string) (*url.URL, error) {
	if s.Base == nil || s.Base.Host == "" || s.Base.User != nil || s.Base.RawQuery != "" {
		return nil, badRequest("the base URL must have a host, and neither user information nor a query")
	}
	if err := CheckTarget(target); err != nil {
		return nil, err
	}
	raw := strings.TrimRight(s.Base.EscapedPath(), "/") + target
	path, query, hasQuery := strings.Cut(raw, "?")
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, badRequest("the path holds a malformed escape")
	}
	u := &url.URL{
		Scheme:     s.Base.Scheme,
		Host:       s.Base.Host,
		Path:       plain,
		RawPath:    path,
		RawQuery:   query,
		ForceQuery: hasQuery,
	}
	if u.RequestURI() != raw {
		return nil, badRequest("the path holds characters that must be escaped")
	}
	return u, nil
}

// CheckTarget reports why target (path and query, relative to the base URL's path) cannot be sent byte
// for byte as it is; nil = it can.
func CheckTarget(target string) error {
	if !strings.HasPrefix(target, "/") {
		return badRequest("the path must begin with /")
	}
	for i := 0; i < len(target); i++ {
		if c := target[i]; c <= ' ' || c > '~' || c == '#' {
			return badRequest("the path holds characters that must be escaped")
		}
	}
	path, _, _ := strings.Cut(target, "?")
	plain, err := url.PathUnescape(path)
	if err != nil {
		return badRequest("the path holds a malformed escape")
	}
	if (&url.URL{Path: plain, RawPath: path}).EscapedPath() != path {
		return badRequest("the path holds characters that must be escaped")
	}
	return nil
}

func validToken(token string) bool {
	return token != "" && printable(token) && !strings.Contains(token, " ")
}

func validMethod(m string) bool {
	for i := 0; i < len(m); i++ {
		if m[i] < 'A' || m[i] > 'Z' {
			return false
		}
	}
	return m != ""
}

// printable reports whether v is printable ASCII, the space included.
func printable(v string) bool {
	for i := 0; i < len(v); i++ {
		if v[i] < ' ' || v[i] > '~' {
			return false
		}
	}
	return true
}
