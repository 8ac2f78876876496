package idempotency

import (
	"context"
	"errors"
	"time"
)

// Engine keeps the records. Every method is one atomic, durable step: when it returns nil the new state
// survives a crash of the process, as far as the engine's storage does. Two callers never both get New or
// TakenOver for the same scope and generation (S3, S11).
//
// All methods are safe for concurrent use. An error that is not one of this package's sentinels means
// that the step's result is unknown (the storage failed); repeating the same call is always allowed.
type Engine interface {
	// Claim decides, in one step, what the caller may do with this request: run it (New, TakenOver),
	// send what is stored (Replay), or refuse it. A different fingerprint wins over every other
	// refusal (D18). See Decision.
	Claim(ctx context.Context, req ClaimRequest) (ClaimResult, error)

	// Complete stores the result of an operation whose effect is committed. Owner and generation decide,
	// no clock: a late completion by the rightful owner is accepted. Calling it again with the same claim
	// changes nothing and returns nil. ErrOwnershipLost: nothing was stored, the result must not be published.
	Complete(ctx context.Context, c Claim, r Result) error

	// Fail stores the result of an operation that was finally refused (S13, 'committed business
	// rejection'). It is Complete with the state Failed.
	Fail(ctx context.Context, c Claim, r Result) error

	// Release removes the record: the operation had no effect and the key is free again (F10).
	// A record this claim has finished already is kept: ErrFinished.
	Release(ctx context.Context, c Claim) error

	// Extend moves the end of the lease to now + lease and returns it. ErrOwnershipLost tells a worker
	// that somebody else owns the operation now.
	Extend(ctx context.Context, c Claim, lease time.Duration) (time.Time, error)

	// MarkEffect notes, before an effect outside the engine's own transaction starts, that from here on
	// the operation must not be run again by itself: a lost lease makes the record uncertain (S13).
	MarkEffect(ctx context.Context, c Claim) error

	// MarkUncertain says that nobody knows whether the effect happened. The record stays until
	// Reconcile or the rightful owner's late Complete, Fail or Release. note is for operators; it
	// must hold no personal data.
	MarkUncertain(ctx context.Context, c Claim, note string) error

	// Reconcile settles an uncertain record, or a processing one whose lease has ended. The generation
	// guards against settling a later attempt; ErrState says that there is nothing to settle,
	// ErrNotFound that there is no such record. The former owner can change nothing afterwards.
	Reconcile(ctx context.Context, id ID, generation int64, r Reconciliation) error

	// Get returns a record and, if it is finished and readable, its result. ErrNotFound if there is none or it has expired.
	Get(ctx context.Context, id ID) (Record, Result, error)

	// List returns up to f.Limit records in the order of their IDs.
	List(ctx context.Context, f Filter) ([]Record, error)

	// Sweep deletes up to limit expired records. Only completed and failed records expire; processing
	// and uncertain ones stay and show in Stats (S16).
	Sweep(ctx context.Context, limit int) (SweepReport, error)

	// Stats reports the figures of S16.
	Stats(ctx context.Context) (Stats, error)
}

// Errors of engines.
var (
	// ErrOwnershipLost: the record belongs to another owner or generation, or is gone. Nothing was changed.
	ErrOwnershipLost = errors.New("idempotency: ownership lost: another claim owns the operation or it is gone; nothing was changed")

	// ErrFinished: this claim finished the record already; what is stored stands.
	ErrFinished = errors.New("idempotency: already finished by this claim; what is stored stands")

	// ErrNotFound: there is no such record, or it has expired.
	ErrNotFound = errors.New("idempotency: no such record")

	// ErrState: the record's state or generation does not allow this.
	ErrState = errors.New("idempotency: the record's state does not allow this")

	// ErrFull: the engine holds as many records as it may. Nothing was claimed.
	ErrFull = errors.New("idempotency: the engine is full")

	// ErrRequest: the ClaimRequest is senseless (empty scope, no lease, no retention). Nothing was claimed.
	ErrRequest = errors.New("idempotency: invalid claim request")

	// ErrResultFormat: a stored result cannot be decoded, for example because a newer release wrote it.
	ErrResultFormat = errors.New("idempotency: stored result cannot be decoded")

	// ErrSerialization: the caller's own transaction must be rolled back and may be run again. It says
	// nothing about ownership.
	ErrSerialization = errors.New("idempotency: transaction must be rolled back and run again")
)

// Reconciliation is the decision about an uncertain record.
type Reconciliation struct {
	// Verdict is what was found out.
	Verdict Verdict
	// Result is what repeats get from now on; not used with DidNotHappen.
	Result Result
	// Retention replaces the record's own retention if positive.
	Retention time.Duration
}

// Verdict is what a reconciliation found out.
type Verdict int

const (
	// Happened: the effect is there; the record becomes completed.
	Happened Verdict = iota + 1
	// Refused: the operation was finally refused; the record becomes failed.
	Refused
	// DidNotHappen: there is no effect; the record is removed and the key is free.
	DidNotHappen
)

// Filter selects records for List. The zero Filter selects all.
type Filter struct {
	Tenant string  // "" = every tenant
	States []State // none = every state
	After  ID      // only records with a greater ID: the cursor for the next page
	Limit  int     // 0 = 100
}

// SweepReport says what one call of Sweep did.
type SweepReport struct {
	Deleted int
	Bytes   int64 // size of what was deleted, as the engine counts size
	More    bool  // expired records may be left: call again
}
