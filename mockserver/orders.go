package mockserver

import (
	"fmt"
	"net/url"
	"slices"
	"time"
)

// orderRoutes are the operations on orders. Accept and acknowledge are documented (F13, F14, F17); the
// others are assumptions.
func orderRoutes() []route {
	return []route{
		{method: "GET", pattern: "/orders", operation: "orders.list", run: listOrders},
		{method: "GET", pattern: "/orders/{id}", operation: "orders.get", run: onOrder(getOrder)},
		{method: "PATCH", pattern: "/orders/{id}", operation: "orders.update", run: onOrder(updateOrder)},
		{method: "POST", pattern: "/orders/{id}/accept", operation: "orders.accept", run: onOrder(acceptOrder)},
		{method: "POST", pattern: "/orders/{id}/acknowledge", operation: "orders.acknowledge", run: onOrder(acknowledgeOrder)},
		{method: "POST", pattern: "/orders/{id}/reject", operation: "orders.reject", run: onOrder(rejectOrder)},
		{method: "POST", pattern: "/orders/{id}/cancel", operation: "orders.cancel", run: onOrder(cancelOrder)},
		{method: "POST", pattern: "/orders/{id}/status", operation: "orders.status", run: onOrder(setOrderStatus)},
	}
}

func onOrder(run func(*call, *Order) answer) func(*call) answer {
	return func(c *call) answer {
		o := c.conn.orders[c.params[0]]
		if o == nil {
			return refuse(notFound("order", c.params[0]))
		}
		return run(c, o)
	}
}

func listOrders(c *call) answer {
	statuses := c.query["status"]
	after, p := timeParam(c.query, "updated_after")
	if p != nil {
		return refuse(p)
	}
	if !after.IsZero() && c.server.Switches().UpdatedAfter == "inclusive" {
		after = after.Add(-1)
	}
	l, p := paginate(c.conn.orderList, c.query, func(o *Order) bool {
		return o != nil && (len(statuses) == 0 || slices.Contains(statuses, o.Status)) &&
			(after.IsZero() || o.UpdatedAt.After(after))
	}, func(o *Order) any { return o })
	if p != nil {
		return refuse(p)
	}
	return ok(l)
}

func timeParam(q url.Values, name string) (time.Time, *problem) {
	s := q.Get(name)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, &problem{Code: codeInvalidRequest, Message: name + " must be an RFC 3339 instant", Param: name}
	}
	return t, nil
}

func getOrder(_ *call, o *Order) answer { return ok(o) }

func acceptOrder(c *call, o *Order) answer {
	var in struct {
		PreparationMinutes *int64     `json:"preparation_minutes"`
		ReadyAt            *time.Time `json:"ready_at"`
	}
	if p := c.decode(&in); p != nil {
		return refuse(p)
	}
	var f findings
	if in.PreparationMinutes != nil && in.ReadyAt != nil {
		f.add("/ready_at", "exclusive", "give preparation_minutes or ready_at, not both")
	}
	if m := in.PreparationMinutes; m != nil && (*m < 1 || *m > 7*24*60) {
		f.add("/preparation_minutes", "out_of_range", "preparation_minutes must be 1 to 10080")
	}
	if in.ReadyAt != nil {
		c.checkReadyTime(&f, "/ready_at", *in.ReadyAt)
	}
	if p := f.problem(); p != nil {
		return refuse(p)
	}
	if o.Status != StatusPending { // F13: past pending it comes back unchanged, cancelled included
		return ok(o)
	}
	o.Status = StatusConfirmed
	switch {
	case in.ReadyAt != nil:
		o.EstimatedReadyAt = in.ReadyAt.UTC()
	case in.PreparationMinutes != nil:
		o.EstimatedReadyAt = c.now.Add(time.Duration(*in.PreparationMinutes) * time.Minute)
	default:
		o.EstimatedReadyAt = c.now.Add(time.Duration(c.conn.store.DefaultPreparationMinutes) * time.Minute)
	}
	return c.changed(o, "orders.accept")
}

func (c *call) checkReadyTime(f *findings, pointer string, t time.Time) {
	within := c.server.Switches().ReadyWithin
	switch {
	case t.Before(c.now):
		f.add(pointer, "in_past", "the time lies in the past")
	case t.After(c.now.Add(within)):
		f.add(pointer, "out_of_range", "the time lies more than "+within.String()+" ahead")
	}
}

// changed notes the effect of an operation on an order.
func (c *call) changed(o *Order, kind string) answer {
	o.touch(c.now)
	c.effect(kind, o.ID, "")
	return ok(o)
}

func (o *Order) touch(now time.Time) {
	o.Version++
	o.UpdatedAt = now
}

func acknowledgeOrder(c *call, o *Order) answer {
	var in struct {
		ExternalID string `json:"external_id"`
	}
	if p := c.decode(&in); p != nil {
		return refuse(p)
	}
	switch {
	case in.ExternalID == "":
		var f findings
		f.add("/external_id", "required", "external_id is required")
		return refuse(f.problem())
	case o.ExternalID == in.ExternalID: // F14
		return ok(o)
	case o.ExternalID != "" && c.server.Switches().AcknowledgeOther == "ignore":
		return ok(o)
	case o.ExternalID != "" && c.server.Switches().AcknowledgeOther == "conflict":
		return refuse(conflict(fmt.Sprintf("the order is taken over already, with the external_id %q", o.ExternalID)))
	}
	o.ExternalID = in.ExternalID
	return c.changed(o, "orders.acknowledge")
}

// ending is the body of reject and cancel.
type ending struct {
	Reason           string   `json:"reason"`
	Message          string   `json:"message"`
	UnavailableItems []string `json:"unavailable_items"`
}

func (c *call) decodeEnding(o *Order) (ending, *problem) {
	var in ending
	if p := c.decode(&in); p != nil {
		return in, p
	}
	var f findings
	switch {
	case in.Reason == "":
		f.add("/reason", "required", "reason is required")
	case !slices.Contains(cancelReasons, in.Reason):
		f.add("/reason", "unknown", fmt.Sprintf("unknown reason %q", in.Reason))
	case in.Reason == "other" && in.Message == "":
		f.add("/message", "required", "the reason other needs a message")
	}
	for i, id := range in.UnavailableItems {
		if !slices.ContainsFunc(o.Items, func(it Item) bool { return it.ItemID == id }) {
			f.add(fmt.Sprintf("/unavailable_items/%d", i), "unknown", fmt.Sprintf("the order has no item %q", id))
		}
	}
	return in, f.problem()
}

func rejectOrder(c *call, o *Order) answer {
	in, p := c.decodeEnding(o)
	switch {
	case p != nil:
		return refuse(p)
	case o.Status == StatusRejected:
		return ok(o)
	case o.Status != StatusPending:
		return refuse(conflict("the order is " + o.Status + "; only a pending one can be rejected"))
	}
	for _, id := range in.UnavailableItems {
		if !c.server.Switches().RejectSnoozes {
			break
		}
		c.conn.availability.set(availabilityOf{kind: "item_id", id: id},
			availability{Status: "unavailable", Reason: "rejected with an order"})
	}
	return c.end(o, StatusRejected, in, "orders.reject")
}

func cancelOrder(c *call, o *Order) answer {
	in, p := c.decodeEnding(o)
	switch {
	case p != nil:
		return refuse(p)
	case o.Status == StatusCancelled:
		return ok(o)
	case terminal(o.Status):
		return refuse(conflict("the order is " + o.Status + " and cannot be cancelled"))
	}
	return c.end(o, StatusCancelled, in, "orders.cancel")
}

func (c *call) end(o *Order, status string, in ending, kind string) answer {
	o.Status = status
	o.Cancellation = &Cancellation{By: "restaurant", Reason: in.Reason, Message: in.Message, At: c.now}
	return c.changed(o, kind)
}

func setOrderStatus(c *call, o *Order) answer {
	var in struct {
		Status string `json:"status"`
	}
	if p := c.decode(&in); p != nil {
		return refuse(p)
	}
	to, from := slices.Index(orderProgress, in.Status), slices.Index(orderProgress, o.Status)
	switch {
	case to <= 0:
		var f findings
		f.add("/status", "unknown", fmt.Sprintf("%q cannot be set; rejecting and cancelling have calls of their own", in.Status))
		return refuse(f.problem())
	case to == from: // F13
		return ok(o)
	case terminal(o.Status) || to < from:
		return refuse(conflict(fmt.Sprintf("an order that is %s cannot become %s", o.Status, in.Status)))
	case to > o.nextStep(from) && c.server.Switches().StatusSkips == "refused":
		return refuse(conflict(fmt.Sprintf("%s does not follow on %s", in.Status, o.Status)))
	case in.Status == StatusOutForDelivery && o.Type != "delivery":
		return refuse(conflict("an order of type " + o.Type + " is not delivered"))
	}
	o.Status = in.Status
	return c.changed(o, "orders.status")
}

// nextStep is the place of the status that follows; an order that is not delivered has none on the way.
func (o *Order) nextStep(from int) int {
	if o.Type != "delivery" && orderProgress[from] == StatusReady {
		return from + 2
	}
	return from + 1
}

func updateOrder(c *call, o *Order) answer {
	var in struct {
		EstimatedReadyAt optional[time.Time] `json:"estimated_ready_at"`
	}
	if p := c.decode(&in); p != nil {
		return refuse(p)
	}
	var f findings
	ready := in.EstimatedReadyAt
	if ready.set && !ready.null {
		c.checkReadyTime(&f, "/estimated_ready_at", ready.v)
	}
	if p := f.problem(); p != nil {
		return refuse(p)
	}
	if !ready.set || ready.v.Equal(o.EstimatedReadyAt) {
		return ok(o)
	}
	if terminal(o.Status) {
		return refuse(conflict("the order is " + o.Status))
	}
	o.EstimatedReadyAt = time.Time{}
	if !ready.null {
		o.EstimatedReadyAt = ready.v.UTC()
	}
	return c.changed(o, "orders.update")
}
