package mockserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// decodeAdmin reads the body strictly: a misspelt field is an error, not a fault that never fires.
func decodeAdmin(r *http.Request, v any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return badRequest(err)
	}
	if len(body) == 0 {
		return nil
	}
	return decodeStrictly(body, v)
}

func decodeStrictly(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		err = fmt.Errorf("%s must not be a JSON %s", wordFor(wrong.Field), wrong.Value)
	}
	if err != nil {
		return badRequest(err)
	}
	var document any
	if err := json.Unmarshal(body, &document); err != nil {
		return badRequest(err)
	}
	return badRequest(unknownFields("", document, reflect.TypeOf(v)))
}

func wordFor(field string) string {
	if field == "" {
		return "the body"
	}
	return field
}

// unknownFields names what a JSON document has and the type does not, with all that would be known there.
// Names are compared exactly, unlike in encoding/json: what is written in one way is found in one way.
func unknownFields(where string, v any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice:
		list, _ := v.([]any) // null, or bytes
		for i, entry := range list {
			if err := unknownFields(fmt.Sprintf("%s[%d]", where, i), entry, t.Elem()); err != nil {
				return err
			}
		}
	case reflect.Struct:
		fields, ok := v.(map[string]any)
		if !ok || t == reflect.TypeFor[time.Time]() {
			return nil
		}
		known := jsonFields(t)
		for _, name := range sortedKeys(fields) {
			path := strings.TrimPrefix(where+"."+name, ".")
			of, ok := known[name]
			if !ok {
				return fmt.Errorf("unknown field %q; the fields here are %s", path, strings.Join(sortedKeys(known), ", "))
			}
			if err := unknownFields(path, fields[name], of); err != nil {
				return err
			}
		}
	}
	return nil
}

// jsonFields are a struct's fields by the names they have in JSON.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			out[name] = f.Type
		}
	}
	return out
}

// checkOrder refuses an overlay with what no order of the API has.
func checkOrder(raw json.RawMessage) error {
	var in struct {
		Order Order `json:"order"`
	}
	// What is absent stays as here, and is right; what is given and empty is not.
	in.Order = Order{ID: "absent", Status: StatusPending, Type: "delivery", DeliveredBy: "none", Timing: "asap", Payment: Payment{Status: "paid"}}
	if err := decodeStrictly(slices.Concat([]byte(`{"order":`), raw, []byte("}")), &in); err != nil {
		return err
	}
	o := in.Order
	for _, c := range []closedField{
		{"order.status", o.Status, append(slices.Clone(orderProgress), StatusRejected, StatusCancelled)},
		{"order.type", o.Type, []string{"delivery", "pickup", "dine_in"}},
		{"order.delivered_by", o.DeliveredBy, []string{"platform", "restaurant", "none"}},
		{"order.timing", o.Timing, []string{"asap", "scheduled"}},
		{"order.payment.status", o.Payment.Status, []string{"paid", "due"}},
	} {
		if err := c.check(); err != nil {
			return err
		}
	}
	return badRequest(checkOrderID(o.ID))
}

// checkBooking refuses a change to what no booking of the API has.
func checkBooking(raw json.RawMessage) error {
	var in struct {
		Booking Booking `json:"booking"`
	}
	in.Booking = Booking{Status: BookingConfirmed} // what is absent stays as here
	if err := decodeStrictly(slices.Concat([]byte(`{"booking":`), raw, []byte("}")), &in); err != nil {
		return err
	}
	return closedField{"booking.status", in.Booking.Status, bookingStatuses}.check()
}

// closedField is a field whose values are all known.
type closedField struct {
	name, value string
	allowed     []string
}

func (c closedField) check() error {
	if slices.Contains(c.allowed, c.value) {
		return nil
	}
	return badRequest(fmt.Errorf("%s is one of %s, not %q", c.name, strings.Join(c.allowed, ", "), c.value))
}

// checkOrderID refuses ids that no client sends as one segment of a path.
func checkOrderID(id string) error {
	odd := strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~:@=+,!$*", r)
	})
	if odd || id == "" || id == "." || id == ".." || len(id) > 255 {
		return fmt.Errorf("order.id holds 1 to 255 letters, digits and -._~:@=+,!$*, not %q: a path could not name it", id)
	}
	return nil
}
