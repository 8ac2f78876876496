package flavoso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/internal/wire"
)

// Response is what an answer said besides its body.
type Response struct {
	Status    int
	Header    http.Header
	RequestID string // for Flavoso's support (F1)
	Attempts  int    // requests it took
}

// ReadOption changes one read.
type ReadOption func(*readOptions)

type readOptions struct {
	response *Response
	attempts int // requests at most; 0 = as many as the context allows
}

// ResponseInto stores what the last answer said, also when the read fails. Nothing is stored when there
// was no answer.
func ResponseInto(r *Response) ReadOption {
	return func(o *readOptions) { o.response = r }
}

// Get reads any path, relative to the base URL, and decodes the answer into T. Reads save nothing. It
// retries what may pass until ctx ends, or for Config.MaxWait when ctx has no deadline, and then returns a
// *ReadError. A definite refusal is an *APIError, a body that does not fit T a *DecodeError.
func Get[T any](ctx context.Context, c *Client, path string, q url.Values, opts ...ReadOption) (*T, error) {
	var o readOptions
	for _, opt := range opts {
		opt(&o)
	}
	target := path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	if err := checkTarget(target); err != nil {
		return nil, err
	}
	x, v, err := c.read(ctx, target, &o)
	if err != nil {
		return nil, err
	}
	path, _, _ = strings.Cut(path, "?") // as in read
	kind := "get " + path
	if v.Class != wire.Success {
		return nil, &APIError{Kind: kind, Status: v.Status, Code: v.Code, Message: v.Message, Param: v.Param,
			RequestID: v.RequestID, Body: x.Body}
	}
	value := new(T)
	if err := json.Unmarshal(x.Body, value); err != nil {
		return nil, &DecodeError{Kind: kind, Status: v.Status, RequestID: v.RequestID, Body: x.Body, Err: err}
	}
	return value, nil
}

// read makes one read with its retries, unless the client is closed.
func (c *Client) read(ctx context.Context, target string, o *readOptions) (wire.Exchange, wire.Verdict, error) {
	path, _, _ := strings.Cut(target, "?") // a query may hold guests' data
	if o == nil {
		o = &readOptions{}
	}
	if c.invalid != nil {
		return wire.Exchange{}, wire.Verdict{}, c.invalid
	}
	if c.ctx.Err() != nil {
		return wire.Exchange{}, wire.Verdict{}, &ReadError{Path: path, Err: ErrClosed}
	}
	if ctx.Err() != nil {
		return wire.Exchange{}, wire.Verdict{}, &ReadError{Path: path, Err: dispatch.ContextError(ctx)}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(ErrStopped) })()
	ctx, done := c.bounded(ctx)
	defer done()

	var last *Attempt
	used := ""
	token := func(ctx context.Context, rejected string) (token string, err error) {
		used, err = c.cfg.token(ctx, rejected)
		return used, err
	}
	x, v, attempts, err := c.sender.Read(ctx, target, token, wire.ReadOptions{
		Delay:          c.cfg.delay,
		MaxAttempts:    o.attempts,
		AttemptTimeout: c.cfg.AttemptTimeout,
		SeenRequestID:  c.dispatcher.SeenRequestID(ctx, c.cfg.Connection),
		OnAttempt: func(n int, x wire.Exchange, v wire.Verdict) {
			c.dispatcher.Observe(c.cfg.Connection, used, v)
			last = &Attempt{N: n, Start: x.Start, End: x.End, Status: v.Status, Code: v.Code, RequestID: v.RequestID,
				Err: v.Reason, NeverSent: v.NeverSent, RetryAfter: v.RetryAfter, Verdict: v.Class.String()}
		},
	})
	if o.response != nil && v.Status != 0 {
		*o.response = Response{Status: v.Status, Header: x.Header, RequestID: v.RequestID, Attempts: attempts}
	}
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) { // it comes from what the token source waited for
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return x, v, &ReadError{Path: path, Attempts: attempts, Last: last, Err: readCause(err, v, x)}
	}
	return x, v, nil
}

// readCause is what a failed read unwraps to: the answer it ended with, if there was one from Flavoso.
func readCause(err error, v wire.Verdict, x wire.Exchange) error {
	if !v.Authored || v.Class == wire.SuccessCut {
		return err
	}
	return fmt.Errorf("%w: %w", err, &APIError{Status: v.Status, Code: v.Code, Message: v.Message, Param: v.Param,
		RequestID: v.RequestID, Body: x.Body})
}

// bounded gives a context without a deadline Config.MaxWait.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok || c.cfg.MaxWait == maxDuration {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.cfg.MaxWait)
}
