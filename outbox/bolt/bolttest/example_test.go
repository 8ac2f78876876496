package bolttest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

// A sync fails; the operation is saved all the same, in a fresh copy of the file.
func ExampleDisk() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	disk := bolttest.NewDisk()
	var o bolt.Options
	disk.Attach(&o)
	engine, err := bolt.Open(filepath.Join(dir, "pos.outbox"), o)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close() }()
	disk.Fail(bolttest.SyncMeta, 1)
	_, err = engine.Add(context.Background(), outbox.Addition{Now: time.Now(), Record: outbox.Record{ID: "op-1", Connection: "store-42", Lane: "menu"}})
	fmt.Println(err, disk.Count(bolt.PointCopyDone) > 0)
	// Output: <nil> true
}
