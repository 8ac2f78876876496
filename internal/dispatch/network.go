package dispatch

import (
	"context"
	"time"

	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// controlTarget is what is read to learn whether Flavoso can be reached, what time it is there, and
// whether the token is good.
const controlTarget = "/store"

// judge reads an answer and draws the connection's conclusions from it.
func (d *Dispatcher) judge(c *connection, x wire.Exchange, f wire.Facts) wire.Verdict {
	d.mu.Lock()
	f.SeenRequestID = c.authored
	d.mu.Unlock()
	v := wire.Judge(x, f, d.cfg.Now())
	d.observe(c, v)
	return v
}

// Observe draws a connection's conclusions from an answer to a read that somebody else made.
func (d *Dispatcher) Observe(connection string, v wire.Verdict) {
	d.mu.Lock()
	c := d.connections[connection]
	d.mu.Unlock()
	if c != nil {
		d.observe(c, v)
	}
}

// SeenRequestID reports whether the connection has had an answer with Flavoso's request id.
func (d *Dispatcher) SeenRequestID(connection string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.connections[connection]
	return c != nil && c.authored
}

func (d *Dispatcher) observe(c *connection, v wire.Verdict) {
	if !v.Authored {
		return
	}
	d.clock.observe(v.Date, time.Now()) // with its monotonic reading
	now := d.cfg.Now()
	var until time.Time
	d.mu.Lock()
	before := c.visible(now)
	c.authored = c.authored || v.RequestID != ""
	switch v.Class {
	case wire.Unauthorized, wire.Forbidden: // says nothing about the network's or the server's strain
	case wire.Retry:
		c.strained(now, d.cfg.Delay)
		if v.RetryAfter > 0 && c.pause(now.Add(upward(v.RetryAfter))) {
			until = c.pausedUntil
		}
	default:
		c.good()
	}
	if v.Class != wire.Unauthorized && c.condition != unauthorized {
		c.up()
	}
	changed := c.visible(now) != before
	d.mu.Unlock()
	if !until.IsZero() {
		d.savePause(c, until)
	}
	if changed {
		d.conditionChanged(c)
	}
}

// failed notes that an attempt got no authored answer.
func (d *Dispatcher) failed(c *connection, lane string, neverSent bool) {
	if d.ctx.Err() != nil {
		return // broken off by Close: says nothing about the network
	}
	d.mu.Lock()
	now := d.cfg.Now()
	before := c.visible(now)
	c.failed(lane, neverSent, now, d.cfg.Delay(0))
	if !neverSent {
		c.strained(now, d.cfg.Delay)
	}
	changed := c.visible(now) != before
	d.mu.Unlock()
	if changed {
		d.conditionChanged(c)
	}
}

// conditionChanged tells of a connection that went off line, came back, was paused or lost its token.
func (d *Dispatcher) conditionChanged(c *connection) {
	h := d.Health(c.Name)
	d.log.Info("flavoso.connection", "connection", c.Name, "offline", !h.OfflineSince.IsZero(),
		"auth_required", h.AuthRequired, "paused", !h.PausedUntil.IsZero())
	d.Kick()
	d.cfg.Observer.condition(c.Name)
}

// read makes one GET, without retries, and judges the answer.
func (d *Dispatcher) read(ctx context.Context, c *connection, target string) (wire.Exchange, wire.Verdict) {
	token, err := c.tokens.get(ctx)
	if err != nil {
		return wire.Exchange{NeverSent: true, Err: err}, wire.Verdict{Class: wire.Broken}
	}
	x := d.cfg.Sender.Send(ctx, outbox.Request{Method: "GET", Target: target, Accept: "application/json"}, "", token)
	return x, d.judge(c, x, wire.Facts{Clean: true})
}

// controlRead reads the control target.
func (d *Dispatcher) controlRead(ctx context.Context, c *connection) wire.Verdict {
	_, v := d.read(ctx, c, controlTarget)
	return v
}

// find finds out whether the operation's wish holds.
func (d *Dispatcher) find(ctx context.Context, c *connection, rec *outbox.Record) Finding {
	if !d.cfg.Policy.CanFind(rec) {
		return Finding{Wish: Unreadable}
	}
	return d.cfg.Policy.Find(ctx, rec, func(ctx context.Context, target string) ([]byte, bool, bool) {
		x, v := d.read(ctx, c, target)
		switch v.Class {
		case wire.Success:
			return x.Body, true, true
		case wire.Conflict: // 404, 410
			return nil, false, true
		}
		return nil, false, false
	})
}

// pastWindow reports whether Flavoso may have forgotten the operation's key. What no clock can tell counts
// as past.
func (d *Dispatcher) pastWindow(ctx context.Context, c *connection, rec *outbox.Record) bool {
	if rec.Suspect || rec.Exposure == nil {
		return true
	}
	age, known := d.clock.age(rec.Exposure)
	if !known && !rec.Exposure.Server.IsZero() {
		d.controlRead(ctx, c) // its Date tells what time it is
		age, known = d.clock.age(rec.Exposure)
	}
	return !known || age >= d.cfg.Window
}

// refused handles a token that Flavoso did not accept: it is refreshed once for all attempts that used it,
// and when the new one is refused too the connection waits for a better one.
func (d *Dispatcher) refused(ctx context.Context, c *connection, token string) {
	d.mu.Lock()
	second := c.rejectedToken != "" && c.rejectedToken != token
	if !second {
		c.rejectedToken = token
	}
	d.mu.Unlock()
	next, err := c.tokens.refresh(ctx, token)
	if d.ctx.Err() != nil {
		return
	}
	if err == nil && next != token && !second {
		return
	}
	d.mu.Lock()
	now := d.cfg.Now()
	before := c.visible(now)
	c.rejectedToken = token
	c.down(unauthorized, now, d.probeDelay(unauthorized, 0))
	changed := c.visible(now) != before
	d.mu.Unlock()
	if changed {
		d.conditionChanged(c)
	}
}

// probe asks whether a connection that is not online can send again.
func (d *Dispatcher) probe(c *connection) {
	ctx, cancel := context.WithTimeout(d.ctx, d.cfg.AttemptTimeout(0))
	defer cancel()
	d.mu.Lock()
	condition, rejected := c.condition, c.rejectedToken
	d.mu.Unlock()
	if condition == unauthorized {
		// An error leaves the old token in place; the read then says what it is worth.
		_, _ = c.tokens.refresh(ctx, rejected)
	}
	v := d.controlRead(ctx, c)

	d.mu.Lock()
	now := d.cfg.Now()
	before := c.visible(now)
	c.probing = false
	switch {
	case v.Class == wire.Unauthorized:
		c.down(unauthorized, now, 0)
	case v.Authored && (c.condition == offline || v.Class != wire.Forbidden):
		c.up()
	}
	if c.condition != online {
		c.probes++
		c.nextProbe = now.Add(d.probeDelay(c.condition, c.probes))
	}
	changed := c.visible(now) != before
	d.mu.Unlock()
	if changed {
		d.conditionChanged(c)
	}
	d.Kick()
}

// probeDelay is the pause before the next probe after n have failed.
func (d *Dispatcher) probeDelay(cond condition, n int) time.Duration {
	if cond == unauthorized {
		return 30*time.Second + d.cfg.Delay(n+4)
	}
	return d.cfg.Delay(n + 2)
}

// Wake says that the network is back: connections that are not online are probed now, and operations in
// their pause between attempts are tried now. What Flavoso asked to wait for is waited for all the same.
func (d *Dispatcher) Wake() {
	d.mu.Lock()
	d.hurry = d.cfg.Concurrency // bounded, or failing operations would be tried without any pause
	for _, c := range d.connections {
		c.nextProbe, c.restUntil = time.Time{}, time.Time{}
	}
	d.mu.Unlock()
	d.Kick()
}

// Health is a connection's condition, for people and status lines.
type Health struct {
	OfflineSince time.Time // zero = it is not offline
	PausedUntil  time.Time // zero = no pause
	AuthRequired bool
}

// Health returns the condition of a connection.
func (d *Dispatcher) Health(name string) Health {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.connections[name]
	if c == nil {
		return Health{}
	}
	var h Health
	switch c.condition {
	case offline:
		h.OfflineSince = c.since
	case unauthorized:
		h.AuthRequired = true
	}
	if d.cfg.Now().Before(c.pausedUntil) {
		h.PausedUntil = c.pausedUntil
	}
	return h
}
