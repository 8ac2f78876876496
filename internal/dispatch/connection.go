package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
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

// connection is a Connection's state while the dispatcher runs. Dispatcher.mu guards all but tokens.
type connection struct {
	Connection
	tokens tokens

	pace          pace
	budget        budget
	restUntil     time.Time // the budget is empty: nothing before then
	condition     condition
	since         time.Time // since when it is not online
	probes        int       // probes made since then
	nextProbe     time.Time
	probing       bool
	pausedUntil   time.Time           // Flavoso asked to wait until then
	failing       map[string]struct{} // lanes with a failure since the last authored answer
	authored      bool                // an answer with Flavoso's request id was seen
	rejectedToken string              // the token that Flavoso refused
}

// able reports whether operations of the connection may be claimed at now.
func (c *connection) able(now time.Time) bool {
	return c.condition == online && !now.Before(c.pausedUntil) && !now.Before(c.restUntil)
}

// visible is the part of a connection's condition that its owner is told about.
func (c *connection) visible(now time.Time) [2]any {
	return [2]any{c.condition, now.Before(c.pausedUntil)}
}

// down takes the connection off line. The first probe follows after a short random delay.
func (c *connection) down(cond condition, now time.Time, delay time.Duration) {
	if c.condition == cond {
		return
	}
	c.condition, c.since, c.probes = cond, now, 0
	c.nextProbe = now.Add(delay)
}

// up takes it back on line, carefully.
func (c *connection) up() {
	if c.condition != online {
		c.condition, c.since = online, time.Time{}
		c.pace.restart()
	}
	c.rejectedToken = ""
	clear(c.failing)
}

// failed notes a failure without an authored answer. Failures on two lanes are the network's, not a
// lane's.
func (c *connection) failed(lane string, neverSent bool, now time.Time, delay time.Duration) {
	c.failing[lane] = struct{}{}
	if neverSent || len(c.failing) >= 2 {
		c.down(offline, now, delay)
	}
}

// good notes an answer without strain.
func (c *connection) good() {
	c.pace.good()
	c.budget.good()
	c.restUntil = time.Time{}
}

// strained notes a 429, a 5xx or no answer at all; delay is the pause after n of them on an empty budget.
func (c *connection) strained(now time.Time, delay func(n int) time.Duration) {
	c.pace.strained()
	if n := c.budget.strained(); n > 0 {
		c.restUntil = now.Add(delay(n + 2))
	}
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

	mu       sync.Mutex
	refused  string // the latest token that was refused,
	replaced string // and what the source gave instead
}

// get returns the token to use: what the source gives, unless that is the one just refused and replaced.
func (t *tokens) get(ctx context.Context) (string, error) {
	token, err := t.source(ctx, "")
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if token == t.refused && t.replaced != "" {
		return t.replaced, nil
	}
	return token, nil
}

// refresh returns a token to use instead of rejected. Concurrent calls for the same refused token share
// one call of the source.
func (t *tokens) refresh(ctx context.Context, rejected string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused == rejected && t.replaced != "" && t.replaced != rejected {
		return t.replaced, nil
	}
	token, err := t.source(ctx, rejected)
	if err != nil {
		return "", err
	}
	t.refused, t.replaced = rejected, token
	return token, nil
}

// State names under which a connection's facts survive a restart.
const statePausedUntil = "paused_until"

// savePause keeps a Retry-After over restarts. Failing to save it costs at most one early request.
func (d *Dispatcher) savePause(c *connection, until time.Time) {
	text, err := until.MarshalText()
	if err == nil {
		err = d.engine.SaveState(d.ctx, c.Name, statePausedUntil, text)
	}
	if err != nil {
		d.log.Warn("flavoso.state_not_saved", "connection", c.Name, "state", statePausedUntil, "error", err)
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
	if until.UnmarshalText(text) == nil && until.Sub(d.cfg.Now()) <= maxPause {
		c.pausedUntil = until
	}
	return nil
}

// maxPause is the longest that a saved Retry-After holds: the cap on an authored one, jitter included.
const maxPause = 2 * time.Hour

// scopeLocked selects the connections that may be claimed from now; the caller holds mu.
func (d *Dispatcher) scopeLocked(now time.Time) (outbox.Scope, int) {
	var s outbox.Scope
	free := 0
	s.Connections = make([]string, 0, len(d.connections))
	for name, c := range d.connections {
		if f := c.pace.free(); f > 0 && c.able(now) {
			s.Connections = append(s.Connections, name)
			free += f
		}
	}
	return s, min(free, d.cfg.Concurrency-d.inflight)
}
