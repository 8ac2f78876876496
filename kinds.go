package flavoso

import (
	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// kind is what the SDK knows of a call besides how to send it. An operation saved by an older or newer
// version is found here by its name.
type kind struct {
	// resource says that a success answers with the resource.
	resource bool
	// reader returns the target whose answer tells whether the operation's wish holds; nil = there is none.
	reader func(rec *outbox.Record) string
	// judge compares what the reader got with the wish.
	judge func(rec *outbox.Record, body []byte) dispatch.Finding
	// unexpected reports a success that is not what was asked for: what was wanted and what it is; ""
	// when it is. nil = a success is always what was asked for.
	unexpected func(o Outcome) (want, got string)
	// instead says what to call when the key stands for other content; "" = any other key will do.
	instead string
}

// The kinds are saved with every operation: a name never changes its meaning.
const (
	kindOrderAccept      = "orders.accept"
	kindOrderAcknowledge = "orders.acknowledge"
	kindOrderReject      = "orders.reject"
	kindOrderCancel      = "orders.cancel"
	kindOrderStatus      = "orders.status"
	kindOrderUpdate      = "orders.update"
	kindBookingCreate    = "bookings.create"
	kindBookingUpdate    = "bookings.update"
	kindBookingCancel    = "bookings.cancel"
	kindBookingSeat      = "bookings.seat"
	kindBookingComplete  = "bookings.complete"
	kindBookingNoShow    = "bookings.no_show"
	kindMenuPut          = "menu.put"
	kindMenuAvailability = "menu.availability"
	kindStoreUpdate      = "store.update"
	kindStoreHours       = "store.hours"
	kindCall             = "call" // NewCall
)

var kinds = map[string]kind{
	kindOrderAccept: {resource: true, reader: readOrder, judge: judgeAccept, unexpected: unexpectedAccept,
		instead: "to change when an accepted order is ready use Orders.Update"},
	kindOrderAcknowledge: {resource: true, reader: readOrder, judge: judgeAcknowledge, unexpected: unexpectedAcknowledge,
		instead: "an order keeps the external_id that it was taken over with (F14)"},
	kindOrderReject: {resource: true, reader: readOrder, judge: judgeReject, unexpected: unexpectedReject,
		instead: "an order is rejected once, with the reason given first"},
	kindOrderCancel: {resource: true, reader: readOrder, judge: judgeCancel, unexpected: unexpectedCancel,
		instead: "an order is cancelled once, with the reason given first"},
	kindOrderStatus: {resource: true, reader: readOrder, judge: judgeStatus, unexpected: unexpectedStatus},
	kindOrderUpdate: {resource: true, reader: readTarget, judge: judgeTarget},
	kindBookingCreate: {resource: true, reader: readBookings, judge: judgeBooking, unexpected: unexpectedBooking,
		instead: "to change the booking use Bookings.Update, and for another booking another reference"},
	kindBookingUpdate:    {resource: true, reader: readTarget, judge: judgeTarget},
	kindBookingCancel:    moveKind(moveCancel),
	kindBookingSeat:      moveKind(moveSeat),
	kindBookingComplete:  moveKind(moveComplete),
	kindBookingNoShow:    moveKind(moveNoShow),
	kindMenuPut:          {resource: true, reader: readTarget, judge: judgeTarget},
	kindMenuAvailability: {resource: true},
	kindStoreUpdate:      {resource: true, reader: readTarget, judge: judgeStore},
	kindStoreHours:       {resource: true, reader: readTarget, judge: judgeTarget},
	kindCall:             {},
}

func kindNamed(name string) (kind, bool) {
	k, ok := kinds[name]
	return k, ok
}
