package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Target is the server to check.
type Target struct {
	// BaseURL is where the API lives, such as https://api.flavoso.com/v1. Required.
	BaseURL string
	// Token is an access token of the connection to use. Required.
	Token string
	// SecondToken belongs to another connection; without it F4 is skipped.
	SecondToken string
	// Transport sends the requests; nil = a plain one that follows no proxy.
	Transport http.RoundTripper
	// Booking makes the body of a booking with this reference, at a time a month ahead of now. nil = the
	// body the SDK sends. The same reference and instant must give the same bytes.
	Booking func(ref string, now time.Time) []byte
	// Control is what a test server can do beside its API; nil = nothing.
	Control *Control
}

// Control is the part of a test server that an API does not have. A nil func is something the server
// cannot do; the clauses that need it are skipped.
type Control struct {
	// Advance moves the server's clock.
	Advance func(ctx context.Context, d time.Duration) error
	// NewOrder lets a pending order arrive at the connection and returns its id.
	NewOrder func(ctx context.Context) (string, error)
	// NewToken gives a further token of the same connection.
	NewToken func(ctx context.Context) (string, error)
	// Arm makes the connection's next POST /bookings go wrong.
	Arm func(ctx context.Context, t Trouble) error
}

// Trouble is something that goes wrong with one request.
type Trouble string

// What a Control can be asked for.
const (
	// ServerError: the request is answered with 500 before it is executed.
	ServerError Trouble = "server error"
	// Crash: the process dies with the key claimed; no answer comes.
	Crash Trouble = "crash"
	// Slow: the request is executed, but takes half a second with its key claimed.
	Slow Trouble = "slow"
)

func defaultBooking(ref string, now time.Time) []byte {
	body, err := json.Marshal(struct {
		ExternalID string            `json:"external_id"`
		PartySize  int               `json:"party_size"`
		StartsAt   string            `json:"starts_at"`
		Customer   map[string]string `json:"customer"`
		Note       string            `json:"note"`
	}{ref, 2, now.AddDate(0, 1, 0).UTC().Truncate(time.Hour).Format(time.RFC3339), map[string]string{"name": "Conformance Check"}, "made by a test"})
	if err != nil {
		return nil // not reachable: plain strings and a number
	}
	return body
}
