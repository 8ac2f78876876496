package flavoso_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
)

// example starts a mock Flavoso and a client on it.
func example(change ...func(*flavoso.Config)) (*mockserver.Server, *flavoso.Client, func()) {
	srv, err := mockserver.New()
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "flavoso-example")
	if err != nil {
		panic(err)
	}
	cfg := flavoso.Config{
		Connection: "store-42",
		Token:      flavoso.StaticToken(srv.Token("store-42")),
		OutboxPath: filepath.Join(dir, "pos.outbox"),
		BaseURL:    srv.BaseURL(),
	}
	for _, c := range change {
		c(&cfg)
	}
	client, err := flavoso.Open(cfg)
	if err != nil {
		panic(err)
	}
	return srv, client, func() {
		client.Close()
		srv.Close()
		os.RemoveAll(dir)
	}
}

func Example() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	orderID := srv.AddOrder("store-42", mockserver.Order{})

	// The first answer is lost on its way back; nobody notices.
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))

	order, err := client.Orders.Accept(orderID, flavoso.AcceptParams{PreparationMinutes: 20}).Do(ctx)
	switch flavoso.FateOf(err) {
	case flavoso.FateDone:
		if err == nil {
			fmt.Println("print the ticket, the order is", order.Status)
		}
	case flavoso.FateUnknown:
		fmt.Println("on its way")
	case flavoso.FateRefused, flavoso.FateNotSent:
		fmt.Println(err)
	}
	fmt.Println("Flavoso executed", len(srv.Effects()), "accept")
	// Output:
	// print the ticket, the order is confirmed
	// Flavoso executed 1 accept
}

func ExampleOpen() {
	_, err := flavoso.Open(flavoso.Config{
		Connection: "store-42",
		Token:      flavoso.StaticToken("token"),
		OutboxPath: "pos.outbox",
		BaseURL:    "http://api.example.com/v1",
	})
	var param *flavoso.ParamError
	if errors.As(err, &param) {
		fmt.Println(param.Field)
	}
	// Output: Config.BaseURL
}

func ExampleFateOf() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	cancelled := srv.AddOrder("store-42", mockserver.Order{Status: mockserver.StatusCancelled})

	_, err := client.Orders.Accept(cancelled, flavoso.AcceptParams{}).Do(ctx)
	var unexpected *flavoso.UnexpectedStateError
	fmt.Println(flavoso.FateOf(err), errors.As(err, &unexpected))

	_, err = client.Orders.Accept("no-such-order", flavoso.AcceptParams{}).Do(ctx)
	fmt.Println(flavoso.FateOf(err), errors.Is(err, flavoso.ErrNotFound))

	_, err = client.Orders.Accept("a/../b", flavoso.AcceptParams{}).Do(ctx)
	fmt.Println(flavoso.FateOf(err), errors.Is(err, flavoso.ErrNotSaved))
	// Output:
	// done true
	// refused true
	// not sent true
}

func ExampleCall_Enqueue() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	orderID := srv.AddOrder("store-42", mockserver.Order{})

	// Durable when Enqueue returns, whatever the network does.
	pending, err := client.Orders.Accept(orderID, flavoso.AcceptParams{}).WithTag("ticket 17").Enqueue(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}

	// Later, or in another process with the id that was kept:
	order, err := flavoso.Attach[flavoso.Order](client, pending.ID()).Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(order.Status)
	// Output: confirmed
}

func ExampleCall_Do_sameOperation() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	orderID := srv.AddOrder("store-42", mockserver.Order{})

	// Accepting the same order again is the same operation, also after a restart.
	for range 3 {
		if _, err := client.Orders.Accept(orderID, flavoso.AcceptParams{}).Do(ctx); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(len(srv.Requests()), "request")
	// Output: 1 request
}

func ExampleNewCall() {
	srv, client, done := example()
	defer done()
	orderID := srv.AddOrder("store-42", mockserver.Order{})

	// An endpoint without a method here goes through the same machinery.
	type answer struct {
		Status string `json:"status"`
	}
	got, err := flavoso.NewCall[answer](client, "POST", flavoso.Path("orders", orderID, "accept"), nil).
		WithKey(flavoso.DeriveKey("my-accept", orderID)).
		Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(got.Status)
	// Output: confirmed
}

func ExampleBookingsService_Create() {
	srv, client, done := example()
	defer done()

	// After a 5xx Flavoso would execute the repeat (F10); the client looks for the booking first.
	srv.Inject(mockserver.StatusAfterCommit(500).NotHeld().On("POST", "/bookings").Times(1))
	booking, err := client.Bookings.Create("2031-05-01-17", flavoso.BookingParams{
		PartySize: 4,
		StartsAt:  time.Now().Add(48 * time.Hour),
		Customer:  flavoso.BookingCustomer{Name: "Jörg Müller"},
	}).Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(booking.ExternalID, len(srv.Effects()))
	// Output: 2031-05-01-17 1
}

func ExampleOrdersService_List() {
	srv, client, done := example()
	defer done()
	for range 3 {
		srv.AddOrder("store-42", mockserver.Order{})
	}
	n := 0
	for order, err := range client.Orders.List(context.Background(), flavoso.ListOrdersParams{
		Status: []flavoso.OrderStatus{flavoso.OrderPending}, PageSize: 2,
	}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if order.Status == flavoso.OrderPending {
			n++
		}
	}
	fmt.Println(n)
	// Output: 3
}

func ExampleGet() {
	srv, client, done := example()
	defer done()
	orderID := srv.AddOrder("store-42", mockserver.Order{})
	var resp flavoso.Response
	order, err := flavoso.Get[flavoso.Order](context.Background(), client, flavoso.Path("orders", orderID), nil, flavoso.ResponseInto(&resp))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(order.Status, resp.Status)
	// Output: pending 200
}

func ExampleClient_Status() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	srv.Inject(mockserver.RateLimit(time.Minute).On("POST", "/orders/{id}/accept").Times(1))
	pending, err := client.Orders.Accept(srv.AddOrder("store-42", mockserver.Order{}), flavoso.AcceptParams{}).Enqueue(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = pending.Wait(short)
	s := client.Status()
	fmt.Println(flavoso.FateOf(err), s.Waiting, !s.PausedUntil.IsZero())

	// Flush does not wait for what cannot move.
	var held *flavoso.HeldError
	fmt.Println(errors.As(client.Flush(ctx), &held))
	// Output:
	// unknown 1 true
	// true
}

func ExampleConfig_onOutcome() {
	outcomes := make(chan string, 1)
	srv, client, done := example(func(c *flavoso.Config) {
		c.OnOutcome = func(_ context.Context, _ *flavoso.Client, o flavoso.Outcome) error {
			order, err := flavoso.Result[flavoso.Order](o) // exactly what Do would have returned
			if err == nil {
				outcomes <- fmt.Sprint(o.Tag, " ", order.Status)
			}
			return nil // taken over; an error would have it called again later
		}
	})
	defer done()
	_, err := client.Orders.Accept(srv.AddOrder("store-42", mockserver.Order{}), flavoso.AcceptParams{}).
		WithTag("ticket 17").Enqueue(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-outcomes)
	// Output: ticket 17 confirmed
}

func ExampleOperationsService_List() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	if _, err := client.Orders.Accept(srv.AddOrder("store-42", mockserver.Order{}), flavoso.AcceptParams{}).Do(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for o, err := range client.Operations.List(ctx, flavoso.OperationFilter{Kind: "orders.accept"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(o.Kind, o.State, o.Attempts, o.Status)
	}
	// Output: orders.accept succeeded 1 200
}
