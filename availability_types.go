package flavoso

import (
	"encoding/json"
	"fmt"
	"time"
)

// AvailabilityStatus says whether something on the menu can be had; an open list.
type AvailabilityStatus string

// The availability statuses; all assumed (A23).
const (
	Available   AvailabilityStatus = "available"
	Unavailable AvailabilityStatus = "unavailable"
	Limited     AvailabilityStatus = "limited" // so many are left
)

// Availability is what of the menu is not simply available, as Flavoso shows it (A23).
type Availability struct {
	Object string             `json:"object"` // "menu_availability"
	Data   []ItemAvailability `json:"data"`
	Raw    json.RawMessage    `json:"-"` // the object as it came, with fields unknown here
}

// Of returns how an item or a modifier can be had, by its id on the menu: Available when nothing else is
// said about it.
func (a *Availability) Of(id string) ItemAvailability {
	for _, entry := range a.Data {
		if entry.ItemID == id || entry.ModifierID == id {
			return entry
		}
	}
	return ItemAvailability{Status: Available}
}

// ItemAvailability is the availability of one item or modifier.
type ItemAvailability struct {
	ItemID     string             `json:"item_id,omitzero"` // this or ModifierID
	ModifierID string             `json:"modifier_id,omitzero"`
	Status     AvailabilityStatus `json:"status"`
	Until      time.Time          `json:"until,omitzero"`    // available again at this moment; zero = until it is changed
	Quantity   int                `json:"quantity,omitzero"` // what is left, when limited
	Reason     string             `json:"reason,omitzero"`
}

// UnmarshalJSON implements [json.Unmarshaler]. Unknown fields are ignored and stay reachable in Raw; null
// changes nothing.
func (a *Availability) UnmarshalJSON(data []byte) error {
	type plain Availability
	return decodeRaw(data, (*plain)(a), &a.Raw)
}

// AvailabilityParams are changes that are made together or not at all.
type AvailabilityParams struct {
	Changes []AvailabilityChange `json:"changes"` // at least one
}

// AvailabilityChange says how one item or modifier can be had from now on. Name it by exactly one of
// ItemID, ModifierID and ExternalID.
type AvailabilityChange struct {
	ItemID     string             `json:"item_id,omitzero"`
	ModifierID string             `json:"modifier_id,omitzero"`
	ExternalID string             `json:"external_id,omitzero"` // the POS's own id of either
	Status     AvailabilityStatus `json:"status"`               // required
	Until      time.Time          `json:"until,omitzero"`       // available again at this moment; zero = until it is changed
	Quantity   int                `json:"quantity,omitzero"`    // required for Limited, and only there
	Reason     string             `json:"reason,omitzero"`
}

// MarshalJSON implements [json.Marshaler]; instants are written in UTC.
func (c AvailabilityChange) MarshalJSON() ([]byte, error) {
	type plain AvailabilityChange
	c.Until = c.Until.UTC()
	return marshal(plain(c))
}

func (p AvailabilityParams) validate() error {
	if len(p.Changes) == 0 {
		return &ParamError{Field: "changes", Rule: "must not be empty"}
	}
	for i, c := range p.Changes {
		if err := c.validate(fmt.Sprintf("changes[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (c AvailabilityChange) validate(at string) error {
	named := 0
	for _, id := range []struct{ field, value string }{
		{"item_id", c.ItemID}, {"modifier_id", c.ModifierID}, {"external_id", c.ExternalID},
	} {
		if id.value == "" {
			continue
		}
		named++
		if err := validateReference(at+"."+id.field, id.value); err != nil {
			return err
		}
	}
	switch {
	case named != 1:
		return &ParamError{Field: at, Rule: "must name exactly one of item_id, modifier_id and external_id"}
	case c.Status == Limited && c.Quantity < 1:
		return &ParamError{Field: at + ".quantity", Rule: "must be at least 1 when limited"}
	case c.Status != Limited && c.Quantity != 0:
		return &ParamError{Field: at + ".quantity", Rule: "is for limited only"}
	case c.Status == Available && !c.Until.IsZero():
		return &ParamError{Field: at + ".until", Rule: "is not for available"}
	}
	return firstError(
		validateReference(at+".status", string(c.Status)),
		validateTime(at+".until", c.Until),
		validateText(at+".reason", c.Reason),
	)
}
