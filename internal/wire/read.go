package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/flavoso/flavoso-go/internal/delay"
	"github.com/flavoso/flavoso-go/outbox"
)

// ReadOptions says how a read is repeated.
type ReadOptions struct {
	// Delay is how long to wait after the attempt-th failure, from 0; nil = delay.Default.
	Delay func(attempt int) time.Duration
	// MaxAttempts bounds the attempts; 0 = only the context does.
	MaxAttempts int
	// AttemptTimeout bounds one attempt; 0 = only the context does.
	AttemptTimeout time.Duration
	// SeenRequestID: see Facts.
	SeenRequestID bool
	// Accept is the Accept header; "" = "application/json".
	Accept string
	// OnAttempt is called after every exchange, in the calling goroutine.
	OnAttempt func(n int, x Exchange, v Verdict)
}

// ErrGaveUp is the error a read ends with when there was no answer to rely on; see [ReadError].
var ErrGaveUp = errors.New("no answer to rely on")

// ReadError says that a read gave up. errors.Is finds ErrGaveUp and the context's error, if that ended
// it, as well as the last attempt's error.
type ReadError struct {
	Attempts int
	Context  error // why the waiting ended; nil = the attempts were used up
	Last     error // the last exchange's error; nil when it had an answer
	Reason   string
}

func (e *ReadError) Error() string {
	text := ErrGaveUp.Error()
	if e.Reason != "" {
		text += ", last: " + e.Reason
	}
	if e.Context != nil {
		text += ": " + e.Context.Error()
	}
	return text
}

func (e *ReadError) Unwrap() []error {
	errs := []error{ErrGaveUp}
	if e.Context != nil {
		errs = append(errs, e.Context)
	}
	if e.Last != nil {
		errs = append(errs, e.Last)
	}
	return errs
}

// Read GETs target until there is an authored, whole answer that repeating would not change, and returns
// it with its verdict and the number of requests. Broken exchanges, answers that are not Flavoso's, cut
// ones, 5xx, 429 and the like are repeated until the context ends or the attempts are used up; then the
// error is a *ReadError, and the last exchange and verdict are returned with it. A wait that would outlast
// the context's deadline is not begun. A 401 has the token asked for once more; a second one is an answer.
//
// token returns the access token; rejected is the one that was just refused, "" at first. Its error ends
// the read and is returned as it is.
func (s *Sender) Read(ctx context.Context, target string, token func(ctx context.Context, rejected string) (string, error), o ReadOptions) (Exchange, Verdict, int, error) {
	r := &read{sender: s, target: target, token: token, o: o, seen: o.SeenRequestID}
	if o.Delay == nil {
		r.o.Delay = delay.Default
	}
	retries := math.MaxInt
	if o.MaxAttempts > 0 {
		retries = o.MaxAttempts - 1
	}
	loop := &retryablehttp.Client{
		HTTPClient: &http.Client{
			// r keeps the shared transport out of sight, so that giving up does not close its idle connections.
			Transport:     r,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Logger:       nil, // the library's default writes URLs to standard error
		RetryMax:     retries,
		CheckRetry:   r.check,
		Backoff:      func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return r.wait },
		ErrorHandler: r.give,
	}
	u, err := s.url(target)
	if err != nil {
		return Exchange{NeverSent: true, Err: err}, Verdict{NeverSent: true, Reason: err.Error()}, 0, err
	}
	first, err := retryablehttp.FromRequest((&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{}}).WithContext(ctx))
	if err != nil {
		err = redact(err, target, "")
		return Exchange{NeverSent: true, Err: err}, Verdict{NeverSent: true, Reason: err.Error()}, 0, err
	}
	// What counts is kept in r; the library's response and error say less.
	if resp, _ := loop.Do(first); resp != nil {
		resp.Body.Close()
	}
	return r.x, r.v, r.attempts, r.outcome(ctx)
}

// outcome is the error the read ends with.
func (r *read) outcome(ctx context.Context) error {
	switch {
	case r.fatal != nil:
		return r.fatal
	case r.done:
		return nil
	}
	gaveUp := &ReadError{Attempts: r.attempts, Context: r.ended, Last: r.x.Err, Reason: r.reason()}
	if gaveUp.Context == nil {
		gaveUp.Context = context.Cause(ctx)
	}
	return gaveUp
}

// read is one Read under way. retryablehttp runs everything in the calling goroutine, one after the other.
type read struct {
	sender *Sender
	target string
	token  func(context.Context, string) (string, error)
	o      ReadOptions

	seen     bool          // an answer with F1's request id was seen
	current  string        // the token in use
	renewed  bool          // the token was asked for a second time
	attempts int           // requests so far
	failures int           // failures so far: the argument of Delay
	wait     time.Duration // before the next attempt
	x        Exchange
	v        Verdict
	done     bool  // x is the answer
	fatal    error // there will be no answer: the token source failed
	ended    error // the context's error that ended it
}

// RoundTrip is one attempt, with the renewal of a refused token. What counts is kept in r; the response
// is only what the library wants to see.
func (r *read) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if r.current == "" {
		if r.fatal = r.renew(ctx); r.fatal != nil {
			return nil, r.fatal
		}
	}
	r.exchange(ctx)
	if r.v.Class == Unauthorized && !r.renewed {
		r.renewed = true
		refused := r.current
		if r.fatal = r.renew(ctx); r.fatal != nil {
			return nil, r.fatal
		}
		if r.current != refused {
			r.exchange(ctx)
		}
	}
	if r.x.Status == 0 {
		if r.x.Err == nil {
			return nil, ErrGaveUp
		}
		return nil, r.x.Err
	}
	return &http.Response{
		StatusCode: r.x.Status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{}, // no Location: nothing is to be followed
		Body:          io.NopCloser(bytes.NewReader(nil)),
		ContentLength: 0,
		Request:       req,
	}, nil
}

func (r *read) renew(ctx context.Context) error {
	token, err := r.token(ctx, r.current)
	if err != nil {
		return err
	}
	if !validToken(token) {
		return ErrBadToken
	}
	r.current = token
	return nil
}

func (r *read) exchange(ctx context.Context) {
	if r.o.AttemptTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.o.AttemptTimeout)
		defer cancel()
	}
	accept := r.o.Accept
	if accept == "" {
		accept = "application/json"
	}
	r.attempts++
	r.x = r.sender.Send(ctx, outbox.Request{Method: http.MethodGet, Target: r.target, Accept: accept}, "", r.current)
	r.v = Judge(r.x, Facts{SeenRequestID: r.seen, Clean: true}, r.x.End)
	r.seen = r.seen || r.v.RequestID != ""
	if r.o.OnAttempt != nil {
		r.o.OnAttempt(r.attempts, r.x, r.v)
	}
}

// check decides whether to go on (retryablehttp.CheckRetry).
func (r *read) check(ctx context.Context, _ *http.Response, _ error) (bool, error) {
	if r.fatal != nil {
		return false, r.fatal
	}
	switch r.v.Class {
	case Broken, SuccessCut, InProgress, Retry, NotAuthored:
	default:
		r.done = true
		return false, nil
	}
	if r.ended = context.Cause(ctx); r.ended != nil {
		return false, r.ended
	}
	r.wait = r.o.Delay(r.failures)
	if r.v.RetryAfter > 0 {
		r.wait += r.v.RetryAfter // jittered upward only
	}
	r.failures++
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < r.wait {
		r.ended = context.DeadlineExceeded
		return false, r.ended
	}
	return true, nil
}

// give hands the last answer back as it is (retryablehttp.ErrorHandler): Read decides what it means.
func (r *read) give(resp *http.Response, err error, _ int) (*http.Response, error) {
	return resp, err
}

func (r *read) reason() string {
	switch {
	case r.v.Reason != "":
		return r.v.Reason
	case r.v.Code != "":
		return fmt.Sprintf("%d %s", r.v.Status, r.v.Code)
	case r.v.Status != 0:
		return fmt.Sprint(r.v.Status)
	}
	return ""
}
