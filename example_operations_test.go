package flavoso_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// pause lets Flavoso ask for patience, so that what the examples save waits.
func pause(srv *mockserver.Server, client *flavoso.Client, patience time.Duration) {
	srv.Inject(mockserver.RateLimit(patience).Times(1))
	if _, err := client.Store.Update(flavoso.UpdateStoreParams{PauseReason: flavoso.Set("")}).Enqueue(context.Background()); err != nil {
		panic(err)
	}
	for client.Status().PausedUntil.IsZero() {
		time.Sleep(time.Millisecond)
	}
}

// A call without a way to read it back is uncertain when its answer was lost and a later one says no: that may be
// because the first has done it. A person looks, and decides.
func ExampleOperationsService_Resolve() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	path := flavoso.Path("orders", srv.AddOrder("store-42", mockserver.Order{}), "accept")
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
	srv.Inject(mockserver.Status(409).Code("conflict").On("POST", "/orders/{id}/accept").Times(1))

	call := flavoso.NewCall[flavoso.Order](client, "POST", path, nil)
	_, err := call.Do(ctx)
	var uncertain *flavoso.UncertainError
	if !errors.As(err, &uncertain) {
		fmt.Println(err)
		return
	}
	fmt.Println(uncertain.Reason)

	err = client.Operations.Resolve(ctx, uncertain.OperationID, flavoso.Resolution{
		Decision: flavoso.Done, Body: json.RawMessage(`{"status":"confirmed"}`), Note: "Kim: it is confirmed",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	order, err := call.Do(ctx) // the same operation: nothing is sent
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(order.Status)
	// Output:
	// refused_after_unknown_attempt
	// confirmed
}

// What provably was never sent can be withdrawn.
func ExampleOperationsService_Cancel() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	pause(srv, client, time.Minute)
	pending, err := client.Orders.Accept(srv.AddOrder("store-42", mockserver.Order{}), flavoso.AcceptParams{}).Enqueue(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := client.Operations.Cancel(ctx, pending.ID()); err != nil { // ErrState: it may have been sent
		fmt.Println(err)
		return
	}
	_, err = pending.Wait(ctx)
	fmt.Println(flavoso.FateOf(err), errors.Is(err, flavoso.ErrOperationCanceled))
	// Output: not sent true
}

func ExampleOperationsService_Get() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	call := client.Orders.Accept(srv.AddOrder("store-42", mockserver.Order{}), flavoso.AcceptParams{PreparationMinutes: 20})
	if _, err := call.Do(ctx); err != nil {
		fmt.Println(err)
		return
	}
	outcome, _ := call.Outcome()
	o, err := client.Operations.Get(ctx, outcome.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(o.State, o.Method, string(o.RequestBody))
	// Output: succeeded POST {"preparation_minutes":20}
}

// For support and audit: one JSON object a line, without bodies unless they are asked for.
func ExampleOperationsService_Export() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	if _, err := client.Orders.Accept(srv.AddOrder("store-42", mockserver.Order{}), flavoso.AcceptParams{}).Do(ctx); err != nil {
		fmt.Println(err)
		return
	}
	var out bytes.Buffer
	if err := client.Operations.Export(ctx, &out, flavoso.OperationFilter{States: []flavoso.State{flavoso.StateSucceeded}}); err != nil {
		fmt.Println(err)
		return
	}
	var line struct{ Kind, State string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(line.Kind, line.State)
	// Output: orders.accept succeeded
}

// After a rejection the rest of the lane waits for a decision, if the call asks for that.
func ExampleOperationsService_ResumeLane() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	orderID := srv.AddOrder("store-42", mockserver.Order{Status: mockserver.StatusCompleted})
	pause(srv, client, 2*time.Second)
	cancel := client.Orders.Cancel(orderID, flavoso.CancelParams{Reason: flavoso.ReasonCustomerRequest}).StopLaneOnReject()
	if _, err := cancel.Enqueue(ctx); err != nil {
		fmt.Println(err)
		return
	}
	behind, err := client.Orders.SetStatus(orderID, flavoso.StatusParams{Status: flavoso.OrderCompleted}).Enqueue(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = behind.Wait(ctx)
	fmt.Println(flavoso.FateOf(err), errors.Is(err, flavoso.ErrBlocked))
	if err := client.Operations.ResumeLane(ctx, "order:"+orderID); err != nil {
		fmt.Println(err)
		return
	}
	order, err := behind.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(order.Status)
	// Output:
	// unknown true
	// completed
}

// Config.Reconcile decides about calls of the app's own after an answer was lost, where the app can look.
func ExampleConfig_reconcile() {
	srv, client, done := example(func(c *flavoso.Config) {
		c.Reconcile = func(ctx context.Context, c *flavoso.Client, o flavoso.Operation) (flavoso.Resolution, error) {
			for booking, err := range c.Bookings.List(ctx, flavoso.ListBookingsParams{ExternalID: o.Tag}) {
				if err != nil {
					return flavoso.Resolution{}, err // asked again later
				}
				body, err := json.Marshal(map[string]string{"id": booking.ID})
				return flavoso.Resolution{Decision: flavoso.Done, Body: body, Note: "found by its reference"}, err
			}
			return flavoso.Resolution{Decision: flavoso.SendAgain}, nil // same key, same bytes
		}
	})
	defer done()
	srv.Inject(mockserver.DropResponse().On("POST", "/bookings").Times(1))

	type made struct{ ID string }
	_, err := flavoso.NewCall[made](client, "POST", "/bookings", map[string]any{
		"external_id": "2031-05-01-18", "party_size": 2, "starts_at": time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339),
		"customer": map[string]string{"name": "Zoë"},
	}).WithTag("2031-05-01-18").Do(context.Background())
	fmt.Println(err, len(srv.Effects()))
	// Output: <nil> 1
}

func ExampleHooks() {
	var attempts atomic.Int32
	srv, client, done := example(func(c *flavoso.Config) {
		c.Hooks = flavoso.Hooks{
			AttemptEnd: func(_ context.Context, o flavoso.Outcome, a *flavoso.Attempt) {
				if a != nil {
					attempts.Add(1) // o.Kind, a.Verdict and a.Status are what metrics are made of
				}
			},
		}
	})
	defer done()
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
	if _, err := client.Orders.Accept(srv.AddOrder("store-42", mockserver.Order{}), flavoso.AcceptParams{}).Do(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(attempts.Load(), "attempts")
	// Output: 2 attempts
}

// With keys nobody reads guests' names in the file of a stolen till.
func ExampleConfig_outboxKeys() {
	key := bytes.Repeat([]byte{7}, 32) // 32 random bytes, kept apart from the file
	var cfg flavoso.Config
	_, client, done := example(func(c *flavoso.Config) {
		c.OutboxKeys = [][]byte{key} // the first one seals, any of them opens
		cfg = *c
	})
	defer done()
	if _, err := client.Bookings.Create("2031-05-01-19", flavoso.BookingParams{
		PartySize: 4, StartsAt: time.Now().Add(48 * time.Hour), Customer: flavoso.BookingCustomer{Name: "Jörg Müller"},
	}).Do(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	client.Close()
	file, err := os.ReadFile(cfg.OutboxPath)
	fmt.Println(err, bytes.Contains(file, []byte("Müller")))

	cfg.OutboxKeys = nil
	_, err = flavoso.Open(cfg)
	fmt.Println(errors.Is(err, outbox.ErrSealed))
	// Output:
	// <nil> false
	// true
}

// Before a till is switched off for the night: everything that was saved goes out first.
func ExampleClient_Flush() {
	srv, client, done := example()
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 3 {
		if _, err := client.Orders.Accept(srv.AddOrder("store-42", mockserver.Order{}), flavoso.AcceptParams{}).Enqueue(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := client.Flush(ctx); err != nil { // *HeldError: waiting would not help
		fmt.Println(err)
		return
	}
	fmt.Println(client.Status().Waiting, len(srv.Effects()))
	// Output: 0 3
}

// Requests under way are let finish; the rest is taken up by the next Open.
func ExampleClient_Shutdown() {
	_, client, done := example()
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(client.Shutdown(ctx))
	// Output: <nil>
}

// An availability that is over by closing time is not worth sending in the morning.
func ExampleCall_WithExpiry() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	pause(srv, client, time.Minute)
	pending, err := client.Menu.SetAvailability(flavoso.AvailabilityParams{Changes: []flavoso.AvailabilityChange{
		{ItemID: "ramen", Status: flavoso.Unavailable},
	}}).WithExpiry(50 * time.Millisecond).Enqueue(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = pending.Wait(ctx)
	fmt.Println(flavoso.FateOf(err), errors.Is(err, flavoso.ErrExpired))
	// Output: not sent true
}

// Of two menus that were saved while the till was offline only the newer one is sent.
func ExampleCall_WithSupersede() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	menu, err := client.Menu.Get(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	pause(srv, client, time.Minute)
	older, err := client.Menu.Put(menu).WithSupersede().Enqueue(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	menu.Items[0].Name += " (new)"
	if _, err := client.Menu.Put(menu).WithSupersede().Enqueue(ctx); err != nil {
		fmt.Println(err)
		return
	}
	_, err = older.Wait(ctx)
	var superseded *flavoso.SupersededError
	fmt.Println(flavoso.FateOf(err), errors.As(err, &superseded))
	// Output: not sent true
}

// An operation is taken up again by its id, by whichever process comes later.
func ExampleAttach() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	pending, err := client.Orders.Accept(srv.AddOrder("store-42", mockserver.Order{}), flavoso.AcceptParams{}).Enqueue(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	id := pending.ID() // kept with the ticket

	order, err := flavoso.Attach[flavoso.Order](client, id).Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(order.Status)
	// Output: confirmed
}

func ExampleResult() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	if _, err := client.Orders.Accept(srv.AddOrder("store-42", mockserver.Order{}), flavoso.AcceptParams{}).Do(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for o, err := range client.Operations.List(ctx, flavoso.OperationFilter{Kind: "orders.accept", Bodies: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		order, err := flavoso.Result[flavoso.Order](o.Outcome) // what Do would have returned
		fmt.Println(order.Status, err)
	}
	// Output: confirmed <nil>
}

func ExampleMenuService_Availability() {
	_, client, done := example()
	defer done()
	availability, err := client.Menu.Availability(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(availability.Of("ramen").Status)
	// Output: available
}

func ExampleClient_Wake() {
	_, client, done := example()
	defer done()
	client.Wake() // the system says that the network is back: look now and not at the next probe
	fmt.Println(client.Status().OfflineSince.IsZero())
	// Output: true
}
