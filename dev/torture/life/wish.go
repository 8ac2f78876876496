package life

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/dev/torture/account"
	"github.com/flavoso/flavoso-go/outbox"
)

// wish is something to be done once.
type wish struct {
	kind     string
	name     string // of the operation
	resource string // an order's id, a booking's reference
	status   flavoso.OrderStatus
	pad      int // bytes of a long note
	expiry   time.Duration
	conn     int  // of which connection
	once     bool // it is not asked for again after a crash
}

// operation is a call of any type.
type operation struct {
	do        func(context.Context) error
	enqueue   func(context.Context) (string, error)
	enqueueTx func(context.Context, outbox.Tx) (string, error)
}

func of[T any](c *flavoso.Call[T]) operation {
	id := func(p *flavoso.Pending[T], err error) (string, error) {
		if err != nil {
			return "", err
		}
		return p.ID(), nil
	}
	return operation{
		do:        func(ctx context.Context) error { _, err := c.Do(ctx); return err },
		enqueue:   func(ctx context.Context) (string, error) { return id(c.Enqueue(ctx)) },
		enqueueTx: func(ctx context.Context, tx outbox.Tx) (string, error) { return id(c.EnqueueTx(ctx, tx)) },
	}
}

// next names an operation. The name is part of the body where nothing else tells whose request it is.
func (w *worker) next() string {
	w.made++
	return fmt.Sprintf("op_%d.%d.%s%d_", w.life.Plan.Slot, w.life.Plan.Life, w.name, w.made)
}

func (t *Life) client(v wish) *flavoso.Client { return t.session.Clients[v.conn] }

var opens = time.Date(2031, 3, 1, 19, 0, 0, 0, time.UTC)

// operation makes the call and says how to recognise it.
func (v wish) operation(t *Life) (account.Event, operation) {
	e := account.Event{Op: v.name, Kind: v.kind, Method: "POST", Connection: t.Plan.Connections[v.conn]}
	if v.once {
		e.Text = "once"
	}
	order := func(verb string) {
		e.Lane, e.Target, e.Wish = "order:"+v.resource, "/orders/"+v.resource+"/"+verb, verb+" "+v.resource
		e.ReadBack = "/orders/" + v.resource
	}
	c := t.client(v)
	switch v.kind {
	case "orders.accept":
		order("accept")
		minutes := 10 + t.Plan.Slot
		e.Marker = fmt.Sprintf(`"preparation_minutes":%d}`, minutes)
		return e, of(c.Orders.Accept(v.resource, flavoso.AcceptParams{PreparationMinutes: minutes}).WithTag(v.name))
	case "orders.acknowledge":
		order("acknowledge")
		return e, of(c.Orders.Acknowledge(v.resource, flavoso.AcknowledgeParams{ExternalID: "T-" + v.resource[:8]}).WithTag(v.name))
	case "orders.reject":
		order("reject")
		return e, of(c.Orders.Reject(v.resource, flavoso.RejectParams{Reason: flavoso.ReasonTooBusy}).WithTag(v.name))
	case "orders.status":
		order("status")
		e.Wish += " " + string(v.status)
		e.Marker = `"` + string(v.status) + `"`
		return e, of(c.Orders.SetStatus(v.resource, flavoso.StatusParams{Status: v.status}).WithTag(v.name))
	case "orders.update":
		order("")
		e.Method, e.Target, e.Wish = "PATCH", "/orders/"+v.resource, "update "+v.resource
		at := time.Now().Add(48 * time.Hour).Truncate(time.Millisecond) // a few nights make it the past
		return e, of(c.Orders.Update(v.resource, flavoso.UpdateOrderParams{EstimatedReadyAt: flavoso.Set(at)}).WithTag(v.name))
	case "bookings.create":
		e.Lane, e.Target, e.Wish, e.Marker = "booking:"+v.resource, "/bookings", "booking "+v.resource, v.name
		e.ReadBack = "/bookings?external_id=" + v.resource
		p := flavoso.BookingParams{PartySize: 2, StartsAt: opens, Note: strings.Repeat("Kinderstuhl ", v.pad/12),
			Customer: flavoso.BookingCustomer{Name: "Jörg Müller", Phone: "+49 30 1234567"}}
		if v.resource != v.name { // the other till of the connection uses the reference too, for other guests
			p.PartySize, p.Note = 20+t.Plan.Slot, fmt.Sprintf("till %d takes %s", t.Plan.Slot, v.resource)
			e.Marker = p.Note
		}
		call := c.Bookings.Create(v.resource, p).WithTag(v.name)
		if v.expiry > 0 {
			call = call.WithExpiry(v.expiry)
		}
		return e, of(call)
	case "call":
		e.Lane, e.Target, e.Wish, e.Marker = "call:"+v.name, "/bookings", v.name, v.name
		body := map[string]any{"external_id": v.name, "party_size": 3, "starts_at": opens, "customer": map[string]string{"name": "Jo"}}
		call := flavoso.NewCall[flavoso.Booking](c, "POST", "/bookings", body).WithLane(e.Lane).WithTag(v.name)
		if v.expiry > 0 {
			call = call.WithExpiry(v.expiry)
		}
		return e, of(call)
	case "menu.availability":
		e.Lane, e.Target, e.Wish, e.Marker = "menu", "/menu/availability", v.name, v.name
		return e, of(c.Menu.SetAvailability(flavoso.AvailabilityParams{Changes: []flavoso.AvailabilityChange{
			{ItemID: "soup", Status: flavoso.Unavailable, Reason: v.name}}}).WithTag(v.name))
	case "store.update":
		e.Method, e.Lane, e.Target, e.Wish, e.Marker = "PATCH", "store", "/store", v.name, v.name
		return e, of(c.Store.Update(flavoso.UpdateStoreParams{PausedUntil: flavoso.Set(opens), PauseReason: flavoso.Set(v.name)}).WithTag(v.name))
	}
	// menu.put, menu.supersede
	e.Kind, e.Method, e.Lane, e.Target, e.Wish, e.Marker = "menu.put", "PUT", "menu", "/menu", v.name, v.name
	call := c.Menu.Put(&flavoso.Menu{Currency: "EUR",
		Categories: []flavoso.MenuCategory{{ID: "all", Name: v.name, ItemIDs: []string{"soup"}}},
		Items: []flavoso.MenuItem{{ID: "soup", Name: "Kürbissuppe", Price: flavoso.Money{Amount: 690, Currency: "EUR"},
			TaxRates: flavoso.TaxRates{Delivery: 700, Pickup: 700, DineIn: 700}}}}).WithTag(v.name)
	if v.kind == "menu.supersede" {
		call = call.WithSupersede()
	}
	return e, of(call)
}

// repeatable finds the wish in an account, where making it again is the same operation.
func (t *Life) repeatable(e account.Event) (wish, bool) {
	v := wish{kind: e.Kind, name: e.Op, conn: max(slices.Index(t.Plan.Connections, e.Connection), 0)}
	fields := strings.Fields(e.Wish)
	switch e.Kind {
	case "orders.accept", "orders.acknowledge", "orders.reject", "bookings.create":
		v.resource = fields[1]
	default: // a status may be set again: asking for it once more after it has succeeded is another operation
		return v, false
	}
	return v, e.Text != "once"
}
