// Pgserve runs a throw-away PostgreSQL server for tests of other modules: it prints the URL of an empty database
// and ends with its standard input.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
)

func main() {
	if err := serve(); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func serve() error {
	cluster, err := pgtest.StartCluster(false)
	if err != nil {
		return err
	}
	fmt.Println("ready", cluster.DSN("postgres"))
	_, _ = io.Copy(io.Discard, os.Stdin)
	return cluster.Stop()
}
