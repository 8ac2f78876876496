package flavoso

import (
	"encoding/json"
	"time"
)

// BookingStatus is where a booking stands; an open list.
//
//	requested → confirmed → seated → completed
//	declined, cancelled and no_show end it
type BookingStatus string

// The statuses of a booking; all assumed.
const (
	BookingRequested BookingStatus = "requested"
	BookingConfirmed BookingStatus = "confirmed"
	BookingSeated    BookingStatus = "seated"
	BookingCompleted BookingStatus = "completed"
	BookingDeclined  BookingStatus = "declined"
	BookingCancelled BookingStatus = "cancelled"
	BookingNoShow    BookingStatus = "no_show"
)

// Booking is a table reservation as Flavoso shows it. Its fields are assumed. Bookings hold guests' data: do
// not log them.
type Booking struct {
	Object          string          `json:"object"` // "booking"
	ID              string          `json:"id"`
	Status          BookingStatus   `json:"status"`
	ExternalID      string          `json:"external_id,omitzero"` // the app's own booking number
	PartySize       int             `json:"party_size"`
	StartsAt        time.Time       `json:"starts_at"`
	DurationMinutes int             `json:"duration_minutes,omitzero"`
	Customer        BookingCustomer `json:"customer"`
	Note            string          `json:"note,omitzero"`
	CreatedAt       time.Time       `json:"created_at,omitzero"`
	UpdatedAt       time.Time       `json:"updated_at,omitzero"`
	Version         int64           `json:"version,omitzero"`
	Raw             json.RawMessage `json:"-"` // the object as it came, with fields unknown here
}

// UnmarshalJSON implements [json.Unmarshaler]. Unknown fields are ignored and stay reachable in Raw; null
// changes nothing.
func (b *Booking) UnmarshalJSON(data []byte) error {
	type plain Booking
	return decodeRaw(data, (*plain)(b), &b.Raw)
}

// BookingCustomer is who booked.
type BookingCustomer struct {
	Name  string `json:"name,omitzero"`
	Phone string `json:"phone,omitzero"`
	Email string `json:"email,omitzero"`
}

// validate checks the customer of a booking.
func (c BookingCustomer) validate() error {
	return validateTexts("customer.name", c.Name, "customer.phone", c.Phone, "customer.email", c.Email)
}

// BookingParams say what is booked. The fields are assumed.
type BookingParams struct {
	PartySize       int             // guests, 1 to 10,000; required
	StartsAt        time.Time       // required
	DurationMinutes int             // at most a week; 0 = the restaurant's usual
	Customer        BookingCustomer // who booked
	Note            string          // for the restaurant
}

const (
	maxPartySize       = 10_000
	maxDurationMinutes = 7 * 24 * 60
)

func (p BookingParams) validate() error {
	if p.PartySize == 0 {
		return &ParamError{Field: "party_size", Rule: "must be at least 1"}
	}
	if p.StartsAt.IsZero() {
		return firstError(validateCount("party_size", p.PartySize, maxPartySize),
			&ParamError{Field: "starts_at", Rule: "must be set"})
	}
	return firstError(
		validateCount("party_size", p.PartySize, maxPartySize),
		validateTime("starts_at", p.StartsAt),
		validateCount("duration_minutes", p.DurationMinutes, maxDurationMinutes),
		p.Customer.validate(),
		validateText("note", p.Note),
	)
}

// bookingBody is the body of the call that creates a booking.
type bookingBody struct {
	ExternalID      string          `json:"external_id"`
	PartySize       int             `json:"party_size"`
	StartsAt        time.Time       `json:"starts_at"`
	DurationMinutes int             `json:"duration_minutes,omitzero"`
	Customer        BookingCustomer `json:"customer"`
	Note            string          `json:"note,omitzero"`
}

// withReference is the body that books p under the app's own booking number.
func (p BookingParams) withReference(ref string) bookingBody {
	return bookingBody{ExternalID: ref, PartySize: p.PartySize, StartsAt: p.StartsAt.UTC(),
		DurationMinutes: p.DurationMinutes, Customer: p.Customer, Note: p.Note}
}

// UpdateBookingParams change a booking; absent fields stay as they are. Only Note can be cleared.
type UpdateBookingParams struct {
	PartySize       Patch[int]             `json:"party_size,omitzero"`
	StartsAt        Patch[time.Time]       `json:"starts_at,omitzero"`
	DurationMinutes Patch[int]             `json:"duration_minutes,omitzero"`
	Customer        Patch[BookingCustomer] `json:"customer,omitzero"`
	Note            Patch[string]          `json:"note,omitzero"`
}

func (p UpdateBookingParams) validate() error {
	if p == (UpdateBookingParams{}) {
		return &ParamError{Field: "body", Rule: "must change something"}
	}
	for _, f := range []struct {
		field  string
		isNull bool
	}{
		{"party_size", p.PartySize.isNull()}, {"starts_at", p.StartsAt.isNull()},
		{"duration_minutes", p.DurationMinutes.isNull()}, {"customer", p.Customer.isNull()},
	} {
		if f.isNull {
			return &ParamError{Field: f.field, Rule: "cannot be cleared"}
		}
	}
	size, sized := p.PartySize.Get()
	if sized && size == 0 {
		return &ParamError{Field: "party_size", Rule: "must be at least 1"}
	}
	minutes, _ := p.DurationMinutes.Get()
	customer, _ := p.Customer.Get()
	note, _ := p.Note.Get()
	return firstError(
		validateCount("party_size", size, maxPartySize),
		validatePatchTime("starts_at", p.StartsAt),
		validateCount("duration_minutes", minutes, maxDurationMinutes),
		customer.validate(),
		validateText("note", note),
	)
}
