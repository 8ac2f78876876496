package flavoso

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

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
