package mockserver

import (
	"fmt"
	"time"
)

// The statuses of a booking.
const (
	BookingRequested = "requested"
	BookingConfirmed = "confirmed"
	BookingSeated    = "seated"
	BookingCompleted = "completed"
	BookingDeclined  = "declined"
	BookingCancelled = "cancelled"
	BookingNoShow    = "no_show"
)

var bookingStatuses = []string{
	BookingRequested, BookingConfirmed, BookingSeated, BookingCompleted, BookingDeclined, BookingCancelled, BookingNoShow,
}

// Booking is a reservation as the API shows it.
type Booking struct {
	Object          string    `json:"object"`
	ID              string    `json:"id"`
	Status          string    `json:"status"`
	ExternalID      string    `json:"external_id,omitzero"` // the POS's own reference
	PartySize       int64     `json:"party_size"`
	StartsAt        time.Time `json:"starts_at"`
	DurationMinutes int64     `json:"duration_minutes"`
	Customer        Customer  `json:"customer"`
	Note            string    `json:"note,omitzero"`
	CreatedAt       time.Time `json:"created_at"`
	UpdatedAt       time.Time `json:"updated_at"`
	Version         int       `json:"version"`
}

func (b *Booking) ends() time.Time {
	return b.StartsAt.Add(time.Duration(b.DurationMinutes) * time.Minute)
}

// holdsTable reports whether the booking takes up room.
func (b *Booking) holdsTable() bool {
	return b.Status == BookingRequested || b.Status == BookingConfirmed || b.Status == BookingSeated
}

const maxPartySize = 100

// bookingRoutes are the operations on bookings. Create is documented (F12, F17), its body and the other
// operations are assumptions.
func bookingRoutes() []route {
	rs := []route{
		{method: "GET", pattern: "/bookings", operation: "bookings.list", run: listBookings},
		{method: "POST", pattern: "/bookings", operation: "bookings.create", run: createBooking},
		{method: "GET", pattern: "/bookings/{id}", operation: "bookings.get", run: onBooking(getBooking)},
		{method: "PATCH", pattern: "/bookings/{id}", operation: "bookings.update", run: onBooking(updateBooking)},
	}
	for _, v := range []struct {
		verb, target string
		from         []string
	}{
		{"cancel", BookingCancelled, []string{BookingRequested, BookingConfirmed}},
		{"seat", BookingSeated, []string{BookingRequested, BookingConfirmed}},
		{"complete", BookingCompleted, []string{BookingSeated}},
		{"no_show", BookingNoShow, []string{BookingRequested, BookingConfirmed}},
	} {
		kind := "bookings." + v.verb
		rs = append(rs, route{method: "POST", pattern: "/bookings/{id}/" + v.verb, operation: kind,
			run: onBooking(moveBooking(v.target, v.from, kind))})
	}
	return rs
}

func onBooking(run func(*call, *Booking) answer) func(*call) answer {
	return func(c *call) answer {
		b := c.conn.bookings[c.params[0]]
		if b == nil {
			return refuse(notFound("booking", c.params[0]))
		}
		return run(c, b)
	}
}

func getBooking(_ *call, b *Booking) answer { return ok(b) }

func listBookings(c *call) answer {
	ref, status := c.query.Get("external_id"), c.query.Get("status")
	visible := c.now.Add(-c.server.Switches().BookingListLag)
	l, p := paginate(c.conn.bookingList, c.query, func(b *Booking) bool {
		return !b.CreatedAt.After(visible) && (ref == "" || b.ExternalID == ref) && (status == "" || b.Status == status)
	}, func(b *Booking) any { return b })
	if p != nil {
		return refuse(p)
	}
	return ok(l)
}

func createBooking(c *call) answer {
	var in struct {
		ExternalID      string    `json:"external_id"`
		PartySize       int64     `json:"party_size"`
		StartsAt        time.Time `json:"starts_at"`
		DurationMinutes *int64    `json:"duration_minutes"`
		Customer        Customer  `json:"customer"`
		Note            string    `json:"note"`
	}
	if p := c.decode(&in); p != nil {
		return refuse(p)
	}
	b := &Booking{
		Object: "booking", Status: c.server.Switches().BookingStatus, ExternalID: in.ExternalID,
		PartySize: in.PartySize, StartsAt: in.StartsAt.UTC(), DurationMinutes: 120, Customer: in.Customer,
		Note: in.Note, CreatedAt: c.now, UpdatedAt: c.now, Version: 1,
	}
	if in.DurationMinutes != nil {
		b.DurationMinutes = *in.DurationMinutes
	}
	if p := b.check(c.now); p != nil {
		return refuse(p)
	}
	if p := c.checkRoom(b); p != nil {
		return refuse(p)
	}
	if c.server.Switches().BookingReference == "unique" && b.ExternalID != "" {
		for _, other := range c.conn.bookingList {
			if other.ExternalID == b.ExternalID {
				return refuse(conflict(fmt.Sprintf("there is a booking with the external_id %q already", b.ExternalID)))
			}
		}
	}
	b.ID = c.conn.rnd.uuid()
	c.conn.bookings[b.ID] = b
	c.conn.bookingList = append(c.conn.bookingList, b)
	c.effect("bookings.create", b.ID, b.ExternalID)
	return created("/bookings/"+b.ID, b)
}

func (b *Booking) check(now time.Time) *problem {
	var f findings
	if b.PartySize < 1 || b.PartySize > maxPartySize {
		f.add("/party_size", "out_of_range", fmt.Sprintf("party_size must be 1 to %d", maxPartySize))
	}
	switch {
	case b.StartsAt.IsZero():
		f.add("/starts_at", "required", "starts_at is required")
	case b.StartsAt.Before(now):
		f.add("/starts_at", "in_past", "starts_at lies in the past")
	}
	if b.DurationMinutes < 15 || b.DurationMinutes > 24*60 {
		f.add("/duration_minutes", "out_of_range", "duration_minutes must be 15 to 1440")
	}
	if b.Customer.Name == "" {
		f.add("/customer/name", "required", "the customer's name is required")
	}
	return f.problem()
}

// checkRoom refuses a booking when as many as the capacity switch allows overlap it already.
func (c *call) checkRoom(b *Booking) *problem {
	capacity := c.server.Switches().BookingCapacity
	if capacity <= 0 {
		return nil
	}
	taken := 0
	for _, other := range c.conn.bookingList {
		if other.ID != b.ID && other.holdsTable() && other.StartsAt.Before(b.ends()) && b.StartsAt.Before(other.ends()) {
			taken++
		}
	}
	if taken >= capacity {
		return conflict("no table is free at " + b.StartsAt.Format(time.RFC3339))
	}
	return nil
}

func updateBooking(c *call, b *Booking) answer {
	var in struct {
		PartySize       optional[int64]     `json:"party_size"`
		StartsAt        optional[time.Time] `json:"starts_at"`
		DurationMinutes optional[int64]     `json:"duration_minutes"`
		Customer        optional[Customer]  `json:"customer"`
		Note            optional[string]    `json:"note"`
	}
	if p := c.decode(&in); p != nil {
		return refuse(p)
	}
	var f findings
	for _, null := range []struct {
		pointer string
		is      bool
	}{
		{"/party_size", in.PartySize.null}, {"/starts_at", in.StartsAt.null},
		{"/duration_minutes", in.DurationMinutes.null}, {"/customer", in.Customer.null},
	} {
		if null.is {
			f.add(null.pointer, "not_nullable", "the field cannot be cleared")
		}
	}
	if p := f.problem(); p != nil {
		return refuse(p)
	}
	next := *b
	assign(&next.PartySize, in.PartySize)
	assign(&next.DurationMinutes, in.DurationMinutes)
	assign(&next.Customer, in.Customer)
	assign(&next.Note, in.Note) // null clears it
	if in.StartsAt.set {
		next.StartsAt = in.StartsAt.v.UTC()
	}
	if next == *b {
		return ok(b)
	}
	now := c.now
	if next.StartsAt.Equal(b.StartsAt) {
		now = b.StartsAt // a booking under way may still be edited
	}
	if p := next.check(now); p != nil {
		return refuse(p)
	}
	if !b.holdsTable() {
		return refuse(conflict("the booking is " + b.Status))
	}
	if p := c.checkRoom(&next); p != nil {
		return refuse(p)
	}
	*b = next
	return c.bookingChanged(b, "bookings.update")
}

func assign[T any](dst *T, o optional[T]) {
	if o.set {
		*dst = o.v
	}
}

func moveBooking(target string, from []string, kind string) func(*call, *Booking) answer {
	return func(c *call, b *Booking) answer {
		if b.Status == target { // F13
			return ok(b)
		}
		for _, s := range from {
			if b.Status == s {
				b.Status = target
				return c.bookingChanged(b, kind)
			}
		}
		return refuse(conflict(fmt.Sprintf("a booking that is %s cannot become %s", b.Status, target)))
	}
}

func (c *call) bookingChanged(b *Booking, kind string) answer {
	b.Version++
	b.UpdatedAt = c.now
	c.effect(kind, b.ID, b.ExternalID)
	return ok(b)
}
