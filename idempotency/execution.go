package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
)

// Outcome is what a handler says about its effect. It decides, before Options.Hold, what becomes of the record (S13).
type Outcome int

const (
	// Unspecified: the handler said nothing; the answer's status and Options.Hold decide.
	Unspecified Outcome = iota
	// NoEffect: nothing happened and a repeat may run: the key is free again.
	NoEffect
	// Rejected: finally refused, a repeat cannot change it: the answer is stored, the record is failed.
	Rejected
	// Committed: the effect is there: the answer is stored, whatever its status.
	Committed
	// Unknown: nobody knows. The first client gets the handler's answer, repeats get 503 result_unknown until
	// the record is reconciled.
	Unknown
)

// Causes of the end of a handler's context (context.Cause).
var (
	// ErrHandlerTimeout: Options.HandlerTimeout is over.
	ErrHandlerTimeout = errors.New("idempotency: handler timeout")
	// ErrLeaseEnded: the lease ended and could not be extended; another request may run the operation.
	ErrLeaseEnded = errors.New("idempotency: lease ended")
)

type executionKey struct{}

// ClaimFrom returns the claim under which a handler runs. False: the request is not protected (no key, other
// method, failed open).
func ClaimFrom(ctx context.Context) (Claim, bool) {
	x, ok := ctx.Value(executionKey{}).(*execution)
	if !ok {
		return Claim{}, false
	}
	return x.claim, true
}

// SetOutcome says what happened. The last word before the handler returns counts. It does nothing for
// unprotected requests. Safe for concurrent use.
func SetOutcome(ctx context.Context, o Outcome) {
	if x, ok := ctx.Value(executionKey{}).(*execution); ok {
		x.outcome.Store(int32(o))
	}
}

// MarkEffect makes it durable that an effect outside the engine's transaction is about to start. When it
// returns nil, a panic, a 5xx, a timeout or a lost lease makes the operation uncertain instead of free,
// whatever the options say; SetOutcome(NoEffect) still frees it. An error means: do not start the effect.
// It returns nil for unprotected requests.
func MarkEffect(ctx context.Context) error {
	x, ok := ctx.Value(executionKey{}).(*execution)
	if !ok {
		return nil
	}
	return x.markEffect(ctx)
}

// DownstreamKey derives the key for one step of an operation at another service (S8). It is the same for
// every repeat and every generation of the operation and tells nothing about tenant or key.
func DownstreamKey(c Claim, step string) string {
	id := c.Scope.ID()
	b := binary.AppendUvarint(id[:], uint64(len(step)))
	sum := sha256.Sum256(append(b, step...))
	return hex.EncodeToString(sum[:16])
}
