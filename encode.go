//go:build !encoder2

package flavoso

// encodeBody makes the bytes of a request's body. They are made once, when a call is made, and frozen with
// it (F7, F11): a repeat never encodes again, so a release whose encoder writes other bytes is harmless.
// The tests build one, with the tag encoder2.
func encodeBody(v any) ([]byte, error) { return marshal(v) }
