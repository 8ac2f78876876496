package pgoutbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// effects notes what workers do, and whether they ever do it at once or out of order.
type effects struct {
	t      testing.TB
	mu     sync.Mutex
	active map[string]string // by lane
	done   map[string]int    // by ID
	last   map[string]uint64 // the latest Seq begun, by lane
}

func newEffects(t testing.TB) *effects {
	return &effects{t: t, active: map[string]string{}, done: map[string]int{}, last: map[string]uint64{}}
}

func (f *effects) begin(r outbox.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lane := r.Connection + "/" + r.Lane
	if other := f.active[lane]; other != "" {
		f.t.Errorf("%s and %s of one lane at once", other, r.ID)
	}
	if r.Seq < f.last[lane] {
		f.t.Errorf("%s, number %d of its lane, after number %d", r.ID, r.Seq, f.last[lane])
	}
	f.active[lane], f.last[lane] = r.ID, r.Seq
}

func (f *effects) end(r outbox.Record, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.active, r.Connection+"/"+r.Lane)
	if done {
		f.done[r.ID]++
	}
}

// work claims, does and settles until stop is closed and nothing is left.
func (f *effects) work(e outbox.Engine, limit int, stop <-chan struct{}) {
	ctx := context.Background()
	for {
		ended := false
		select {
		case <-stop:
			ended = true
		default:
		}
		recs, err := e.Claim(ctx, outbox.ClaimRequest{Mark: mark(time.Hour), Limit: limit})
		if err != nil {
			f.t.Errorf("claim: %v", err)
			return
		}
		var ss []outbox.Settlement
		for _, r := range recs {
			f.begin(r)
			s := success(r)
			if rand.IntN(4) == 0 {
				s.To, s.Due = outbox.Queued, time.Now()
			}
			ss = append(ss, s)
		}
		for i, r := range recs {
			f.end(r, ss[i].To == outbox.Succeeded)
		}
		if len(ss) > 0 {
			out, err := e.Settle(ctx, ss...)
			if err != nil {
				f.t.Errorf("settle: %v", err)
				return
			}
			for _, o := range out {
				if o.Err != nil {
					f.t.Errorf("settle %s: %v", o.Record.ID, o.Err)
				}
			}
			continue
		}
		c, err := e.Counts(ctx, "")
		if err != nil || ended && c.Waiting() == 0 {
			return
		}
		select {
		case <-e.Changed():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Many processes add, in steps and transactions of their own that are committed in any order or rolled back, while others
// work. Every operation that was committed is done once, in the order of its lane, and none besides.
func TestManyWorkersKeepLanesInOrder(t *testing.T) {
	pool := newPool(t)
	var engines []*pgoutbox.Engine
	for i := range 4 {
		engines = append(engines, open(t, pool, pgoutbox.Options{Poll: 50 * time.Millisecond, PollOnly: i == 3}))
	}
	f := newEffects(t)
	stop := make(chan struct{})
	var workers, adders sync.WaitGroup
	for i := range 8 {
		workers.Go(func() { f.work(engines[i%len(engines)], 1+i%5, stop) })
	}
	var want sync.Map
	var committed atomic.Int64
	add := func(e outbox.Engine, id string, opts ...func(*outbox.Addition)) error {
		out, err := e.Add(context.Background(), op(id, fmt.Sprint("lane-", rand.IntN(12)), append(opts, of(fmt.Sprint("store-", rand.IntN(3))))...))
		if err == nil && out.Decision != outbox.AddedNew {
			t.Errorf("%s: decision %d", id, out.Decision)
		}
		return err
	}
	for a := range 8 {
		adders.Go(func() {
			e := engines[a%len(engines)]
			for n := range 40 {
				id := fmt.Sprintf("op-%d-%d", a, n)
				if n%2 == 0 {
					if err := add(e, id); err != nil {
						t.Errorf("add: %v", err)
					}
					want.Store(id, true)
					committed.Add(1)
					continue
				}
				if addInTx(t, pool, func(tx pgx.Tx) error {
					return add(e, id, func(a *outbox.Addition) { a.Tx = pgoutbox.Tx(tx) })
				}) {
					want.Store(id, true)
					committed.Add(1)
				}
			}
		})
	}
	adders.Wait()
	close(stop)
	workers.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.done, int(committed.Load()))
	for id, n := range f.done {
		_, ok := want.Load(id)
		require.True(t, ok, "%s was rolled back", id)
		require.Equal(t, 1, n, id)
	}
	checkTables(t, pool)
}

// addInTx runs f in a transaction of some isolation, lets it wait, and commits it or rolls it back. What the server
// refuses for the sake of isolation is begun again.
func addInTx(t testing.TB, pool *pgxpool.Pool, f func(pgx.Tx) error) (committed bool) {
	ctx := context.Background()
	level := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}[rand.IntN(4)]
	for {
		tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
		if err != nil {
			t.Errorf("begin: %v", err)
			return false
		}
		if level != pgx.ReadCommitted && rand.IntN(2) == 0 {
			_, _ = tx.Exec(ctx, "SELECT count(*) FROM flavoso_outbox_progress") // takes the snapshot
			time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
		}
		err = f(tx)
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
		if err == nil && rand.IntN(4) == 0 {
			_ = tx.Rollback(ctx)
			return false
		}
		if err == nil {
			err = tx.Commit(ctx)
		}
		if err == nil {
			return true
		}
		_ = tx.Rollback(ctx)
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != "40001" && pe.Code != "40P01" {
			t.Errorf("in a transaction: %v", err)
			return false
		}
	}
}

// The engine works at READ COMMITTED, whatever the connections' default is.
func TestWorkersOnAPoolThatDefaultsToSerializable(t *testing.T) {
	pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable" })
	e := open(t, pool)
	f := newEffects(t)
	stop := make(chan struct{})
	var adders, workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() { f.work(e, 3, stop) })
		adders.Go(func() {
			for n := range 20 {
				if _, err := e.Add(context.Background(), op(fmt.Sprint("op-", i, "-", n), fmt.Sprint("lane-", n%3))); err != nil {
					t.Errorf("add: %v", err)
				}
			}
		})
	}
	adders.Wait()
	close(stop)
	workers.Wait()
	require.Len(t, f.done, 80)
	checkTables(t, pool)
}
