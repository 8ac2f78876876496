package flavoso

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Fate is what a caller needs to know of an operation in the end. See [FateOf].
type Fate int

const (
	// FateUnknown: not known yet, saved and being taken care of ([PendingError]); or parked until somebody
	// decides ([UncertainError]). The zero value, so that a forgotten case is the careful one.
	FateUnknown Fate = iota
	// FateDone: done exactly once. The error, if any, says what to look at ([UnexpectedStateError],
	// [DecodeError]).
	FateDone
	// FateRefused: Flavoso decided against it ([APIError]).
	FateRefused
	// FateNotSent: this call saved and sent nothing, and nothing will come of it. What an earlier call has
	// saved goes on all the same.
	FateNotSent
)

func (f Fate) String() string {
	switch f {
	case FateDone:
		return "done"
	case FateRefused:
		return "refused"
	case FateNotSent:
		return "not sent"
	default:
		return "unknown"
	}
}

// FateOf says what became of an operation, from the error that [Call.Do], [Call.Enqueue],
// [Pending.Wait] or [Result] returned. An error of another origin is FateUnknown.
func FateOf(err error) Fate {
	var (
		unexpected *UnexpectedStateError
		decode     *DecodeError
		api        *APIError
	)
	switch {
	case err == nil:
		return FateDone
	case errors.Is(err, ErrUnknown):
		return FateUnknown
	case errors.As(err, &unexpected), errors.As(err, &decode):
		return FateDone
	case errors.As(err, &api):
		return FateRefused
	case errors.Is(err, ErrNotSaved), errors.Is(err, errNeverSent):
		return FateNotSent
	}
	return FateUnknown
}

// Umbrellas: which kind of trouble it is. Use them with errors.Is.
var (
	// ErrUnknown covers everything whose outcome is not known: PendingError, UncertainError, SaveError.
	ErrUnknown = errors.New("flavoso: outcome not known")
	// ErrNotSaved covers everything that was not even saved: nothing happened and nothing will.
	ErrNotSaved = errors.New("flavoso: not saved, nothing was sent")
	// errNeverSent covers what was saved and provably never sent.
	errNeverSent = errors.New("flavoso: never sent")
)

// Sentinels for errors.Is.
var (
	ErrPending   = errors.New("flavoso: pending")   // a PendingError
	ErrUncertain = errors.New("flavoso: uncertain") // an UncertainError
	ErrBlocked   = errors.New("flavoso: blocked")   // a PendingError of an operation that is not sent by itself any more

	ErrConflict     = errors.New("flavoso: conflict")          // an APIError with code conflict
	ErrKeyReused    = errors.New("flavoso: key reused")        // a KeyReusedError, or an APIError with code idempotency_key_reused
	ErrNotFound     = errors.New("flavoso: not found")         // an APIError or ReadError with status 404; an unknown operation id
	ErrInvalid      = errors.New("flavoso: invalid")           // an APIError with code invalid_request or validation_failed
	ErrUnauthorized = errors.New("flavoso: unauthorized")      // an APIError or ReadError with status 401
	ErrForbidden    = errors.New("flavoso: forbidden")         // an APIError or ReadError with status 403
	ErrRateLimited  = errors.New("flavoso: rate limited")      // a ReadError that gave up on status 429
	ErrStopped      = errors.New("flavoso: client was closed") // cause of a PendingError when the client was closed meanwhile

	ErrClosed         error = sentinel{"flavoso: client is closed", ErrNotSaved}
	ErrOutboxFull     error = outbox.ErrFull
	ErrOutboxLocked   error = outbox.ErrLocked
	ErrOutboxDamaged  error = outbox.ErrDamaged
	ErrOutboxReadOnly error = outbox.ErrReadOnly
	ErrOutboxFault    error = outbox.ErrFault

	ErrExpired           error = sentinel{"flavoso: expired before it was ever sent", errNeverSent}
	ErrOperationCanceled error = sentinel{"flavoso: canceled before it was ever sent", errNeverSent}
)

// sentinel is a value to compare with that also belongs under an umbrella.
type sentinel struct {
	text     string
	umbrella error
}

func (s sentinel) Error() string        { return s.text }
func (s sentinel) Is(target error) bool { return target == s.umbrella }

// ParamError says which input is wrong and which rule it breaks. Nothing was saved or sent.
type ParamError struct {
	Field string // in the API's own spelling, e.g. "preparation_minutes"
	Rule  string // what must hold
}

func (e *ParamError) Error() string { return fmt.Sprintf("flavoso: %s: %s", e.Field, e.Rule) }

// Is matches ErrNotSaved.
func (e *ParamError) Is(target error) bool { return target == ErrNotSaved }

// NotSavedError says that an operation was not saved, and why: the context ended first, the client is
// closed, the outbox is full, damaged or read-only (errors.Is on the cause). Nothing was sent.
type NotSavedError struct {
	Err error
}

func (e *NotSavedError) Error() string {
	return fmt.Sprintf("flavoso: not saved, nothing was sent: %v", e.Err)
}

// Is matches ErrNotSaved.
func (e *NotSavedError) Is(target error) bool { return target == ErrNotSaved }
func (e *NotSavedError) Unwrap() error        { return e.Err }

// unopened is why an outbox cannot be used: nothing was saved.
type unopened struct{ error }

func (e unopened) Is(target error) bool { return target == ErrNotSaved }
func (e unopened) Unwrap() error        { return e.error }

// SaveError says that the commit's result is unknown: the operation may be in the outbox or not. It was
// not sent now. Doing the same [Call] again, or a new one with the same key, settles it.
type SaveError struct {
	OperationID string
	Key         Key
	Err         error
}

func (e *SaveError) Error() string {
	return fmt.Sprintf("flavoso: operation %s: it is not known whether it was saved; it was not sent now; do the same call again to settle it: %v", e.OperationID, e.Err)
}

// Is matches ErrUnknown.
func (e *SaveError) Is(target error) bool { return target == ErrUnknown }
func (e *SaveError) Unwrap() error        { return e.Err }

// Attempt is one try as data.
type Attempt = outbox.Attempt

// PendingError says that the outcome is not known yet: the operation is saved and goes on by itself,
// also after a restart. Take it up again with [Attach], with the same key, or with Config.OnOutcome.
// It unwraps to the caller's context error, to ErrStopped when the client was closed meanwhile, or to
// ErrBlocked.
type PendingError struct {
	OperationID string
	Key         Key       // the wire key; "" where Flavoso has none
	State       State     // queued, sent or blocked; "" when the client was closed before it could be looked up
	Attempts    int       // started so far
	FirstSent   time.Time // since when it may have been sent; zero = provably never
	NextAttempt time.Time // earliest moment of the next attempt
	Last        *Attempt  // the latest attempt as data; nil before the first one ended
	Err         error     // why the wait ended

	foreign string // the operation's connection, where the client that was asked is another's
}

func (e *PendingError) Error() string {
	var b strings.Builder
	if e.State == "" {
		return fmt.Sprintf("flavoso: operation %s: what became of it cannot be looked up: %v", e.OperationID, e.Err)
	}
	fmt.Fprintf(&b, "flavoso: operation %s is saved, its outcome is not known yet (%s, attempts: %d", e.OperationID, e.State, e.Attempts)
	if e.Last != nil {
		fmt.Fprintf(&b, ", last: %s", describeAttempt(e.Last))
	}
	b.WriteString("); ")
	switch {
	case e.State == StateBlocked:
		b.WriteString("it waits for a decision: see Operations")
	case e.foreign != "":
		fmt.Fprintf(&b, "it is of the connection %q, and waits for a client of that", e.foreign)
	case e.Is(ErrUnauthorized):
		b.WriteString("it waits for a token that Flavoso accepts: see Status.AuthRequired")
	default:
		b.WriteString("it goes on by itself")
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Is matches ErrPending and ErrUnknown, and ErrUnauthorized when Flavoso refused the token.
func (e *PendingError) Is(target error) bool {
	return target == ErrPending || target == ErrUnknown || target == ErrUnauthorized && e.Last != nil && e.Last.Status == 401
}
func (e *PendingError) Unwrap() error { return e.Err }

// UncertainError says that the operation may have been done and that nothing can tell any more by
// itself. It is parked: decide with Operations.Resolve. Its lane is held meanwhile.
type UncertainError struct {
	OperationID string
	Key         Key
	Reason      string // machine-readable, e.g. "window_passed", "damaged"
	Message     string
	Attempts    int
	FirstSent   time.Time
	Last        *Attempt
}

func (e *UncertainError) Error() string {
	return fmt.Sprintf("flavoso: operation %s may have been done and nothing can tell by itself (%s); it is parked for a decision: see Operations.Resolve", e.OperationID, e.Reason)
}

// Is matches ErrUncertain and ErrUnknown.
func (e *UncertainError) Is(target error) bool { return target == ErrUncertain || target == ErrUnknown }

// AbandonedError says that the operation was given up: by somebody's decision, or because what it asked for was over
// before anybody could know whether it was done, as a pause may be. It is not sent again. When it may have been
// sent before (MaybeSent), errors.Is(err, ErrUnknown) holds; otherwise nothing happened.
type AbandonedError struct {
	OperationID string
	Key         Key
	MaybeSent   bool   // false = provably nothing happened
	Note        string // who or what gave it up, and why
}

func (e *AbandonedError) Error() string {
	return fmt.Sprintf("flavoso: operation %s was given up (may have been sent: %t)", e.OperationID, e.MaybeSent)
}

// Is matches ErrUnknown when the operation may have been sent.
func (e *AbandonedError) Is(target error) bool {
	if e.MaybeSent {
		return target == ErrUnknown
	}
	return target == errNeverSent
}

// SupersededError says that a newer write replaced this one before it was ever sent.
type SupersededError struct {
	OperationID string
	By          string // the newer operation's id
}

func (e *SupersededError) Error() string {
	return fmt.Sprintf("flavoso: operation %s was never sent: operation %s replaced it", e.OperationID, e.By)
}

// Is makes its fate FateNotSent.
func (e *SupersededError) Is(target error) bool { return target == errNeverSent }

// KeyReusedError says that the key already stands for other content in this outbox: the same order
// accepted with other minutes, the same booking reference with another party. Nothing of this call was saved
// or sent; the operation that the key stands for goes on, or is done, as State says. The text names the call
// that changes what is there, or that makes this one an operation of its own. errors.Is(err, ErrKeyReused) holds.
type KeyReusedError struct {
	Kind        string // which call
	Resource    string // what it is about
	Key         Key
	OperationID string // the operation the key stands for; see Client.Operations
	State       State
}

func (e *KeyReusedError) Error() string {
	what := e.Kind
	if e.Resource != "" {
		what += " " + e.Resource
	}
	return fmt.Sprintf("flavoso: %s: operation %s (%s) stands for this already, with other content; nothing of this call was saved or sent; %s",
		what, e.OperationID, e.State, e.advice())
}

// advice says what to call instead.
func (e *KeyReusedError) advice() string {
	k, _ := kindNamed(e.Kind)
	instead := k.instead
	if instead == "" {
		instead = "for an operation of its own give this call another key (WithKey)"
	}
	switch {
	case e.State == StateQueued:
		instead += ", or withdraw that one before it is sent (Operations.Cancel) and repeat this"
	case e.State.Parked():
		instead = "decide about that one first (Operations.Resolve); then " + instead
	}
	return instead
}

// Is matches ErrKeyReused and ErrNotSaved.
func (e *KeyReusedError) Is(target error) bool {
	return target == ErrKeyReused || target == ErrNotSaved
}

// APIError is Flavoso's decision against a request: definite, nothing was changed by it.
type APIError struct {
	Kind        string // which call, e.g. "orders.accept"
	OperationID string // empty for reads
	Key         Key
	Status      int    // HTTP status; 0 when it was not an answer that decided, but what was read back
	Code        string // the API's code; empty when the answer had none
	Message     string // the API's words, for people
	Param       string // the field it is about
	RequestID   string
	Body        []byte // the answer's body; may hold guests' data, so do not log it
	Attempts    int
	Replayed    bool // the decision was made earlier and replayed (F6)
}

func (e *APIError) Error() string {
	var b strings.Builder
	b.WriteString("flavoso: ")
	if e.Kind != "" {
		b.WriteString(e.Kind + ": ")
	}
	b.WriteString("refused")
	if e.Status != 0 {
		fmt.Fprintf(&b, " with %d", e.Status)
	}
	if e.Code != "" {
		b.WriteString(" " + e.Code)
	}
	if e.Param != "" {
		b.WriteString(" (" + e.Param + ")")
	}
	if e.Message != "" {
		b.WriteString(": " + truncate(e.Message, 200))
	}
	if e.RequestID != "" {
		b.WriteString(" [" + e.RequestID + "]")
	}
	return b.String()
}

// Is compares by code where the answer had one, else by status.
func (e *APIError) Is(target error) bool {
	switch target {
	case ErrConflict:
		return e.Code == "conflict" || e.Code == "" && e.Status == 409
	case ErrKeyReused:
		return e.Code == "idempotency_key_reused"
	case ErrNotFound:
		return e.Code == "not_found" || e.Code == "" && (e.Status == 404 || e.Status == 410)
	case ErrInvalid:
		return e.Code == "invalid_request" || e.Code == "validation_failed" || e.Code == "" && (e.Status == 400 || e.Status == 422)
	case ErrUnauthorized:
		return e.Status == 401
	case ErrForbidden:
		return e.Status == 403
	case ErrRateLimited:
		return e.Status == 429
	}
	return false
}

// LogValue gives a log line what is safe to log: no message, no body.
func (e *APIError) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("kind", e.Kind), slog.String("operation", e.OperationID), slog.Int("status", e.Status),
		slog.String("code", e.Code), slog.String("request_id", e.RequestID), slog.Int("attempts", e.Attempts))
}

// UnexpectedStateError says that the call was answered with success, but the resource is not in the state
// that was asked for: accepting a cancelled order gives it back unchanged with 200 (F13). Nothing is to be
// repeated. For an order: do not cook it.
type UnexpectedStateError struct {
	Kind        string // which call
	OperationID string
	Resource    string // its id
	Want        string // what was asked for
	Got         string // what it is
	RequestID   string
	Body        []byte // the resource as answered; may hold guests' data, so do not log it
}

func (e *UnexpectedStateError) Error() string {
	return fmt.Sprintf("flavoso: %s: answered, but %s is %q, not %q", e.Kind, e.Resource, e.Got, e.Want)
}

// DecodeError says that the operation was done and its answer does not fit the Go type. The raw body is kept.
type DecodeError struct {
	Kind        string
	OperationID string
	Status      int
	RequestID   string
	Body        []byte // the answer; may hold guests' data, so do not log it
	Err         error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("flavoso: %s: done (%d), but its answer cannot be read: %v", e.Kind, e.Status, e.Err)
}
func (e *DecodeError) Unwrap() error { return e.Err }

// ReadError says that a read gave up. It unwraps to the last error: an *APIError for an answer, else the
// transport's or the context's error.
type ReadError struct {
	Path     string
	Attempts int
	Last     *Attempt
	Err      error
}

func (e *ReadError) Error() string {
	return fmt.Sprintf("flavoso: reading %s failed (attempts: %d): %v", e.Path, e.Attempts, e.Err)
}
func (e *ReadError) Unwrap() error { return e.Err }

// HeldError says that [Client.Flush] cannot finish: something is parked, paused or waits for a token, or Flavoso
// could not be reached while it was waited for. It unwraps to the context's error in the last case.
type HeldError struct {
	Waiting      int       // operations still waiting
	HeldLanes    int       // lanes held by an uncertain, blocked or damaged operation
	AuthRequired bool      // Flavoso refuses the token
	PausedUntil  time.Time // Flavoso asked to wait until then; zero = it did not
	OfflineSince time.Time // Flavoso cannot be reached; zero = it can
	Err          error     // what ended the wait for the network; nil = nothing was waited for
}

func (e *HeldError) Error() string {
	why := fmt.Sprintf("%d lanes wait for a decision", e.HeldLanes)
	switch {
	case e.AuthRequired:
		why = "Flavoso refuses the token"
	case !e.PausedUntil.IsZero():
		why = "Flavoso asked to wait until " + e.PausedUntil.UTC().Format(time.RFC3339)
	case !e.OfflineSince.IsZero():
		return fmt.Sprintf("flavoso: still offline since %s, operations waiting: %d", e.OfflineSince.UTC().Format(time.RFC3339), e.Waiting)
	}
	return fmt.Sprintf("flavoso: waiting would not help, operations waiting: %d: %s", e.Waiting, why)
}
func (e *HeldError) Unwrap() error { return e.Err }

// notSaved gives an engine's refusal or an early end its public form.
func notSaved(err error) error {
	var param *ParamError
	switch {
	case errors.As(err, &param):
		return err
	case errors.Is(err, outbox.ErrClosed):
		return ErrClosed
	}
	return &NotSavedError{Err: err}
}

func describeAttempt(a *Attempt) string {
	switch {
	case a.Status != 0 && a.Code != "":
		return fmt.Sprintf("%d %s", a.Status, a.Code)
	case a.Status != 0:
		return fmt.Sprint(a.Status)
	case a.NeverSent:
		return "not reached: " + a.Err
	}
	return a.Err
}

func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
