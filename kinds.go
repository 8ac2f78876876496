package flavoso

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// kind is what the SDK knows of a call besides how to send it. An operation saved by an older or newer
// version is found here by its name.
type kind struct {
	name string
	// resource says that a success answers with the resource.
	resource bool
	// reader returns the target whose answer tells whether the operation's wish holds; nil = there is none.
	reader func(rec *outbox.Record) string
	// judge compares what the reader got with the wish.
	judge func(rec *outbox.Record, body []byte) dispatch.Finding
	// unexpected reports a success that is not what was asked for: what was wanted and what it is; ""
	// when it is. nil = a success is always what was asked for.
	unexpected func(resource string, body []byte) (want, got string)
}

const (
	kindOrderAccept      = "orders.accept"
	kindOrderAcknowledge = "orders.acknowledge"
	kindBookingCreate    = "bookings.create"
	kindCall             = "call" // NewCall
)

func kindNamed(name string) (kind, bool) {
	switch name {
	case kindOrderAccept:
		return kind{name: name, resource: true, reader: readOrder, judge: judgeAccept, unexpected: unexpectedAccept}, true
	case kindOrderAcknowledge:
		return kind{name: name, resource: true, reader: readOrder, judge: judgeAcknowledge}, true
	case kindBookingCreate:
		return kind{name: name, resource: true, reader: readBookings, judge: judgeBooking, unexpected: unexpectedBooking}, true
	case kindCall:
		return kind{name: name}, true
	}
	return kind{}, false
}

// orderState is the part of an order that judging needs.
type orderState struct {
	ID         string      `json:"id"`
	Status     OrderStatus `json:"status"`
	ExternalID string      `json:"external_id"`
}

func readOrder(rec *outbox.Record) string { return Path("orders", rec.Resource) }

// judgeOrder reads an order and lets wish compare it. An answer about another order tells nothing.
func judgeOrder(rec *outbox.Record, body []byte, wish func(orderState) dispatch.Wish) dispatch.Finding {
	var o orderState
	if json.Unmarshal(body, &o) != nil || o.ID != rec.Resource || o.Status == "" {
		return dispatch.Finding{Wish: dispatch.Unreadable}
	}
	return dispatch.Finding{Wish: wish(o), Body: body, Resource: o.ID}
}

func judgeAccept(rec *outbox.Record, body []byte) dispatch.Finding {
	return judgeOrder(rec, body, func(o orderState) dispatch.Wish {
		switch o.Status {
		case OrderPending:
			return dispatch.Open
		case OrderCancelled, OrderRejected:
			return dispatch.Impossible
		}
		return dispatch.Fulfilled // confirmed, or moved on past it
	})
}

// unexpectedAccept: accepting an order that is past pending gives it back unchanged, a cancelled one
// included (F13). An unknown new status is taken for a step forward.
func unexpectedAccept(_ string, body []byte) (want, got string) {
	var o orderState
	if json.Unmarshal(body, &o) != nil {
		return "", ""
	}
	switch o.Status {
	case OrderCancelled, OrderRejected, OrderPending:
		return string(OrderConfirmed), string(o.Status)
	}
	return "", ""
}

func judgeAcknowledge(rec *outbox.Record, body []byte) dispatch.Finding {
	var wish struct {
		ExternalID string `json:"external_id"`
	}
	if json.Unmarshal(rec.Request.Body, &wish) != nil {
		return dispatch.Finding{Wish: dispatch.Unreadable}
	}
	return judgeOrder(rec, body, func(o orderState) dispatch.Wish {
		switch o.ExternalID {
		case wish.ExternalID:
			return dispatch.Fulfilled
		case "":
			return dispatch.Open
		}
		return dispatch.Impossible
	})
}

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
		Object string            `json:"object"`
		Data   []json.RawMessage `json:"data"`
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
		ended := b.Status == BookingDeclined || b.Status == BookingCancelled
		if !ended && b.PartySize == wish.PartySize && b.StartsAt.Equal(wish.StartsAt) {
			return dispatch.Finding{Wish: dispatch.Fulfilled, Body: item, Resource: b.ID}
		}
		found = dispatch.Finding{Wish: dispatch.Impossible, Body: item, Resource: b.ID}
	}
	return found
}

func unexpectedBooking(_ string, body []byte) (want, got string) {
	var b bookingState
	if json.Unmarshal(body, &b) != nil {
		return "", ""
	}
	switch b.Status {
	case BookingDeclined, BookingCancelled:
		return string(BookingConfirmed), string(b.Status)
	}
	return "", ""
}
