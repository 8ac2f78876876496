package openapi

import (
	"context"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// TestTheSDKStaysInsideTheDocument lets the client make every call it has a method for.
func TestTheSDKStaysInsideTheDocument(t *testing.T) {
	srv := mockserver.Start(t, mockserver.InMemory())
	rec := &recording{RoundTripper: srv.Transport(), v: validator(t)}
	client, err := flavoso.Open(flavoso.Config{
		Connection: "store-42", Token: flavoso.StaticToken(srv.Token("store-42")), Outbox: outbox.NewMemory(),
		BaseURL: srv.BaseURL(), Transport: rec,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	ids := srv.AddOrders("store-42", 4)
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	done(ctx, t, client.Orders.Accept(ids[0], flavoso.AcceptParams{PreparationMinutes: 20}))
	done(ctx, t, client.Orders.Accept(ids[1], flavoso.AcceptParams{}))
	done(ctx, t, client.Orders.Acknowledge(ids[0], flavoso.AcknowledgeParams{ExternalID: "pos-7"}))
	done(ctx, t, client.Orders.Update(ids[0], flavoso.UpdateOrderParams{EstimatedReadyAt: flavoso.Set(soon)}))
	done(ctx, t, client.Orders.Update(ids[0], flavoso.UpdateOrderParams{EstimatedReadyAt: flavoso.Null[time.Time]()}))
	done(ctx, t, client.Orders.SetStatus(ids[0], flavoso.StatusParams{Status: "preparing"}))
	done(ctx, t, client.Orders.Reject(ids[2], flavoso.RejectParams{Reason: "too_busy"}))
	done(ctx, t, client.Orders.Cancel(ids[1], flavoso.CancelParams{Reason: "other", Message: "Strom weg"}))

	guest := flavoso.BookingCustomer{Name: "Zoë Øvergård"}
	booking := done(ctx, t, client.Bookings.Create("table-1", flavoso.BookingParams{PartySize: 4, StartsAt: soon, Customer: guest}))
	done(ctx, t, client.Bookings.Update(booking.ID, flavoso.UpdateBookingParams{Note: flavoso.Set("am Fenster"), PartySize: flavoso.Set(6)}))
	done(ctx, t, client.Bookings.Update(booking.ID, flavoso.UpdateBookingParams{Note: flavoso.Null[string]()}))
	done(ctx, t, client.Bookings.Seat(booking.ID))
	done(ctx, t, client.Bookings.Complete(booking.ID))
	for i, end := range []func(string) *flavoso.Call[flavoso.Booking]{client.Bookings.Cancel, client.Bookings.NoShow} {
		b := done(ctx, t, client.Bookings.Create([]string{"table-2", "table-3"}[i], flavoso.BookingParams{PartySize: 2, StartsAt: soon, Customer: guest}))
		done(ctx, t, end(b.ID))
	}

	if _, err := client.Orders.Get(ctx, ids[3]); err != nil {
		t.Error(err)
	}
	if _, err := client.Bookings.Get(ctx, booking.ID); err != nil {
		t.Error(err)
	}
	for _, err := range client.Orders.List(ctx, flavoso.ListOrdersParams{}) {
		if err != nil {
			t.Error(err)
		}
	}
	for _, err := range client.Bookings.List(ctx, flavoso.ListBookingsParams{}) {
		if err != nil {
			t.Error(err)
		}
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, err := range rec.errs {
		t.Error(err)
	}
	if rec.n < 20 {
		t.Errorf("only %d exchanges were checked", rec.n)
	}
}

func done[T any](ctx context.Context, t *testing.T, call *flavoso.Call[T]) *T {
	t.Helper()
	v, err := call.Do(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
