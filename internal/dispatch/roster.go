package dispatch

import (
	"context"
	"time"
)

// roster holds the connections. Most of a fleet's are well and idle at any moment; those that are not are
// also kept apart, so that what looks at the roster again and again costs as much as there is trouble,
// however many connections there are. Dispatcher.mu guards it.
type roster struct {
	// open says how to reach a connection that was not met yet; nil = all were named at the start, and
	// operations of others are left alone.
	open func(name string) Connection
	// most is how many connections are remembered when open makes them.
	most int
	// parallel bounds the attempts of one connection; places is how many of them one claim of many
	// connections may take, and a connection that has fewer left is not among those.
	parallel, places int

	byName  map[string]*connection
	special map[*connection]struct{} // not able, careful, or busy
}

func newRoster(cfg Config) roster {
	r := roster{
		open: cfg.Open, most: cfg.MaxConnections, parallel: cfg.Concurrency, places: 1,
		byName:  map[string]*connection{},
		special: map[*connection]struct{}{},
	}
	if r.open != nil {
		r.parallel = min(cfg.PerConnection, cfg.Concurrency)
		r.places = (r.parallel + 1) / 2
	}
	return r
}

// sort puts a connection that has changed where it belongs; one that was given up belongs nowhere.
func (r *roster) sort(c *connection, now time.Time) {
	if r.byName[c.Name] != c || c.able(now) && c.pace.open() && c.pace.free() >= r.places {
		delete(r.special, c)
	} else {
		r.special[c] = struct{}{}
	}
}

// add takes a connection in, and gives up others that are well and idle when there are too many: what is
// worth knowing of one is saved.
func (r *roster) add(c *connection, now time.Time) {
	r.byName[c.Name] = c
	r.sort(c, now)
	if r.open == nil || len(r.byName) <= r.most {
		return
	}
	for name, old := range r.byName {
		if len(r.byName) <= r.most-r.most/8 {
			return
		}
		if _, special := r.special[old]; old != c && !special && old.idle() {
			delete(r.byName, name)
		}
	}
}

// meet returns a connection, and takes up what was saved of it when it was not met yet; nil = it is none of
// this dispatcher's, or ctx has ended.
func (d *Dispatcher) meet(ctx context.Context, name string) *connection {
	d.mu.Lock()
	c, open := d.roster.byName[name], d.roster.open
	d.mu.Unlock()
	if c != nil || open == nil {
		return c
	}
	c = newConnection(open(name), d.roster.parallel)
	if err := d.loadFacts(ctx, c); err != nil && d.ctx.Err() == nil {
		if ctx.Err() != nil {
			return nil // the caller left: whoever comes next reads them
		}
		// Without them a pause may be cut short, and the first answer tells the rest.
		d.log.Warn("flavoso.state_not_loaded", "connection", name, "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if met := d.roster.byName[name]; met != nil {
		return met
	}
	d.roster.add(c, d.cfg.Now())
	return c
}

// known returns a connection that was met; nil = it was not.
func (d *Dispatcher) known(name string) *connection {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.roster.byName[name]
}

// Connections returns how many connections are remembered.
func (d *Dispatcher) Connections() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.roster.byName)
}

// sendsFor reports whether the connection's operations are this dispatcher's.
func (d *Dispatcher) sendsFor(name string) bool { return d.roster.open != nil || d.known(name) != nil }

// paused returns the end of a pause that Flavoso asked for; zero = there is none.
func (d *Dispatcher) paused(c *connection) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cfg.Now().Before(c.pausedUntil) {
		return c.pausedUntil
	}
	return time.Time{}
}

// names returns whose operations to look through: a fleet's all at once ("").
func (d *Dispatcher) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.roster.open != nil {
		return []string{""}
	}
	names := make([]string, 0, len(d.roster.byName))
	for name := range d.roster.byName {
		names = append(names, name)
	}
	return names
}
