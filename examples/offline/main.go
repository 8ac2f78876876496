// Offline shows a till that goes on working while Flavoso cannot be reached: operations are saved to its
// outbox, survive a restart, and are sent in order as soon as somebody listens. It exits 0 only if that is
// true.
//
//	go run ./examples/offline
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
)

const connection = "store-42"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := story(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "offline:", err)
		os.Exit(1)
	}
}

func story(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "flavoso-offline")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	addr, err := unusedAddress()
	if err != nil {
		return err
	}
	cfg := flavoso.Config{
		Connection: connection,
		Token:      flavoso.StaticToken("mock_" + connection),
		OutboxPath: filepath.Join(dir, "till.outbox"),
		BaseURL:    "http://" + addr + "/v1",
	}
	orders := []string{"0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002", "0a1b2c3d-0000-4000-8000-000000000003"}

	till, err := flavoso.Open(cfg)
	if err != nil {
		return err
	}
	if err := enqueue(ctx, till, orders); err != nil {
		return errors.Join(err, till.Close())
	}
	say("Nobody listens on %s. The till saved %d operations; its status says: %d waiting.", addr, 2*len(orders), till.Status().Waiting)
	if err := till.Close(); err != nil {
		return err
	}

	till, err = flavoso.Open(cfg)
	if err != nil {
		return err
	}
	defer till.Close()
	if n := till.Status().Waiting; n != 2*len(orders) {
		return fmt.Errorf("%d operations survived the restart, not %d", n, 2*len(orders))
	}
	say("The till was restarted: everything is still there.")

	srv, err := mockserver.New(mockserver.WithAddr(addr))
	if err != nil {
		return err
	}
	defer srv.Close()
	for _, id := range orders {
		srv.AddOrder(connection, mockserver.Order{ID: id})
	}
	say("Flavoso (the mock server) comes up.")
	till.Wake() // what an app calls when the system says that the network is back
	if err := till.Flush(ctx); err != nil {
		return err
	}
	return verdict(srv, orders)
}

// unusedAddress is one that nobody listens on.
func unusedAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// enqueue accepts the orders and takes them over, in this order for each of them.
func enqueue(ctx context.Context, till *flavoso.Client, orders []string) error {
	for i, id := range orders {
		if _, err := till.Orders.Accept(id, flavoso.AcceptParams{PreparationMinutes: 20}).Enqueue(ctx); err != nil {
			return err
		}
		ticket := flavoso.AcknowledgeParams{ExternalID: fmt.Sprintf("T-%d", i+1)}
		if _, err := till.Orders.Acknowledge(id, ticket).Enqueue(ctx); err != nil {
			return err
		}
	}
	return nil
}

// verdict looks at what Flavoso did: each order accepted once, and taken over once after that.
func verdict(srv *mockserver.Server, orders []string) error {
	done := map[string][]string{}
	for _, e := range srv.Effects() {
		done[e.Resource] = append(done[e.Resource], e.Kind)
	}
	for _, id := range orders {
		if got := fmt.Sprint(done[id]); got != "[orders.accept orders.acknowledge]" {
			return fmt.Errorf("order %s: %s", id, got)
		}
	}
	say("Every order was accepted once and taken over once, in this order.")
	return nil
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
