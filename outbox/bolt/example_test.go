package bolt_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	engine, err := bolt.Open(filepath.Join(dir, "pos.outbox"), bolt.Options{Logger: slog.Default()})
	if err != nil {
		fmt.Println(err) // *outbox.LockedError names the process that has it open
		return
	}
	defer func() { _ = engine.Close() }()
	for _, r := range engine.Reports() {
		fmt.Println("damage:", r.Cause, "- kept aside:", r.Aside)
	}
	ctx := context.Background()
	_, err = engine.Add(ctx, outbox.Addition{Now: time.Now(), Record: outbox.Record{ID: "op-1", Connection: "store-42", Lane: "menu", Request: outbox.Request{Method: "PUT", Target: "/menu"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	counts, _ := engine.Counts(ctx, "")
	fmt.Println(counts.Waiting(), "waiting")
	// Output: 1 waiting
}
