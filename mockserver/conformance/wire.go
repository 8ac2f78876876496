package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// request is one request as it goes over the wire.
type request struct {
	method, path string
	body         []byte
	keys         []string // one header line each
	token        string   // "" = the target's; "-" = none
}

// answer is one answer, whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send makes one exchange: exactly one request, no redirects followed.
func (s *session) send(ctx context.Context, r request) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, s.BaseURL+r.path, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	// net/http repeats a POST by itself when it knows the key and can read the body again.
	req.GetBody = nil
	if len(r.keys) > 0 {
		req.Header["idempotency-key"] = r.keys
	}
	if len(r.body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Body = http.NoBody
	}
	switch r.token {
	case "":
		req.Header.Set("Authorization", "Bearer "+s.Token)
	case "-":
	default:
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return answer{resp.StatusCode, resp.Header, body}, err
}

func (a answer) success() bool  { return a.status >= 200 && a.status < 300 }
func (a answer) replayed() bool { return a.header.Get("Idempotent-Replayed") == "true" }

// code finds the error code wherever the envelope has it; the envelope is not documented.
func (a answer) code() string {
	var v struct {
		Code  string `json:"code"`
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(a.body, &v) != nil {
		return ""
	}
	if v.Error.Code != "" {
		return v.Error.Code
	}
	return v.Code
}

func (a answer) field(name string) string {
	var m map[string]any
	if json.Unmarshal(a.body, &m) != nil {
		return ""
	}
	s, _ := m[name].(string)
	return s
}

// String is the answer in a message: never the body, which may hold names.
func (a answer) String() string {
	out := fmt.Sprint(a.status)
	if c := a.code(); c != "" {
		out += " " + c
	}
	if v, ok := a.header["Idempotent-Replayed"]; ok {
		out += fmt.Sprintf(" (Idempotent-Replayed: %s)", v[0])
	}
	return out
}

// book sends a booking under a key.
func (s *session) book(ctx context.Context, body []byte, keys ...string) (answer, error) {
	a, err := s.send(ctx, request{method: "POST", path: "/bookings", body: body, keys: keys})
	if err == nil && a.success() && !a.replayed() {
		if id := a.field("id"); id != "" {
			s.made = append(s.made, id)
		}
	}
	return a, err
}

// booked sends a booking that must be executed now.
func (s *session) booked(ctx context.Context, body []byte, keys ...string) (answer, error) {
	a, err := s.book(ctx, body, keys...)
	switch {
	case err != nil:
		return a, err
	case !a.success():
		return a, fmt.Errorf("POST /bookings was answered with %s, want success", a)
	case a.replayed():
		return a, fmt.Errorf("POST /bookings was replayed (%s), want it executed", a)
	case a.field("id") == "":
		return a, fmt.Errorf("POST /bookings was answered with %s and no id", a)
	}
	return a, nil
}

// expectReplay sends a booking again and wants the first answer.
func (s *session) expectReplay(ctx context.Context, first answer, body []byte, key string) error {
	a, err := s.book(ctx, body, key)
	switch {
	case err != nil:
		return err
	case a.status != first.status:
		return fmt.Errorf("the repeat was answered with %s, the first with %s", a, first)
	case !a.replayed():
		return fmt.Errorf("the repeat was answered with %s, without Idempotent-Replayed: true", a)
	case !bytes.Equal(a.body, first.body):
		return fmt.Errorf("the repeat's body is not the first one's, byte for byte")
	}
	return nil
}

// bookingsOf counts the bookings of a reference, where the server can list them.
func (s *session) bookingsOf(ctx context.Context, ref string) (n int, known bool, err error) {
	a, err := s.send(ctx, request{method: "GET", path: "/bookings?external_id=" + url.QueryEscape(ref)})
	if err != nil || a.status != http.StatusOK {
		return 0, false, err
	}
	var l struct {
		Data []json.RawMessage `json:"data"`
	}
	if json.Unmarshal(a.body, &l) != nil || l.Data == nil {
		return 0, false, nil
	}
	return len(l.Data), true, nil
}

// expectBookings wants n bookings of a reference, if they can be counted.
func (s *session) expectBookings(ctx context.Context, ref string, n int) error {
	got, known, err := s.bookingsOf(ctx, ref)
	if err == nil && known && got != n {
		return fmt.Errorf("there are %d bookings with the reference, want %d", got, n)
	}
	return err
}

// booking makes a reference and a body.
func (s *session) booking(kind string) (ref string, body []byte) {
	ref = s.key(kind)
	return ref, s.Booking(ref, s.now)
}
