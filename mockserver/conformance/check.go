package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Status is how a clause came out.
type Status string

// The statuses of a Result.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"
)

// Result is what became of one clause.
type Result struct {
	Clause string `json:"clause"` // "F6"
	Name   string `json:"name"`   // what the clause says, in a few words
	Status Status `json:"status"`
	Detail string `json:"detail,omitempty"` // why it failed or was skipped, or what of it was not checked
}

// TB is the part of testing.TB that Run needs.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Run checks a target in a test: a clause that fails is an error, one that is skipped is logged.
func Run(t TB, target Target) {
	t.Helper()
	results, err := Check(context.Background(), target)
	if err != nil {
		t.Fatalf("%v", err)
		return
	}
	for _, r := range results {
		switch r.Status {
		case Fail:
			t.Errorf("%s (%s): %s", r.Clause, r.Name, r.Detail)
		case Skip:
			t.Logf("%s (%s): skipped: %s", r.Clause, r.Name, r.Detail)
		}
	}
}

// Check goes through the clauses in order and returns one result for each. The error is for a target
// that cannot be checked at all: it cannot be reached, or the token is not valid.
func Check(ctx context.Context, target Target) ([]Result, error) {
	s, err := newSession(ctx, target)
	if err != nil {
		return nil, err
	}
	defer s.http.CloseIdleConnections()
	var results []Result
	for _, c := range clauses {
		results = append(results, s.check(ctx, c))
		if err := ctx.Err(); err != nil {
			return results, fmt.Errorf("conformance: stopped at %s: %w", c.id, err)
		}
	}
	s.cleanUp(ctx)
	return results, nil
}

// clause is one clause of the contract as a check.
type clause struct {
	id, name string
	check    func(ctx context.Context, s *session) error
}

// clauses are all clauses of part F.
var clauses = []clause{
	{"F1", "base URL, bearer token, JSON, X-Request-Id", checkF1},
	{"F2", "the key counts on POST only", checkF2},
	{"F3", "a key is 1 to 255 printable ASCII characters", checkF3},
	{"F4", "a key is valid per connection", checkF4},
	{"F5", "the first answer is held for 24 hours", checkF5},
	{"F6", "the same request again replays the first answer", checkF6},
	{"F7", "the same key with another request is refused", checkF7},
	{"F8", "a repeat while the first runs is told so", checkF8},
	{"F9", "an aborted request frees its key after 2 minutes", checkF9},
	{"F10", "5xx and conflict are not held", checkF10},
	{"F11", "a new key is a new operation", checkF11},
	{"F12", "derived keys and UUIDs are good keys", checkF12},
	{"F13", "status changes are repeatable", checkF13},
	{"F14", "once taken over stays taken over", checkF14},
	{"F15", "a PATCH twice is the same as once", checkF15},
	{"F16", "a key on POST never hurts", checkF16},
	{"F17", "objects, and a second booking without a key", checkF17},
}

// skipped is the error of a check that could not be made.
type skipped string

func (s skipped) Error() string { return string(s) }

// partly is the error of a check that passed as far as it could be made.
type partly string

func (p partly) Error() string { return string(p) }

func (s *session) check(ctx context.Context, c clause) Result {
	r := Result{Clause: c.id, Name: c.name, Status: Pass}
	err := c.check(ctx, s)
	var skip skipped
	var part partly
	switch {
	case errors.As(err, &part):
		r.Detail = err.Error()
	case errors.As(err, &skip):
		r.Status, r.Detail = Skip, err.Error()
	case err != nil:
		r.Status, r.Detail = Fail, err.Error()
	}
	return r
}

// session is one run against a target.
type session struct {
	Target
	http  *http.Client
	run   string // makes keys and references of this run unlike all others
	count int
	now   time.Time // the server's, from its Date header
	made  []string  // ids of bookings to cancel
}

func newSession(ctx context.Context, target Target) (*session, error) {
	u, err := url.Parse(target.BaseURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("conformance: BaseURL must be an http or https URL, not %q", target.BaseURL)
	}
	if target.Token == "" {
		return nil, errors.New("conformance: Token is required")
	}
	target.BaseURL = strings.TrimSuffix(target.BaseURL, "/")
	if target.Booking == nil {
		target.Booking = defaultBooking
	}
	if target.Control == nil {
		target.Control = &Control{}
	}
	transport := target.Transport
	if transport == nil {
		transport = &http.Transport{}
	}
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	s := &session{Target: target, run: hex.EncodeToString(b[:]), now: time.Now(), http: &http.Client{
		Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	a, err := s.send(ctx, request{method: "GET", path: "/orders?limit=1"})
	if err != nil {
		return nil, fmt.Errorf("conformance: %s cannot be reached: %w", target.BaseURL, err)
	}
	if a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
		return nil, fmt.Errorf("conformance: the token is not accepted: status %d", a.status)
	}
	if date, err := http.ParseTime(a.header.Get("Date")); err == nil {
		s.now = date
	}
	return s, nil
}

// cleanUp cancels the bookings that were made. Not being able to is no finding about the contract.
func (s *session) cleanUp(ctx context.Context) {
	for _, id := range s.made {
		_, _ = s.send(ctx, request{method: "POST", path: "/bookings/" + url.PathEscape(id) + "/cancel", keys: []string{s.key("cleanup")}})
	}
}

// key makes a key that nobody used before.
func (s *session) key(kind string) string {
	s.count++
	return fmt.Sprintf("conformance-%s-%s-%d", s.run, kind, s.count)
}
