package flavoso

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"strconv"
	"time"
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
	UpdatedAfter time.Time
	PageSize     int // orders per request, 1 to 100; 0 = the API's default
}

func (p ListOrdersParams) query(cursor string) (url.Values, error) {
	q := url.Values{}
	for _, status := range p.Status {
		if status == "" {
			return nil, &ParamError{Field: "status", Rule: "must not be empty"}
		}
		q.Add("status", string(status))
	}
	if !p.UpdatedAfter.IsZero() {
		q.Set("updated_after", p.UpdatedAfter.UTC().Format(time.RFC3339Nano))
	}
	switch {
	case p.PageSize < 0 || p.PageSize > 100:
		return nil, &ParamError{Field: "limit", Rule: "must be 1 to 100"}
	case p.PageSize > 0:
		q.Set("limit", strconv.Itoa(p.PageSize))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
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
	list, err := Get[struct {
		Data       []json.RawMessage `json:"data"`
		HasMore    bool              `json:"has_more"`
		NextCursor string            `json:"next_cursor"`
	}](ctx, s.client, Path("orders"), q, opts...)
	if err != nil {
		return nil, err
	}
	page := &OrderPage{}
	for _, raw := range list.Data {
		o := new(Order)
		if err := json.Unmarshal(raw, o); err != nil {
			return nil, &DecodeError{Kind: "orders.list", Status: 200, Body: raw, Err: err}
		}
		page.Orders = append(page.Orders, o)
	}
	if list.HasMore {
		page.NextCursor = list.NextCursor
	}
	return page, nil
}

// List walks over all orders that p selects, page by page. It ends after the first error.
func (s *OrdersService) List(ctx context.Context, p ListOrdersParams, opts ...ReadOption) iter.Seq2[*Order, error] {
	return func(yield func(*Order, error) bool) {
		for cursor := ""; ; {
			page, err := s.ListPage(ctx, p, cursor, opts...)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, o := range page.Orders {
				if !yield(o, nil) {
					return
				}
			}
			// A server that gives the same cursor again would be walked for ever.
			if page.NextCursor == "" || page.NextCursor == cursor {
				return
			}
			cursor = page.NextCursor
		}
	}
}

// Accept accepts an order: the kitchen makes it. An order that is past pending comes back unchanged
// (F13); when that means cancelled or rejected, the error is an *UnexpectedStateError: do not cook it.
//
// Key accept-<id> (F12), lane order:<id>, repeat-safe.
func (s *OrdersService) Accept(id string, p AcceptParams) *Call[Order] {
	return orderCall(s.client, kindOrderAccept, id, "accept", acceptKey(id), p, p.validate())
}

// Acknowledge tells Flavoso that the order is in the POS as ExternalID. Once taken over stays taken over,
// and the same ExternalID again changes nothing (F14); another one is an *APIError (ErrConflict).
//
// Key ack-<id> (F12), lane order:<id>, repeat-safe.
func (s *OrdersService) Acknowledge(id string, p AcknowledgeParams) *Call[Order] {
	return orderCall(s.client, kindOrderAcknowledge, id, "acknowledge", acknowledgeKey(id), p, p.validate())
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
