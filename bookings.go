package flavoso

import (
	"context"
	"iter"
	"net/url"
)

// BookingsService are the calls about table reservations; reach it as Client.Bookings.
type BookingsService struct {
	client *Client
}

// Get returns a booking as it is now. It retries as Orders.Get does.
func (s *BookingsService) Get(ctx context.Context, id string, opts ...ReadOption) (*Booking, error) {
	if err := validateID("booking_id", id); err != nil {
		return nil, err
	}
	return Get[Booking](ctx, s.client, Path("bookings", id), nil, opts...)
}

// ListBookingsParams selects bookings (A19). Zero values do not restrict.
type ListBookingsParams struct {
	ExternalID string        // the app's own booking number
	Status     BookingStatus // only those in it
	PageSize   int           // bookings per request, 1 to 100; 0 = the API's default
}

func (p ListBookingsParams) query(cursor string) (url.Values, error) {
	q, err := pageQuery(p.PageSize, cursor)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct{ name, value string }{{"external_id", p.ExternalID}, {"status", string(p.Status)}} {
		if f.value == "" {
			continue
		}
		if err := validateReference(f.name, f.value); err != nil {
			return nil, err
		}
		q.Set(f.name, f.value)
	}
	return q, nil
}

// BookingPage is one page of a list of bookings.
type BookingPage struct {
	Bookings   []*Booking
	NextCursor string // for the next ListPage with the same params; "" = the end was reached
}

// ListPage returns one page; cursor is the previous page's NextCursor, "" for the first. It retries as
// Orders.Get does.
func (s *BookingsService) ListPage(ctx context.Context, p ListBookingsParams, cursor string, opts ...ReadOption) (*BookingPage, error) {
	q, err := p.query(cursor)
	if err != nil {
		return nil, err
	}
	bookings, next, err := listPage[Booking](ctx, s.client, "bookings", q, opts)
	if err != nil {
		return nil, err
	}
	return &BookingPage{Bookings: bookings, NextCursor: next}, nil
}

// List walks over all bookings that p selects, page by page. It ends after the first error.
func (s *BookingsService) List(ctx context.Context, p ListBookingsParams, opts ...ReadOption) iter.Seq2[*Booking, error] {
	return walk(func(cursor string) ([]*Booking, string, error) {
		page, err := s.ListPage(ctx, p, cursor, opts...)
		if err != nil {
			return nil, "", err
		}
		return page.Bookings, page.NextCursor, nil
	})
}

// Create makes a booking. ref is the app's own booking number; it names one booking for ever per
// connection, so it must not start again every day: "2026-11-30-17" rather than "17".
//
// Without protection a repeat would make a second booking (F17), and after a 5xx or an aborted attempt the
// key alone does not prevent that (F9, F10). So before a create that may have arrived is sent again, the
// booking is looked for by its reference: found and equal, it is the outcome; found and different, the
// error is an *APIError (ErrConflict) with the one found as its Body. The same reference again from this
// outbox is the same operation, and with other content a *KeyReusedError.
//
// Key booking-<ref> (F12), lane booking:<ref>.
func (s *BookingsService) Create(ref string, p BookingParams) *Call[Booking] {
	d := draft{kind: kindBookingCreate, method: "POST", target: Path("bookings"), body: p.withReference(ref),
		key: bookingKey(ref), derived: true, lane: "booking:" + ref, resource: ref, err: p.validate()}
	if err := validateReference("external_id", ref); err != nil {
		d.err = err
	}
	return newCall[Booking](s.client, d)
}

// Update changes a booking (A15). The last of several updates wins, because they go in the order they were
// saved. A booking that has ended, or a slot that is taken, is an *APIError (ErrConflict).
//
// No key (F2), lane booking:<id>, repeat-safe (F15).
func (s *BookingsService) Update(id string, p UpdateBookingParams) *Call[Booking] {
	d := draft{kind: kindBookingUpdate, method: "PATCH", target: Path("bookings", id), body: p, lane: "booking:" + id,
		resource: id, repeatSafe: true, err: firstError(validateID("booking_id", id), p.validate())}
	return newCall[Booking](s.client, d)
}

// Cancel cancels a booking that is requested or confirmed (A19). One that has been seated or has ended in
// another way is an *APIError (ErrConflict).
//
// Key bookingcancel-<id>, lane booking:<id>, repeat-safe (F13).
func (s *BookingsService) Cancel(id string) *Call[Booking] {
	return bookingCall(s.client, kindBookingCancel, id, "cancel", bookingCancelKey(id))
}

// Seat notes that the guests of a booking sit at their table (A19).
//
// Key bookingseat-<id>, lane booking:<id>, repeat-safe (F13).
func (s *BookingsService) Seat(id string) *Call[Booking] {
	return bookingCall(s.client, kindBookingSeat, id, "seat", bookingSeatKey(id))
}

// Complete notes that the guests of a seated booking have left (A19).
//
// Key bookingcomplete-<id>, lane booking:<id>, repeat-safe (F13).
func (s *BookingsService) Complete(id string) *Call[Booking] {
	return bookingCall(s.client, kindBookingComplete, id, "complete", bookingCompleteKey(id))
}

// NoShow notes that the guests of a booking did not come (A19).
//
// Key bookingnoshow-<id>, lane booking:<id>, repeat-safe (F13).
func (s *BookingsService) NoShow(id string) *Call[Booking] {
	return bookingCall(s.client, kindBookingNoShow, id, "no_show", bookingNoShowKey(id))
}

// bookingCall is a POST on one booking.
func bookingCall(c *Client, kind, id, verb string, key Key) *Call[Booking] {
	d := draft{kind: kind, method: "POST", target: Path("bookings", id, verb), key: key, derived: true,
		lane: "booking:" + id, resource: id, repeatSafe: true, err: validateID("booking_id", id)}
	return newCall[Booking](c, d)
}
