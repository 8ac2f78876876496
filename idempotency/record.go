package idempotency

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// Scope is what a record is keyed by (S2): the same key of another tenant or another operation is
// another record.
type Scope struct {
	Tenant    string // the authenticated caller; never empty
	Operation string // what is done; a constant where the key alone decides (D1)
	Key       string // the client's key, opaque (S6)
}

// ID is the record's primary key: a hash over the length-prefixed parts of its Scope. It is stable,
// shows neither tenant nor key, and may appear in URLs and logs.
type ID [32]byte

// ID returns the identity of the record of this scope.
func (s Scope) ID() ID {
	var stack [512]byte
	b := append(stack[:0], 1) // version of this encoding
	for _, part := range [...]string{s.Tenant, s.Operation, s.Key} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads what ID.String wrote.
func ParseID(s string) (ID, error) {
	var id ID
	if err := unhex(id[:], []byte(s), "ID"); err != nil {
		return ID{}, err
	}
	return id, nil
}

// Owner is the random token of one claim. Whoever presents it, together with the generation, owns the
// operation (S11).
type Owner [16]byte

// NewOwner makes a token nobody can guess.
func NewOwner() Owner {
	var o Owner
	rand.Read(o[:]) // never fails (crypto/rand)
	return o
}

func (o Owner) String() string { return hex.EncodeToString(o[:]) }

// MarshalText writes the token as hex digits.
func (o Owner) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (o *Owner) UnmarshalText(text []byte) error { return unhex(o[:], text, "owner") }

// State is the state of a record (S4).
type State string

const (
	Processing State = "processing" // claimed; the handler runs, or its process died
	Completed  State = "completed"  // effect and result are committed
	Failed     State = "failed"     // finally refused; the refusal is stored
)

// Uncertain is a State (nobody knows whether the effect happened), the Decision about a claim that
// meets such a record, and the LeasePolicy that makes records with a lapsed lease such: some operations
// must not run again by themselves. The constant is untyped so that it is all three.
const Uncertain = "uncertain"

// Finished reports whether records in this state are replayed and expire.
func (s State) Finished() bool { return s == Completed || s == Failed }

// Record is what an engine knows about one operation, without the stored result.
type Record struct {
	Scope       Scope
	State       State
	Generation  int64 // grows with every claim; later claims of a scope have greater ones
	Fingerprint Fingerprint
	Effect      bool   // MarkEffect was called
	Note        string // why it is uncertain
	Status      int    // HTTP status of the stored result, 0 = none
	Size        int64  // bytes of the stored result
	CreatedAt   time.Time
	LeaseUntil  time.Time
	FinishedAt  time.Time // zero = not finished
	ExpiresAt   time.Time // zero = does not expire
}

// Claim is the right to run an operation and to finish it. It is plain data: another process may
// finish what it was handed.
type Claim struct {
	Scope      Scope
	Owner      Owner
	Generation int64
	LeaseUntil time.Time // on the engine's clock
}

// ClaimRequest is a request for the right to run an operation.
type ClaimRequest struct {
	Scope       Scope
	Fingerprint Fingerprint
	Lease       time.Duration // how long the claim counts without a sign of life; positive
	Retention   time.Duration // how long a result is held; positive
	HoldFrom    HoldFrom
	OnLeaseLost LeasePolicy
}

// Validate returns an error wrapping ErrRequest if no engine could honour the request.
func (r ClaimRequest) Validate() error {
	switch {
	case r.Scope.Tenant == "":
		return fmt.Errorf("%w: empty tenant (it would mean 'everyone')", ErrRequest)
	case r.Scope.Key == "":
		return fmt.Errorf("%w: empty key", ErrRequest)
	case r.Lease <= 0:
		return fmt.Errorf("%w: lease %v is not positive", ErrRequest, r.Lease)
	case r.Retention <= 0:
		return fmt.Errorf("%w: retention %v is not positive", ErrRequest, r.Retention)
	}
	return nil
}

// HoldFrom says where the retention starts.
type HoldFrom string

const (
	FromCompletion HoldFrom = "completion" // the moment the result was stored (D13); "" means this
	FromReceipt    HoldFrom = "receipt"    // the moment of the claim
)

// LeasePolicy says what a lease that ended without a result means: Takeover, Uncertain or FreeKey. A
// record with an effect mark becomes uncertain under every policy. "" means Takeover.
type LeasePolicy string

const (
	// Takeover lets the next request with the same fingerprint run the operation again.
	Takeover LeasePolicy = "takeover"
	// FreeKey lets the next request run whatever its fingerprint is: the key is free again (F9).
	FreeKey LeasePolicy = "free_key"
)

// Decision is an engine's answer to a claim: one of the constants below, or Uncertain: nobody knows
// whether the operation had its effect, and it waits for reconciliation.
type Decision string

const (
	// New: the caller owns a record that did not exist, or had expired.
	New Decision = "new"
	// TakenOver: the caller owns the operation with a new generation; a former owner's lease had ended.
	TakenOver Decision = "taken_over"
	// Replay: the operation is finished and its result is in ClaimResult.Result.
	Replay Decision = "replay"
	// InProgress: another claim is alive.
	InProgress Decision = "in_progress"
	// Mismatch: the key belongs to another request (S5, F7).
	Mismatch Decision = "mismatch"
	// ResultGone: the operation is finished, but its result was too large to be stored or cannot be
	// decoded (ClaimResult.Err). It must not run again.
	ResultGone Decision = "result_gone"
)

// ClaimResult is the answer to a ClaimRequest.
type ClaimResult struct {
	Decision Decision
	Claim    Claim  // New, TakenOver
	Record   Record // the record as it is now
	Result   Result // Replay
	Err      error  // ResultGone: why, if known
}
