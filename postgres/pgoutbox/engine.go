package pgoutbox

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go/outbox"
)

// Options configure an Engine.
type Options struct {
	// Schema holds the tables; Migrate makes it if it is missing. Default: the first schema of the connection's search
	// path.
	Schema string
	// Poll is how often the engine looks for what no notification has told it: what has fallen due, and claims whose
	// lease is over. It is jittered by a quarter. Default: 1 s.
	Poll time.Duration
	// PollOnly switches LISTEN and NOTIFY off. Behind a proxy that pools transactions the engine sees by itself
	// that it cannot listen.
	PollOnly bool
	// Log gets what goes wrong in the background: the events that docs/observability.md lists. Default: nothing is
	// logged.
	Log *slog.Logger
	// Clock is the wall clock that the times given to the engine are read from. Default: time.Now.
	Clock func() time.Time
}

// Engine is an outbox.Engine on PostgreSQL. Safe for concurrent use; it holds a connection of its pool only while a
// step runs.
type Engine struct {
	pool  *pgxpool.Pool
	sql   statements
	opt   Options
	log   *slog.Logger
	clock clock

	mu       sync.Mutex
	closed   bool
	underWay sync.WaitGroup  // steps
	ctx      context.Context // ends when the engine closes
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	signal   signal
	rollup   rollup
	turn     turn
	adds     merger[*quick]
	settles  merger[*settling]
}

var _ outbox.Engine = (*Engine)(nil)

// New returns an engine on a pool. The tables must exist: see Migrate. The pool stays the caller's, and must be open
// longer than the engine.
func New(pool *pgxpool.Pool, o Options) *Engine {
	o.Poll = cmp.Or(o.Poll, time.Second)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	e := &Engine{pool: pool, sql: newStatements(o.Schema), opt: o, log: o.Log}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.clock.now = o.Clock
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.signal = newSignal(o.Schema)
	e.tasks.Go(e.watch)
	if !o.PollOnly {
		e.tasks.Go(e.listen)
		e.tasks.Go(e.notify)
	}
	return e
}

// Shared says that several processes may have the storage open at once; see outbox.Shared.
func (e *Engine) Shared() bool { return true }

// Changed implements outbox.Engine.
func (e *Engine) Changed() <-chan struct{} { return e.signal.changed }

// enter begins a call; leave ends it.
func (e *Engine) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return outbox.ErrClosed
	}
	e.underWay.Add(1)
	return nil
}

func (e *Engine) leave() { e.underWay.Done() }

// Close implements outbox.Engine.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.underWay.Wait()
	e.cancel()
	e.tasks.Wait()
	return nil
}
