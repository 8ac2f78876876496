package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/internal/delay"
	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// ErrStopped ends waits when the dispatcher is closed.
var ErrStopped = errors.New("dispatch: stopped")

// Config is what a Dispatcher needs. Observer and Log may be missing, and either Connections or Open with
// what belongs to it.
type Config struct {
	Engine outbox.Engine
	Sender *wire.Sender
	Policy Policy
	// Connections are those to send for; operations of others are left alone.
	Connections []Connection
	// Open makes the dispatcher send for every connection that the engine has operations of; it says how to
	// reach one. PerConnection bounds the attempts of one under way at once, and MaxConnections is how many
	// are remembered while they are idle.
	Open           func(name string) Connection
	PerConnection  int
	MaxConnections int
	// Concurrency bounds the attempts under way at once.
	Concurrency int
	// Delay is the pause before the attempt after n have failed: a pure function up to its jitter.
	Delay func(attempt int) time.Duration
	// AttemptTimeout bounds one exchange whose request body has n bytes.
	AttemptTimeout func(n int) time.Duration
	// Window is how long Flavoso certainly remembers a key, margins subtracted (F5).
	Window time.Duration
	Uptime Uptime
	// Now is the wall clock.
	Now      func() time.Time
	Observer Observer
	Log      *slog.Logger
}

// Dispatcher sends what is due. See the package comment.
type Dispatcher struct {
	cfg    Config
	engine outbox.Engine
	shared bool // other processes have the engine's storage open, too
	log    *slog.Logger

	ctx  context.Context // ends when Close begins
	stop context.CancelFunc
	jobs sync.WaitGroup // the loop, attempts and probes
	kick chan struct{}  // makes the loop look again

	clock     clock
	ages      *ages
	waiters   waiters
	expiries  expiries
	foreign   runs // answers that were not Flavoso's, since the last one that was
	surprises runs // refusals that a request which is still under way could explain

	mu       sync.Mutex
	roster   roster
	inflight int
	probes   int               // under way
	idle     chan struct{}     // receives when an attempt ends, for Shutdown
	draining bool              // no new claims
	saving   int               // attempts that are over and whose results are being saved
	claiming int               // places of any connection that a claim under way may take
	hurry    int               // claims to make ahead of their time: Wake said that waiting is pointless
	waking   map[string]bool   // whose pauses a Wake is ending; "" = a fleet's
	wakes    int               // calls of Wake so far
	hurryBy  time.Time         // also take what is due until then, however far ahead
	fresh    []string          // operations to claim before all others, in order of arrival
	working  map[string]string // operations that are claimed here, with the claim's token; "" = about to be
	doubtful bool              // a claim's commit failed: it may have been made all the same
	searchAt time.Time         // when to look for such that expire among earlier processes' operations
}

// New makes a dispatcher; Start sets it going.
func New(cfg Config) (*Dispatcher, error) {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg.Delay = Bounded(cfg.Delay)
	ctx, stop := context.WithCancel(context.Background())
	d := &Dispatcher{
		cfg: cfg, engine: cfg.Engine, shared: outbox.Shared(cfg.Engine), log: log,
		ctx: ctx, stop: stop,
		kick:    make(chan struct{}, 1),
		idle:    make(chan struct{}, 1),
		clock:   clock{uptime: cfg.Uptime, wall: cfg.Now},
		waiters: newWaiters(),
		roster:  newRoster(cfg),
		waking:  map[string]bool{},
		working: map[string]string{},
	}
	d.ages = newAges(cfg.Uptime, cfg.Now)
	d.expiries.ages = d.ages
	if err := d.loadAges(); err != nil {
		stop()
		return nil, err
	}
	for _, c := range cfg.Connections {
		conn := newConnection(c, cfg.Concurrency)
		if err := d.loadFacts(ctx, conn); err != nil {
			stop()
			return nil, err
		}
		d.roster.add(conn, cfg.Now())
	}
	return d, nil
}

// Bounded keeps a delay policy within what the dispatcher can tell from a clock that was set. It is called
// where nothing may panic, and where it does the longest of the default delays counts.
func Bounded(policy func(attempt int) time.Duration) func(attempt int) time.Duration {
	return func(attempt int) (pause time.Duration) {
		defer func() {
			if recover() != nil {
				pause = delay.Cap
			}
		}()
		return min(max(policy(attempt), 0), longestDelay)
	}
}

// Start begins to send.
func (d *Dispatcher) Start() {
	d.searchAt = time.Now().Add(searchAfter)
	d.jobs.Go(d.loop)
}

// Close stops at once: attempts under way are broken off, and what they were about stays saved. It joins
// every goroutine.
func (d *Dispatcher) Close() {
	d.mu.Lock()
	d.draining = true // no job may be added from here on
	d.mu.Unlock()
	d.stop()
	d.jobs.Wait()
	d.waiters.wakeAll()
}

// Shutdown starts nothing new, lets attempts under way finish until ctx ends, and then closes.
func (d *Dispatcher) Shutdown(ctx context.Context) error {
	defer d.Close()
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	for {
		d.mu.Lock()
		n := d.inflight + d.saving
		d.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-d.idle:
		case <-ctx.Done():
			return ContextError(ctx)
		case <-d.ctx.Done():
			return nil
		}
	}
}

// Submit saves an operation. When it can be sent at once, the first claim and its exposure mark are part
// of the same durable step and the attempt starts before Submit returns. One that has to wait goes before
// any backlog when it is urgent: somebody waits for it.
func (d *Dispatcher) Submit(ctx context.Context, a outbox.Addition, urgent bool) (outbox.Added, error) {
	id := a.Record.ID
	var conn *connection
	if a.Tx == nil { // what joins a transaction may be sent once that has committed, and not before
		if d.meet(ctx, a.Record.Connection) != nil {
			conn = d.reserve(a.Record.Connection, id, urgent)
		}
	}
	if !a.Record.Expires.IsZero() {
		d.ages.note() // how the clock is set that it is saved under
	}
	asked := d.asking(len(a.Record.Request.Body))
	if conn != nil {
		a.Claim = &asked.Mark
	}
	added, err := d.engine.Add(ctx, a)
	if conn != nil {
		if err == nil && added.Decision == outbox.AddedNew && added.Record.Claimed() {
			d.start(conn, added.Record, asked)
		} else {
			d.release(&place{conn: conn}, id, "")
			d.claimFailed(err)
			d.Kick()
		}
	}
	if err == nil && added.Decision == outbox.FoundOperation {
		d.stray(&added.Record)
	}
	if err != nil {
		return added, err
	}
	if added.Superseded != "" {
		if rec, err := d.engine.Get(context.WithoutCancel(ctx), added.Superseded); err == nil {
			d.ended(&rec)
		} else {
			d.waiters.wake(added.Superseded)
		}
	}
	if added.Record.State.Waiting() && !added.Record.Claimed() {
		if urgent {
			d.mu.Lock()
			d.fresh = append(d.fresh, added.Record.ID)
			d.mu.Unlock()
		}
		d.expiries.add(&added.Record)
		d.Kick()
	}
	return added, nil
}

// Changed tells the dispatcher that an operation was changed from outside; nil = it is not known which.
func (d *Dispatcher) Changed(rec *outbox.Record) {
	switch {
	case rec == nil:
		d.waiters.wakeAll()
		d.Kick()
	case rec.State.Waiting():
		d.expiries.add(rec)
		d.waiters.wake(rec.ID)
		d.Kick()
	default:
		d.ended(rec)
	}
}

// Kick makes the loop look for work now.
func (d *Dispatcher) Kick() { signal(d.kick) }

// reserve takes a place for an attempt at an operation, or returns nil when none can start now.
func (d *Dispatcher) reserve(connection, id string, urgent bool) *connection {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, now := d.roster.byName[connection], d.cfg.Now()
	if c == nil || d.draining || d.roomLocked() == 0 || c.pace.free() <= d.claiming {
		return nil
	}
	if _, twice := d.working[id]; twice || !c.able(now) && !(urgent && c.reachable(now)) {
		return nil
	}
	d.working[id] = ""
	d.inflight++
	d.occupyLocked(c, 1, now)
	d.jobs.Add(1)
	return c
}

// place is what an attempt needs one of.
type place struct {
	conn *connection
	left bool
}

// roomLocked returns how many places are free; the caller holds mu. Results that storage is slow to take are not
// heaped up without end.
func (d *Dispatcher) roomLocked() int {
	return max(min(d.cfg.Concurrency-d.inflight, 2*d.cfg.Concurrency-d.inflight-d.saving), 0)
}

// leave makes room for the next attempt when one is over: what is claimed next then shares a commit with what
// is settled.
func (d *Dispatcher) leave(p *place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.left {
		return
	}
	p.left = true
	if d.roomLocked() == 0 || p.conn.pace.free() == 0 {
		d.Kick() // otherwise everything that is due has a place
	}
	d.inflight--
	d.saving++
	d.occupyLocked(p.conn, -1, d.cfg.Now())
}

// release gives a place back that was taken for a claim; token "" = for one that was not made.
func (d *Dispatcher) release(p *place, id, token string) {
	d.mu.Lock()
	kick := !p.left || d.roomLocked() == 0 || d.doubtful
	if d.working[id] == token {
		delete(d.working, id)
	}
	if p.left {
		d.saving--
	} else {
		d.inflight--
		d.occupyLocked(p.conn, -1, d.cfg.Now())
	}
	d.mu.Unlock()
	signal(d.idle)
	if kick {
		d.Kick()
	}
	d.jobs.Done()
}

// occupyLocked takes n places of a connection, or gives them back when it is negative.
func (d *Dispatcher) occupyLocked(c *connection, n int, now time.Time) {
	c.pace.inflight += n
	d.roster.sort(c, now)
}

// start runs an attempt on a place that is already taken.
func (d *Dispatcher) start(c *connection, rec outbox.Record, asked asked) {
	d.mu.Lock()
	d.working[rec.ID] = rec.Claim.Token
	d.mu.Unlock()
	p := &place{conn: c}
	go func() {
		defer d.release(p, rec.ID, rec.Claim.Token)
		d.attempt(p, rec, asked)
	}()
}

// noLongerFresh drops an operation from those that go first.
func (d *Dispatcher) noLongerFresh(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, f := range d.fresh {
		if f == id {
			d.fresh = append(d.fresh[:i], d.fresh[i+1:]...)
			return
		}
	}
}

// loop claims what is due whenever something may have changed.
func (d *Dispatcher) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	changed := d.engine.Changed()
	failures := 0
	redate := redater{d: d}
	for {
		next, err := d.look()
		redate.pass()
		d.keepAges()
		switch {
		case d.ctx.Err() != nil:
			return
		case err != nil:
			d.log.Error("flavoso.claim_failed", "error", err)
			next = d.cfg.Now().Add(d.cfg.Delay(failures))
			failures++
		default:
			failures = 0
		}
		var wake <-chan time.Time
		if !next.IsZero() {
			timer.Reset(min(next.Sub(d.cfg.Now()), longestSleep))
			wake = timer.C
		}
		select {
		case <-wake:
		case <-changed:
		case <-d.kick:
		case <-d.ctx.Done():
			return
		}
	}
}

const (
	// longestDelay bounds every delay, so that a due time further ahead is known to come from a wall clock
	// that was set back since.
	longestDelay = 2 * time.Hour
	// hurryAhead is how far ahead of their time operations are tried after Wake: further than any delay.
	hurryAhead = 3 * time.Hour
)

// leastProbes is how many connections may be probed at once, whatever Concurrency says: an outage takes all of a fleet's
// off line, and where nothing answers each probe holds its place until it times out.
const leastProbes = 16

// longestSleep bounds how long a wall clock that was set can mislead the loop.
const longestSleep = time.Minute

// superviseLocked starts due probes and returns when a connection's condition is next to be looked at.
func (d *Dispatcher) superviseLocked(now time.Time) time.Time {
	var next time.Time
	for c := range d.roster.special {
		c.clamp(now)
		d.roster.sort(c, now)
		switch {
		case d.draining:
		case c.condition != online && c.probing:
		case c.condition != online:
			at := c.next()
			if now.Before(at) {
				next = earlier(next, at)
				continue
			}
			if d.probes >= max(d.cfg.Concurrency, leastProbes) {
				continue // whoever gives its place back wakes the loop
			}
			c.probing = true
			d.probes++
			d.jobs.Add(1)
			go func() {
				defer d.jobs.Done()
				d.probe(c)
			}()
		case !c.able(now):
			next = earlier(next, c.next())
		}
	}
	return next
}

// earlier returns the earlier of two moments; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// upward spreads a server's Retry-After over half as much again, so that many clients told the same do
// not come back together.
func upward(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + rand.N(d/2+1)
}
