package mockserver

import "time"

// Store is the restaurant as the API shows it.
type Store struct {
	Object                    string     `json:"object"`
	ID                        string     `json:"id"`
	Name                      string     `json:"name"`
	Timezone                  string     `json:"timezone"`
	Currency                  string     `json:"currency"`
	PausedUntil               *time.Time `json:"paused_until"`
	PauseReason               *string    `json:"pause_reason"`
	DefaultPreparationMinutes int64      `json:"default_preparation_minutes"`
	UpdatedAt                 time.Time  `json:"updated_at"`
	Version                   int        `json:"version"`
}

func seedStore(r *random, now time.Time) Store {
	return Store{
		Object: "store", ID: r.uuid(), Name: "Gasthaus »Zum Grünen Baum«", Timezone: "Europe/Berlin", Currency: "EUR",
		DefaultPreparationMinutes: 20, UpdatedAt: now, Version: 1,
	}
}

// storeRoutes are the operations on the restaurant. PUT /store/hours is documented (F15); shapes and the
// other operations are assumptions.
func storeRoutes() []route {
	return []route{
		{method: "GET", pattern: "/store", operation: "store.get", run: getStore},
		{method: "PATCH", pattern: "/store", operation: "store.update", run: updateStore},
		{method: "GET", pattern: "/store/hours", operation: "store.get_hours", run: getHours},
		{method: "PUT", pattern: "/store/hours", operation: "store.hours", run: putHours},
	}
}

func getStore(c *call) answer { return ok(c.conn.storeAt(c.now)) }

// storeAt is the restaurant as it stands at now: a pause that has passed does not show.
func (c *connection) storeAt(now time.Time) Store {
	s := c.store
	if s.PausedUntil != nil && !now.Before(*s.PausedUntil) {
		s.PausedUntil, s.PauseReason = nil, nil
	}
	return s
}

func updateStore(c *call) answer {
	var in struct {
		PausedUntil               optional[time.Time] `json:"paused_until"`
		PauseReason               optional[string]    `json:"pause_reason"`
		DefaultPreparationMinutes optional[int64]     `json:"default_preparation_minutes"`
	}
	if p := c.decode(&in); p != nil {
		return refuse(p)
	}
	var f findings
	if in.PausedUntil.set && !in.PausedUntil.null && !in.PausedUntil.v.After(c.now) {
		f.add("/paused_until", "in_past", "paused_until lies in the past")
	}
	minutes := in.DefaultPreparationMinutes
	switch {
	case minutes.null:
		f.add("/default_preparation_minutes", "not_nullable", "the field cannot be cleared")
	case minutes.set && (minutes.v < 1 || minutes.v > 24*60):
		f.add("/default_preparation_minutes", "out_of_range", "default_preparation_minutes must be 1 to 1440")
	}
	if p := f.problem(); p != nil {
		return refuse(p)
	}
	before := c.conn.storeAt(c.now)
	next := before
	if in.PausedUntil.set {
		next.PausedUntil = pointer(in.PausedUntil)
		if next.PausedUntil == nil {
			next.PauseReason = nil // resumed
		} else {
			*next.PausedUntil = next.PausedUntil.UTC()
		}
	}
	if in.PauseReason.set {
		next.PauseReason = pointer(in.PauseReason)
	}
	assign(&next.DefaultPreparationMinutes, minutes)
	if string(encode(next)) == string(encode(before)) {
		return ok(before)
	}
	next.Version++
	next.UpdatedAt = c.now
	c.conn.store = next
	c.effect("store.update", "store", "")
	return ok(next)
}

// pointer is nil for null.
func pointer[T any](o optional[T]) *T {
	if o.null {
		return nil
	}
	return &o.v
}
