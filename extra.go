package flavoso

import (
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

// decodeExtra decodes an object into v, a pointer to a struct, and returns the fields v has no place for;
// nil when there are none.
func decodeExtra(data []byte, v any) (Extra, error) {
	if err := json.Unmarshal(data, v); err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	known := fieldNames(reflect.TypeOf(v).Elem())
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool {
		// encoding/json finds a field whatever the case of its name.
		return slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
	})
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// decodeKeeping decodes an object into a P and hands it over with the fields P has no place for. null
// changes nothing.
func decodeKeeping[P any](data []byte, set func(P, Extra)) error {
	if string(data) == "null" {
		return nil
	}
	var v P
	extra, err := decodeExtra(data, &v)
	if err == nil {
		set(v, extra)
	}
	return err
}

// without returns e less some fields; nil when nothing is left.
func (e Extra) without(names ...string) Extra {
	for _, name := range names {
		delete(e, name)
	}
	if len(e) == 0 {
		return nil
	}
	return e
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
		if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
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
