package flavoso

import (
	"bytes"
	"encoding/json"
)

// marshal encodes v as compact JSON: fields in the order of the Go type, map keys sorted, instants in
// UTC where the type is this package's, and no HTML escapes. The same value gives the same bytes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
