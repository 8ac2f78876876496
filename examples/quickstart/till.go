package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/flavoso/flavoso-go"
)

// till is the point of sale: what an integrator writes.
func till(ctx context.Context) error {
	if len(os.Args) != 7 {
		return errors.New("usage: till accept|resume <base URL> <token> <outbox> <order>")
	}
	task, baseURL, token, outboxPath, order := os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	client, err := flavoso.Open(flavoso.Config{
		Connection: connection,
		Token:      flavoso.StaticToken(token),
		OutboxPath: outboxPath,
		BaseURL:    baseURL,
		// Slower than the default between attempts, so that there is time to kill this process in between.
		Retry: flavoso.ExponentialJitter{Base: 8 * time.Second, Floor: 4 * time.Second},
	})
	if err != nil {
		return err
	}
	defer client.Close()

	accept := client.Orders.Accept(order, flavoso.AcceptParams{PreparationMinutes: 20})
	if task == "accept" {
		_, err := accept.Do(ctx)
		return err // not reached: the process is killed meanwhile
	}

	// After a restart the client goes on with what it finds in its outbox. Wait until that is done, and
	// look at what became of the accept.
	if err := client.Flush(ctx); err != nil {
		return err
	}
	outcome, ok := accept.Outcome()
	if !ok {
		return errors.New("the outbox has lost the operation")
	}
	result, err := flavoso.Result[flavoso.Order](outcome)
	if err != nil {
		return err
	}
	say("The till sent the same key %s and the same bytes again, and was answered with the first result: %s.",
		outcome.Key, result.Status)
	return nil
}
