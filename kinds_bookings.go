package flavoso

import (
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// bookingState is the part of a booking that judging needs.
type bookingState struct {
	ID         string        `json:"id"`
	Status     BookingStatus `json:"status"`
	ExternalID string        `json:"external_id"`
	PartySize  int           `json:"party_size"`
	StartsAt   time.Time     `json:"starts_at"`
}

func readBookings(rec *outbox.Record) string {
	return Path("bookings") + "?" + url.Values{"external_id": {rec.Resource}}.Encode()
}

// judgeBooking looks for the booking with the operation's reference. A reference names one booking for
// ever per connection, so another booking under it contradicts the wish.
func judgeBooking(rec *outbox.Record, body []byte) dispatch.Finding {
	var wish bookingState
	var list struct {
		Data    []json.RawMessage `json:"data"`
		HasMore bool              `json:"has_more"`
	}
	if json.Unmarshal(rec.Request.Body, &wish) != nil || json.Unmarshal(body, &list) != nil || list.Data == nil {
		return dispatch.Finding{Wish: dispatch.Unreadable}
	}
	found := dispatch.Finding{Wish: dispatch.Open}
	for _, item := range list.Data {
		var b bookingState
		if json.Unmarshal(item, &b) != nil {
			return dispatch.Finding{Wish: dispatch.Unreadable}
		}
		if b.ExternalID != wish.ExternalID {
			continue
		}
		if b.ID == "" {
			return dispatch.Finding{Wish: dispatch.Unreadable} // it could not be named, nor cancelled
		}
		ended := b.Status == BookingDeclined || b.Status == BookingCancelled
		if !ended && b.PartySize == wish.PartySize && b.StartsAt.Equal(wish.StartsAt) {
			return dispatch.Finding{Wish: dispatch.Fulfilled, Body: item, Resource: b.ID}
		}
		found = dispatch.Finding{Wish: dispatch.Impossible, Body: item, Resource: b.ID}
	}
	if found.Wish == dispatch.Open && list.HasMore {
		// A whole page of other bookings: the server does not look for the reference, and the one looked for
		// may be on another page.
		return dispatch.Finding{Wish: dispatch.Unreadable}
	}
	return found
}

func unexpectedBooking(o Outcome) (want, got string) {
	switch b := bookingOf(o); b.Status {
	case BookingDeclined, BookingCancelled:
		return string(BookingConfirmed), string(b.Status)
	}
	return "", ""
}

// bookingOf is the booking that a success answered with; the zero value when it cannot be read.
func bookingOf(o Outcome) bookingState {
	var b bookingState
	_ = json.Unmarshal(o.Body, &b) // what cannot be read cannot be judged
	return b
}

// bookingMove is a call that moves a booking on: where to, and from where it can.
type bookingMove struct {
	target BookingStatus
	past   BookingStatus   // comes after target only, so that it proves target was reached; "" = none
	from   []BookingStatus // from where target can be reached, directly or not
}

var (
	moveCancel   = bookingMove{target: BookingCancelled, from: []BookingStatus{BookingRequested, BookingConfirmed}}
	moveSeat     = bookingMove{target: BookingSeated, past: BookingCompleted, from: []BookingStatus{BookingRequested, BookingConfirmed}}
	moveComplete = bookingMove{target: BookingCompleted, from: []BookingStatus{BookingRequested, BookingConfirmed, BookingSeated}}
	moveNoShow   = bookingMove{target: BookingNoShow, from: []BookingStatus{BookingRequested, BookingConfirmed}}
)

// moveKind is the kind of a call that moves a booking on.
func moveKind(m bookingMove) kind {
	return kind{resource: true, reader: readBooking, judge: m.judge, unexpected: m.unexpected}
}

func readBooking(rec *outbox.Record) string { return Path("bookings", rec.Resource) }

func (m bookingMove) judge(rec *outbox.Record, body []byte) dispatch.Finding {
	var b bookingState
	if json.Unmarshal(body, &b) != nil || b.ID != rec.Resource || b.Status == "" {
		return dispatch.Finding{Wish: dispatch.Unreadable}
	}
	f := dispatch.Finding{Wish: dispatch.Impossible, Body: body, Resource: b.ID}
	switch {
	case b.Status == m.target || b.Status == m.past:
		f.Wish = dispatch.Fulfilled
	case slices.Contains(m.from, b.Status) || !b.Status.known():
		f.Wish = dispatch.Open
	}
	return f
}

// unexpected reports a booking in another status than the one asked for. One that this version does not
// know may well be a form of it.
func (m bookingMove) unexpected(o Outcome) (want, got string) {
	b := bookingOf(o)
	if b.Status == m.target || b.Status == m.past || !b.Status.known() {
		return "", ""
	}
	return string(m.target), string(b.Status)
}

// known reports whether this version knows the status.
func (s BookingStatus) known() bool {
	switch s {
	case BookingRequested, BookingConfirmed, BookingSeated, BookingCompleted, BookingDeclined, BookingCancelled, BookingNoShow:
		return true
	}
	return false
}
