package flavoso

import "time"

// Patch is a field of a PATCH: absent (the zero value, the field stays as it is), a value ([Set]) or null
// ([Null], the field is cleared).
type Patch[T any] struct {
	value T
	state patchState
}

type patchState uint8

const (
	patchAbsent patchState = iota
	patchNull
	patchValue
)

// Set changes a field to v.
func Set[T any](v T) Patch[T] { return Patch[T]{value: v, state: patchValue} }

// Null clears a field.
func Null[T any]() Patch[T] { return Patch[T]{state: patchNull} }

// IsZero reports whether the field is absent; encoding/json leaves it out with omitzero.
func (p Patch[T]) IsZero() bool { return p.state == patchAbsent }

// isNull reports whether the field is to be cleared.
func (p Patch[T]) isNull() bool { return p.state == patchNull }

// Get returns the value; false = the field is absent or null.
func (p Patch[T]) Get() (T, bool) { return p.value, p.state == patchValue }

// MarshalJSON implements [json.Marshaler]. Instants are written in UTC.
func (p Patch[T]) MarshalJSON() ([]byte, error) {
	if p.state != patchValue {
		return []byte("null"), nil
	}
	if t, ok := any(p.value).(time.Time); ok {
		return marshal(t.UTC())
	}
	return marshal(p.value)
}
