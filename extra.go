package flavoso

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Extra holds the fields of an object that this release does not know, by name. A document that is replaced
// as a whole keeps them: what was read, changed and put back has lost nothing.
type Extra map[string]json.RawMessage

// decodeExtra decodes an object into v, a struct without methods of its own, and the fields that v has no place
// for into extra, less those named in drop. null changes nothing, nor does an error.
func decodeExtra[P any](data []byte, v *P, extra *Extra, drop ...string) error {
	if string(data) == "null" {
		return nil
	}
	var fresh P
	if err := json.Unmarshal(data, &fresh); err != nil {
		return err
	}
	var rest Extra
	if err := json.Unmarshal(data, &rest); err != nil {
		return err
	}
	known := fieldNames(reflect.TypeFor[P]())
	maps.DeleteFunc(rest, func(name string, _ json.RawMessage) bool {
		return isKnown(known, name) || slices.Contains(drop, name)
	})
	if len(rest) == 0 {
		rest = nil
	}
	*v = fresh
	*extra = rest // a field of v
	return nil
}

// decodeRaw decodes an object into v, a struct without methods of its own, and copies its bytes into raw. null
// changes nothing, nor does an error.
func decodeRaw[P any](data []byte, v *P, raw *json.RawMessage) error {
	if string(data) == "null" {
		return nil
	}
	var fresh P
	if err := json.Unmarshal(data, &fresh); err != nil {
		return err
	}
	*v = fresh
	*raw = bytes.Clone(data) // a field of v
	return nil
}

// encodeExtra encodes v, a struct, followed by the extra fields in the order of their names.
func encodeExtra(v any, extra Extra) ([]byte, error) {
	out, err := marshal(v)
	if err != nil || len(extra) == 0 {
		return out, err
	}
	known := fieldNames(reflect.TypeOf(v))
	out = out[:len(out)-1]
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if isKnown(known, name) {
			continue // the struct's own field counts
		}
		key, err := marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(extra[name])
		if err != nil {
			return nil, err
		}
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// isKnown reports whether name is one of the fields: encoding/json finds them whatever the case of a name.
func isKnown(fields []string, name string) bool {
	return slices.ContainsFunc(fields, func(f string) bool { return strings.EqualFold(f, name) })
}

var knownFields sync.Map // reflect.Type to []string: looked up for every entry of a menu

// fieldNames are the JSON names of a struct's fields.
func fieldNames(t reflect.Type) []string {
	if names, ok := knownFields.Load(t); ok {
		return names.([]string)
	}
	var names []string
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	knownFields.Store(t, names)
	return names
}
