package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
)

func checkF10(ctx context.Context, s *session) error {
	conflict, err := s.checkConflict(ctx)
	if err != nil {
		return err
	}
	if s.Control.Arm == nil {
		if !conflict {
			return skipped("no conflict and no server error could be brought about")
		}
		return nil
	}
	ref, body := s.booking("f10")
	key := s.key("f10")
	if err := s.Control.Arm(ctx, ServerError); err != nil {
		return err
	}
	a, err := s.book(ctx, body, key)
	if err != nil {
		return err
	}
	if a.status < 500 {
		return fmt.Errorf("the request that was to fail was answered with %s", a)
	}
	if _, err := s.booked(ctx, body, key); err != nil {
		return fmt.Errorf("after a %d: %w", a.status, err)
	}
	return s.expectBookings(ctx, ref, 1)
}

// checkConflict brings about a conflict with a booking of our own: what is not seated cannot be completed.
// Then the conflict is resolved, and the same request must go through.
func (s *session) checkConflict(ctx context.Context) (met bool, err error) {
	_, body := s.booking("f10")
	first, err := s.booked(ctx, body, s.key("f10"))
	if err != nil {
		return false, err
	}
	path := "/bookings/" + url.PathEscape(first.field("id"))
	complete := request{method: "POST", path: path + "/complete", keys: []string{s.key("f10")}}
	a, err := s.send(ctx, complete)
	if err != nil || a.status != 409 || a.code() != "conflict" {
		return false, err
	}
	again, err := s.send(ctx, complete)
	if err != nil {
		return true, err
	}
	if again.replayed() {
		return true, fmt.Errorf("a conflict was replayed, want it not held")
	}
	if seated, err := s.send(ctx, request{method: "POST", path: path + "/seat", keys: []string{s.key("f10")}}); err != nil || !seated.success() {
		return true, err
	}
	done, err := s.send(ctx, complete)
	if err == nil && (!done.success() || done.replayed()) {
		err = fmt.Errorf("after the conflict was resolved the same request was answered with %s, want it executed", done)
	}
	return true, err
}

func checkF11(ctx context.Context, s *session) error {
	_, body := s.booking("f11")
	one, err := s.booked(ctx, body, s.key("f11"))
	if err != nil {
		return err
	}
	two, err := s.booked(ctx, body, s.key("f11"))
	if err != nil {
		return err
	}
	if one.field("id") == two.field("id") {
		return fmt.Errorf("two keys with the same body gave one booking; the key is the operation")
	}
	return nil
}

func checkF12(ctx context.Context, s *session) error {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	uuid := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	for _, key := range []string{"accept-" + uuid, "ack-" + uuid, "booking-" + s.key("f12"), uuid} {
		_, body := s.booking("f12")
		first, err := s.booked(ctx, body, key)
		if err != nil {
			return fmt.Errorf("the key %s: %w", key, err)
		}
		if err := s.expectReplay(ctx, first, body, key); err != nil {
			return fmt.Errorf("the key %s: %w", key, err)
		}
	}
	return nil
}

// order lets an order arrive that is ours to change.
func (s *session) order(ctx context.Context) (path string, err error) {
	if s.Control.NewOrder == nil {
		return "", skipped("needs a server that can place an order of our own")
	}
	id, err := s.Control.NewOrder(ctx)
	return "/orders/" + url.PathEscape(id), err
}

func checkF13(ctx context.Context, s *session) error {
	path, err := s.order(ctx)
	if err != nil {
		return err
	}
	first, err := s.send(ctx, request{method: "POST", path: path + "/accept", keys: []string{s.key("f13")}})
	if err != nil {
		return err
	}
	if first.status != 200 || first.field("status") != "confirmed" {
		return fmt.Errorf("accepting a pending order was answered with %s and status %q, want 200 and confirmed", first, first.field("status"))
	}
	for name, r := range map[string]request{
		"with another key": {keys: []string{s.key("f13")}},
		"without a key":    {},
		"with a body":      {keys: []string{s.key("f13")}, body: []byte(`{"preparation_minutes":77}`)},
	} {
		r.method, r.path = "POST", path+"/accept"
		a, err := s.send(ctx, r)
		if err != nil {
			return err
		}
		if a.status != 200 || a.replayed() || !bytes.Equal(a.body, first.body) {
			return fmt.Errorf("accepting it again, %s, was answered with %s, want 200 and the order unchanged", name, a)
		}
	}
	return nil
}

func checkF14(ctx context.Context, s *session) error {
	path, err := s.order(ctx)
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"external_id":%q}`, s.key("f14"))
	first, err := s.send(ctx, request{method: "POST", path: path + "/acknowledge", body: body, keys: []string{s.key("f14")}})
	if err != nil {
		return err
	}
	if first.status != 200 {
		return fmt.Errorf("acknowledging was answered with %s, want 200", first)
	}
	for range 2 {
		a, err := s.send(ctx, request{method: "POST", path: path + "/acknowledge", body: body, keys: []string{s.key("f14")}})
		if err != nil {
			return err
		}
		if a.status != 200 || !bytes.Equal(a.body, first.body) {
			return fmt.Errorf("acknowledging again with the same external_id was answered with %s, want 200 and nothing changed", a)
		}
	}
	return nil
}

func checkF15(ctx context.Context, s *session) error {
	_, body := s.booking("f15")
	first, err := s.booked(ctx, body, s.key("f15"))
	if err != nil {
		return err
	}
	patch := request{method: "PATCH", path: "/bookings/" + url.PathEscape(first.field("id")), body: []byte(`{"note":"window, please"}`)}
	var before answer
	for i := range 3 {
		a, err := s.send(ctx, patch)
		switch {
		case err != nil:
			return err
		case i == 0 && (a.status == 404 || a.status == 405 || a.status == 501):
			return skipped("the server has no PATCH on bookings, and nothing else that is ours")
		case !a.success():
			return fmt.Errorf("PATCH number %d was answered with %s", i+1, a)
		case i > 0 && !bytes.Equal(a.body, before.body):
			return fmt.Errorf("the same PATCH again changed the booking")
		}
		before = a
	}
	return nil
}

func checkF16(ctx context.Context, s *session) error {
	path, err := s.order(ctx)
	if err != nil {
		return err
	}
	key := s.key("f16")
	first, err := s.send(ctx, request{method: "POST", path: path + "/accept", keys: []string{key}})
	if err != nil {
		return err
	}
	again, err := s.send(ctx, request{method: "POST", path: path + "/accept", keys: []string{key}})
	if err != nil {
		return err
	}
	if first.status != 200 || again.status != 200 || !again.replayed() || !bytes.Equal(first.body, again.body) {
		return fmt.Errorf("accept with a key was answered with %s, its repeat with %s, want the same answer twice", first, again)
	}
	return nil
}

func checkF17(ctx context.Context, s *session) error {
	ref, body := s.booking("f17")
	one, err := s.booked(ctx, body)
	if err != nil {
		return err
	}
	two, err := s.booked(ctx, body)
	if err != nil {
		return err
	}
	if one.field("id") == two.field("id") {
		return fmt.Errorf("a repeat without a key gave the same booking, want a second one")
	}
	if err := s.expectBookings(ctx, ref, 2); err != nil {
		return err
	}
	path, err := s.order(ctx)
	if _, none := err.(skipped); none {
		return partly("the form of an order was not checked: " + err.Error())
	}
	if err != nil {
		return err
	}
	a, err := s.send(ctx, request{method: "GET", path: path})
	if err != nil {
		return err
	}
	var o struct{ Object, ID, Status string }
	if a.status != 200 || json.Unmarshal(a.body, &o) != nil || o.Object != "order" || "/orders/"+url.PathEscape(o.ID) != path || o.Status == "" {
		return fmt.Errorf("an order was answered with %s and object %q, id %q, status %q", a, o.Object, o.ID, o.Status)
	}
	return nil
}
