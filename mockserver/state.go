package mockserver

import (
	"context"
	"fmt"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// AddOrder lets an order arrive and returns its id. What is set in o replaces the field of a realistic
// order; the sums are worked out again. A pending order waits for its acceptance as long as the switch
// AcceptWithin says, unless AcceptBy is set. An id that exists already is replaced. Nothing is checked, so
// that a test can try what the API never had: an unknown status, an id no path can name.
func (s *Server) AddOrder(connection string, o Order) string {
	added, _ := s.addOrder(connection, true, func(base *Order) { overlay(base, o) })
	return added.ID
}

// AddOrders lets n realistic orders arrive and returns their ids.
func (s *Server) AddOrders(connection string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = s.AddOrder(connection, Order{})
	}
	return ids
}

// addOrder lets an order arrive; false = there is one with its id, and it may not be replaced.
func (s *Server) addOrder(connection string, replace bool, change func(*Order)) (Order, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.connection(connection)
	now := s.now()
	c.passTime(now)
	o := realisticOrder(c.rnd, now, c.store.Currency)
	change(&o)
	if c.orders[o.ID] != nil && !replace {
		return Order{}, false
	}
	o.Object = "order"
	if o.AcceptBy.IsZero() && o.Status == StatusPending && s.Switches().AcceptWithin > 0 {
		o.AcceptBy = now.Add(s.Switches().AcceptWithin)
	}
	if o.DeliveryAddress != nil && o.Type != "delivery" {
		o.DeliveryAddress = nil
	}
	o = o.clone() // the overlay's lists stay the caller's
	for i := range o.Items {
		o.Items[i].complete(c.rnd)
	}
	o.addUp(c.store.Currency)
	c.put(&o)
	return o.clone(), true
}

// complete fills in what an overlay left out of a line.
func (it *Item) complete(r *random) {
	if it.ID == "" {
		it.ID = r.uuid()
	}
	if it.Quantity == 0 {
		it.Quantity = 1
	}
	completeModifiers(it.Modifiers, r)
}

func completeModifiers(ms []Modifier, r *random) {
	for i := range ms {
		if ms[i].ID == "" {
			ms[i].ID = r.uuid()
		}
		if ms[i].Quantity == 0 {
			ms[i].Quantity = 1
		}
		completeModifiers(ms[i].Modifiers, r)
	}
}

// put stores an order, in the place of one with the same id.
func (c *connection) put(o *Order) {
	if _, exists := c.orders[o.ID]; exists {
		for i := range c.orderList {
			if c.orderList[i] != nil && c.orderList[i].ID == o.ID {
				c.orderList[i] = o
			}
		}
	} else {
		c.orderList = append(c.orderList, o)
	}
	c.orders[o.ID] = o
	c.watch(o)
}

// clone returns a copy that shares nothing with the order.
func (o *Order) clone() Order {
	out := *o
	out.Items = make([]Item, len(o.Items))
	for i, it := range o.Items {
		it.Modifiers = cloneModifiers(it.Modifiers)
		out.Items[i] = it
	}
	out.Discounts = append([]Discount{}, o.Discounts...)
	if o.Cancellation != nil {
		c := *o.Cancellation
		out.Cancellation = &c
	}
	if o.DeliveryAddress != nil {
		a := *o.DeliveryAddress
		out.DeliveryAddress = &a
	}
	return out
}

func cloneModifiers(ms []Modifier) []Modifier {
	out := make([]Modifier, len(ms))
	for i, m := range ms {
		m.Modifiers = cloneModifiers(m.Modifiers)
		out[i] = m
	}
	return out
}

// Order returns an order as it stands; false when there is none with this id.
func (s *Server) Order(connection, id string) (Order, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.known(connection)
	o := c.orders[id]
	if o == nil {
		return Order{}, false
	}
	return o.clone(), true
}

// Orders returns the orders of a connection in the order of arrival.
func (s *Server) Orders(connection string) []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.known(connection)
	out := make([]Order, 0, len(c.orders))
	for _, o := range c.orderList {
		if o != nil {
			out = append(out, o.clone())
		}
	}
	return out
}

// ChangeOrder lets the world change an order behind the client's back: a guest cancels, a courier is
// late. Version and updated_at move on, the sums are worked out again. It is no request's effect and stays
// out of the ledger. change must not call the server.
func (s *Server) ChangeOrder(connection, id string, change func(*Order)) error {
	if _, found := s.changeOrder(connection, id, onlyOrder(change)); !found {
		return fmt.Errorf("mockserver: connection %s has no order %s", connection, id)
	}
	return nil
}

func onlyOrder(change func(*Order)) func(*connection, *Order) {
	return func(_ *connection, o *Order) { change(o) }
}

func (s *Server) changeOrder(name, id string, change func(*connection, *Order)) (Order, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.known(name)
	o := c.orders[id]
	if o == nil {
		return Order{}, false
	}
	next := o.clone()
	change(c, &next)
	next = next.clone() // what change put into it stays the caller's, and no list is null
	next.ID, next.Object = o.ID, "order"
	next.addUp(c.store.Currency)
	next.touch(s.now())
	*o = next
	c.watch(o)
	return o.clone(), true
}

// guestCancels is how an order ends that a guest does not want any more.
var guestCancels = Cancellation{By: "customer", Reason: "customer_request"}

// CancelOrder lets a guest cancel an order, whatever state it is in.
func (s *Server) CancelOrder(connection, id string) error {
	if _, found := s.cancelOrder(connection, id, guestCancels); !found {
		return fmt.Errorf("mockserver: connection %s has no order %s", connection, id)
	}
	return nil
}

func (s *Server) cancelOrder(name, id string, by Cancellation) (Order, bool) {
	return s.changeOrder(name, id, func(_ *connection, o *Order) {
		by.At = s.now()
		o.Status, o.Cancellation = StatusCancelled, &by
	})
}

// DeleteOrder removes an order, as if it had never been; what is held of it is still replayed (W9).
func (s *Server) DeleteOrder(connection, id string) { s.deleteOrder(connection, id) }

func (s *Server) deleteOrder(name, id string) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.known(name)
	for i, o := range c.orderList {
		if o != nil && o.ID == id {
			c.orderList[i] = nil // the others keep their places, which cursors name
			delete(c.orders, id)
			return true
		}
	}
	return false
}

// Bookings returns the bookings of a connection in the order of arrival.
func (s *Server) Bookings(connection string) []Booking {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.known(connection)
	out := make([]Booking, len(c.bookingList))
	for i, b := range c.bookingList {
		out[i] = *b
	}
	return out
}

// ChangeBooking lets the world change a booking behind the client's back. It stays out of the ledger.
// change must not call the server.
func (s *Server) ChangeBooking(connection, id string, change func(*Booking)) error {
	if _, found := s.changeBooking(connection, id, change); !found {
		return fmt.Errorf("mockserver: connection %s has no booking %s", connection, id)
	}
	return nil
}

func (s *Server) changeBooking(name, id string, change func(*Booking)) (Booking, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.known(name).bookings[id]
	if b == nil {
		return Booking{}, false
	}
	change(b)
	b.ID, b.Object = id, "booking"
	b.Version++
	b.UpdatedAt = s.now()
	return *b, true
}

// Store returns the restaurant of a connection.
func (s *Server) Store(connection string) Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connection(connection).storeAt(s.now())
}

// Effects returns what requests really changed, oldest first. The newest 100 000 are kept.
func (s *Server) Effects() []Effect { return s.ledger.all() }

// Requests returns the requests that came, oldest first, as far as they are kept ([WithJournal]). Bodies
// are shared and must not be changed.
func (s *Server) Requests() []Request { return s.journal.all() }

// WaitForRequests waits until pred accepts the requests that came so far, and returns them. It is how a
// test waits for something to have reached the server without sleeping. A request is there as soon as it
// has been read whole, and again when its answer goes out.
func (s *Server) WaitForRequests(ctx context.Context, pred func([]Request) bool) ([]Request, error) {
	for {
		s.journal.mu.Lock()
		changed := s.journal.changed
		s.journal.mu.Unlock()
		all := s.journal.all()
		if pred(all) {
			return all, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return all, fmt.Errorf("mockserver: waiting for requests: %w", context.Cause(ctx))
		case <-s.done:
			return all, fmt.Errorf("mockserver: waiting for requests: the server is closed")
		}
	}
}

// Held is what the server knows about a key.
type Held struct {
	Connection  string    `json:"connection"`
	Key         string    `json:"key"`
	State       string    `json:"state"` // processing or completed
	Generation  int64     `json:"generation"`
	Fingerprint string    `json:"fingerprint"`
	Status      int       `json:"status"` // of the held answer; 0 while processing
	CreatedAt   time.Time `json:"created_at"`
	LeaseUntil  time.Time `json:"lease_until"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
}

// Keys returns what the server holds of a connection's keys; "" = of all connections.
func (s *Server) Keys(connection string) []Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Held{}
	for name, c := range s.connections {
		if connection != "" && connection != name {
			continue
		}
		records, err := s.engine.List(context.Background(), idempotency.Filter{Tenant: c.scope, Limit: 1 << 30})
		if err != nil {
			continue // not reachable: the memory engine fails on an ended context only
		}
		for _, r := range records {
			out = append(out, Held{
				Connection: name, Key: r.Scope.Key, State: string(r.State), Generation: r.Generation,
				Fingerprint: r.Fingerprint.String(), Status: r.Status, CreatedAt: r.CreatedAt,
				LeaseUntil: r.LeaseUntil, ExpiresAt: r.ExpiresAt,
			})
		}
	}
	return out
}

// Inject arms a fault. A fault that makes no sense is not armed: [Injected.Err] says why, and the test of
// a server made by [Start] fails.
func (s *Server) Inject(f Fault) *Injected {
	in := s.arm(f.spec)
	if in.err != nil && s.tb != nil {
		s.tb.Helper()
		s.tb.Errorf("%v", in.err)
	}
	return in
}

func (s *Server) arm(spec faultSpec) *Injected {
	in := s.faults.inject(spec)
	if in.err == nil && spec.Name == faultRefuse {
		s.closeIdle()
	}
	return in
}

// ClearFaults takes all faults away; they no longer count as unfired.
func (s *Server) ClearFaults() { s.faults.clear() }
