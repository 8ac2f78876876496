package flavoso

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// fakeAPI is a transport that answers like Flavoso without a server behind it, for tests in which the
// number of requests matters more than what they do.
type fakeAPI struct {
	// before runs in each request, in the order in which they are started; its error is the exchange's.
	before func(r *http.Request) error
	// status is the answer's; 0 = 200.
	status func(r *http.Request) int
	// body is what a success says; "" = a thing.
	body string

	mu       sync.Mutex
	requests []string // method and path, oldest first
}

func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.URL.Path)
	n := len(f.requests)
	f.mu.Unlock()
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	if f.before != nil {
		if err := f.before(r); err != nil {
			return nil, err
		}
	}
	status, body := http.StatusOK, cmp.Or(f.body, `{"object":"thing","id":"1"}`)
	if f.status != nil {
		status = f.status(r)
	}
	if status >= 300 {
		body = fmt.Sprintf(`{"error":{"code":%q,"message":"no"}}`, map[int]string{409: "conflict", 422: "validation_failed", 503: "unavailable", 500: "internal_error", 429: "rate_limited"}[status])
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"X-Request-Id": {fmt.Sprintf("req_%024x", n)}, "Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader([]byte(body))),
		ContentLength: int64(len(body)),
	}, nil
}

// count returns how many requests were made.
func (f *fakeAPI) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// sent returns the requests so far, oldest first.
func (f *fakeAPI) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.requests...)
}

// newFakeTill opens a client on a fakeAPI and an outbox in memory.
func newFakeTill(t testing.TB, api *fakeAPI, change func(*Config)) *Client {
	t.Helper()
	cfg := Config{
		Connection: store, Token: StaticToken("token"), Outbox: outbox.NewMemory(),
		BaseURL: "https://api.flavoso.test/v1", Transport: api, uptime: bootClock(),
	}
	if change != nil {
		change(&cfg)
	}
	c, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// thing is what fakeAPI answers with.
type thing struct {
	ID string `json:"id"`
}

// post makes a call in a lane of its own.
func post(c *Client, lane string) *Call[thing] {
	return NewCall[thing](c, "POST", Path("things", lane), map[string]string{"name": "Jörg"}).WithLane(lane)
}

// put makes a call that WithSupersede is for.
func put(c *Client, lane string, n int) *Call[thing] {
	return NewCall[thing](c, "PUT", Path("things", lane), map[string]int{"n": n}).WithLane(lane)
}

// stateOf returns where an operation stands.
func stateOf(t testing.TB, c *Client, id string) State {
	t.Helper()
	o, err := c.Operations.Get(context.Background(), id)
	require.NoError(t, err)
	return o.State
}
