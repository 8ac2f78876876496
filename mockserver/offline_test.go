package mockserver_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
)

// openTill opens the SDK on the server, through memory.
func openTill(srv *mockserver.Server, dir string) (*flavoso.Client, error) {
	return flavoso.Open(flavoso.Config{
		Connection: "store-42",
		Token:      flavoso.StaticToken(srv.Token("store-42")),
		OutboxPath: filepath.Join(dir, "pos.outbox"),
		BaseURL:    srv.BaseURL(),
		Transport:  srv.Transport(), // over it a refused dial is a refused dial
	})
}

// The network is away for a while: over Transport every dial is refused, so that provably nothing was sent.
func ExampleRefuse() {
	srv := newServer()
	defer srv.Close()
	dir, err := os.MkdirTemp("", "flavoso-offline")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	client, err := openTill(srv, dir)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	offline := srv.Inject(mockserver.Refuse())
	id := srv.AddOrder("store-42", mockserver.Order{})
	accepted, err := client.Orders.Accept(id, flavoso.AcceptParams{PreparationMinutes: 20}).Enqueue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("saved; requests:", len(srv.Requests()))

	offline.Remove()
	client.Wake()
	order, err := accepted.Wait(ctx)
	fmt.Println(order.Status, err)
	// Output:
	// saved; requests: 0
	// confirmed <nil>
}

// TestADayOffline is the recipe of docs/mock.md.
func TestADayOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.Start(t)
		client, err := flavoso.Open(flavoso.Config{
			Connection: "store-42",
			Token:      flavoso.StaticToken(srv.Token("store-42")),
			OutboxPath: filepath.Join(t.TempDir(), "pos.outbox"),
			BaseURL:    srv.BaseURL(),
			Transport:  srv.Transport(),
		})
		require.NoError(t, err)
		defer client.Close()
		id := srv.AddOrder("store-42", mockserver.Order{AcceptBy: time.Now().Add(72 * time.Hour)})

		offline := srv.Inject(mockserver.Refuse())
		accepted, err := client.Orders.Accept(id, flavoso.AcceptParams{}).Enqueue(t.Context())
		require.NoError(t, err) // saved, not sent
		time.Sleep(24 * time.Hour)
		require.Empty(t, srv.Requests())

		offline.Remove()
		client.Wake() // or wait: the client looks again by itself
		_, err = accepted.Wait(t.Context())
		require.NoError(t, err)
		srv.AssertExactlyOnce(t, "orders.accept", id)
	})
}
