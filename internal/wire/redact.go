package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/textproto"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// quoted matches a quoted piece of text, also one that was cut off.
var quoted = regexp.MustCompile(`"(?:\\.|[^"\\])*(?:"|$)`)

// Error is why an exchange has no answer, or no whole one. Its text holds neither credentials nor a
// query nor bytes that the peer sent; it unwraps to the cause.
type Error struct {
	text  string
	cause error
}

func (e *Error) Error() string { return e.text }
func (e *Error) Unwrap() error { return e.cause }

// Timeout reports whether time ran out.
func (e *Error) Timeout() bool {
	if errors.Is(e.cause, context.DeadlineExceeded) || errors.Is(e.cause, os.ErrDeadlineExceeded) {
		return true
	}
	var n net.Error
	return errors.As(e.cause, &n) && n.Timeout()
}

// redact gives err a text that is safe to show.
func redact(err error, target, token string) error {
	// A url.Error prints the whole URL; what it wraps says the rest.
	for u := (*url.Error)(nil); errors.As(err, &u); {
		err = u.Err
	}
	return &Error{text: describe(err, target, token), cause: err}
}

func describe(err error, target, token string) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted" // by whoever waited, or by Close; "canceled" is a state of operations
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the answer broke off"
	case errors.Is(err, io.EOF):
		return "connection closed before an answer"
	}
	var header textproto.ProtocolError
	if errors.As(err, &header) {
		return "the answer's header is malformed"
	}
	// net/http quotes what it could not parse, and that may be a piece of a body.
	text := quoted.ReplaceAllString(err.Error(), `"…"`)
	if token != "" {
		text = strings.ReplaceAll(text, token, "[redacted]")
	}
	if _, query, ok := strings.Cut(target, "?"); ok && query != "" {
		text = strings.ReplaceAll(text, query, "[redacted]")
	}
	return line(text, maxProblemText)
}
