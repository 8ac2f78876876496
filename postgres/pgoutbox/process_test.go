package pgoutbox_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

const childEnv = "PGOUTBOX_TEST_CHILD" // the child works on the database that PGOUTBOX_TEST_DSN names

// child is a worker that gets killed. It finishes something, claims something, says "ready" and waits for its end.
func child() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	pool, err := pgxpool.New(ctx, os.Getenv("PGOUTBOX_TEST_DSN"))
	check(err)
	e := pgoutbox.New(pool, pgoutbox.Options{})
	recs, err := e.Claim(ctx, outbox.ClaimRequest{Mark: mark(2 * time.Second), Limit: 5})
	check(err)
	for _, r := range recs {
		_, err := e.Settle(ctx, success(r))
		check(err)
	}
	_, err = e.Claim(ctx, outbox.ClaimRequest{Mark: mark(2 * time.Second), Limit: 5})
	check(err)
	fmt.Println("ready")
	select {}
}

// The lanes of a worker that is killed stand still until its leases end, and are then taken over, each once.
func TestTheLanesOfAKilledWorkerAreTakenOverOnce(t *testing.T) {
	dsn := pgtest.DSN(t)
	pool := pgtest.Connect(t, dsn)
	require.NoError(t, pgoutbox.Migrate(t.Context(), pool))
	engines := []*pgoutbox.Engine{open(t, pool, pgoutbox.Options{Poll: 50 * time.Millisecond}), open(t, pool, pgoutbox.Options{Poll: 50 * time.Millisecond})}
	for i := range 10 {
		for _, n := range []string{"first", "second"} {
			mustAdd(t, engines[0], op(fmt.Sprint(n, "-", i), fmt.Sprint("lane-", i)))
		}
	}
	pgtest.KillChild(t, childEnv+"=1", "PGOUTBOX_TEST_DSN="+dsn)

	c, err := engines[0].Counts(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, map[outbox.State]int{outbox.Succeeded: 5, outbox.Sent: 5, outbox.Queued: 10}, c.States)
	f := newEffects(t)
	stop := make(chan struct{})
	close(stop) // work ends when nothing waits any more
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() { f.work(engines[i%2], 3, stop) })
	}
	workers.Wait()
	require.Len(t, f.done, 15)
	for id, n := range f.done {
		require.Equal(t, 1, n, id)
	}
	checkTables(t, pool)
}
