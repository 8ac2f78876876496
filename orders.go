package flavoso

import (
	"context"
	"iter"
	"net/url"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// OrdersService are the calls about orders; reach it as Client.Orders.
type OrdersService struct {
	client *Client
}

// Get returns an order as it is now. It retries until ctx ends, or for Config.MaxWait when ctx has no
// deadline, and then returns a *ReadError; an unknown id is an *APIError (ErrNotFound).
func (s *OrdersService) Get(ctx context.Context, id string, opts ...ReadOption) (*Order, error) {
	if err := validateID("order_id", id); err != nil {
		return nil, err
	}
	return Get[Order](ctx, s.client, Path("orders", id), nil, opts...)
}

// ListOrdersParams selects orders. Zero values do not restrict.
type ListOrdersParams struct {
	Status       []OrderStatus // any of them
	UpdatedAfter time.Time     // changed later than this (A5)
	PageSize     int           // orders per request, 1 to 100; 0 = the API's default
}

func (p ListOrdersParams) query(cursor string) (url.Values, error) {
	q, err := pageQuery(p.PageSize, cursor)
	if err != nil {
		return nil, err
	}
	for _, status := range p.Status {
		if err := validateReference("status", string(status)); err != nil {
			return nil, err
		}
		q.Add("status", string(status))
	}
	if err := validateTime("updated_after", p.UpdatedAfter); err != nil {
		return nil, err
	}
	if !p.UpdatedAfter.IsZero() {
		q.Set("updated_after", p.UpdatedAfter.UTC().Format(time.RFC3339Nano))
	}
	return q, nil
}

// OrderPage is one page of a list of orders.
type OrderPage struct {
	Orders     []*Order
	NextCursor string // for the next ListPage with the same params; "" = the end was reached
}

// ListPage returns one page; cursor is the previous page's NextCursor, "" for the first. It retries as Get
// does.
func (s *OrdersService) ListPage(ctx context.Context, p ListOrdersParams, cursor string, opts ...ReadOption) (*OrderPage, error) {
	q, err := p.query(cursor)
	if err != nil {
		return nil, err
	}
	orders, next, err := listPage[Order](ctx, s.client, "orders", q, opts)
	if err != nil {
		return nil, err
	}
	return &OrderPage{Orders: orders, NextCursor: next}, nil
}

// List walks over all orders that p selects, page by page. It ends after the first error.
func (s *OrdersService) List(ctx context.Context, p ListOrdersParams, opts ...ReadOption) iter.Seq2[*Order, error] {
	return walk(func(cursor string) ([]*Order, string, error) {
		page, err := s.ListPage(ctx, p, cursor, opts...)
		if err != nil {
			return nil, "", err
		}
		return page.Orders, page.NextCursor, nil
	})
}

// Accept accepts an order: the kitchen makes it. An order that is past pending comes back unchanged
// (F13); when that means cancelled or rejected, the error is an *UnexpectedStateError: do not cook it.
//
// An order is accepted once: accepting it again with the same params is the same operation, with other ones
// a *KeyReusedError. To change the time afterwards use Update.
//
// Key accept-<id> (F12), lane order:<id>, repeat-safe.
func (s *OrdersService) Accept(id string, p AcceptParams) *Call[Order] {
	return orderCall(s.client, kindOrderAccept, id, "accept", acceptKey(id), p, p.validate())
}

// Acknowledge tells Flavoso that the order is in the POS as ExternalID. Once taken over stays taken over,
// and the same ExternalID again changes nothing (F14). Another one is refused: by Flavoso with an *APIError
// (ErrConflict), or, when it was acknowledged from this outbox, here already with a *KeyReusedError.
//
// Key ack-<id> (F12), lane order:<id>, repeat-safe.
func (s *OrdersService) Acknowledge(id string, p AcknowledgeParams) *Call[Order] {
	return orderCall(s.client, kindOrderAcknowledge, id, "acknowledge", acknowledgeKey(id), p, p.validate())
}

// Reject refuses a pending order (A9, A10). The items named in UnavailableItems become unavailable on the
// menu (A11). An order that was accepted meanwhile is an *APIError (ErrConflict).
//
// Key reject-<id>, lane order:<id>, repeat-safe (F13).
func (s *OrdersService) Reject(id string, p RejectParams) *Call[Order] {
	return orderCall(s.client, kindOrderReject, id, "reject", rejectKey(id), p, p.validate())
}

// Cancel cancels an order that has not ended (A12). One that is completed or rejected already is an
// *APIError (ErrConflict).
//
// Key cancel-<id>, lane order:<id>, repeat-safe (F13).
func (s *OrdersService) Cancel(id string, p CancelParams) *Call[Order] {
	return orderCall(s.client, kindOrderCancel, id, "cancel", cancelKey(id), p, p.validate())
}

// SetStatus moves an accepted order forward: to preparing, ready, out_for_delivery or completed (A6). An
// order that is there already comes back unchanged (F13); going back, or out of a status that ends the
// order, is an *APIError (ErrConflict).
//
// Setting the same status again later is a new operation, under the key's next generation.
//
// Key status-<id>-<status>, lane order:<id>, repeat-safe (F13).
func (s *OrdersService) SetStatus(id string, p StatusParams) *Call[Order] {
	call := orderCall(s.client, kindOrderStatus, id, "status", statusKey(id, p.Status), p, p.validate())
	call.after = outbox.NextGeneration
	return call
}

// Update changes when an order will be ready (A14). The last of several updates wins, because they go in
// the order they were saved.
//
// No key (F2), lane order:<id>, repeat-safe (F15).
func (s *OrdersService) Update(id string, p UpdateOrderParams) *Call[Order] {
	d := draft{kind: kindOrderUpdate, method: "PATCH", target: Path("orders", id), body: p, lane: "order:" + id,
		resource: id, repeatSafe: true, err: firstError(validateID("order_id", id), p.validate())}
	return newCall[Order](s.client, d)
}

// orderCall is a POST on one order.
func orderCall(c *Client, kind, id, verb string, key Key, body any, invalid error) *Call[Order] {
	d := draft{kind: kind, method: "POST", target: Path("orders", id, verb), body: body, key: key, derived: true,
		lane: "order:" + id, resource: id, repeatSafe: true, err: invalid}
	if err := validateID("order_id", id); err != nil {
		d.err = err
	}
	return newCall[Order](c, d)
}
