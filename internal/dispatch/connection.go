package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/internal/wire"
)

// Connection is one app's link to one restaurant (F4).
type Connection struct {
	Name string
	// Token returns the access token to send, or a newer one than rejected when that is not empty.
	Token func(ctx context.Context, rejected string) (string, error)
}

// condition says whether a connection may send.
type condition int

const (
	online condition = iota
	offline
	unauthorized
)

// connection is a Connection's state while the dispatcher runs, and the rules by which answers change it.
// It knows neither goroutines nor clocks, so that a simulation can run ten thousand of them.
// Dispatcher.mu guards all but tokens.
type connection struct {
	Connection
	tokens tokens

	pace          pace
	budget        budget
	restUntil     time.Time // the budget is empty: nothing before then
	condition     condition
	since         time.Time // since when it is not online
	probes        int       // probes made since then
	woken         bool      // Wake was called since then
	nextProbe     time.Time
	probing       bool
	pausedUntil   time.Time           // Flavoso asked to wait until then
	failing       map[string]struct{} // lanes with a failure since the last authored answer
	strained      map[string]struct{} // lanes with an answer under strain since the last without
	authored      bool                // an answer with Flavoso's request id was seen
	rejectedToken string              // the token that Flavoso refused
	renewedToken  string              // the token that last made it be probed early
}

// newConnection starts on line and wide open.
func newConnection(c Connection, concurrency int) *connection {
	return &connection{
		Connection: c,
		tokens:     newTokens(c.Token),
		pace:       newPace(concurrency),
		budget:     newBudget(),
		failing:    map[string]struct{}{},
		strained:   map[string]struct{}{},
	}
}

// delays is the rule for the pause after n failures.
type delays func(n int) time.Duration

// patient is the pause of a whole connection, as opposed to one operation's: the sum of two, twice as
// long on average. A device then asks a server that is down once in 30 seconds at most, on average, while
// the first pauses stay short.
func (d delays) patient(n int) time.Duration { return d(n+1) + d(n+1) }

// able reports whether operations of the connection may be claimed at now.
func (c *connection) able(now time.Time) bool { return c.reachable(now) && !now.Before(c.restUntil) }

// reachable is able, leaving aside that the connection rests: somebody waits for the operation, and one
// attempt for one request of a person does not multiply anything.
func (c *connection) reachable(now time.Time) bool {
	return c.condition == online && !now.Before(c.pausedUntil)
}

// next returns when a connection that is not able may be again, or is to be probed.
func (c *connection) next() time.Time {
	if c.condition != online {
		return later(c.nextProbe, c.pausedUntil)
	}
	return later(c.pausedUntil, c.restUntil)
}

// visible is the part of a connection's condition that its owner is told about.
func (c *connection) visible(now time.Time) [2]any {
	return [2]any{c.condition, now.Before(c.pausedUntil)}
}

// idle reports whether there is nothing about the connection that a new one would not know after reading
// what was saved.
func (c *connection) idle() bool {
	return c.pace.inflight == 0 && !c.probing && c.budget.left == budgetSize && c.rejectedToken == "" &&
		len(c.failing) == 0
}

// down takes the connection off line. The first probe follows after a short random delay.
func (c *connection) down(cond condition, now time.Time, delay time.Duration) {
	if c.condition == cond {
		return
	}
	c.condition, c.since, c.probes, c.woken = cond, now, 0, false
	c.nextProbe = now.Add(delay)
}

// up takes it back on line, carefully. After an outage everybody comes back: the longer it was, the longer
// the time over which the devices spread what has piled up. Who has somebody waiting, or was woken, does not
// wait for that.
func (c *connection) up(now time.Time) {
	if c.condition != online {
		if away := min(now.Sub(c.since)/10, longestSpread); c.condition == offline && away > 0 && !c.woken {
			c.restUntil = now.Add(rand.N(away))
		}
		c.woken = false
		c.condition, c.since = online, time.Time{}
		c.pace.restart(now)
		c.budget.restart(c.probes)
	}
	c.rejectedToken = ""
	clear(c.failing)
}

// longestSpread bounds how long a device holds back what has piled up during an outage.
const longestSpread = 2 * time.Minute

// answered draws the conclusions from an answer: to an operation of a lane, or to a read (lane ""). It
// returns the end of a pause that the answer asked for; zero = it asked for none, or for a shorter one than
// already holds.
func (c *connection) answered(lane string, v wire.Verdict, now time.Time, delay delays) (pause time.Time) {
	if v.RetryAfter > 0 && (v.Class == wire.Retry || v.Class == wire.NotAuthored) &&
		c.pause(now.Add(upward(v.RetryAfter))) {
		pause = c.pausedUntil
	}
	if !v.Authored {
		return pause // what its absence means is for failed
	}
	c.authored = c.authored || v.RequestID != ""
	if v.Class != wire.Unauthorized && c.condition != unauthorized {
		rejected := c.rejectedToken
		c.up(now)
		if v.Class == wire.Forbidden {
			c.rejectedToken = rejected // that a token was read does not mean that it is any good
		}
	}
	switch v.Class {
	case wire.Unauthorized, wire.Forbidden: // says nothing about the network's or the server's strain
	case wire.Retry:
		c.strain(lane, v.Status == http.StatusTooManyRequests, now, delay)
	default:
		c.good(now)
	}
	return pause
}

// failed notes a failure without an authored answer. Failures on two lanes are the network's, not a
// lane's.
func (c *connection) failed(lane string, neverSent bool, now time.Time, delay delays) {
	c.failing[lane] = struct{}{}
	if neverSent || len(c.failing) >= 2 {
		c.down(offline, now, delay(0))
	}
	if !neverSent {
		c.strain(lane, false, now, delay)
	}
}

// good notes an answer without strain.
func (c *connection) good(now time.Time) {
	c.pace.good(now)
	c.budget.good()
	if !c.budget.spent() {
		c.restUntil = time.Time{}
	}
	clear(c.strained)
}

// strain notes a 429, a 5xx or no answer at all. What only one lane meets is its operation's trouble, and
// that operation's own pauses are enough: others keep a place, and do not rest for it. A 429 is always the
// connection's.
func (c *connection) strain(lane string, whole bool, now time.Time, delay delays) {
	c.strained[lane] = struct{}{}
	if !whole && len(c.strained) == 1 && !c.budget.spent() {
		c.pace.strained(2, now)
		return
	}
	c.pace.strained(1, now)
	if n := c.budget.strained(); n > 0 {
		c.restUntil = now.Add(delay.patient(n))
	}
}

// probed notes the answer to a probe, after answered has.
func (c *connection) probed(v wire.Verdict, now time.Time, delay delays) {
	c.probing = false
	switch {
	case v.Class == wire.Unauthorized:
		c.down(unauthorized, now, 0)
	case v.Authored && (c.condition == offline || v.Class != wire.Forbidden):
		c.up(now)
	}
	if c.condition != online {
		c.probes++
		c.nextProbe = now.Add(c.probeDelay(delay))
	}
}

// probeDelay is the pause before the next probe. A refused token is not asked about often: nothing but a
// new one helps.
func (c *connection) probeDelay(delay delays) time.Duration {
	if c.condition == unauthorized {
		return 30*time.Second + delay(c.probes+4)
	}
	return delay.patient(c.probes)
}

// renewed has a connection whose token was refused probed now, once for each other token that a read has
// shown to be good. Whether it is good for the connection's operations the probe tells.
func (c *connection) renewed(token string, v wire.Verdict) bool {
	good := v.Authored && v.Class != wire.Unauthorized && v.Class != wire.Forbidden
	if c.condition != unauthorized || !good || token == c.rejectedToken || token == c.renewedToken {
		return false
	}
	c.renewedToken, c.nextProbe = token, time.Time{}
	return true
}

// pause notes that Flavoso asked not to be called before until.
func (c *connection) pause(until time.Time) bool {
	if !until.After(c.pausedUntil) {
		return false
	}
	c.pausedUntil = until
	return true
}

// tokens hands out one connection's token and refreshes it once however many attempts found it refused.
type tokens struct {
	source func(ctx context.Context, rejected string) (string, error)
	asking chan struct{} // held by the one refresh under way

	mu       sync.Mutex
	refused  []string // the latest tokens that were refused, newest last
	replaced string   // what the source gave instead of the last one
}

func newTokens(source func(ctx context.Context, rejected string) (string, error)) tokens {
	return tokens{source: source, asking: make(chan struct{}, 1)}
}

// rememberRefused bounds how many refused tokens are known.
const rememberRefused = 8

// get returns the token to use: what the source gives, unless that was refused and replaced before.
func (t *tokens) get(ctx context.Context) (string, error) {
	token, err := t.ask(ctx, "")
	if err != nil {
		return "", err
	}
	return t.instead(token), nil
}

// refresh returns a token to use instead of rejected. Concurrent calls for the same refused token share
// one call of the source; no lock is held while it runs.
func (t *tokens) refresh(ctx context.Context, rejected string) (string, error) {
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if token := t.instead(rejected); token != rejected {
		return token, nil
	}
	token, err := t.ask(ctx, rejected)
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.refused, rejected) {
		t.refused = append(t.refused[max(len(t.refused)-rememberRefused+1, 0):], rejected)
	}
	t.replaced = token
	return token, nil
}

// instead returns what replaced a token that was refused, and any other token itself.
func (t *tokens) instead(token string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.replaced != "" && slices.Contains(t.refused, token) {
		return t.replaced
	}
	return token
}

// ask calls the application's source. Its panic is an error like others.
func (t *tokens) ask(ctx context.Context, rejected string) (token string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the token source panicked")
		}
	}()
	return t.source(ctx, rejected)
}

// State names under which a connection's facts survive a restart.
const (
	statePausedUntil = "paused_until"
	stateRequestIDs  = "request_ids" // set once an answer with F1's X-Request-Id was seen
	stateClock       = "clock"       // the latest anchor
)

// saveState keeps one of a connection's facts. Doing without it is safe, so failing is not fatal.
func (d *Dispatcher) saveState(c *connection, name string, value []byte) {
	if err := d.engine.SaveState(context.WithoutCancel(d.ctx), c.Name, name, value); err != nil {
		d.log.Warn("flavoso.state_not_saved", "connection", c.Name, "state", name, "error", err)
	}
}

// loadFacts takes up what a connection learned before a restart.
func (d *Dispatcher) loadFacts(ctx context.Context, c *connection) error {
	seen, err := d.engine.LoadState(ctx, c.Name, stateRequestIDs)
	if err != nil {
		return err
	}
	c.authored = seen != nil
	anchor, err := d.engine.LoadState(ctx, c.Name, stateClock)
	if err != nil {
		return err
	}
	d.clock.restore(anchor)
	return d.loadPause(ctx, c)
}

// savePause keeps a Retry-After over restarts. Failing to save it costs at most one early request.
func (d *Dispatcher) savePause(c *connection, until time.Time) {
	if text, err := until.MarshalText(); err == nil {
		d.saveState(c, statePausedUntil, text)
	}
}

// loadPause takes up a Retry-After from before a restart. A clock that was set since cannot stretch it:
// what lies further ahead than any Retry-After is honoured for is dropped.
func (d *Dispatcher) loadPause(ctx context.Context, c *connection) error {
	text, err := d.engine.LoadState(ctx, c.Name, statePausedUntil)
	if err != nil || text == nil {
		return err
	}
	var until time.Time
	if until.UnmarshalText(text) == nil {
		// Added to a reading of the clock it keeps its length, wherever the wall clock is set from here on.
		now := d.cfg.Now()
		if left := until.Sub(now); left > 0 && left <= maxPause {
			c.pausedUntil = now.Add(left)
		}
	}
	return nil
}

// maxPause is the longest that a saved Retry-After holds: the cap on an authored one, jitter included.
const maxPause = 2 * time.Hour

// clamp forgets waits that are over, so that no clock that is set back can revive them, and those that lie
// further ahead than any wait is long: it was set back since.
func (c *connection) clamp(now time.Time) {
	for _, t := range []*time.Time{&c.pausedUntil, &c.restUntil, &c.nextProbe} {
		if !t.After(now) || t.Sub(now) > maxPause {
			*t = time.Time{}
		}
	}
}
