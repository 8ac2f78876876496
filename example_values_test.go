package flavoso_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/flavoso/flavoso-go"
)

// A key belongs to the wish, not to the attempt: made from the till's own data it is the same on every
// device and after every restart.
func ExampleDeriveKey() {
	fmt.Println(flavoso.DeriveKey("print", "ticket-4711"))
	fmt.Println(flavoso.DeriveKey("print", "Table 7/evening"))
	fmt.Println(flavoso.DeriveKey("print", "2026-11-30", "17"))
	// Output:
	// print-ticket-4711
	// print-Table~x207~x2fevening
	// print-2026-11-30~-17
}

// Guests' data stays out of keys; its hash may serve.
func ExampleHashKey() {
	secret := []byte("the same on every till of the restaurant")
	a := flavoso.HashKey(secret, "callback", "+49 30 1234567")
	b := flavoso.HashKey(secret, "callback", "+49 30 1234567")
	fmt.Println(a == b, len(a) <= flavoso.MaxKeyLength)
	// Output: true true
}

func ExampleNewKey() {
	key := flavoso.NewKey() // save it with the job it is for
	fmt.Println(key.Validate() == nil, key == flavoso.NewKey())
	// Output: true false
}

func ExampleKey_Validate() {
	fmt.Println(flavoso.Key("acme 2026/11/30 #17").Validate())
	fmt.Println(flavoso.Key("schlüssel").Validate())
	// Output:
	// <nil>
	// flavoso: Idempotency-Key: must be printable ASCII (F3)
}

func ExamplePath() {
	fmt.Println(flavoso.Path("orders", "9f86d081-884c-4d65-9a2f-eaa0c55ad015", "print"))
	fmt.Println(flavoso.Path("orders", "a/../b?x", "print"))
	// Output:
	// /orders/9f86d081-884c-4d65-9a2f-eaa0c55ad015/print
	// /orders/a%2F..%2Fb%3Fx/print
}

func ExampleStaticToken() {
	source := flavoso.StaticToken("tok_s3cret")
	fmt.Printf("%v %+v %q\n", source, source, source)
	// Output: [redacted] [redacted] [redacted]
}

// A source that renews: it answers from memory until Flavoso refuses the token.
func ExampleTokenFunc() {
	current := "first"
	source := flavoso.TokenFunc(func(ctx context.Context, r flavoso.TokenRequest) (string, error) {
		if r.Rejected == current {
			current = "second" // here: ask the authorization server, for r.Connection
		}
		return current, nil
	})
	a, _ := source.Token(context.Background(), flavoso.TokenRequest{Connection: "store-42"})
	b, _ := source.Token(context.Background(), flavoso.TokenRequest{Connection: "store-42", Rejected: a})
	fmt.Println(a, b)
	// Output: first second
}

func ExampleExponentialJitter() {
	policy := flavoso.ExponentialJitter{Base: time.Second, Cap: 5 * time.Minute}
	d := policy.Delay(3) // after the fourth failure
	fmt.Println(50*time.Millisecond <= d && d <= 8*time.Second)
	// Output: true
}

func ExampleMoney() {
	fmt.Println(flavoso.Money{Amount: 1250, Currency: "EUR"}, flavoso.Money{Amount: 1250, Currency: "JPY"})
	// Output: 12.50 EUR 1250 JPY
}

// A PATCH leaves a field as it is, changes it, or clears it.
func ExamplePatch() {
	ready := time.Date(2026, 11, 30, 18, 30, 0, 0, time.UTC)
	for _, params := range []flavoso.UpdateOrderParams{
		{},
		{EstimatedReadyAt: flavoso.Set(ready)},
		{EstimatedReadyAt: flavoso.Null[time.Time]()},
	} {
		body, _ := json.Marshal(params)
		fmt.Println(string(body))
	}
	// Output:
	// {}
	// {"estimated_ready_at":"2026-11-30T18:30:00Z"}
	// {"estimated_ready_at":null}
}

// Fields that are newer than the package stay reachable, and an unknown status is no error.
func ExampleOrder() {
	var order flavoso.Order
	err := json.Unmarshal([]byte(`{"object":"order","id":"4711","status":"on_hold","kitchen":"north"}`), &order)
	var more struct {
		Kitchen string `json:"kitchen"`
	}
	json.Unmarshal(order.Raw, &more)
	fmt.Println(err, order.Status, order.Status == flavoso.OrderPending, more.Kitchen)
	// Output: <nil> on_hold false north
}
