package mockserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

const snapshotVersion = 1

// snapshot is the server's state as JSON.
type snapshot struct {
	Version     int                  `json:"version"`
	Scopes      map[string]int       `json:"scopes"`
	Tokens      map[string]string    `json:"tokens"`
	Connections []connectionSnapshot `json:"connections"`
	Keys        json.RawMessage      `json:"keys"`
}

type connectionSnapshot struct {
	Name         string                     `json:"name"`
	Scope        string                     `json:"scope"`
	Orders       []*Order                   `json:"orders"`
	Bookings     []*Booking                 `json:"bookings"`
	Menu         map[string]json.RawMessage `json:"menu"`
	Availability []availability             `json:"availability"`
	Store        Store                      `json:"store"`
	Hours        hours                      `json:"hours"`
}

// Snapshot returns everything the server knows: connections with tokens and objects, and the keys with
// their held answers. It does not hold the clock, the faults, the journal and the ledger: those belong
// to the test. With [Server.Restore] and [Server.ForgetKeys] a test chooses what a restart of the
// service loses (D25).
func (s *Server) Snapshot() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := snapshot{Version: snapshotVersion, Scopes: s.scopes, Tokens: s.tokens}
	for _, name := range sortedKeys(s.connections) {
		c := s.connections[name]
		cs := connectionSnapshot{
			Name: name, Scope: c.scope, Orders: c.orderList, Bookings: c.bookingList, Menu: c.menu.fields,
			Store: c.store, Hours: c.hours,
		}
		for _, a := range c.availability.of {
			cs.Availability = append(cs.Availability, a)
		}
		snap.Connections = append(snap.Connections, cs)
	}
	var err error
	if snap.Keys, err = s.engine.Snapshot(); err != nil {
		return nil, fmt.Errorf("mockserver: snapshot: %w", err)
	}
	out, err := json.Marshal(snap)
	if err != nil {
		return nil, fmt.Errorf("mockserver: snapshot: %w", err)
	}
	return out, nil
}

// Restore puts the server back to a snapshot, of this server or another one. On an error nothing
// changes.
func (s *Server) Restore(data []byte) error {
	var snap snapshot
	if err := json.Unmarshal(data, &snap); err != nil {
		return fmt.Errorf("mockserver: restore: %w", err)
	}
	if snap.Version != snapshotVersion {
		return fmt.Errorf("mockserver: restore: snapshot version %d, this release reads %d", snap.Version, snapshotVersion)
	}
	engine := s.newEngine()
	if err := engine.Restore(snap.Keys); err != nil {
		return fmt.Errorf("mockserver: restore: %w", err)
	}
	connections := map[string]*connection{}
	for _, cs := range snap.Connections {
		c, err := cs.restore(s.config.seed)
		if err != nil {
			return fmt.Errorf("mockserver: restore: connection %s: %w", cs.Name, err)
		}
		connections[c.name] = c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections, s.engine = connections, engine
	s.scopes, s.tokens = map[string]int{}, map[string]string{}
	maps.Copy(s.scopes, snap.Scopes)
	maps.Copy(s.tokens, snap.Tokens)
	s.living = map[idempotency.Scope]livingClaim{}
	return nil
}

func (cs connectionSnapshot) restore(seed uint64) (*connection, error) {
	if cs.Name == "" || cs.Scope == "" || cs.Menu == nil || slices.Contains(cs.Bookings, nil) {
		return nil, errors.New("incomplete")
	}
	c := &connection{
		name: cs.Name, scope: cs.Scope, orderList: cs.Orders, bookingList: cs.Bookings, store: cs.Store,
		hours: cs.Hours, orders: map[string]*Order{}, bookings: map[string]*Booking{},
		availability: newAvailabilityTable(), menu: menu{fields: cs.Menu},
		rnd: newRandom(seed, fmt.Sprintf("connection %s after %d orders and %d bookings", cs.Name, len(cs.Orders), len(cs.Bookings))),
	}
	raw, err := json.Marshal(cs.Menu)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &c.menu.doc); err != nil {
		return nil, err
	}
	for _, o := range cs.Orders {
		if o != nil { // deleted
			c.orders[o.ID] = o
			c.watch(o)
		}
	}
	for _, b := range cs.Bookings {
		c.bookings[b.ID] = b
	}
	for _, a := range cs.Availability {
		of := availabilityOf{"item_id", a.ItemID}
		if a.ModifierID != "" {
			of = availabilityOf{"modifier_id", a.ModifierID}
		}
		c.availability.of[of] = a
	}
	return c, nil
}

// ForgetKeys drops every key and every held answer, as a restart of a service does that keeps them in
// memory alone (D25).
func (s *Server) ForgetKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine = s.newEngine()
	s.living = map[idempotency.Scope]livingClaim{}
}

func (s *Server) newEngine() *idempotency.Memory {
	return idempotency.NewMemory(idempotency.WithClock(s.clock.Now))
}

// Reset brings everything back to the seed: connections, orders, held answers, journal, ledger, faults
// and switches, and the clock to the machine's. Ids begin anew, those of faults too; the numbers of network
// connections go on, because the network stays. A request that is under way ends by itself; its effect is not seen any more.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.reset()
	s.forget()
	sw := s.config.switches
	s.switches.Store(&sw)
	s.clock.Set(time.Now())
	s.journal.reset()
	s.ledger.reset()
}
