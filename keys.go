package flavoso

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

// Key is an idempotency key: it names one operation, not one attempt (F11), within one connection (F4).
//
// A key is 1 to 255 printable ASCII characters (F3). The keys that this package makes consist of
// A-Z a-z 0-9 . _ - and ~, where ~ introduces what the package itself put in. They never end in ~ and a
// number: that is how the later generations of a key look on the wire.
type Key string

// MaxKeyLength is the longest key Flavoso takes (F3). The keys made here are at most 240 long, which
// leaves room for a generation.
const MaxKeyLength = 255

const maxDerivedKey = 240

// NewKey makes a random key (UUID version 4), for a wish that nothing else names. Save it with the job it
// belongs to (F12); an operation that is enqueued does that by itself.
func NewKey() Key { return Key(uuid.NewString()) }

// DeriveKey makes the key of a wish from one's own data (F12): DeriveKey("print", ticket) is always the
// same key, on every device and after a restart. Different kinds or parts give different keys, and no
// part can make one kind's key look like another's.
//
// One part of plain characters stays readable, as in "accept-4711"; further parts are set off with "~-".
// Everything but A-Z a-z 0-9 . _ - is escaped, so that any text makes a valid key. What would be longer
// than 240 characters ends in a SHA-256 hash of the whole.
//
// Keys appear in logs and at Flavoso. Do not derive them from guests' data; see [HashKey].
func DeriveKey(kind string, parts ...string) Key {
	var b strings.Builder
	// A kind holds no '-', so that the first one ends it.
	escapeKey(&b, kind, false)
	if kind == "" {
		b.WriteString("~x")
	}
	for i, part := range parts {
		if i > 0 {
			b.WriteByte('~')
		}
		b.WriteByte('-')
		escapeKey(&b, part, true)
	}
	return fitKey(b.String())
}

// HashKey is DeriveKey for parts that must not be readable in a key, such as phone numbers (S6): they go
// through HMAC-SHA-256 under secret, without which nobody can try out what they were. kind stays
// readable. Every device that is to make the same keys needs the same secret, and it must not change
// while operations are pending. An empty secret would protect nothing: it makes the empty key, which
// every call refuses.
func HashKey(secret []byte, kind string, parts ...string) Key {
	if len(secret) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, secret)
	for _, s := range append([]string{kind}, parts...) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		mac.Write(n[:])
		mac.Write([]byte(s))
	}
	return fitKey(string(DeriveKey(kind)) + "-~m" + hex.EncodeToString(mac.Sum(nil)))
}

// Validate returns a *ParamError when Flavoso would not take the key as it is (F3, D9): not 1 to 255
// printable ASCII characters, or with a space at an end, which HTTP does not carry.
func (k Key) Validate() error {
	const field = "Idempotency-Key"
	switch {
	case k == "":
		return &ParamError{Field: field, Rule: "must not be empty (F3)"}
	case len(k) > MaxKeyLength:
		return &ParamError{Field: field, Rule: "must be at most 255 characters (F3)"}
	case k[0] == ' ' || k[len(k)-1] == ' ':
		return &ParamError{Field: field, Rule: "must not begin or end with a space: HTTP does not carry it"}
	}
	for i := 0; i < len(k); i++ {
		if k[i] < ' ' || k[i] > '~' {
			return &ParamError{Field: field, Rule: "must be printable ASCII (F3)"}
		}
	}
	return nil
}

// escapeKey writes s with everything but A-Z a-z 0-9 . _ (and - where dash says so) as ~x and two hex
// digits. '~' followed by anything else is free for marks of this file.
func escapeKey(b *strings.Builder, s string, dash bool) {
	const digits = "0123456789abcdef"
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-' && dash:
			b.WriteByte(c)
		default:
			b.WriteString("~x")
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
}

// fitKey replaces the tail of what is too long with a hash of the whole.
func fitKey(s string) Key {
	if len(s) <= maxDerivedKey {
		return Key(s)
	}
	sum := sha256.Sum256([]byte(s))
	tail := "~h" + hex.EncodeToString(sum[:])
	return Key(s[:maxDerivedKey-len(tail)] + tail)
}

// The default keys of the calls. A reference names one booking for ever per connection; a status may be
// set again, under the key's next generation.

func acceptKey(id string) Key      { return DeriveKey("accept", id) }
func acknowledgeKey(id string) Key { return DeriveKey("ack", id) }
func rejectKey(id string) Key      { return DeriveKey("reject", id) }
func cancelKey(id string) Key      { return DeriveKey("cancel", id) }

// statusKey: no status holds a '-' (see StatusParams), so that id and status cannot be told apart wrongly.
func statusKey(id string, s OrderStatus) Key { return DeriveKey("status", id+"-"+string(s)) }

func bookingKey(ref string) Key        { return DeriveKey("booking", ref) }
func bookingCancelKey(id string) Key   { return DeriveKey("bookingcancel", id) }
func bookingSeatKey(id string) Key     { return DeriveKey("bookingseat", id) }
func bookingCompleteKey(id string) Key { return DeriveKey("bookingcomplete", id) }
func bookingNoShowKey(id string) Key   { return DeriveKey("bookingnoshow", id) }
