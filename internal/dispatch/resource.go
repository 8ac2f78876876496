package dispatch

import (
	"bytes"
	"encoding/json"
)

// resourceID is the id of the resource in an answer (F17); "" = it has none.
func resourceID(body []byte) string {
	if id, sure := quickID(body); sure {
		return id
	}
	var resource struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(body, &resource) // what cannot be read has none
	return resource.ID
}

// sameResource reports whether two bodies are of one resource, as far as they tell.
func sameResource(a, b []byte) bool {
	one, other := resourceID(a), resourceID(b)
	return one == "" || other == "" || one == other
}

// quickID finds the id of a JSON object as encoding/json would, passing over all other members unread: of every answer
// to a write nothing else is looked at here, and decoding a whole order for it costs more than the rest of judging
// it. It is sure of nothing out of the ordinary.
func quickID(b []byte) (id string, sure bool) {
	if b = space(b); len(b) == 0 || b[0] != '{' {
		return "", false
	}
	if b = space(b[1:]); len(b) > 0 && b[0] == '}' {
		return "", len(space(b[1:])) == 0
	}
	for {
		key, rest, ok := plainString(b)
		if rest = space(rest); !ok || len(rest) == 0 || rest[0] != ':' {
			return "", false
		}
		if b = space(rest[1:]); len(key) == 2 && key[0]|0x20 == 'i' && key[1]|0x20 == 'd' {
			var value []byte
			if value, b, ok = plainString(b); ok {
				id = string(value)
			}
		} else {
			b, ok = skipValue(b)
		}
		if b = space(b); !ok || len(b) == 0 {
			return "", false
		}
		switch b[0] {
		case '}':
			return id, len(space(b[1:])) == 0
		case ',':
			b = space(b[1:])
		default:
			return "", false
		}
	}
}

func space(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// plainString reads a string of printable ASCII without escapes.
func plainString(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	for i, c := range b[1:] {
		switch {
		case c == '"':
			return b[1 : 1+i], b[2+i:], true
		case c < ' ' || c > '~' || c == '\\':
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// skipValue returns what follows a value.
func skipValue(b []byte) (rest []byte, ok bool) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringEnd(b[i:])
			if n < 0 {
				return nil, false
			}
			if i += n; depth == 0 {
				return b[i+1:], true
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return b[i+1:], true
			}
			if depth < 0 {
				return b[i:], i > 0 // the end of the object that the value is the last of
			}
		case ',':
			if depth == 0 {
				return b[i:], i > 0
			}
		}
	}
	return nil, false
}

// stringEnd returns where the string that b begins with ends; -1 = it does not.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}
