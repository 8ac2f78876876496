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

// steps are what the flags say: where the till is, and what it does, in this order.
type steps struct {
	baseURL, token, connection, outbox string

	patient bool
	enqueue string
	flush   bool
	accept  string
	book    string
	starts  string
	hold    bool
}

func main() {
	var s steps
	flag.StringVar(&s.baseURL, "base-url", "", "API address")
	flag.StringVar(&s.token, "token", "", "access token")
	flag.StringVar(&s.connection, "connection", "", "connection")
	flag.StringVar(&s.outbox, "outbox", "", "outbox file")
	flag.BoolVar(&s.patient, "patient", false, "pause for many seconds between attempts, so that there is time to be killed")
	flag.StringVar(&s.enqueue, "enqueue", "", "orders to accept, comma-separated, without waiting")
	flag.BoolVar(&s.flush, "flush", false, "wait until nothing waits any more, before accepting and booking")
	flag.StringVar(&s.accept, "accept", "", "order to accept, waiting for the outcome")
	flag.StringVar(&s.book, "book", "", "reference of a booking to create, waiting for the outcome")
	flag.StringVar(&s.starts, "starts", "", "when the booking starts, RFC 3339")
	flag.BoolVar(&s.hold, "hold", false, "then keep the outbox open until killed")
	flag.Parse()
	if err := s.run(); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func (s *steps) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cfg := flavoso.Config{Connection: s.connection, Token: flavoso.StaticToken(s.token), OutboxPath: s.outbox, BaseURL: s.baseURL}
	if s.patient {
		cfg.Retry = flavoso.ExponentialJitter{Base: 200 * time.Second, Floor: 100 * time.Second, Cap: time.Hour}
	}
	client, err := flavoso.Open(cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	fmt.Println("open")
	if s.enqueue != "" {
		for _, id := range strings.Split(s.enqueue, ",") {
			if _, err := client.Orders.Accept(id, params()).Enqueue(ctx); err != nil {
				return err
			}
		}
		fmt.Println("enqueued")
	}
	if s.flush {
		if err := client.Flush(ctx); err != nil {
			return err
		}
		fmt.Println("flushed")
	}
	if s.accept != "" {
		order, err := client.Orders.Accept(s.accept, params()).Do(ctx)
		if err != nil {
			return err
		}
		fmt.Println("accepted", order.Status)
	}
	if s.book != "" {
		at, err := time.Parse(time.RFC3339, s.starts)
		if err != nil {
			return err
		}
		booking, err := client.Bookings.Create(s.book, flavoso.BookingParams{PartySize: 4, StartsAt: at,
			Customer: flavoso.BookingCustomer{Name: "Jörg Müller", Phone: "+49 30 1234567"}, Note: "Kinderstuhl"}).Do(ctx)
		if err != nil {
			return err
		}
		fmt.Println("booked", booking.ID)
	}
	if s.hold {
		<-ctx.Done()
		return errors.New("was not killed")
	}
	return nil
}

func params() flavoso.AcceptParams { return flavoso.AcceptParams{PreparationMinutes: 20} }
