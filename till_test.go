package flavoso

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const store = "store-42"

// till is a client with the mock server it talks to, in one process.
type till struct {
	t   *testing.T
	srv *mockserver.Server
	cfg Config
	*Client
}

// newTill starts a mock server and opens a client on it. Inside a synctest bubble the server is reached
// over in-memory connections, and hours pass in no time.
func newTill(t *testing.T, change func(*Config), opts ...mockserver.Option) *till {
	t.Helper()
	srv := mockserver.Start(t, append(opts, mockserver.InMemory())...)
	cfg := Config{
		Connection: store,
		Token:      StaticToken(srv.Token(store)),
		OutboxPath: filepath.Join(t.TempDir(), "pos.outbox"),
		BaseURL:    srv.BaseURL(),
		Transport:  srv.Transport(),
		uptime:     bootClock(),
	}
	if change != nil {
		change(&cfg)
	}
	till := &till{t: t, srv: srv, cfg: cfg}
	till.open()
	t.Cleanup(func() { require.NoError(t, till.Close()) })
	return till
}

// bootClock is a machine that was booted now, by the clock of the test's bubble.
func bootClock() func() (string, time.Duration) {
	start := time.Now()
	return func() (string, time.Duration) { return "a boot", time.Since(start) }
}

func (s *till) open() {
	s.t.Helper()
	c, err := Open(s.cfg)
	require.NoError(s.t, err)
	s.Client = c
}

// restart closes the client and opens a new one on the same outbox.
func (s *till) restart() {
	s.t.Helper()
	require.NoError(s.t, s.Close())
	s.open()
}

// posts returns the writes that reached the server, oldest first.
func posts(srv *mockserver.Server) []mockserver.Request {
	var out []mockserver.Request
	for _, r := range srv.Requests() {
		if r.Method == "POST" {
			out = append(out, r)
		}
	}
	return out
}

// requireOneOperation proves from the server's side that there was one effect, and that all attempts, at
// least this many, carried the same key and the same bytes.
func requireOneOperation(t *testing.T, srv *mockserver.Server, kind string, attempts int) {
	t.Helper()
	var effects []mockserver.Effect
	for _, e := range srv.Effects() {
		if e.Kind == kind {
			effects = append(effects, e)
		}
	}
	require.Len(t, effects, 1, "effects of %s", kind)
	sent := posts(srv)
	require.GreaterOrEqual(t, len(sent), attempts)
	for _, r := range sent {
		require.Equal(t, sent[0].Key, r.Key)
		require.NotEmpty(t, r.Key)
		require.Equal(t, string(sent[0].Body), string(r.Body))
		require.Equal(t, sent[0].Target, r.Target)
		require.Equal(t, sent[0].Header.Get("Content-Type"), r.Header.Get("Content-Type"))
	}
}

// doing is a call to be made later, its answer but for the error left out.
func doing[T any](c *Call[T]) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.Do(ctx)
		return err
	}
}

// contextFor is a context that ends with the test, and after d.
func contextFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// forHours is a context that leaves time for long outages.
func forHours(t *testing.T, n int) context.Context { return contextFor(t, time.Duration(n)*time.Hour) }

// patient makes an order that nobody cancels while the test lets days pass.
func patient() mockserver.Order {
	return mockserver.Order{AcceptBy: time.Now().Add(90 * 24 * time.Hour)}
}

// record returns an operation as it is kept.
func (s *till) record(id string) outbox.Record {
	s.t.Helper()
	rec, err := s.engine.Get(context.Background(), id)
	require.NoError(s.t, err)
	return rec
}

func enqueue[T any](t *testing.T, c *Call[T]) *Pending[T] {
	t.Helper()
	p, err := c.Enqueue(t.Context())
	require.NoError(t, err)
	return p
}

func booking(party int) BookingParams {
	return BookingParams{PartySize: party, StartsAt: time.Date(2100, 1, 2, 19, 0, 0, 0, time.UTC), Customer: BookingCustomer{Name: "Jörg Müller"}}
}

// p2 takes up a pending operation with a client that was opened later.
func p2[T any](s *till, p *Pending[T]) *Pending[T] { return Attach[T](s.Client, p.ID()) }
