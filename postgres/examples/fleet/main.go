// Command fleet shows the promise on many restaurants at once: a web shop saves each table reservation and the
// operation for Flavoso in one transaction of its own database, three worker processes send them, one of them is
// killed in the middle, and in the end Flavoso has every committed reservation exactly once and no other. It
// exits 0 only if that is true.
//
//	go run ./examples/fleet
//
// Flavoso is played by the bundled mock server in this process; PostgreSQL is the one that -dsn names, or a
// throw-away server from the binaries installed here. The workers are worker.go, the shop is shop.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var err error
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		err = worker(ctx, os.Args[2:])
	} else {
		dsn := flag.String("dsn", "", "PostgreSQL connection string; empty = a throw-away server from the binaries installed here")
		flag.Parse()
		err = withDatabase(ctx, *dsn, func(dsn string) error { return story(ctx, dsn, os.Stdout) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// withDatabase runs do on the given database, or on a throw-away one.
func withDatabase(ctx context.Context, dsn string, do func(dsn string) error) (err error) {
	if dsn != "" {
		return do(dsn)
	}
	cluster, err := pgtest.StartCluster(true)
	if err != nil {
		return fmt.Errorf("no -dsn, and no throw-away server: %w", err)
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	return do(cluster.DSN("postgres"))
}

const (
	restaurants  = 20
	reservations = 200
	// taken is how long Flavoso takes for one: long enough for a worker to be killed in the middle of some.
	taken = 300 * time.Millisecond
)

func story(ctx context.Context, dsn string, out io.Writer) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pgoutbox.Migrate(ctx, pool); err != nil {
		return err
	}
	flavoso, err := mockserver.New()
	if err != nil {
		return err
	}
	defer flavoso.Close()
	flavoso.Inject(mockserver.DropResponse().On("POST", "/bookings").Ratio(0.1)) // before the next one: the first that applies counts
	flavoso.Inject(mockserver.Delay(taken).At(mockserver.StageInHandler).On("POST", "/bookings"))
	say("Flavoso (the mock server) listens on %s and loses every tenth answer.", flavoso.BaseURL())

	workers := make([]*process, 3)
	for i := range workers {
		if workers[i], err = startWorker(ctx, dsn, flavoso.BaseURL(), out); err != nil {
			return err
		}
		defer workers[i].kill()
		say("Worker %d is process %d.", i+1, workers[i].pid())
	}

	shop, err := openShop(ctx, pool, flavoso.BaseURL())
	if err != nil {
		return err
	}
	defer shop.close()
	for i := range reservations {
		if err := shop.reserve(ctx, i); err != nil {
			return err
		}
		if i == reservations/2 {
			if err := untilMade(ctx, flavoso, 10); err != nil {
				return err
			}
			workers[0].kill()
			say("kill -9 %d: worker 1 is gone, with requests under way.", workers[0].pid())
		}
	}
	kept, rolledBack := shop.counts()
	say("The shop has taken %d reservations at %d restaurants; %d more were rolled back with their operations.", kept, restaurants, rolledBack)
	say("What worker 1 held is taken over when its leases end, in about half a minute.")
	if err := shop.waitForAll(ctx); err != nil {
		return err
	}
	for _, w := range workers[1:] {
		if err := w.stop(); err != nil {
			return err
		}
	}
	return shop.judge(flavoso, say)
}

// untilMade waits until Flavoso has made n reservations.
func untilMade(ctx context.Context, flavoso *mockserver.Server, n int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(flavoso.Effects()) < n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("the workers do not send")
		}
	}
	return nil
}
