package mockserver

import "time"

// Money is an amount in minor units (cents) of a currency.
type Money struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// The statuses of an order (F17 names pending and confirmed; the others are assumptions).
const (
	StatusPending        = "pending"
	StatusConfirmed      = "confirmed"
	StatusPreparing      = "preparing"
	StatusReady          = "ready"
	StatusOutForDelivery = "out_for_delivery"
	StatusCompleted      = "completed"
	StatusRejected       = "rejected"
	StatusCancelled      = "cancelled"
)

// Order is an order as the API shows it. [Server.AddOrder] takes one as an overlay: what is set replaces
// the field of a realistic order, the rest stays, and every sum is worked out again.
type Order struct {
	Object           string        `json:"object"`
	ID               string        `json:"id"`
	Status           string        `json:"status"`
	ExternalID       string        `json:"external_id,omitzero"` // the POS's own number, from acknowledge
	DisplayNumber    string        `json:"display_number"`       // what guests see; not unique
	Channel          string        `json:"channel"`
	Type             string        `json:"type"`         // delivery, pickup or dine_in
	DeliveredBy      string        `json:"delivered_by"` // platform or restaurant; none without delivery
	Timing           string        `json:"timing"`       // asap or scheduled
	PlacedAt         time.Time     `json:"placed_at"`
	RequestedFor     time.Time     `json:"requested_for,omitzero"`
	AcceptBy         time.Time     `json:"accept_by,omitzero"` // past it the platform cancels a pending order
	EstimatedReadyAt time.Time     `json:"estimated_ready_at,omitzero"`
	UpdatedAt        time.Time     `json:"updated_at"`
	Version          int           `json:"version"` // grows with every change
	Customer         Customer      `json:"customer"`
	DeliveryAddress  *Address      `json:"delivery_address,omitzero"`
	Table            string        `json:"table,omitzero"`
	Items            []Item        `json:"items"`
	Totals           Totals        `json:"totals"`
	Discounts        []Discount    `json:"discounts"`
	Payment          Payment       `json:"payment"`
	Note             string        `json:"note,omitzero"`
	AllergenNote     string        `json:"allergen_note,omitzero"`
	Cancellation     *Cancellation `json:"cancellation,omitzero"`
	IsTest           bool          `json:"is_test"`
}

// Customer is the guest of an order or a booking.
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

// Item is a line of an order. TotalPrice is Quantity × (UnitPrice + the sum of its modifiers' totals).
type Item struct {
	ID         string     `json:"id"`
	ItemID     string     `json:"item_id"` // the item of the menu
	ExternalID string     `json:"external_id,omitzero"`
	Name       string     `json:"name"`
	Quantity   int64      `json:"quantity"`
	UnitPrice  Money      `json:"unit_price"`
	TotalPrice Money      `json:"total_price"`
	Note       string     `json:"note,omitzero"`
	Modifiers  []Modifier `json:"modifiers"`
	TaxRateBP  int64      `json:"tax_rate_bp"` // basis points: 700 is 7 %
}

// Modifier is an option of a line; it can have options of its own. Its total is Quantity × (Price + the
// sum of its own modifiers' totals).
type Modifier struct {
	ID         string     `json:"id"`
	ModifierID string     `json:"modifier_id"`
	ExternalID string     `json:"external_id,omitzero"`
	Name       string     `json:"name"`
	Quantity   int64      `json:"quantity"`
	Price      Money      `json:"price"`
	Modifiers  []Modifier `json:"modifiers"`
}

// Totals are the sums of an order: Total = Items − Discounts + DeliveryFee + ServiceFee + Tip. Tax is
// contained in the prices.
type Totals struct {
	Items       Money `json:"items"`
	Discounts   Money `json:"discounts"`
	DeliveryFee Money `json:"delivery_fee"`
	ServiceFee  Money `json:"service_fee"`
	Tip         Money `json:"tip"`
	Tax         Money `json:"tax"`
	Total       Money `json:"total"`
}

// Discount lowers the total; FundedBy says who pays for it (platform or restaurant).
type Discount struct {
	Name     string `json:"name"`
	Amount   Money  `json:"amount"`
	FundedBy string `json:"funded_by"`
}

// Payment says how an order is paid. AmountDue is what the restaurant still has to collect.
type Payment struct {
	Status    string `json:"status"` // paid or due
	Method    string `json:"method"`
	AmountDue Money  `json:"amount_due"`
}

// Cancellation says who ended an order, when and why. A rejection has one too.
type Cancellation struct {
	By      string    `json:"by"` // restaurant, customer or system
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitzero"`
	At      time.Time `json:"at"`
}

// total of a modifier with everything below it.
func (m Modifier) total() int64 {
	sum := m.Price.Amount
	for _, sub := range m.Modifiers {
		sum += sub.total()
	}
	return m.Quantity * sum
}

// addUp works out every sum of the order from its lines, discounts and fees, and fills in the currency.
func (o *Order) addUp(currency string) {
	var items, discounts, tax int64
	for i := range o.Items {
		it := &o.Items[i]
		sum := it.UnitPrice.Amount
		for _, m := range it.Modifiers {
			sum += m.total()
		}
		it.UnitPrice.Currency = currency
		it.TotalPrice = Money{it.Quantity * sum, currency}
		setCurrency(it.Modifiers, currency)
		items += it.TotalPrice.Amount
		tax += containedTax(it.TotalPrice.Amount, it.TaxRateBP)
	}
	for i := range o.Discounts {
		o.Discounts[i].Amount.Currency = currency
		discounts += o.Discounts[i].Amount.Amount
	}
	t := &o.Totals
	total := items - discounts + t.DeliveryFee.Amount + t.ServiceFee.Amount + t.Tip.Amount
	*t = Totals{
		Items: Money{items, currency}, Discounts: Money{discounts, currency},
		DeliveryFee: Money{t.DeliveryFee.Amount, currency}, ServiceFee: Money{t.ServiceFee.Amount, currency},
		Tip: Money{t.Tip.Amount, currency}, Tax: Money{tax, currency}, Total: Money{total, currency},
	}
	o.Payment.AmountDue = Money{0, currency}
	if o.Payment.Status == "due" {
		o.Payment.AmountDue.Amount = total
	}
}

func setCurrency(ms []Modifier, currency string) {
	for i := range ms {
		ms[i].Price.Currency = currency
		setCurrency(ms[i].Modifiers, currency)
	}
}

// containedTax is the tax inside a gross amount, rounded half up.
func containedTax(gross, rateBP int64) int64 {
	d := 10_000 + rateBP
	return (gross*rateBP*2 + d) / (2 * d)
}

// terminal reports whether nothing can follow the status.
func terminal(status string) bool {
	return status == StatusCompleted || status == StatusRejected || status == StatusCancelled
}

// orderProgress is the way of an accepted order; a later one may be reached by skipping.
var orderProgress = []string{
	StatusPending, StatusConfirmed, StatusPreparing, StatusReady, StatusOutForDelivery, StatusCompleted,
}

// cancelReasons are the reasons for a rejection or a cancellation; other needs a message.
var cancelReasons = []string{
	"item_unavailable", "too_busy", "store_closed", "closing_soon", "cannot_deliver", "address_unknown",
	"price_mismatch", "pos_offline", "instructions_not_possible", "customer_request", "duplicate",
	"test_order", "not_accepted_in_time", "other",
}
