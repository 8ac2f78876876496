package outbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

// CodeConflict is the API's error code of a 409 that Flavoso does not hold (F10), so that the same key
// may be used again.
const CodeConflict = "conflict"

// maxKey is the length of the longest key that Flavoso takes (F3).
const maxKey = 255

// WireKey returns what is sent for a logical key in its n-th use: the key itself, then key~2, key~3, ….
// Keys made by the SDK never end in ~ and a number, so no generation can meet another key. Where the end
// would not fit (F3), a hash of the whole key takes the place of its tail. Without a key it is empty.
func WireKey(key string, generation int) string {
	if key == "" || generation <= 1 {
		return key
	}
	end := "~" + strconv.Itoa(generation)
	if len(key)+len(end) > maxKey {
		sum := sha256.Sum256([]byte(key))
		end = "~" + hex.EncodeToString(sum[:16]) + end
		key = key[:min(len(key), maxKey-len(end))]
	}
	return key + end
}

// Choice is the answer of [Decide].
type Choice struct {
	// Decision is AddedNew, FoundOperation or FoundOtherUse; an engine that no longer has the record
	// reports FoundOperation as FoundTombstone.
	Decision Decision
	// Generation is the one to add the new operation under, for AddedNew.
	Generation int
}

// Decide says what an addition is whose key may have been used before. prev is what is known of the
// key's latest operation: [Record.Tombstone] of the record while it is kept, else the stored tombstone;
// nil when the key is new. Operations without a key never meet.
//
// Equal fingerprints are the same content.
//
//	latest operation                             same content             other content
//	waiting, uncertain, blocked, damaged         the existing one         other use
//	succeeded, ReuseOutcome                      the existing one         other use
//	succeeded, NextGeneration                    next generation          next generation
//	rejected by a clean conflict                 new, same generation     next generation
//	rejected otherwise, derived key              next generation          next generation
//	rejected otherwise, explicit key             the existing one         other use
//	canceled, expired, superseded                new, same generation     new, same generation
//	abandoned, repeat-safe                       new, same generation     other use
//	abandoned, not repeat-safe                   the existing one         other use
func Decide(prev *Tombstone, a *Addition) Choice {
	if prev == nil || a.Record.Key == "" {
		return Choice{Decision: AddedNew, Generation: 1}
	}
	same := bytes.Equal(prev.Fingerprint, a.Record.Fingerprint)
	sameKey := Choice{Decision: AddedNew, Generation: max(prev.Generation, 1)}
	nextKey := Choice{Decision: AddedNew, Generation: max(prev.Generation, 1) + 1}
	existing := Choice{Decision: FoundOtherUse}
	if same {
		existing = Choice{Decision: FoundOperation}
	}
	switch prev.State {
	case Succeeded:
		if a.AfterSuccess == NextGeneration {
			return nextKey
		}
	case Rejected:
		switch {
		case prev.Clean && prev.Code == CodeConflict && same:
			return sameKey
		case prev.Clean && prev.Code == CodeConflict, a.Record.KeyDerived:
			return nextKey
		}
	case Canceled, Expired, Superseded:
		return sameKey
	case Abandoned:
		// It may have been done. The same key with the same bytes cannot do it twice where doing it
		// twice is the same as once; anything else could.
		if same && prev.RepeatSafe {
			return sameKey
		}
	case Damaged:
		// The content may be unreadable: the key stays reserved for whatever it was.
		if prev.Fingerprint == nil {
			return Choice{Decision: FoundOperation}
		}
	}
	return existing
}

// CheckLimits says whether a new record may be added to what its connection already keeps. have counts
// waiting and parked records and their bytes, without one that the new record supersedes.
func CheckLimits(l Limits, have int, bytes int64, r *Record) error {
	if size := r.BodySize(); l.Body > 0 && size > int64(l.Body) {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, l.Body)
	}
	if l.Operations > 0 && have >= l.Operations {
		return &FullError{Limit: "operations", Have: int64(have), Max: int64(l.Operations)}
	}
	if l.Bytes > 0 && bytes+r.Size() > l.Bytes {
		return &FullError{Limit: "bytes", Have: bytes, Max: l.Bytes}
	}
	return nil
}
