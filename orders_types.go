package flavoso

import (
	"encoding/json"
	"time"
)

// OrderStatus is where an order stands. The list is open: a status that came later than this release is
// kept as it is and is no error.
//
//	pending → confirmed → preparing → ready → out_for_delivery → completed
//	pending → rejected
//	any of them but the last → cancelled
type OrderStatus string

// The statuses of an order. Pending and confirmed are documented (F13, F17), the others assumed.
const (
	OrderPending        OrderStatus = "pending"
	OrderConfirmed      OrderStatus = "confirmed"
	OrderPreparing      OrderStatus = "preparing"
	OrderReady          OrderStatus = "ready"
	OrderOutForDelivery OrderStatus = "out_for_delivery"
	OrderCompleted      OrderStatus = "completed"
	OrderRejected       OrderStatus = "rejected"
	OrderCancelled      OrderStatus = "cancelled"
)

// OrderType is how an order reaches the guest; an open list.
type OrderType string

// The types of an order.
const (
	OrderDelivery OrderType = "delivery"
	OrderPickup   OrderType = "pickup"
	OrderDineIn   OrderType = "dine_in"
)

// Timing is when an order is wanted; an open list.
type Timing string

// The timings of an order.
const (
	TimingASAP      Timing = "asap"
	TimingScheduled Timing = "scheduled"
)

// Reason is why an order is rejected or cancelled; an open list.
type Reason string

// The reasons. ReasonOther needs a message.
const (
	ReasonItemUnavailable         Reason = "item_unavailable"
	ReasonTooBusy                 Reason = "too_busy"
	ReasonStoreClosed             Reason = "store_closed"
	ReasonClosingSoon             Reason = "closing_soon"
	ReasonCannotDeliver           Reason = "cannot_deliver"
	ReasonAddressUnknown          Reason = "address_unknown"
	ReasonPriceMismatch           Reason = "price_mismatch"
	ReasonPOSOffline              Reason = "pos_offline"
	ReasonInstructionsNotPossible Reason = "instructions_not_possible"
	ReasonCustomerRequest         Reason = "customer_request"
	ReasonDuplicate               Reason = "duplicate"
	ReasonTestOrder               Reason = "test_order"
	ReasonNotAcceptedInTime       Reason = "not_accepted_in_time"
	ReasonOther                   Reason = "other"
)

// Order is an order as Flavoso shows it. Object, ID and Status are documented (F17); the other fields are
// assumed. A field that an answer does not have is the zero value. Orders hold guests' data: do not log
// them.
type Order struct {
	Object           string          `json:"object"` // "order"
	ID               string          `json:"id"`
	Status           OrderStatus     `json:"status"`
	ExternalID       string          `json:"external_id,omitzero"` // the POS's own number, from Acknowledge
	DisplayNumber    string          `json:"display_number"`       // what guests see; not unique
	Channel          string          `json:"channel"`              // where it was placed
	Type             OrderType       `json:"type"`
	DeliveredBy      string          `json:"delivered_by,omitzero"` // who drives: platform or restaurant
	Timing           Timing          `json:"timing"`
	PlacedAt         time.Time       `json:"placed_at,omitzero"`
	RequestedFor     time.Time       `json:"requested_for,omitzero"` // when a scheduled order is wanted
	AcceptBy         time.Time       `json:"accept_by,omitzero"`     // past it Flavoso cancels a pending order
	EstimatedReadyAt time.Time       `json:"estimated_ready_at,omitzero"`
	UpdatedAt        time.Time       `json:"updated_at,omitzero"`
	Version          int64           `json:"version"` // grows with every change
	Customer         Customer        `json:"customer,omitzero"`
	DeliveryAddress  *Address        `json:"delivery_address,omitzero"`
	Table            string          `json:"table,omitzero"`
	Items            []Item          `json:"items"`
	Totals           Totals          `json:"totals"`
	Discounts        []Discount      `json:"discounts,omitzero"`
	Payment          Payment         `json:"payment"`
	Note             string          `json:"note,omitzero"`
	AllergenNote     string          `json:"allergen_note,omitzero"`
	Cancellation     *Cancellation   `json:"cancellation,omitzero"` // set when rejected or cancelled
	IsTest           bool            `json:"is_test"`               // not to be cooked
	Raw              json.RawMessage `json:"-"`                     // the object as it came, with fields unknown here
}

// UnmarshalJSON implements [json.Unmarshaler]. Unknown fields are ignored and stay reachable in Raw; null
// changes nothing.
func (o *Order) UnmarshalJSON(data []byte) error {
	type plain Order
	return decodeRaw(data, (*plain)(o), &o.Raw)
}

// Customer is the guest of an order.
type Customer struct {
	Name  string `json:"name"`
	Phone string `json:"phone,omitzero"`
	Email string `json:"email,omitzero"`
	Note  string `json:"note,omitzero"`
}

// Address is where an order is delivered.
type Address struct {
	Street     string `json:"street"`
	PostalCode string `json:"postal_code"`
	City       string `json:"city"`
	Country    string `json:"country"` // ISO 3166-1 alpha-2
	Note       string `json:"note,omitzero"`
}

// Item is a line of an order. TotalPrice is Quantity × (UnitPrice + the sum over Modifiers of quantity ×
// price).
type Item struct {
	ID         string     `json:"id"`      // of the line
	ItemID     string     `json:"item_id"` // of the menu's item
	ExternalID string     `json:"external_id,omitzero"`
	Name       string     `json:"name"`
	Quantity   int        `json:"quantity"`
	UnitPrice  Money      `json:"unit_price"`
	TotalPrice Money      `json:"total_price"` // of the whole line
	Note       string     `json:"note,omitzero"`
	Modifiers  []Modifier `json:"modifiers,omitzero"`
	TaxRateBP  int        `json:"tax_rate_bp"` // basis points: 700 is 7 %
}

// LineTotal works out what TotalPrice must be, in the currency of UnitPrice (A35). Where the two differ, the
// order is not what the menu says; see ReasonPriceMismatch.
func (i Item) LineTotal() Money {
	return Money{Amount: int64(i.Quantity) * (i.UnitPrice.Amount + sumOf(i.Modifiers)), Currency: i.UnitPrice.Currency}
}

func sumOf(modifiers []Modifier) int64 {
	var sum int64
	for _, m := range modifiers {
		sum += int64(m.Quantity) * (m.Price.Amount + sumOf(m.Modifiers))
	}
	return sum
}

// Modifier is an option of a line, such as extra cheese. It can have options of its own, which count as
// many times as it does.
type Modifier struct {
	ID         string     `json:"id"`
	ModifierID string     `json:"modifier_id"` // of the menu's modifier
	ExternalID string     `json:"external_id,omitzero"`
	Name       string     `json:"name"`
	Quantity   int        `json:"quantity"` // per unit of the line
	Price      Money      `json:"price"`
	Modifiers  []Modifier `json:"modifiers,omitzero"`
}

// Totals are the sums of an order.
type Totals struct {
	Items       Money `json:"items"`
	Discounts   Money `json:"discounts"`
	DeliveryFee Money `json:"delivery_fee"`
	ServiceFee  Money `json:"service_fee"`
	Tip         Money `json:"tip"`
	Tax         Money `json:"tax"` // contained in the prices
	Total       Money `json:"total"`
}

// Discount lowers an order's total.
type Discount struct {
	Name     string `json:"name"`
	Amount   Money  `json:"amount"`
	FundedBy string `json:"funded_by,omitzero"` // who pays for it: platform or restaurant
}

// Payment says how an order is paid.
type Payment struct {
	Status    string `json:"status"` // paid or due; an open list
	Method    string `json:"method"`
	AmountDue Money  `json:"amount_due"` // what the restaurant still has to collect
}

// Cancellation says who ended an order, and why.
type Cancellation struct {
	By      string    `json:"by"` // restaurant, customer or system; an open list
	Reason  Reason    `json:"reason"`
	Message string    `json:"message,omitzero"`
	At      time.Time `json:"at,omitzero"`
}
