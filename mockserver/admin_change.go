package mockserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// adminChangeOrder lets the world change an order, as ChangeOrder does.
func (s *Server) adminChangeOrder(r *http.Request) (int, any, error) {
	var in struct {
		Connection string          `json:"connection"`
		Order      json.RawMessage `json:"order"`
	}
	if err := decodeAdmin(r, &in); err != nil {
		return 0, nil, err
	}
	if err := checkConnection(in.Connection); err != nil {
		return 0, nil, err
	}
	id := r.PathValue("id")
	cleared, err := checkChange[Order]("order", in.Order, id)
	if err == nil {
		err = checkOrder(in.Order)
	}
	if err != nil {
		return 0, nil, err
	}
	o, found := s.changeOrder(in.Connection, id, func(c *connection, o *Order) {
		overlayJSON(o, in.Order)
		clearFields(reflect.ValueOf(o).Elem(), cleared)
		for i := range o.Items {
			o.Items[i].complete(c.rnd)
		}
		if o.Cancellation != nil && o.Cancellation.At.IsZero() {
			o.Cancellation.At = s.now()
		}
	})
	if !found {
		return 0, nil, noSuch(in.Connection, "order", id)
	}
	return http.StatusOK, o, nil
}

// adminCancelOrder lets a guest cancel an order, as CancelOrder does.
func (s *Server) adminCancelOrder(r *http.Request) (int, any, error) {
	var in struct {
		Connection string `json:"connection"`
		Reason     string `json:"reason"`
		Message    string `json:"message"`
	}
	if err := decodeAdmin(r, &in); err != nil {
		return 0, nil, err
	}
	if err := checkConnection(in.Connection); err != nil {
		return 0, nil, err
	}
	if in.Reason == "" {
		in.Reason = guestCancels.Reason
	}
	if !slices.Contains(cancelReasons, in.Reason) {
		return 0, nil, badRequest(fmt.Errorf("reason is one of %s, not %q", strings.Join(cancelReasons, ", "), in.Reason))
	}
	by := guestCancels
	by.Reason, by.Message = in.Reason, in.Message
	o, found := s.cancelOrder(in.Connection, r.PathValue("id"), by)
	if !found {
		return 0, nil, noSuch(in.Connection, "order", r.PathValue("id"))
	}
	return http.StatusOK, o, nil
}

// adminDeleteOrder removes an order, as DeleteOrder does.
func (s *Server) adminDeleteOrder(r *http.Request) (int, any, error) {
	name := r.URL.Query().Get("connection")
	if err := checkConnection(name); err != nil {
		return 0, nil, err
	}
	if !s.deleteOrder(name, r.PathValue("id")) {
		return 0, nil, noSuch(name, "order", r.PathValue("id"))
	}
	return http.StatusNoContent, nil, nil
}

func (s *Server) adminBookings(r *http.Request) (int, any, error) {
	name := r.URL.Query().Get("connection")
	if err := checkConnection(name); err != nil {
		return 0, nil, err
	}
	return listOf(s.Bookings(name))
}

// adminChangeBooking lets the world change a booking, as ChangeBooking does.
func (s *Server) adminChangeBooking(r *http.Request) (int, any, error) {
	var in struct {
		Connection string          `json:"connection"`
		Booking    json.RawMessage `json:"booking"`
	}
	if err := decodeAdmin(r, &in); err != nil {
		return 0, nil, err
	}
	if err := checkConnection(in.Connection); err != nil {
		return 0, nil, err
	}
	id := r.PathValue("id")
	cleared, err := checkChange[Booking]("booking", in.Booking, id)
	if err == nil {
		err = checkBooking(in.Booking)
	}
	if err != nil {
		return 0, nil, err
	}
	b, found := s.changeBooking(in.Connection, id, func(b *Booking) {
		_ = json.Unmarshal(in.Booking, b) // it fitted a Booking a moment ago
		clearFields(reflect.ValueOf(b).Elem(), cleared)
	})
	if !found {
		return 0, nil, noSuch(in.Connection, "booking", id)
	}
	return http.StatusOK, b, nil
}

func noSuch(connection, what, id string) error {
	return &adminError{status: http.StatusNotFound, message: connection + " has no " + what + " " + id}
}

// checkChange looks at what is to change of an object of type T: every field must exist, null clears only
// what may be absent, and the id stays. It returns the fields with null, each as the way to it.
func checkChange[T any](what string, raw json.RawMessage, id string) (cleared [][]string, err error) {
	var document map[string]any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &document); err != nil {
			return nil, badRequest(fmt.Errorf("%s must be a JSON object", what))
		}
	}
	if document == nil {
		return nil, badRequest(errors.New(what + " says what changes: an object with the fields that are to be different"))
	}
	if err := unknownFields(what, document, reflect.TypeFor[T]()); err != nil {
		return nil, badRequest(err)
	}
	if given, is := document["id"].(string); is && given != id {
		return nil, badRequest(fmt.Errorf("%s.id: the %s %s keeps its id", what, what, id))
	}
	cleared, err = nulls(document, reflect.TypeFor[T](), nil)
	if err != nil {
		return nil, badRequest(fmt.Errorf("%s.%w", what, err))
	}
	return cleared, nil
}

// nulls finds the fields that are null, in objects within objects too. What every object has cannot be.
func nulls(document map[string]any, t reflect.Type, way []string) (found [][]string, err error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, nil
	}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		v, given := document[name]
		here := append(slices.Clone(way), name)
		inner, isObject := v.(map[string]any)
		switch {
		case !given:
		case v == nil && options != "omitzero":
			return nil, fmt.Errorf("%s cannot be cleared", strings.Join(here, "."))
		case v == nil:
			found = append(found, here)
		case isObject:
			more, err := nulls(inner, t.Field(i).Type, here)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	return found, nil
}

// clearFields makes the fields zero to which the ways lead.
func clearFields(v reflect.Value, ways [][]string) {
	for _, way := range ways {
		clearField(v, way)
	}
}

func clearField(v reflect.Value, way []string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch {
		case name != way[0]:
		case len(way) == 1:
			v.Field(i).SetZero()
		default:
			clearField(v.Field(i), way[1:])
		}
	}
}
