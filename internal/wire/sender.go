// Package wire is one HTTP exchange with Flavoso: exact bytes out, a verdict back.
//
// [Sender.Send] puts at most one request on the wire and reports what came of it as an [Exchange];
// [Judge] turns an exchange into a [Verdict], the one place that decides what an answer means.
// [Sender.Read] repeats a GET until there is an answer to rely on. Nothing here waits, counts attempts or
// keeps state between exchanges, except Read's own loop.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// DefaultMaxBody is how many bytes of an answer are kept when Sender.MaxBody is 0.
const DefaultMaxBody = 4 << 20

// Sender sends requests to one base URL. It may be used by many goroutines; its fields must not change
// after the first use.
type Sender struct {
	// Transport carries the requests; required. Whether a failed request provably never reached a peer
	// can be told only of an *http.Transport.
	Transport http.RoundTripper
	// Base is the origin and base path; required. Credentials go nowhere else. It must hold neither user
	// information nor a query.
	Base *url.URL
	// UserAgent is sent with every request; "" = "flavoso-go".
	UserAgent string
	// MaxBody is how many bytes of an answer's body are kept; 0 = DefaultMaxBody.
	MaxBody int64
}

// maxSilentReads bounds how often net/http sends one read.
const maxSilentReads = 2

var (
	// errRepeat ends an exchange in which net/http was about to send the request once more.
	errRepeat = errors.New("the peer refused the request on the wire")
	// ErrWithheld ends an exchange that its gate stopped.
	ErrWithheld = errors.New("the request was withheld")
)

// Exchange is what came of one request.
type Exchange struct {
	// NeverSent says that the request provably never reached a peer: it was not handed to the transport,
	// or the transport is an *http.Transport that looked for a connection and never got one. Error types
	// prove nothing and are not looked at.
	NeverSent bool
	// Single says that no more than this one request can have reached a peer: the transport is an
	// *http.Transport, which is kept from repeating it. What another transport does is not known.
	Single bool
	// Status is the HTTP status; 0 = there was no answer.
	Status int
	// Header holds the answer's headers.
	Header http.Header
	// Body is the answer's body as far as it arrived, at most Sender.MaxBody bytes of it.
	Body []byte
	// Whole says that the body arrived up to its end, or up to the bytes that are kept.
	Whole bool
	// Oversize says that Body is only the beginning of a body larger than Sender.MaxBody.
	Oversize bool
	// Err is why there is no answer, or no whole one. Its text holds neither credentials nor a query nor
	// bytes of a body; it unwraps to the cause.
	Err error
	// Start and End are when the exchange began and ended, by the wall clock.
	Start, End time.Time
}

// Send sends r once and reads the answer. key is the Idempotency-Key header; "" = none. token is stamped
// on the request here and kept nowhere. r.Body must stay unchanged even for a while after Send has
// returned, as the transport may still be reading it.
//
// Of a write there is at most one request on the wire: redirects are not followed, and net/http is kept
// from repeating it by itself when a reused connection dies or a stream is refused.
func (s *Sender) Send(ctx context.Context, r outbox.Request, key, token string) Exchange {
	return s.SendGated(ctx, r, key, token, nil)
}

// SendGated is Send with a gate: it is asked when a connection is there, as late as can be before the
// first byte, and false withholds the request (ErrWithheld). A machine may have slept while it dialed.
func (s *Sender) SendGated(ctx context.Context, r outbox.Request, key, token string, gate func() bool) Exchange {
	x := Exchange{Start: time.Now()}
	req, err := s.request(r, key, token)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		x.NeverSent = true
		x.Err = redact(err, r.Target, token)
		x.End = time.Now()
		return x
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	most := int32(1)
	if r.Method == http.MethodGet {
		most = maxSilentReads // a read may be repeated on the spot, when a reused connection has died
	}
	var sought, got, wrote atomic.Int32
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { sought.Add(1) },
		GotConn: func(info httptrace.GotConnInfo) {
			if gate != nil && !gate() {
				cancel(ErrWithheld)
				info.Conn.Close() // net/http may write the request before it looks at the context
			}
			// net/http repeats a request without a body when an HTTP/2 peer resets its stream, even without
			// end. The surplus request is stopped before its first byte.
			got.Add(1)
			if wrote.Load() >= most {
				cancel(errRepeat)
			}
		},
		WroteHeaders: func() { wrote.Add(1) },
	}
	// The transport is called directly: an http.Client would parse Location headers and add headers of
	// its own, and a write needs neither.
	_, own := s.Transport.(*http.Transport)
	x.Single = own && most == 1
	resp, err := s.Transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	switch {
	case err != nil:
		if cause := context.Cause(ctx); cause == errRepeat || cause == ErrWithheld {
			err = cause // rather than a cancellation that nobody asked for
		}
		// 'sought' guards against protocols registered on the transport, which report no connection.
		x.NeverSent = own && sought.Load() > 0 && got.Load() == 0
		x.Err = redact(err, r.Target, token)
	case resp == nil:
		x.Err = redact(errors.New("transport returned neither an answer nor an error"), r.Target, token)
	default:
		s.receive(&x, resp, r.Target, token)
	}
	x.End = time.Now()
	return x
}

// receive reads the answer into x and closes it.
func (s *Sender) receive(x *Exchange, resp *http.Response, target, token string) {
	x.Status, x.Header = resp.StatusCode, resp.Header
	if x.Header == nil {
		x.Header = http.Header{}
	}
	if resp.Body == nil {
		x.Whole = true
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 {
		// The body of a 101 is the connection itself and has no end.
		x.Err = redact(errors.New("answer without a final status"), target, token)
		return
	}
	limit := s.MaxBody
	if limit <= 0 {
		limit = DefaultMaxBody
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if int64(len(body)) > limit {
		x.Body, x.Whole, x.Oversize = body[:limit:limit], true, true
		return
	}
	x.Body = body
	if err == nil && endUnmarked(resp) && cutJSON(resp.Header, body) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		x.Err = redact(err, target, token)
		return
	}
	x.Whole = true
}

// endUnmarked reports whether only the closed connection marks the end of the body, so that a body that
// broke off looks like a whole one.
func endUnmarked(resp *http.Response) bool {
	return resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && !resp.Uncompressed
}

// cutJSON reports whether body is announced as JSON and ends before the JSON does.
func cutJSON(h http.Header, body []byte) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return false
	}
	var v json.RawMessage
	err = json.NewDecoder(bytes.NewReader(body)).Decode(&v)
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}
