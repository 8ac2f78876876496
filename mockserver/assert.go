package mockserver

import (
	"fmt"
	"strings"
)

// AssertExactlyOnce checks that requests changed a resource exactly once in the way kind names
// ("orders.accept", "bookings.create"; the menu is the resource "menu", the restaurant "store"). For
// bookings, resource may be the id or the external_id: a reference that was booked twice counts twice.
// When it fails it tells which effects there were, and which requests came.
func (s *Server) AssertExactlyOnce(t TB, kind, resource string) bool {
	t.Helper()
	all := s.Effects()
	names := map[string]bool{resource: true}
	for _, e := range all {
		if e.Kind == kind && e.Resource == resource && e.Reference != "" {
			names[e.Reference] = true // the same reference under another id is the doubled booking
		}
	}
	var hits, others []Effect
	for _, e := range all {
		switch {
		case e.Kind == kind && (names[e.Resource] || names[e.Reference] && e.Reference != ""):
			hits = append(hits, e)
		case e.Kind == kind || names[e.Resource]:
			others = append(others, e)
		}
	}
	if len(hits) == 1 {
		return true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "mockserver: %s of %s happened %d times, want exactly once", kind, resource, len(hits))
	for _, e := range hits {
		fmt.Fprintf(&b, "\n  effect %d: id %s, key %q, request %s, at %s", e.Seq, e.Resource, e.Key, e.RequestID, e.At.Format("15:04:05.000"))
	}
	if len(hits) == 0 {
		for _, e := range tail(others, 5) {
			fmt.Fprintf(&b, "\n  there was %s of %s, key %q", e.Kind, e.Resource, e.Key)
		}
	}
	b.WriteString(s.tell(resource, hits))
	t.Errorf("%s", b.String())
	return false
}

// AssertNever checks that no request changed the resource in the way kind names.
func (s *Server) AssertNever(t TB, kind, resource string) bool {
	t.Helper()
	for _, e := range s.Effects() {
		if e.Kind == kind && (e.Resource == resource || e.Reference == resource) {
			t.Errorf("mockserver: %s of %s happened (effect %d, key %q, request %s), want never%s",
				kind, resource, e.Seq, e.Key, e.RequestID, s.tell(resource, []Effect{e}))
			return false
		}
	}
	return true
}

// AssertSameBytes checks that every request with this key was the same one: method, target and body, byte
// by byte (F7). It fails when none came, and shows where the first difference is.
func (s *Server) AssertSameBytes(t TB, key string) bool {
	t.Helper()
	first := map[string]*Request{} // a key is valid per connection (F4)
	all := s.Requests()
	found, same := false, true
	for i := range all {
		r := &all[i]
		if r.Key != key || r.Method != "POST" {
			continue
		}
		found = true
		if f := first[r.Connection]; f == nil {
			first[r.Connection] = r
		} else if d := difference(f, r); d != "" {
			same = false
			t.Errorf("mockserver: requests with the key %q differ: %s", key, d)
		}
	}
	if !found {
		t.Errorf("mockserver: no request with the key %q came%s", key, knownKeys(all))
	}
	return found && same
}

// knownKeys lists the newest keys, for the message of an assertion that found none.
func knownKeys(all []Request) string {
	var keys []string
	seen := map[string]bool{}
	for _, r := range all {
		if r.Key != "" && !seen[r.Key] {
			seen[r.Key] = true
			keys = append(keys, r.Key)
		}
	}
	if len(keys) == 0 {
		return "; no request had a key"
	}
	return "; keys that came: " + strings.Join(tail(keys, 8), ", ")
}

// tell lists the requests that had to do with a resource, and repeats of a key that were not the same
// request.
func (s *Server) tell(resource string, effects []Effect) string {
	keys := map[string]bool{}
	ids := map[string]bool{}
	for _, e := range effects {
		if e.Key != "" {
			keys[e.Key] = true
		}
		ids[e.RequestID] = true
	}
	var b strings.Builder
	all := s.Requests()
	var related []*Request
	for i := range all {
		r := &all[i]
		if keys[r.Key] && r.Key != "" || ids[r.RequestID] || strings.Contains(r.Target, "/"+resource) ||
			(resource != "" && r.Method != "GET" && strings.Contains(string(r.Body), `"`+resource+`"`)) {
			related = append(related, r)
		}
	}
	if len(related) == 0 {
		return fmt.Sprintf("\n  no request named it; %d requests came in all", len(all))
	}
	for _, r := range tail(related, 20) {
		fmt.Fprintf(&b, "\n  request %s", r.line())
	}
	first := map[string]*Request{}
	for _, r := range related {
		if r.Key == "" || r.Method != "POST" {
			continue
		}
		id := r.Connection + "\x00" + r.Key
		if f := first[id]; f == nil {
			first[id] = r
		} else if d := difference(f, r); d != "" {
			fmt.Fprintf(&b, "\n  near miss: with the key %q, %s", r.Key, d)
		}
	}
	return b.String()
}

// line is a request in one line.
func (r *Request) line() string {
	out := fmt.Sprintf("%d: %s %s, %d bytes", r.Seq, r.Method, r.Target, len(r.Body))
	if r.Key != "" {
		out += fmt.Sprintf(", key %q", r.Key)
	}
	switch {
	case r.Status == 0:
		out += " → no answer"
	case r.Replayed:
		out += fmt.Sprintf(" → %d, replayed", r.Status)
	default:
		out += fmt.Sprintf(" → %d", r.Status)
	}
	if r.Fault != "" {
		out += ", fault " + r.Fault
	}
	return out
}

func tail[T any](list []T, n int) []T {
	if len(list) > n {
		return list[len(list)-n:]
	}
	return list
}
