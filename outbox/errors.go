package outbox

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Errors of engines. All of them say that nothing was saved, except *SaveError.
var (
	ErrClosed        = errors.New("outbox: closed")
	ErrNotFound      = errors.New("outbox: no such operation")
	ErrFull          = errors.New("outbox: full")
	ErrLocked        = errors.New("outbox: in use by another process")
	ErrDamaged       = errors.New("outbox: file is damaged")
	ErrReadOnly      = errors.New("outbox: not writable")
	ErrNewerFormat   = errors.New("outbox: written by a newer version")
	ErrFault         = errors.New("outbox: storage fault, nothing more is saved until it is reopened")
	ErrClaimLost     = errors.New("outbox: the claim is no longer the record's")
	ErrState         = errors.New("outbox: the record's state does not allow this")
	ErrTxUnsupported = errors.New("outbox: this engine cannot join a database transaction")
	ErrSealed        = errors.New("outbox: sealed with another key")
	ErrTooLarge      = errors.New("outbox: request body over the limit")
)

// SaveError says that the result of a durable step is unknown: it may be on stable storage or not. The
// engine finds out by itself; adding the same record again (same ID or same key) gives the definite answer.
type SaveError struct {
	ID  string // the operation it was about; empty when it was about several
	Err error
}

func (e *SaveError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("outbox: saving: result unknown: %v", e.Err)
	}
	return fmt.Sprintf("outbox: saving %s: result unknown: %v", e.ID, e.Err)
}

func (e *SaveError) Unwrap() error { return e.Err }

// LockedError names the process that holds an outbox. errors.Is(err, ErrLocked) is true.
type LockedError struct {
	Path  string
	PID   int       // 0 = not known
	Since time.Time // zero = not known
}

func (e *LockedError) Error() string {
	switch e.PID {
	case 0:
		return fmt.Sprintf("outbox %s: in use by another process", e.Path)
	case os.Getpid():
		return fmt.Sprintf("outbox %s: this process (%d) has it open already", e.Path, e.PID)
	}
	return fmt.Sprintf("outbox %s: in use by process %d", e.Path, e.PID)
}

// Is matches ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// FullError says which limit an addition would have passed. errors.Is(err, ErrFull) is true.
type FullError struct {
	Limit string // "operations", "bytes" or "disk"
	Have  int64  // operations or bytes that are kept
	Max   int64  // the limit
	Err   error  // the disk's error, for "disk"
}

func (e *FullError) Error() string {
	if e.Limit == "disk" {
		return fmt.Sprintf("outbox: disk full, nothing was saved: %v", e.Err)
	}
	return fmt.Sprintf("outbox: full: %d of at most %d %s are kept, nothing was saved", e.Have, e.Max, e.Limit)
}

// Is matches ErrFull.
func (e *FullError) Is(target error) bool { return target == ErrFull }

func (e *FullError) Unwrap() error { return e.Err }
