package flavoso

import (
	"context"
	"errors"
	"time"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// Version is the SDK's version, as sent in the User-Agent header.
const Version = "0.1.0"

// Client is one connection to Flavoso with its outbox. It may be used by many goroutines. Open makes it, or
// Fleet.Client; the zero value, and that of its services, is not usable.
type Client struct {
	// Orders are the orders of the restaurant.
	Orders *OrdersService
	// Bookings are the table reservations of the restaurant.
	Bookings *BookingsService
	// Menu is the menu of the restaurant, and what of it can be had.
	Menu *MenuService
	// Store is the restaurant itself: its pauses and its opening hours.
	Store *StoreService
	// Operations are what the outbox holds.
	Operations *OperationsService

	*core
	cfg     Config
	invalid error // why the client of a fleet cannot be used
}

func newClient(cfg Config, of *core) *Client {
	c := &Client{core: of, cfg: cfg}
	c.Orders = &OrdersService{client: c}
	c.Bookings = &BookingsService{client: c}
	c.Menu = &MenuService{client: c}
	c.Store = &StoreService{client: c}
	c.Operations = &OperationsService{client: c}
	return c
}

// Open opens the outbox, takes up what is pending in it, and returns a client that sends in the
// background. It sends nothing for other connections found in the outbox; see Status.Foreign.
//
// It fails with a *ParamError when the configuration lacks or contradicts something, with ErrOutboxLocked
// (an *outbox.LockedError naming the holder) when another process has the outbox, and with
// ErrOutboxDamaged, ErrOutboxReadOnly or the file system's error when the outbox cannot be used. All of them are
// ErrNotSaved.
func Open(cfg Config) (*Client, error) {
	cfg, base, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	engine, own := cfg.Outbox, false
	if engine == nil {
		if engine, err = openOutbox(cfg); err != nil {
			return nil, unopened{err}
		}
		own = true
	}
	cfg.OutboxKeys = nil // the outbox is open, and whoever prints a client must not see them
	of := newCore(cfg, base, engine, own)
	c := newClient(of.cfg, of)
	of.client = func(string) *Client { return c }
	switch {
	case cfg.OnOutcome == nil:
	case outbox.Shared(engine):
		of.outcomes = newFleetOutcomes(of, cfg.Connection, 1)
	default:
		of.outcomes = newOutcomes(c)
	}
	err = of.start(dispatch.Config{Connections: []dispatch.Connection{{Name: cfg.Connection, Token: cfg.token}}})
	if err != nil {
		return nil, err
	}
	if n := c.Status().Foreign; n > 0 {
		cfg.Logger.Warn("flavoso.foreign_operations", "connection", cfg.Connection, "waiting", n)
	}
	return c, nil
}

// openOutbox opens the outbox file, sealed when there are keys.
func openOutbox(cfg Config) (outbox.Engine, error) {
	file, err := bolt.Open(cfg.OutboxPath, bolt.Options{Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	var engine outbox.Engine = file
	if len(cfg.OutboxKeys) > 0 {
		engine, err = outbox.Seal(file, cfg.OutboxKeys...)
	} else {
		err = outbox.RequireUnsealed(context.Background(), file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return engine, nil
}

// Connection returns the name of the client's connection.
func (c *Client) Connection() string { return c.cfg.Connection }

// Close stops at once and loses nothing: requests under way are broken off, and everything that is not
// settled is taken up by the next Open. Waits end with a *PendingError caused by ErrStopped. It joins
// every goroutine of the client. Idempotent. A fleet's client has nothing to close: it does nothing, and
// Fleet.Close does.
func (c *Client) Close() error {
	if c == nil || c.fleet { // nil: deferred before Open's error was looked at
		return nil
	}
	return c.core.closeNow()
}

// Shutdown takes and starts nothing new, lets requests under way finish and hands the outcomes known then
// to Config.OnOutcome, until ctx ends or Close is called, and closes. It returns the context's error when it
// had to break something off; the client is closed all the same. Inside OnOutcome use Close; a hook may call
// neither. A fleet's client has nothing to shut down, as with Close.
func (c *Client) Shutdown(ctx context.Context) error {
	if c.fleet {
		return nil
	}
	return c.core.shutdown(ctx)
}

// add saves an operation unless the client is closed.
func (c *Client) add(ctx context.Context, a outbox.Addition, urgent bool) (outbox.Added, error) {
	if c.invalid != nil {
		return outbox.Added{}, c.invalid
	}
	if c.closed.Load() {
		return outbox.Added{}, ErrClosed
	}
	added, err := c.submit(ctx, a, urgent)
	if err == nil && added.Superseded != "" {
		c.delivered(nil)
	}
	return added, err
}

// await waits until an operation is final or parked.
func (c *Client) await(ctx context.Context, id string) (Outcome, error) {
	ctx, done := c.bounded(ctx)
	defer done()
	rep, err := c.dispatcher.Await(ctx, id)
	switch {
	case c.fleet && rep.Record.Connection != "" && rep.Record.Connection != c.cfg.Connection:
		return Outcome{}, operationError(outbox.ErrNotFound)
	case err == nil:
		return outcomeOf(&rep.Record, rep.Durable), nil
	case errors.Is(err, outbox.ErrNotFound):
		return Outcome{}, operationError(err)
	case errors.Is(err, dispatch.ErrStopped), errors.Is(err, outbox.ErrClosed):
		err = ErrStopped
	}
	o := outcomeOf(&rep.Record, rep.Durable)
	o.ID = id // the record may not be readable any more
	p := o.pending(err)
	if o.Connection != c.cfg.Connection {
		p.foreign = o.Connection
	}
	return Outcome{}, p
}

// look returns an operation as it is now. One of another connection is none of a fleet's client.
func (c *Client) look(ctx context.Context, id string) (dispatch.Report, error) {
	rep, err := c.dispatcher.Look(ctx, id)
	if err == nil && c.fleet && rep.Record.Connection != c.cfg.Connection {
		return dispatch.Report{}, outbox.ErrNotFound
	}
	return rep, err
}

const maxDuration = time.Duration(1<<63 - 1)

// recordOfCall finds what a call stands for: the record it made itself, or the latest one with its key.
func (c *Client) recordOfCall(id, key string) (dispatch.Report, error) {
	ctx := context.Background()
	rep, err := c.dispatcher.Look(ctx, id)
	if errors.Is(err, outbox.ErrNotFound) && key != "" {
		return c.latestWithKey(ctx, key)
	}
	return rep, err
}

// latestWithKey returns the newest operation made with a logical key.
func (c *Client) latestWithKey(ctx context.Context, key string) (dispatch.Report, error) {
	id := ""
	for q := (outbox.Query{Connection: c.cfg.Connection, Key: key, Newest: true}); ; {
		page, err := c.engine.List(ctx, q)
		if err != nil {
			return dispatch.Report{}, err
		}
		for i := range page.Records {
			id = page.Records[i].ID
		}
		if q.After = page.Next; page.Next == "" {
			break
		}
	}
	if id == "" {
		return dispatch.Report{}, ErrNotFound
	}
	return c.dispatcher.Look(ctx, id)
}

// recall answers a wish whose operation is over and whose record is gone: only the tombstone of its key
// is left. What was done is read as it is now.
func (c *Client) recall(ctx context.Context, rec outbox.Record, added outbox.Added) (Outcome, error) {
	t := added.Tombstone
	rec.ID, rec.State, rec.Generation = t.ID, t.State, t.Generation
	rec.WireKey = added.Record.WireKey
	o := outcomeOf(&rec, true)
	o.Code, o.Reason = t.Code, reasonTombstone
	if k, ok := kindNamed(rec.Kind); t.State == StateSucceeded && ok && k.reader != nil {
		ctx, cancel := context.WithTimeout(ctx, recallRead)
		defer cancel()
		x, v, err := c.read(ctx, k.reader(&rec), nil)
		if err == nil && v.Class == wire.Success {
			// What has the reference now may be another resource.
			if f := k.judge(&rec, x.Body); t.Resource == "" || t.Resource == rec.Resource || t.Resource == f.Resource {
				o.Body = f.Body
			}
		}
	}
	return o, nil
}

// recallRead bounds the read that answers for an operation whose answer is no longer kept.
const recallRead = 5 * time.Second

// Status is the state of a client at one moment, for a status line.
type Status struct {
	Connection   string
	AsOf         time.Time // by the wall clock of this machine
	Waiting      int       // operations on their way
	Uncertain    int       // may have been done; wait for a decision
	Blocked      int       // not sent by themselves any more
	Damaged      int       // records that cannot be read whole
	Foreign      int       // unfinished operations of other connections in the same outbox
	HeldLanes    int       // lanes held by an uncertain, blocked or damaged operation
	Oldest       time.Time // when the oldest waiting operation was accepted; zero = none waits
	OfflineSince time.Time // zero = online, as far as the writes have shown: who has nothing to send notices nothing
	PausedUntil  time.Time // Flavoso asked to wait until then; zero = it did not
	AuthRequired bool      // Flavoso refuses the token: a new one is needed
	// Unread says that the totals, from Waiting to Oldest, are not known: they are zero and mean nothing. The storage
	// could not be read, or the client is closed.
	Unread bool
}

// Status returns the state of the client now. It reads kept totals and costs the same at any backlog.
func (c *Client) Status() Status {
	h := c.dispatcher.Health(c.cfg.Connection)
	s := Status{Connection: c.cfg.Connection, AsOf: c.cfg.now(), OfflineSince: h.OfflineSince, PausedUntil: h.PausedUntil, AuthRequired: h.AuthRequired}
	counts, err := c.engine.Counts(context.Background(), c.cfg.Connection)
	var all outbox.Counts
	if err == nil && !c.fleet { // of a fleet the others are not foreign
		all, err = c.engine.Counts(context.Background(), "")
	}
	if err != nil {
		s.Unread = true
		return s
	}
	s.Waiting, s.Uncertain = counts.Waiting(), counts.States[StateUncertain]
	s.Blocked, s.Damaged = counts.States[StateBlocked], counts.States[StateDamaged]
	s.HeldLanes, s.Oldest = counts.HeldLanes, counts.Oldest
	if !c.fleet {
		for _, state := range []State{StateQueued, StateSent, StateUncertain, StateBlocked, StateDamaged} {
			s.Foreign += all.States[state] - counts.States[state]
		}
	}
	return s
}

// OutboxReports returns what was found wrong with the outbox since the client opened it: a damaged file that was salvaged,
// a restored one. A person should be told: what it held unfinished counts as sent, and what is damaged waits for a decision.
func (c *Client) OutboxReports() []outbox.Report { return outbox.Reports(c.engine) }

// Wake says that the network is back: what waits for it is tried now rather than at its next turn, and a Watch
// polls now. What Flavoso asked to wait for is waited for all the same.
func (c *Client) Wake() {
	if c.fleet {
		c.dispatcher.WakeConnection(c.cfg.Connection)
	} else {
		c.dispatcher.Wake()
	}
	c.wakeWatches(c.cfg.Connection)
}

// Flush wakes the client and waits until every operation saved before the call has left waiting: it is
// final or parked. It returns a *HeldError when waiting would not help, as something is held, paused or
// refused; and when the client is still offline when ctx ends, or after Config.MaxWait of that where ctx has no
// deadline. Then the error unwraps to the context's.
func (c *Client) Flush(ctx context.Context) error {
	counts, err := c.engine.Counts(ctx, "")
	if err != nil {
		return operationError(err)
	}
	c.Wake()
	return c.flush(ctx, counts.LastSeq)
}

func (c *Client) flush(ctx context.Context, last uint64) error {
	_, bounded := ctx.Deadline()
	query := outbox.Query{Connection: c.cfg.Connection, States: []State{StateQueued, StateSent}, Limit: 1}
	online := time.Now()
	for {
		page, err := c.engine.List(ctx, query)
		if err != nil {
			return err
		}
		if len(page.Records) == 0 || page.Records[0].Seq > last {
			return nil
		}
		oldest := page.Records[0]
		s := c.Status()
		if s.OfflineSince.IsZero() {
			online = time.Now()
		}
		switch {
		case s.AuthRequired || !s.PausedUntil.IsZero() || s.HeldLanes > 0 && c.laneHeld(ctx, oldest.Lane):
			return s.held(nil)
		case !bounded && time.Since(online) >= c.cfg.MaxWait:
			return s.held(context.DeadlineExceeded)
		}
		// What holds the operation up may begin while it is waited for: look again from time to time.
		wait, cancel := context.WithTimeout(ctx, flushInterval)
		rep, err := c.dispatcher.Await(wait, oldest.ID)
		if err == nil && !rep.Durable {
			<-wait.Done() // decided, and the storage does not take the verdict yet
		}
		over := wait.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			if s := c.Status(); !s.OfflineSince.IsZero() {
				return s.held(dispatch.ContextError(ctx))
			}
			return dispatch.ContextError(ctx)
		case errors.Is(err, dispatch.ErrStopped):
			return ErrStopped
		case err != nil && !over && !errors.Is(err, outbox.ErrNotFound):
			return err
		}
	}
}

// held is the error of a Flush that ends with this status.
func (s Status) held(cause error) *HeldError {
	return &HeldError{Waiting: s.Waiting, HeldLanes: s.HeldLanes, AuthRequired: s.AuthRequired, PausedUntil: s.PausedUntil,
		OfflineSince: s.OfflineSince, Err: cause}
}

// flushInterval is how often Flush looks whether something is held.
const flushInterval = time.Second

// laneHeld reports whether the head of a lane is parked.
func (c *Client) laneHeld(ctx context.Context, lane string) bool {
	page, err := c.engine.List(ctx, outbox.Query{Connection: c.cfg.Connection, Lane: lane, Limit: 1,
		States: []State{StateUncertain, StateBlocked, StateDamaged}})
	return err == nil && len(page.Records) > 0
}
