package flavoso_test

import (
	"context"
	"fmt"
	"log"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// A POS in the cloud sends for all of its restaurants from one process, or from many with a shared engine.
func ExampleOpenFleet() {
	srv, err := mockserver.New()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	first := srv.AddOrder("store-1", mockserver.Order{})
	second := srv.AddOrder("store-2", mockserver.Order{})

	fleet, err := flavoso.OpenFleet(flavoso.FleetConfig{
		Outbox:  outbox.NewMemory(), // in production: an engine of the module postgres
		BaseURL: srv.BaseURL(), Transport: srv.Transport(),
		Token: flavoso.TokenFunc(func(_ context.Context, r flavoso.TokenRequest) (string, error) {
			return srv.Token(r.Connection), nil // in production: from where the app keeps them
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer fleet.Close()

	for connection, id := range map[string]string{"store-1": first, "store-2": second} {
		order, err := fleet.Client(connection).Orders.Accept(id, flavoso.AcceptParams{PreparationMinutes: 20}).Do(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(order.Status)
	}
	fmt.Println(len(srv.Effects()), "orders accepted")
	// Output:
	// confirmed
	// confirmed
	// 2 orders accepted
}
