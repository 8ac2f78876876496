package flavoso_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
)

func ExampleOrdersService_Accept() {
	srv, client, done := example()
	defer done()
	orderID := srv.AddOrder("store-42", mockserver.Order{Status: mockserver.StatusCancelled})

	// The guest has cancelled meanwhile. Flavoso answers 200 with the order unchanged (F13).
	_, err := client.Orders.Accept(orderID, flavoso.AcceptParams{PreparationMinutes: 20}).Do(context.Background())
	var unexpected *flavoso.UnexpectedStateError
	if errors.As(err, &unexpected) {
		fmt.Println("do not cook it, it is", unexpected.Got)
	}
	// Output: do not cook it, it is cancelled
}

func ExampleOrdersService_Acknowledge() {
	srv, client, done := example()
	defer done()
	orderID := srv.AddOrder("store-42", mockserver.Order{})
	order, err := client.Orders.Acknowledge(orderID, flavoso.AcknowledgeParams{ExternalID: "T-17"}).Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(order.ExternalID, order.Status) // taken over, not accepted
	// Output: T-17 pending
}

func ExampleOrdersService_Reject() {
	srv, client, done := example()
	defer done()
	orderID := srv.AddOrder("store-42", mockserver.Order{})
	order, err := client.Orders.Reject(orderID, flavoso.RejectParams{
		Reason: flavoso.ReasonOther, Message: "The oven is broken.",
	}).Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(order.Status, order.Cancellation.By)
	// Output: rejected restaurant
}

func ExampleOrdersService_Cancel() {
	srv, client, done := example()
	defer done()
	orderID := srv.AddOrder("store-42", mockserver.Order{Status: mockserver.StatusCompleted})
	_, err := client.Orders.Cancel(orderID, flavoso.CancelParams{Reason: flavoso.ReasonCustomerRequest}).Do(context.Background())
	fmt.Println(flavoso.FateOf(err), errors.Is(err, flavoso.ErrConflict))
	// Output: refused true
}

func ExampleOrdersService_SetStatus() {
	srv, client, done := example()
	defer done()
	ctx := context.Background()
	orderID := srv.AddOrder("store-42", mockserver.Order{Status: mockserver.StatusConfirmed})

	// Statuses of one order go out in the order they were set, whatever the network does.
	if _, err := client.Orders.SetStatus(orderID, flavoso.StatusParams{Status: flavoso.OrderPreparing}).Enqueue(ctx); err != nil {
		fmt.Println(err)
		return
	}
	order, err := client.Orders.SetStatus(orderID, flavoso.StatusParams{Status: flavoso.OrderReady}).Do(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(order.Status, order.Version)
	// Output: ready 3
}

func ExampleOrdersService_Update() {
	srv, client, done := example()
	defer done()
	orderID := srv.AddOrder("store-42", mockserver.Order{Status: mockserver.StatusConfirmed})
	later := time.Now().Add(40 * time.Minute).Truncate(time.Second)
	order, err := client.Orders.Update(orderID, flavoso.UpdateOrderParams{EstimatedReadyAt: flavoso.Set(later)}).Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(order.EstimatedReadyAt.Equal(later))
	// Output: true
}

func ExampleOrdersService_Watch() {
	srv, client, done := example()
	defer done()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	srv.AddOrder("store-42", mockserver.Order{DisplayNumber: "A17"})

	// One goroutine for as long as the till runs. The cursor is kept in the outbox under the name.
	err := client.Orders.Watch(ctx, flavoso.WatchParams{Name: "till"}, func(ctx context.Context, o *flavoso.Order) error {
		fmt.Println("order", o.DisplayNumber, "is", o.Status)
		stop() // here: the example ends
		return nil
	})
	fmt.Println(err)
	// Output:
	// order A17 is pending
	// context canceled
}

func ExampleItem_LineTotal() {
	item := flavoso.Item{
		Quantity: 2, UnitPrice: flavoso.Money{Amount: 950, Currency: "EUR"},
		Modifiers: []flavoso.Modifier{{Quantity: 1, Price: flavoso.Money{Amount: 150, Currency: "EUR"}}},
	}
	fmt.Println(item.LineTotal())
	// Output: 22.00 EUR
}
