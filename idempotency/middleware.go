package idempotency

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
)

// NewMiddleware returns a middleware that protects handlers by records in engine. An error says which
// option is missing or senseless.
func NewMiddleware(engine Engine, opts Options) (func(http.Handler) http.Handler, error) {
	return nil, errors.New("idempotency: middleware follows")
}

type execution struct {
	claim   Claim
	outcome atomic.Int32
}

func (x *execution) markEffect(ctx context.Context) error { return nil }
