package fleettest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

func TestMain(m *testing.M) {
	os.Exit(pgtest.MainNoLeaks(m))
}

// scene is a database, a Flavoso, and what was handed over.
type scene struct {
	*testing.T
	dsn string
	srv *mockserver.Server

	mu     sync.Mutex
	handed map[string][]string // tags, by connection and lane, in the order they were handed over
}

func newScene(t *testing.T, dsn string) *scene {
	t.Helper()
	s := &scene{T: t, dsn: dsn, srv: mockserver.Start(t), handed: map[string][]string{}}
	require.NoError(t, pgoutbox.Migrate(t.Context(), s.pool()))
	return s
}

func (s *scene) pool(configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	s.Helper()
	return pgtest.Connect(s.T, s.dsn, configure...)
}

// fleet is what one process has open; leave closes it.
type fleet struct {
	*flavoso.Fleet
	leave func()
}

// open opens a fleet as another process would: with a pool and an engine of its own.
func (s *scene) open(change func(*flavoso.FleetConfig)) fleet {
	s.Helper()
	engine := pgoutbox.New(s.pool(func(c *pgxpool.Config) { c.MaxConns = 6 }), pgoutbox.Options{Poll: 200 * time.Millisecond})
	cfg := flavoso.FleetConfig{
		Outbox: engine, BaseURL: s.srv.BaseURL(), Transport: s.srv.Transport(), Concurrency: 8, PerConnection: 3,
		Token: flavoso.TokenFunc(func(_ context.Context, r flavoso.TokenRequest) (string, error) {
			return s.srv.Token(r.Connection), nil
		}),
		Retry: flavoso.ExponentialJitter{Base: 50 * time.Millisecond, Cap: 500 * time.Millisecond},
		OnOutcome: func(_ context.Context, c *flavoso.Client, o flavoso.Outcome) error {
			if rand.IntN(10) == 0 {
				return errors.New("not now")
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			lane := c.Connection() + " " + o.Lane
			s.handed[lane] = append(s.handed[lane], o.Tag)
			return nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	f, err := flavoso.OpenFleet(cfg)
	require.NoError(s, err)
	leave := sync.OnceFunc(func() {
		require.NoError(s, f.Close())
		require.NoError(s, engine.Close())
	})
	s.Cleanup(leave)
	return fleet{f, leave}
}

// drained waits until nothing waits at any of the connections and every outcome was handed over.
func (s *scene) drained(f fleet, connections, outcomes int) {
	s.Helper()
	var waiting, handed int
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		waiting, handed = 0, 0
		for i := range connections {
			waiting += f.Client(store(i)).Status().Waiting
		}
		s.mu.Lock()
		for _, tags := range s.handed {
			handed += len(slices.Compact(slices.Sorted(slices.Values(tags))))
		}
		s.mu.Unlock()
		if waiting == 0 && handed == outcomes {
			return
		}
	}
	for i := range connections {
		for o, err := range f.Client(store(i)).Operations.List(s.Context(), flavoso.OperationFilter{Unacked: true}) {
			s.Logf("not handed over: %s %s %s %s, finished %s, %v", o.Connection, o.Lane, o.Tag, o.State, o.Finished, err)
		}
		for o, err := range f.Client(store(i)).Operations.List(s.Context(), flavoso.OperationFilter{
			States: []flavoso.State{flavoso.StateQueued, flavoso.StateSent, flavoso.StateUncertain, flavoso.StateBlocked, flavoso.StateRejected}}) {
			s.Logf("not done: %s %s %s %s %s, next %s, last %+v, %v", o.Connection, o.Lane, o.Tag, o.Kind, o.State, o.Next, o.Last, err)
		}
	}
	rows, err := s.pool().Query(s.Context(), `SELECT p.lane || ' ' || p.seq || ' ' || p.state || ' open ' || p.open || ' head ' || p.head || ' due_at ' || coalesce(p.due_at::text, '-')
		|| ' claim ' || p.claim || ' lapse ' || coalesce(p.lapse_at::text, '-') FROM flavoso_outbox_progress p
		WHERE p.lane IN (SELECT q.lane FROM flavoso_outbox_progress q WHERE q.open) ORDER BY p.lane, p.seq`)
	require.NoError(s, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s, err)
	s.Log(strings.Join(lines, "\n"))
	s.Fatalf("%d operations wait, and %d of %d outcomes were handed over", waiting, handed, outcomes)
}

func store(i int) string { return fmt.Sprint("store-", i) }

// accept saves the accept of a new order and then its way through the kitchen: three operations of one lane.
func (s *scene) accept(c *flavoso.Client) (order string) {
	s.Helper()
	order = s.srv.AddOrder(c.Connection(), mockserver.Order{})
	_, err := c.Orders.Accept(order, flavoso.AcceptParams{PreparationMinutes: 10}).WithTag("1").Enqueue(s.Context())
	require.NoError(s, err)
	_, err = c.Orders.SetStatus(order, flavoso.StatusParams{Status: flavoso.OrderPreparing}).WithTag("2").Enqueue(s.Context())
	require.NoError(s, err)
	_, err = c.Orders.SetStatus(order, flavoso.StatusParams{Status: flavoso.OrderReady}).WithTag("3").Enqueue(s.Context())
	require.NoError(s, err)
	return order
}

// requireOnceInOrder compares the ledger with what was asked for.
func (s *scene) requireOnceInOrder(orders []string) {
	s.Helper()
	effects := map[string][]string{}
	for _, e := range s.srv.Effects() {
		effects[e.Resource] = append(effects[e.Resource], e.Kind)
	}
	for _, id := range orders {
		require.Equal(s, []string{"orders.accept", "orders.status", "orders.status"}, effects[id], "effects on %s", id)
	}
	require.Len(s, effects, len(orders))
	for lane, tags := range s.handed {
		require.Equal(s, []string{"1", "2", "3"}, slices.Compact(slices.Clone(tags)), "outcomes of %s", lane)
	}
}

// Four processes, bad luck of every kind, one that leaves in the middle and one that comes: each operation
// happens once, each lane in its order, each outcome is handed over.
func TestManyProcesses(t *testing.T) {
	s := newScene(t, pgtest.DSN(t))
	s.srv.Inject(mockserver.DropResponse().Ratio(0.08))
	s.srv.Inject(mockserver.StatusAfterCommit(503).Ratio(0.05))
	s.srv.Inject(mockserver.Reset().Ratio(0.05))
	s.srv.Inject(mockserver.Delay(20 * time.Millisecond).At(mockserver.StageInHandler).Ratio(0.5))
	const connections = 12
	var fleets []fleet
	for range 3 {
		fleets = append(fleets, s.open(nil))
	}
	var orders []string
	for i := range 60 {
		orders = append(orders, s.accept(fleets[i%3].Client(store(i%connections))))
		if i == 30 {
			fleets[2].leave() // what it had claimed comes back when its leases end, or was given back
			fleets[2] = s.open(nil)
		}
	}
	s.drained(fleets[0], connections, 3*len(orders))
	s.requireOnceInOrder(orders)
}

// The database crashes and comes back while work is under way.
func TestDatabaseRestarts(t *testing.T) {
	cluster, err := pgtest.StartCluster(false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	s := newScene(t, cluster.DSN("postgres"))
	s.srv.Inject(mockserver.Delay(10 * time.Millisecond).At(mockserver.StageInHandler).Ratio(0.5))
	a, b := s.open(nil), s.open(nil)
	const connections = 5
	var orders []string
	for i := range 40 {
		orders = append(orders, s.accept([]fleet{a, b}[i%2].Client(store(i%connections))))
	}
	require.NoError(t, cluster.Restart())
	s.drained(a, connections, 3*len(orders))
	s.requireOnceInOrder(orders)
}

// The app's change and the operation commit together or not at all, and nothing is sent before.
func TestEnqueueTx(t *testing.T) {
	s := newScene(t, pgtest.DSN(t))
	pool := s.pool()
	f := s.open(nil)
	c := f.Client("store-1")
	order := s.srv.AddOrder("store-1", mockserver.Order{})
	call := c.Orders.Accept(order, flavoso.AcceptParams{PreparationMinutes: 10})
	sorry := errors.New("the app changed its mind")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := call.EnqueueTx(t.Context(), pgoutbox.Tx(tx))
		require.NoError(t, err)
		return sorry
	})
	require.ErrorIs(t, err, sorry)
	_, known := call.Outcome()
	require.False(t, known, "it was rolled back with the app's change")

	var pending *flavoso.Pending[flavoso.Order]
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if pending, err = call.EnqueueTx(t.Context(), pgoutbox.Tx(tx)); err != nil {
			return err
		}
		// The same wish twice is one operation, and does not spoil the transaction.
		again, err := c.Orders.Accept(order, flavoso.AcceptParams{PreparationMinutes: 10}).EnqueueTx(t.Context(), pgoutbox.Tx(tx))
		require.NoError(t, err)
		require.Equal(t, pending.ID(), again.ID())
		_, err = c.Orders.Accept(order, flavoso.AcceptParams{PreparationMinutes: 45}).EnqueueTx(t.Context(), pgoutbox.Tx(tx))
		var reused *flavoso.KeyReusedError
		require.ErrorAs(t, err, &reused)
		_, err = tx.Exec(t.Context(), "SELECT 1")
		require.NoError(t, err, "the transaction goes on")
		require.Empty(t, s.srv.Effects(), "nothing is sent before the commit")
		return nil
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := pending.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, flavoso.OrderConfirmed, got.Status)
	s.srv.AssertExactlyOnce(t, "orders.accept", order)
}

// A process that only saves waits for what another makes of its operation.
func TestAProcessThatOnlySaves(t *testing.T) {
	s := newScene(t, pgtest.DSN(t))
	saver := s.open(func(c *flavoso.FleetConfig) { c.Concurrency = -1 })
	worker := s.open(nil)
	order := s.srv.AddOrder("store-1", mockserver.Order{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := saver.Client("store-1").Orders.Accept(order, flavoso.AcceptParams{PreparationMinutes: 10}).Do(ctx)
	require.NoError(t, err)
	s.srv.AssertExactlyOnce(t, "orders.accept", order)
	require.NoError(t, saver.Client("store-1").Flush(ctx))
	require.Zero(t, worker.Client("store-1").Status().Waiting)
}

// Thousands of connections share one dispatcher, which remembers few of them.
func TestManyConnections(t *testing.T) {
	s := newScene(t, pgtest.DSN(t))
	saver := s.open(func(c *flavoso.FleetConfig) { c.Concurrency = -1 })
	const connections = 1000
	var adders sync.WaitGroup
	for w := range 8 {
		adders.Go(func() {
			for i := w; i < connections; i += 8 {
				_, err := flavoso.NewCall[flavoso.Order](saver.Client(store(i)), "PATCH", "/store", map[string]int{"n": i}).Enqueue(t.Context())
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	adders.Wait()
	worker := s.open(func(c *flavoso.FleetConfig) { c.Concurrency, c.MaxConnections, c.OnOutcome = 32, 100, nil })
	require.Eventually(t, func() bool {
		for i := range connections {
			if worker.Client(store(i)).Status().Waiting > 0 {
				return false
			}
		}
		return true
	}, 2*time.Minute, 200*time.Millisecond)
	seen := map[string]bool{}
	for _, r := range s.srv.Requests() {
		seen[r.Connection] = true
	}
	require.Len(t, seen, connections)
}
