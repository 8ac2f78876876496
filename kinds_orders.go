package flavoso

import (
	"encoding/json"
	"slices"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

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
		switch {
		case o.Status == OrderPending || !o.Status.known(): // accepting what was accepted changes nothing (F13)
			return dispatch.Open
		case o.Status == OrderCancelled || o.Status == OrderRejected:
			return dispatch.Impossible
		}
		return dispatch.Fulfilled // confirmed, or moved on past it
	})
}

// unexpectedAccept: accepting an order that is past pending gives it back unchanged, a cancelled one
// included (F13). An unknown new status is taken for a step forward.
func unexpectedAccept(o Outcome) (want, got string) {
	switch order := orderOf(o); order.Status {
	case OrderCancelled, OrderRejected, OrderPending:
		return string(OrderConfirmed), string(order.Status)
	}
	return "", ""
}

// orderOf is the order that a success answered with; the zero value when it cannot be read.
func orderOf(o Outcome) orderState {
	var order orderState
	_ = json.Unmarshal(o.Body, &order) // what cannot be read cannot be judged
	return order
}

func judgeAcknowledge(rec *outbox.Record, body []byte) dispatch.Finding {
	wish := wishOf(rec.Request.Body)
	if wish.ExternalID == "" {
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

// wishOf is the external_id or status that an operation's frozen body asks for.
func wishOf(body []byte) (wish struct {
	ExternalID string      `json:"external_id"`
	Status     OrderStatus `json:"status"`
}) {
	_ = json.Unmarshal(body, &wish) // the zero value when it cannot be read
	return wish
}

// unexpectedAcknowledge: an order that was taken over under another number may come back unchanged
// instead of being refused. An answer without the field tells nothing.
func unexpectedAcknowledge(o Outcome) (want, got string) {
	want, got = wishOf(o.request).ExternalID, orderOf(o).ExternalID
	if want == "" || got == "" || got == want {
		return "", ""
	}
	return want, got
}

func judgeReject(rec *outbox.Record, body []byte) dispatch.Finding {
	return judgeOrder(rec, body, func(o orderState) dispatch.Wish {
		switch {
		case o.Status == OrderRejected:
			return dispatch.Fulfilled
		case o.Status == OrderPending || !o.Status.known():
			return dispatch.Open
		}
		return dispatch.Impossible // accepted, or ended in another way
	})
}

func judgeCancel(rec *outbox.Record, body []byte) dispatch.Finding {
	return judgeOrder(rec, body, func(o orderState) dispatch.Wish {
		switch o.Status {
		case OrderCancelled:
			return dispatch.Fulfilled
		case OrderRejected, OrderCompleted:
			return dispatch.Impossible
		}
		return dispatch.Open
	})
}

// judgeStatus: an order that is past the status that was asked for has been there, or skipped it.
func judgeStatus(rec *outbox.Record, body []byte) dispatch.Finding {
	want := wishOf(rec.Request.Body).Status
	if want == "" {
		return dispatch.Finding{Wish: dispatch.Unreadable}
	}
	return judgeOrder(rec, body, func(o orderState) dispatch.Wish {
		switch {
		case o.Status.reached(want):
			return dispatch.Fulfilled
		case o.Status == OrderCancelled || o.Status == OrderRejected || o.Status == OrderCompleted:
			return dispatch.Impossible
		}
		return dispatch.Open
	})
}

func unexpectedReject(o Outcome) (want, got string) { return unlessStatus(o, OrderRejected) }
func unexpectedCancel(o Outcome) (want, got string) { return unlessStatus(o, OrderCancelled) }

// unlessStatus reports an order in another status than the one asked for. One that this version does not
// know may well be a form of it.
func unlessStatus(o Outcome, status OrderStatus) (want, got string) {
	order := orderOf(o)
	if order.Status == status || !order.Status.known() {
		return "", ""
	}
	return string(status), string(order.Status)
}

func unexpectedStatus(o Outcome) (want, got string) {
	status, order := wishOf(o.request).Status, orderOf(o)
	if !status.known() || !order.Status.known() || order.Status.reached(status) {
		return "", ""
	}
	return string(status), string(order.Status)
}

// orderProgress is the way of an accepted order.
var orderProgress = []OrderStatus{OrderPending, OrderConfirmed, OrderPreparing, OrderReady, OrderOutForDelivery, OrderCompleted}

// known reports whether this version knows the status.
func (s OrderStatus) known() bool {
	return slices.Contains(orderProgress, s) || s == OrderRejected || s == OrderCancelled
}

// reached reports whether an order in this status has come as far as want.
func (s OrderStatus) reached(want OrderStatus) bool {
	return s == want || slices.Index(orderProgress, want) >= 0 && slices.Index(orderProgress, s) > slices.Index(orderProgress, want)
}
