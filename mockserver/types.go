package mockserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// wrongTypes compares a JSON document with the type it is to become, and reports every value of the wrong
// type with its pointer. encoding/json stops at the first one and does not count list entries.
func wrongTypes(body []byte, t reflect.Type) findings {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	var f findings
	f.compare("", v, t)
	return f
}

// hasElem is a type that stands for another one, such as optional.
type hasElem interface{ elem() reflect.Type }

func (f *findings) compare(pointer string, v any, t reflect.Type) {
	if v == nil {
		return // null is absent, or the operation's own business
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if of, ok := reflect.Zero(t).Interface().(hasElem); ok {
		f.compare(pointer, v, of.elem())
		return
	}
	want := ""
	switch {
	case t == reflect.TypeFor[time.Time]():
		s, ok := v.(string)
		if _, err := time.Parse(time.RFC3339, s); !ok || err != nil {
			want = "an RFC 3339 instant"
		}
	case t == reflect.TypeFor[json.RawMessage]():
	case t.Kind() == reflect.String:
		if _, ok := v.(string); !ok {
			want = "a string"
		}
	case t.Kind() == reflect.Bool:
		if _, ok := v.(bool); !ok {
			want = "true or false"
		}
	case t.Kind() == reflect.Int64:
		n, ok := v.(json.Number)
		if _, err := strconv.ParseInt(n.String(), 10, 64); !ok || err != nil {
			want = "an integer"
		}
	case t.Kind() == reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			want = "a list"
		}
		for i, entry := range list {
			f.compare(fmt.Sprintf("%s/%d", pointer, i), entry, t.Elem())
		}
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		fields, ok := v.(map[string]any)
		if !ok {
			want = "an object"
		} else if t.Kind() == reflect.Struct {
			f.compareFields(pointer, fields, t)
		}
	}
	if want != "" {
		f.add(pointer, "wrong_type", "want "+want)
	}
}

func (f *findings) compareFields(pointer string, fields map[string]any, t reflect.Type) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		for given, v := range fields {
			if strings.EqualFold(given, name) { // as encoding/json does
				f.compare(pointer+"/"+name, v, t.Field(i).Type)
			}
		}
	}
}
