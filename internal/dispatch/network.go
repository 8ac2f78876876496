package dispatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// controlTarget is what is read to learn whether Flavoso can be reached, what time it is there, and
// whether the token is good.
const controlTarget = "/store"

// judge reads an answer, to an operation of a lane or to a read (lane ""), and draws the connection's
// conclusions from it.
func (d *Dispatcher) judge(c *connection, lane string, x wire.Exchange, f wire.Facts) wire.Verdict {
	d.mu.Lock()
	f.SeenRequestID = c.authored
	d.mu.Unlock()
	v := wire.Judge(x, f, d.cfg.Now())
	d.observe(c, lane, v)
	return v
}

// Observe draws a connection's conclusions from an answer to a read that somebody else made with token.
func (d *Dispatcher) Observe(connection, token string, v wire.Verdict) {
	c := d.known(connection)
	if c == nil {
		return
	}
	d.observe(c, "", v)
	d.mu.Lock()
	renewed := c.renewed(token, v)
	d.mu.Unlock()
	if renewed {
		d.Kick()
	}
}

// SeenRequestID reports whether the connection has had an answer with Flavoso's request id. One that was not met
// yet is met: what is read for it counts.
func (d *Dispatcher) SeenRequestID(ctx context.Context, connection string) bool {
	c := d.meet(ctx, connection)
	d.mu.Lock()
	defer d.mu.Unlock()
	return c != nil && c.authored
}

func (d *Dispatcher) observe(c *connection, lane string, v wire.Verdict) {
	if v.Authored {
		d.clock.observe(v.Date, time.Now()) // with its monotonic reading
	}
	var pause time.Time
	var firstID bool
	d.change(c, func(now time.Time) {
		before := c.authored
		pause = c.answered(lane, v, now, d.cfg.Delay)
		firstID = c.authored && !before
	})
	if !pause.IsZero() {
		d.savePause(c, pause)
	}
	if firstID {
		d.saveState(c, stateRequestIDs, []byte("seen"))
	}
	if anchor := d.clock.unsaved(); anchor != nil {
		d.saveState(c, stateClock, anchor)
	}
}

// failed notes that an attempt got no authored answer.
func (d *Dispatcher) failed(c *connection, lane string, neverSent bool) {
	if d.ctx.Err() != nil {
		return // broken off by Close: says nothing about the network
	}
	d.change(c, func(now time.Time) { c.failed(lane, neverSent, now, d.cfg.Delay) })
}

// change changes a connection and tells of it when its owner can see the difference.
func (d *Dispatcher) change(c *connection, apply func(now time.Time)) {
	changed := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		now := d.cfg.Now()
		before := c.visible(now)
		apply(now)
		d.roster.sort(c, now)
		return c.visible(now) != before
	}
	if changed() {
		d.conditionChanged(c)
	}
}

// conditionChanged tells of a connection that went off line, came back, was paused or lost its token.
func (d *Dispatcher) conditionChanged(c *connection) {
	h := d.Health(c.Name)
	level := slog.LevelInfo
	if h.AuthRequired {
		level = slog.LevelWarn // nothing but a new token helps
	}
	d.log.Log(d.ctx, level, "flavoso.connection", "connection", c.Name, "offline", !h.OfflineSince.IsZero(),
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
	return x, d.judge(c, "", x, wire.Facts{Clean: true})
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
	d.change(c, func(now time.Time) {
		c.rejectedToken = token
		if c.condition != unauthorized {
			c.down(unauthorized, now, 0)
			c.nextProbe = now.Add(c.probeDelay(d.cfg.Delay))
		}
	})
}

// probe asks whether a connection that is not online can send again.
func (d *Dispatcher) probe(c *connection) {
	ctx, cancel := context.WithTimeout(d.ctx, d.cfg.AttemptTimeout(0))
	defer cancel()
	// A token source that does not mind its context keeps no place from others for much longer than that.
	place := time.AfterFunc(d.cfg.AttemptTimeout(0)+time.Second, d.probeOver)
	defer func() {
		if place.Stop() {
			d.probeOver()
		}
	}()
	v := wire.Verdict{Class: wire.Broken}
	defer func() {
		// Also when the application's token source ends this goroutine.
		d.change(c, func(now time.Time) { c.probed(v, now, d.cfg.Delay) })
		d.Kick()
	}()
	d.mu.Lock()
	condition, rejected := c.condition, c.rejectedToken
	d.mu.Unlock()
	if condition == unauthorized {
		// An error leaves the old token in place; the read then says what it is worth.
		_, _ = c.tokens.refresh(ctx, rejected)
	}
	v = d.controlRead(ctx, c)
}

// probeOver gives the place of a probe back.
func (d *Dispatcher) probeOver() {
	d.mu.Lock()
	d.probes--
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
	c := d.roster.byName[name]
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
