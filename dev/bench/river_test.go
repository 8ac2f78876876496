package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// openPostgres starts a throw-away server that syncs, and connects to it.
func openPostgres(b *testing.B) *pgxpool.Pool {
	cmd := exec.Command("go", "run", "github.com/flavoso/flavoso-go/postgres/internal/pgtest/pgserver")
	stop, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	cmd.Stderr = os.Stderr
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { _ = stop.Close(); _ = cmd.Wait() })
	dsn, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Skip("needs PostgreSQL's server")
	}
	cfg, err := pgxpool.ParseConfig(strings.TrimSpace(dsn))
	require.NoError(b, err)
	cfg.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		require.NoError(b, pool.QueryRow(b.Context(), "SHOW "+setting).Scan(&value))
		require.Equal(b, "on", value, setting)
	}
	return pool
}

// acceptArgs are a job that accepts an order.
type acceptArgs struct {
	ID   string `json:"id"`
	Body string `json:"body"`
}

// Kind implements river.JobArgs.
func (acceptArgs) Kind() string { return "accept" }

type acceptWorker struct {
	river.WorkerDefaults[acceptArgs]
	send func(id string) error
}

// Work implements river.Worker.
func (w *acceptWorker) Work(_ context.Context, job *river.Job[acceptArgs]) error {
	return w.send(job.Args.ID)
}

// riverQueue inserts jobs and waits until they are completed.
type riverQueue struct {
	client *river.Client[pgx.Tx]
	mu     sync.Mutex
	done   map[int64]chan struct{}
}

func openRiver(b *testing.B, pool *pgxpool.Pool, a *api, plain *http.Client) *riverQueue {
	driver := riverpgxv5.New(pool)
	m, err := rivermigrate.New(driver, nil)
	require.NoError(b, err)
	_, err = m.Migrate(b.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(b, err)
	workers := river.NewWorkers()
	river.AddWorker(workers, &acceptWorker{send: func(id string) error { _, err := a.post(plain, id); return err }})
	q := &riverQueue{done: map[int64]chan struct{}{}}
	q.client, err = river.NewClient(driver, &river.Config{
		// By default it looks for jobs ten times a second at most; here as often as it can.
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 64}}, FetchCooldown: time.Millisecond, FetchPollInterval: 5 * time.Millisecond,
		Workers: workers,
	})
	require.NoError(b, err)
	return q
}

func (q *riverQueue) start(b *testing.B) {
	events, cancel := q.client.SubscribeConfig(&river.SubscribeConfig{Kinds: []river.EventKind{river.EventKindJobCompleted}, ChanSize: 10_000})
	require.NoError(b, q.client.Start(context.Background()))
	var reader sync.WaitGroup
	reader.Go(func() {
		for e := range events {
			close(q.ended(e.Job.ID))
		}
	})
	b.Cleanup(func() {
		_ = q.client.Stop(context.Background())
		cancel()
		reader.Wait()
	})
}

// ended returns the channel that is closed when a job is completed.
func (q *riverQueue) ended(id int64) chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.done[id] == nil {
		q.done[id] = make(chan struct{})
	}
	return q.done[id]
}

func (q *riverQueue) insert(ctx context.Context, id string) (int64, error) {
	r, err := q.client.Insert(ctx, acceptArgs{ID: id, Body: string(recordBytes)}, nil)
	if err != nil {
		return 0, err
	}
	return r.Job.ID, nil
}

// BenchmarkP10River compares an outbox in PostgreSQL with River on the same server: saving, and the whole life
// of an operation until it is done.
func BenchmarkP10River(b *testing.B) {
	for _, producers := range []int{1, 64} {
		n := 640 / producers
		if producers == 1 {
			n = 20
		}
		for _, kind := range []string{"save", "life"} {
			b.Run(fmt.Sprintf("%s/%d", kind, producers), func(b *testing.B) {
				pool, a := openPostgres(b), newAPI(b)
				require.NoError(b, pgoutbox.Migrate(b.Context(), pool))
				engine := pgoutbox.New(pool, pgoutbox.Options{})
				b.Cleanup(func() { _ = engine.Close() })
				concurrency := 64
				if kind == "save" {
					concurrency = -1
				}
				fleet, err := flavoso.OpenFleet(flavoso.FleetConfig{Outbox: engine, Token: flavoso.StaticToken("token"), BaseURL: a.baseURL(),
					Concurrency: concurrency, PerConnection: 64})
				require.NoError(b, err)
				b.Cleanup(func() { _ = fleet.Close() })
				client, id, other := fleet.Client("store-42"), ids("op"), ids("peer")
				queue := openRiver(b, pool, a, newHTTPClient(b, 64))
				if kind == "save" {
					ahead(b, each(b, producers, n, func(ctx context.Context) error {
						_, err := accept(client, id()).Enqueue(ctx)
						return err
					}), each(b, producers, n, func(ctx context.Context) error {
						_, err := queue.insert(ctx, other())
						return err
					}))
					return
				}
				queue.start(b)
				ahead(b, each(b, producers, n, func(ctx context.Context) error {
					_, err := accept(client, id()).Do(ctx)
					return err
				}), each(b, producers, n, func(ctx context.Context) error {
					job, err := queue.insert(ctx, other())
					if err != nil {
						return err
					}
					<-queue.ended(job)
					return nil
				}))
			})
		}
	}
}
