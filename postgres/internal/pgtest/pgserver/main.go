// Pgserver runs a throw-away PostgreSQL server that syncs as in production, for benchmarks of other modules: it
// prints the connection string of an empty database and ends when its input does.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pgserver:", err)
		os.Exit(1)
	}
}

func run() error {
	c, err := pgtest.StartCluster(true)
	if err != nil {
		return err
	}
	fmt.Println(c.DSN("postgres"))
	_, _ = io.Copy(io.Discard, os.Stdin)
	return c.Stop()
}
