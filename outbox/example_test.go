package outbox_test

import (
	"context"
	"fmt"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// One operation from acceptance to its outcome, as the SDK's dispatcher does it.
func Example() {
	ctx := context.Background()
	engine := outbox.NewMemory()
	defer func() { _ = engine.Close() }()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	added, _ := engine.Add(ctx, outbox.Addition{Now: now, Record: outbox.Record{
		ID: "op-1", Connection: "store-42", Lane: "order:17", Kind: "orders.accept", Key: "accept-17", KeyDerived: true, RepeatSafe: true,
		Request: outbox.Request{Method: "POST", Target: "/orders/17/accept", Body: []byte(`{"preparation_minutes":20}`)},
	}})
	fmt.Println(added.Record.State, added.Record.WireKey)

	claimed, _ := engine.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 8})
	fmt.Println(claimed[0].State, "attempt", claimed[0].Attempts)

	settled, _ := engine.Settle(ctx, outbox.Settlement{
		ID: "op-1", Claim: claimed[0].Claim.Token, Now: now, To: outbox.Succeeded, Result: &outbox.Result{Status: 200},
	})
	fmt.Println(settled[0].Record.State)
	// Output:
	// queued accept-17
	// sent attempt 1
	// succeeded
}

func ExampleDecide() {
	rejected := outbox.Tombstone{Key: "status-17-ready", Generation: 1, State: outbox.Rejected, Code: "validation_failed"}
	again := outbox.Addition{Record: outbox.Record{Key: "status-17-ready", KeyDerived: true}}
	choice := outbox.Decide(&rejected, &again)
	fmt.Println(choice.Decision == outbox.AddedNew, outbox.WireKey(again.Record.Key, choice.Generation))
	// Output: true status-17-ready~2
}

func ExampleSeal() {
	key := make([]byte, 32) // from the till's key store
	engine, err := outbox.Seal(outbox.NewMemory(), key)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close() }()
	_, err = outbox.Seal(outbox.NewMemory(), []byte("password"))
	fmt.Println(err)
	// Output: outbox: sealing key number 1 is 8 bytes long, not 32
}
