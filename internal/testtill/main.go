// Testtill is a till as a process of its own, for tests that kill it. It opens a client on an outbox,
// does what its flags say, and prints one line a step for the test to wait for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go"
)

func main() {
	var (
		baseURL = flag.String("base-url", "", "API address")
		token   = flag.String("token", "", "access token")
		conn    = flag.String("connection", "", "connection")
		path    = flag.String("outbox", "", "outbox file")
		accept  = flag.String("accept", "", "order to accept, waiting for the outcome")
		enqueue = flag.String("enqueue", "", "orders to accept, comma-separated, without waiting")
		book    = flag.String("book", "", "reference of a booking to create, waiting for the outcome")
		starts  = flag.String("starts", "", "when the booking starts, RFC 3339")
		flush   = flag.Bool("flush", false, "wait until nothing waits any more, before accepting and booking")
		hold    = flag.Bool("hold", false, "then keep the outbox open until killed")
		patient = flag.Bool("patient", false, "pause for many seconds between attempts, so that there is time to be killed")
	)
	flag.Parse()
	if err := run(*baseURL, *token, *conn, *path, *accept, *enqueue, *book, *starts, *flush, *hold, *patient); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func run(baseURL, token, conn, path, accept, enqueue, book, starts string, flush, hold, patient bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cfg := flavoso.Config{Connection: conn, Token: flavoso.StaticToken(token), OutboxPath: path, BaseURL: baseURL}
	if patient {
		cfg.Retry = flavoso.ExponentialJitter{Base: 200 * time.Second, Floor: 100 * time.Second, Cap: time.Hour}
	}
	client, err := flavoso.Open(cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	fmt.Println("open")
	if enqueue != "" {
		for _, id := range strings.Split(enqueue, ",") {
			if _, err := client.Orders.Accept(id, params()).Enqueue(ctx); err != nil {
				return err
			}
		}
		fmt.Println("enqueued")
	}
	if flush {
		if err := client.Flush(ctx); err != nil {
			return err
		}
		fmt.Println("flushed")
	}
	if accept != "" {
		order, err := client.Orders.Accept(accept, params()).Do(ctx)
		if err != nil {
			return err
		}
		fmt.Println("accepted", order.Status)
	}
	if book != "" {
		at, err := time.Parse(time.RFC3339, starts)
		if err != nil {
			return err
		}
		booking, err := client.Bookings.Create(book, flavoso.BookingParams{PartySize: 4, StartsAt: at,
			Customer: flavoso.BookingCustomer{Name: "Jörg Müller", Phone: "+49 30 1234567"}, Note: "Kinderstuhl"}).Do(ctx)
		if err != nil {
			return err
		}
		fmt.Println("booked", booking.ID)
	}
	if hold {
		<-ctx.Done()
		return errors.New("was not killed")
	}
	return nil
}

func params() flavoso.AcceptParams { return flavoso.AcceptParams{PreparationMinutes: 20} }
