package mockserver

import (
	"reflect"
	"time"
)

// overlay copies every set field of src over dst, going into structs but not into lists: a list that is
// given replaces the other one.
func overlay[T any](dst *T, src T) {
	overlayValue(reflect.ValueOf(dst).Elem(), reflect.ValueOf(src))
}

func overlayValue(dst, src reflect.Value) {
	for i := range src.NumField() {
		d, s := dst.Field(i), src.Field(i)
		if s.IsZero() {
			continue
		}
		if s.Kind() == reflect.Struct && s.Type() != reflect.TypeFor[time.Time]() {
			overlayValue(d, s)
			continue
		}
		d.Set(s)
	}
}
