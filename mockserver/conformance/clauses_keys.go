package conformance

import (
	"bytes"
	"context"
	"fmt"
	"mime"
	"net/url"
	"regexp"
	"strings"
)

var requestIDForm = regexp.MustCompile(`^req_[0-9a-f]{24}$`)

func checkF1(ctx context.Context, s *session) error {
	_, body := s.booking("f1")
	_, other := s.booking("f1")
	key := s.key("f1")
	write := request{method: "POST", path: "/bookings", body: body, keys: []string{key}}
	seen := map[string]bool{}
	for _, c := range []struct {
		name string
		request
	}{
		{"a read", request{method: "GET", path: "/orders?limit=1"}},
		{"a write", write},
		{"a repeated write", write},
		{"a key used for another request", request{method: "POST", path: "/bookings", body: other, keys: []string{key}}},
		{"a refused write", request{method: "POST", path: "/bookings", body: []byte("{"), keys: []string{s.key("f1")}}},
		{"an unknown path", request{method: "GET", path: "/conformance-no-such-path"}},
		{"a request, no token", request{method: "GET", path: "/orders?limit=1", token: "-"}},
		{"a request, bad token", request{method: "GET", path: "/orders?limit=1", token: "conformance-not-a-token"}},
	} {
		a, err := s.send(ctx, c.request)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if c.name == "a write" && a.success() {
			s.made = append(s.made, a.field("id"))
		}
		if strings.HasPrefix(c.name, "a request,") && a.status != 401 {
			return fmt.Errorf("%s was answered with %s, want 401", c.name, a)
		}
		id := a.header.Get("X-Request-Id")
		if !requestIDForm.MatchString(id) {
			return fmt.Errorf("%s was answered with the X-Request-Id %q, want req_ and 24 hex digits", c.name, id)
		}
		// Whether a replay names itself or the first request is not documented.
		if seen[id] && !a.replayed() {
			return fmt.Errorf("the X-Request-Id %s came twice", id)
		}
		seen[id] = true
		if media, _, err := mime.ParseMediaType(a.header.Get("Content-Type")); len(a.body) > 0 && (err != nil || media != "application/json") {
			return fmt.Errorf("%s was answered with the Content-Type %q, want application/json", c.name, a.header.Get("Content-Type"))
		}
	}
	return nil
}

func checkF2(ctx context.Context, s *session) error {
	_, body := s.booking("f2")
	first, err := s.booked(ctx, body, s.key("f2"))
	if err != nil {
		return err
	}
	path := "/bookings/" + url.PathEscape(first.field("id"))
	key := s.key("f2")
	for _, r := range []request{
		{keys: []string{key}, body: []byte(`{"note":"one"}`)},
		{keys: []string{key}, body: []byte(`{"note":"two"}`)},
		{keys: []string{key}, body: []byte(`{"note":"one"}`)},
		{keys: []string{strings.Repeat("k", 300)}, body: []byte(`{"note":"three"}`)},
	} {
		r.method, r.path = "PATCH", path
		a, err := s.send(ctx, r)
		switch {
		case err != nil:
			return err
		case a.status == 404 || a.status == 405 || a.status == 501:
			return skipped("the server has no PATCH on bookings, and nothing else that is ours")
		case !a.success():
			return fmt.Errorf("a PATCH with a key was answered with %s, want the key ignored", a)
		case a.replayed():
			return fmt.Errorf("a PATCH was replayed, want the key ignored")
		}
		var want struct{ Note string }
		if unmarshal(r.body, &want); a.field("note") != "" && a.field("note") != want.Note {
			return fmt.Errorf("a PATCH with a used key was not carried out")
		}
	}
	return nil
}

func checkF3(ctx context.Context, s *session) error {
	base := s.key("f3-")
	pad := func(n int) string { return base + strings.Repeat("x", n-len(base)) }
	for name, keys := range map[string][]string{
		"an empty key":               {""},
		"a key of 256 characters":    {pad(256)},
		"a key that is not ASCII":    {base + "ü"},
		"a key with a control chars": {base + "\t" + "x"},
	} {
		ref, body := s.booking("f3")
		a, err := s.book(ctx, body, keys...)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if a.status != 400 {
			return fmt.Errorf("%s was answered with %s, want 400", name, a)
		}
		if err := s.expectBookings(ctx, ref, 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	_, body := s.booking("f3")
	for name, key := range map[string]string{
		"a key of 1 character":                      string(rune('!' + s.count%90)),
		"a key of 255 characters":                   pad(255),
		"another one of 255, different in the last": pad(254) + "y",
		"a key with space, comma, quotes":           base + ` a, "b"`,
		"a key in lower case":                       base + "-case",
		"the same in upper case":                    strings.ToUpper(base + "-case"),
	} {
		if len(key) == 1 {
			if err := s.checkShortKey(ctx, key, body); err != nil {
				return err
			}
			continue
		}
		first, err := s.booked(ctx, body, key)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := s.expectReplay(ctx, first, body, key); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checkShortKey allows for somebody else having used such a short key before.
func (s *session) checkShortKey(ctx context.Context, key string, body []byte) error {
	a, err := s.book(ctx, body, key)
	if err == nil && a.status == 400 {
		return fmt.Errorf("a key of 1 character was answered with %s", a)
	}
	return err
}

func checkF4(ctx context.Context, s *session) error {
	if s.Control.NewToken != nil {
		token, err := s.Control.NewToken(ctx)
		if err != nil {
			return err
		}
		_, body := s.booking("f4")
		key := s.key("f4")
		first, err := s.booked(ctx, body, key)
		if err != nil {
			return err
		}
		a, err := s.send(ctx, request{method: "POST", path: "/bookings", body: body, keys: []string{key}, token: token})
		if err != nil {
			return err
		}
		if !a.replayed() || a.status != first.status {
			return fmt.Errorf("with another token of the same connection the repeat was answered with %s, want the replay", a)
		}
	}
	if s.SecondToken == "" {
		return skipped("needs a token of a second connection")
	}
	_, body := s.booking("f4")
	key := s.key("f4")
	first, err := s.booked(ctx, body, key)
	if err != nil {
		return err
	}
	a, err := s.send(ctx, request{method: "POST", path: "/bookings", body: body, keys: []string{key}, token: s.SecondToken})
	switch {
	case err != nil:
		return err
	case !a.success() || a.replayed():
		return fmt.Errorf("another connection's request with the same key was answered with %s, want it executed", a)
	case a.field("id") == first.field("id"):
		return fmt.Errorf("another connection's request with the same key got the first one's booking")
	}
	_, err = s.send(ctx, request{method: "POST", path: "/bookings/" + url.PathEscape(a.field("id")) + "/cancel", keys: []string{s.key("cleanup")}, token: s.SecondToken})
	return err
}

func checkF7(ctx context.Context, s *session) error {
	ref, body := s.booking("f7")
	key := s.key("f7")
	first, err := s.booked(ctx, body, key)
	if err != nil {
		return err
	}
	other, otherBody := s.booking("f7")
	for name, changed := range map[string][]byte{
		"another body":        otherBody,
		"other white space":   append([]byte(" "), body...),
		"a trailing newline":  append(bytes.Clone(body), '\n'),
		"another field order": reordered(body),
	} {
		if changed == nil {
			continue
		}
		a, err := s.book(ctx, changed, key)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if a.status != 422 || a.code() != "idempotency_key_reused" {
			return fmt.Errorf("the key with %s was answered with %s, want 422 idempotency_key_reused", name, a)
		}
	}
	a, err := s.send(ctx, request{method: "POST", path: "/bookings/" + url.PathEscape(first.field("id")) + "/cancel", body: body, keys: []string{key}})
	if err != nil {
		return err
	}
	if a.success() || (a.status != 404 && a.status != 405 && a.code() != "idempotency_key_reused") {
		return fmt.Errorf("the key on another path was answered with %s, want 422 idempotency_key_reused", a)
	}
	if err := s.expectBookings(ctx, ref, 1); err != nil {
		return err
	}
	if err := s.expectBookings(ctx, other, 0); err != nil {
		return err
	}
	if err := s.expectReplay(ctx, first, body, key); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	return nil
}
