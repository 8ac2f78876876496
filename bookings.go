package flavoso

import "context"

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

// Create makes a booking. ref is the app's own booking number; it names one booking for ever per
// connection, so it must not start again every day: "2026-11-30-17" rather than "17".
//
// Without protection a repeat would make a second booking (F17), and after a 5xx or an aborted attempt the
// key alone does not prevent that (F9, F10). So before a create that may have arrived is sent again, the
// booking is looked for by its reference: found and equal, it is the outcome; found and different, the
// error is an *APIError (ErrConflict) with the one found as its Body.
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
