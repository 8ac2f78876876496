package flavoso

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// core is what sends: a client's own, or the one that all clients of a fleet share.
type core struct {
	cfg        Config // of all connections that it serves, but for their names
	fleet      bool
	client     func(connection string) *Client
	engine     outbox.Engine
	ownEngine  bool // opened here, closed here
	transport  *http.Transport
	sender     *wire.Sender
	dispatcher *dispatch.Dispatcher
	outcomes   delivery // nil = nobody takes them
	savings    savings
	watches    sync.Map // of watchID: those under way

	ctx  context.Context // ends when Close begins
	stop context.CancelFunc
	jobs sync.WaitGroup

	closed atomic.Bool // nothing new is taken
	done   sync.Once
	err    error // what closing the engine returned
}

// delivery hands outcomes to the application.
type delivery interface {
	// note says that an outcome has become known; nil = it is not known which.
	note(rec *outbox.Record)
	// run delivers until the core closes.
	run()
	// drain waits until everything that is open now was handed over once, whether it was taken or not.
	drain(ctx context.Context) error
}

// tell signals a channel of capacity one; a signal that is not taken yet serves for both.
func tell(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func newCore(cfg Config, base *url.URL, engine outbox.Engine, own bool) *core {
	c := &core{cfg: cfg, engine: engine, ownEngine: own}
	c.ctx, c.stop = context.WithCancel(context.Background())
	transport := cfg.Transport
	if transport == nil {
		c.transport = newTransport(cfg.Concurrency)
		transport = c.transport
	}
	c.sender = &wire.Sender{Transport: transport, Base: base, UserAgent: cfg.UserAgent}
	return c
}

// start sets the dispatcher going, for the connections that d names, and what else runs in the background.
func (c *core) start(d dispatch.Config) error {
	d.Engine, d.Sender, d.Policy, d.Observer = c.engine, c.sender, newPolicy(c), c.observer()
	d.Concurrency, d.Delay, d.AttemptTimeout = c.cfg.Concurrency, c.cfg.Retry.Delay, c.cfg.attemptTimeout
	d.Window, d.Uptime, d.Now, d.Log = c.cfg.window(), c.cfg.uptime, c.cfg.now, c.cfg.Logger
	var err error
	if c.dispatcher, err = dispatch.New(d); err != nil {
		c.stop()
		return unopened{errors.Join(err, c.closeEngine())}
	}
	c.dispatcher.Start()
	if c.cfg.Concurrency > 0 { // who hands over no outcomes does not know which of them others still have to
		c.jobs.Go(c.sweep)
	}
	if c.outcomes != nil {
		c.jobs.Go(c.outcomes.run)
	}
	return nil
}

// delivered tells the delivery of an outcome.
func (c *core) delivered(rec *outbox.Record) {
	if c.outcomes != nil {
		c.outcomes.note(rec)
	}
}

// closeNow breaks off what is under way.
func (c *core) closeNow() error {
	c.closed.Store(true)
	c.stop() // also ends the patience of a shutdown under way
	return c.close(nil)
}

// shutdown lets what is under way finish until ctx ends.
func (c *core) shutdown(ctx context.Context) error {
	return c.close(func() error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(c.ctx, func() { cancel(ErrStopped) })()
		err := c.dispatcher.Shutdown(ctx)
		if err == nil && c.outcomes != nil {
			err = c.outcomes.drain(ctx)
		}
		return err
	})
}

func (c *core) close(drain func() error) error {
	var err error
	c.done.Do(func() {
		c.closed.Store(true)
		if drain != nil {
			err = drain()
		}
		c.stop()
		c.dispatcher.Close()
		c.jobs.Wait()
		if c.transport != nil {
			c.transport.CloseIdleConnections()
		}
		c.err = c.closeEngine()
	})
	return errors.Join(err, c.err)
}

func (c *core) closeEngine() error {
	if !c.ownEngine {
		return nil
	}
	return c.engine.Close()
}

// sweepInterval is how often finished operations are looked through.
const sweepInterval = time.Hour

// purges are what sweep asks for. A client removes what is its connection's own: others that use the same storage
// keep theirs for as long as they say, and know what they have taken over. Of a file that nobody else can have
// open it also removes what other connections have left there, once it was taken over.
func (c *core) purges() []outbox.PurgeRequest {
	now := c.cfg.now()
	own := outbox.PurgeRequest{Now: now, Before: now.Add(-c.cfg.KeepFinished), Unacked: c.cfg.OnOutcome == nil}
	if c.fleet {
		return []outbox.PurgeRequest{own}
	}
	left := own
	own.Connection, left.Unacked = c.cfg.Connection, false
	if !c.ownEngine {
		return []outbox.PurgeRequest{own}
	}
	return []outbox.PurgeRequest{own, left}
}

// sweep removes what has been kept long enough.
func (c *core) sweep() {
	if c.cfg.KeepFinished == maxDuration {
		return
	}
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		for _, p := range c.purges() {
			n, err := 1, error(nil)
			for n > 0 && err == nil {
				n, err = c.engine.Purge(c.ctx, p)
			}
			if err != nil && c.ctx.Err() == nil {
				c.cfg.Logger.Warn("flavoso.purge_failed", "error", err)
			}
		}
		select {
		case <-ticker.C:
		case <-c.ctx.Done():
			return
		}
	}
}
