package conformance_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/mockserver/conformance"
)

// A server is checked by its URL and a token. What only a test server can do comes from its Control.
func ExampleCheck() {
	srv, err := mockserver.New(mockserver.InMemory())
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ctx := context.Background()
	target := conformance.Target{
		BaseURL: srv.BaseURL(), Token: srv.Token("store-42"), SecondToken: srv.Token("store-43"), Transport: srv.Transport(),
	}
	if target.Control, err = conformance.MockControl(ctx, target); err != nil {
		log.Fatal(err)
	}
	results, err := conformance.Check(ctx, target)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results[4:6] {
		fmt.Println(r.Status, r.Clause, r.Name)
	}
	// Output:
	// pass F5 the first answer is held for 24 hours
	// pass F6 the same request again replays the first answer
}

// In a server's own tests: one subtest per clause.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestTheServerKeepsTheContract(t *testing.T)
		srv := mockserver.Start(t)
		conformance.Run(t, conformance.Target{BaseURL: srv.BaseURL(), Token: srv.Token("store-42"), Transport: srv.Transport()})
	}
}
