package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/gowebpki/jcs"
)

// Fingerprint binds a key to a request (S5). The first byte names the scheme, the rest is a SHA-256 sum.
// Fingerprints are compared as a whole: changing the scheme while records are held turns their repeats into mismatches.
type Fingerprint [1 + sha256.Size]byte

func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// Scheme bytes of the fingerprints made here. Schemes below 16 are reserved for this package.
const (
	schemeRawBytes      = 1
	schemeCanonicalJSON = 2
)

// NewFingerprint hashes parts, each with its length in front, so that no two different lists of parts
// meet. scheme names the function and its version.
func NewFingerprint(scheme byte, parts ...[]byte) Fingerprint {
	h := sha256.New()
	var n [binary.MaxVarintLen64]byte
	n[0] = scheme
	h.Write(n[:1])
	for _, p := range parts {
		h.Write(n[:binary.PutUvarint(n[:], uint64(len(p)))])
		h.Write(p)
	}
	var f Fingerprint
	f[0] = scheme
	h.Sum(f[1:1])
	return f
}

// requestFingerprint is NewFingerprint(scheme, method, target, body) without its allocations.
func requestFingerprint(scheme byte, r *http.Request, body []byte) (f Fingerprint) {
	target := Target(r)
	if len(body)+len(target) > 2000 {
		return NewFingerprint(scheme, []byte(r.Method), []byte(target), body)
	}
	var stack [2048]byte
	b := append(stack[:0], scheme)
	b = append(binary.AppendUvarint(b, uint64(len(r.Method))), r.Method...)
	b = append(binary.AppendUvarint(b, uint64(len(target))), target...)
	b = append(binary.AppendUvarint(b, uint64(len(body))), body...)
	sum := sha256.Sum256(b)
	f[0] = scheme
	copy(f[1:], sum[:])
	return f
}

// FingerprintFunc makes the fingerprint of a request whose body was read whole. An error refuses the
// request with 400 before anything is claimed.
type FingerprintFunc func(r *http.Request, body []byte) (Fingerprint, error)

// RawBytes is the strict fingerprint (F7): method, request target and body, byte by byte. The target is
// the path as the client escaped it, with its query. Headers do not count (D4).
func RawBytes(r *http.Request, body []byte) (Fingerprint, error) {
	return requestFingerprint(schemeRawBytes, r, body), nil
}

// CanonicalJSON is the tolerant fingerprint: method, request target and the body in the canonical form
// of RFC 8785 (JCS). Field order, white space and number forms do not count; an omitted field and an
// explicit default do. An empty body is allowed; any other body that is not JSON is an error.
//
// Numbers are IEEE 754 doubles in JCS: two integers beyond 2⁵³ that round to the same double have the same
// fingerprint. Use RawBytes where such numbers carry meaning.
func CanonicalJSON(r *http.Request, body []byte) (Fingerprint, error) {
	if len(body) > 0 {
		var err error
		if body, err = canonicalJSON(body); err != nil {
			return Fingerprint{}, err
		}
	}
	return requestFingerprint(schemeCanonicalJSON, r, body), nil
}

func canonicalJSON(body []byte) ([]byte, error) {
	out, err := jcs.Transform(body)
	if err != nil {
		return nil, fmt.Errorf("idempotency: body is not JSON: %w", err)
	}
	return out, nil
}

// Target returns the request target as the client escaped it: path and query, without host (D3).
func Target(r *http.Request) string {
	if r.URL.RawQuery == "" && !r.URL.ForceQuery {
		return r.URL.EscapedPath()
	}
	return r.URL.EscapedPath() + "?" + r.URL.RawQuery
}

// MarshalText writes the fingerprint as hex digits.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (f *Fingerprint) UnmarshalText(text []byte) error { return unhex(f[:], text, "fingerprint") }

func unhex(dst, text []byte, what string) error {
	if len(text) != hex.EncodedLen(len(dst)) {
		return fmt.Errorf("idempotency: %s: want %d hex digits, have %d", what, hex.EncodedLen(len(dst)), len(text))
	}
	if _, err := hex.Decode(dst, text); err != nil {
		return fmt.Errorf("idempotency: %s: %w", what, err)
	}
	return nil
}
