package mockserver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// availabilityOf names what an availability is about.
type availabilityOf struct{ kind, id string } // kind: "item_id" or "modifier_id"

// availability is how something can be sold. Until is half-open on the server's clock: at that instant
// the thing is available again.
type availability struct {
	ItemID     string     `json:"item_id,omitzero"`
	ModifierID string     `json:"modifier_id,omitzero"`
	Status     string     `json:"status"`
	Until      *time.Time `json:"until,omitzero"`
	Quantity   *int64     `json:"quantity,omitzero"`
	Reason     string     `json:"reason,omitzero"`
}

// availabilityTable holds what is not simply available.
type availabilityTable struct {
	of map[availabilityOf]availability
}

func newAvailabilityTable() *availabilityTable {
	return &availabilityTable{map[availabilityOf]availability{}}
}

// set changes one entry; false = it was so already.
func (t *availabilityTable) set(of availabilityOf, a availability) bool {
	if of.kind == "item_id" {
		a.ItemID = of.id
	} else {
		a.ModifierID = of.id
	}
	old, had := t.of[of]
	if a.Status == "available" {
		delete(t.of, of)
		return had
	}
	t.of[of] = a
	return !had || string(encode(old)) != string(encode(a))
}

// keep drops the entries whose ids the new menu does not have.
func (t *availabilityTable) keep(d menuDoc) {
	ids := d.define(new(findings))
	maps.DeleteFunc(t.of, func(of availabilityOf, _ availability) bool {
		return (of.kind == "item_id" && !ids.items[of.id]) || (of.kind == "modifier_id" && !ids.modifiers[of.id])
	})
}

func (t *availabilityTable) list(now time.Time) map[string]any {
	data := []availability{}
	for _, a := range t.of {
		if a.Until == nil || now.Before(*a.Until) {
			data = append(data, a)
		}
	}
	slices.SortFunc(data, func(a, b availability) int {
		return cmp.Or(cmp.Compare(a.ItemID, b.ItemID), cmp.Compare(a.ModifierID, b.ModifierID))
	})
	return map[string]any{"object": "menu_availability", "id": "availability", "data": data}
}

func getAvailability(c *call) answer { return ok(c.conn.availability.list(c.now)) }

type availabilityChange struct {
	ItemID     string     `json:"item_id"`
	ModifierID string     `json:"modifier_id"`
	ExternalID string     `json:"external_id"`
	Status     string     `json:"status"`
	Until      *time.Time `json:"until"`
	Quantity   *int64     `json:"quantity"`
	Reason     string     `json:"reason"`
}

// postAvailability is all or nothing: one fault and nothing changes.
func postAvailability(c *call) answer {
	var in struct {
		Changes []availabilityChange `json:"changes"`
	}
	if p := c.decode(&in); p != nil {
		return refuse(p)
	}
	var f findings
	if len(in.Changes) == 0 {
		f.add("/changes", "required", "changes is required and must not be empty")
	}
	targets := make([]availabilityOf, len(in.Changes))
	ids := c.conn.menu.doc.define(new(findings))
	for i, ch := range in.Changes {
		targets[i] = ch.check(&f, fmt.Sprintf("/changes/%d", i), c, ids)
	}
	if p := f.problem(); p != nil {
		return refuse(p)
	}
	changed := false
	for i, ch := range in.Changes {
		a := availability{Status: ch.Status, Until: ch.Until, Quantity: ch.Quantity, Reason: ch.Reason}
		changed = c.conn.availability.set(targets[i], a) || changed
	}
	if changed {
		c.effect("menu.availability", "menu", "")
	}
	return ok(c.conn.availability.list(c.now))
}

func (ch availabilityChange) check(f *findings, at string, c *call, ids menuIDs) availabilityOf {
	var of availabilityOf
	switch {
	case ch.ItemID != "" && ch.ModifierID == "" && ch.ExternalID == "":
		of = availabilityOf{"item_id", ch.ItemID}
	case ch.ModifierID != "" && ch.ItemID == "" && ch.ExternalID == "":
		of = availabilityOf{"modifier_id", ch.ModifierID}
	case ch.ExternalID != "" && ch.ItemID == "" && ch.ModifierID == "":
		of = c.conn.menu.doc.byExternalID(ch.ExternalID)
		if of.id == "" {
			f.add(at+"/external_id", "unknown", fmt.Sprintf("nothing on the menu has the external_id %q", ch.ExternalID))
		}
	default:
		f.add(at, "required", "give one of item_id, modifier_id and external_id")
	}
	if (of.kind == "item_id" && !ids.items[of.id]) || (of.kind == "modifier_id" && !ids.modifiers[of.id]) {
		f.add(at+"/"+of.kind, "unknown", fmt.Sprintf("the menu has no such id: %q", of.id))
	}
	switch {
	case !slices.Contains([]string{"available", "unavailable", "limited"}, ch.Status):
		f.add(at+"/status", "unknown", fmt.Sprintf("%q is not a status; use available, unavailable or limited", ch.Status))
	case ch.Status == "limited" && (ch.Quantity == nil || *ch.Quantity < 1):
		f.add(at+"/quantity", "required", "limited needs a positive quantity")
	case ch.Status != "limited" && ch.Quantity != nil:
		f.add(at+"/quantity", "not_allowed", "only limited has a quantity")
	}
	if ch.Until != nil && (ch.Status == "available" || !ch.Until.After(c.now)) {
		f.add(at+"/until", "out_of_range", "until must lie in the future, and available has none")
	}
	return of
}

func (d *menuDoc) byExternalID(id string) availabilityOf {
	for _, it := range d.Items {
		if it.ExternalID == id {
			return availabilityOf{"item_id", it.ID}
		}
	}
	for _, g := range d.ModifierGroups {
		for _, m := range g.Modifiers {
			if m.ExternalID == id {
				return availabilityOf{"modifier_id", m.ID}
			}
		}
	}
	return availabilityOf{}
}
