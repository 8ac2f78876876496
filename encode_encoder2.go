//go:build encoder2

package flavoso

import (
	"bytes"
	"encoding/json"
)

// encodeBody writes the same JSON as the real encoder with the fields of every object in reverse order. It
// stands for a later release in tests, and is in no released build.
func encodeBody(v any) ([]byte, error) {
	plain, err := marshal(v)
	if err != nil {
		return nil, err
	}
	return reverseFields(plain)
}

func reverseFields(value json.RawMessage) (json.RawMessage, error) {
	if len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return value, nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	object := value[0] == '{'
	var members [][]byte
	for d.More() {
		var member []byte
		if object {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			if member, err = marshal(name); err != nil {
				return nil, err
			}
			member = append(member, ':')
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		inner, err := reverseFields(raw)
		if err != nil {
			return nil, err
		}
		members = append(members, append(member, inner...))
	}
	if !object {
		return append(append([]byte{'['}, bytes.Join(members, []byte{','})...), ']'), nil
	}
	for i, j := 0, len(members)-1; i < j; i, j = i+1, j-1 {
		members[i], members[j] = members[j], members[i]
	}
	return append(append([]byte{'{'}, bytes.Join(members, []byte{','})...), '}'), nil
}
