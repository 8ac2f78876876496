package bolt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// After a whole disk image was put back, or a till was cloned: nothing in the file shows it, so somebody says so.
// Every unfinished operation then counts as sent since it was accepted.
func ExampleAdopt() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "pos.outbox")
	engine, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = engine.Add(context.Background(), outbox.Addition{Now: time.Now(), Record: outbox.Record{
		ID: "op-1", Connection: "store-42", Lane: "menu", Request: outbox.Request{Method: "PUT", Target: "/menu"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = engine.Close()

	report, err := bolt.Adopt(path, bolt.Options{}) // while nobody has it open
	fmt.Println(report.Suspect, "operation counts as sent", err)
	// Output: 1 operation counts as sent <nil>
}

// The engine gives space back by itself; before a backup it can be told to.
func ExampleEngine_Compact() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	engine, err := bolt.Open(filepath.Join(dir, "pos.outbox"), bolt.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close() }()
	fmt.Println(engine.Compact(context.Background()))
	// Output: <nil>
}
