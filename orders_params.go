package flavoso

import (
	"fmt"
	"strings"
	"time"
)

// AcceptParams say when an accepted order will be ready; give one of the two or none. The fields are
// assumed.
type AcceptParams struct {
	PreparationMinutes int       `json:"preparation_minutes,omitzero"` // minutes from now; 0 = not given
	ReadyAt            time.Time `json:"ready_at,omitzero"`            // zero = not given
}

const maxPreparationMinutes = 7 * 24 * 60

func (p AcceptParams) validate() error {
	if p.PreparationMinutes != 0 && !p.ReadyAt.IsZero() {
		return &ParamError{Field: "ready_at", Rule: "and preparation_minutes exclude each other"}
	}
	return firstError(
		validateCount("preparation_minutes", p.PreparationMinutes, maxPreparationMinutes),
		validateTime("ready_at", p.ReadyAt),
	)
}

// MarshalJSON implements [json.Marshaler]; instants are written in UTC.
func (p AcceptParams) MarshalJSON() ([]byte, error) {
	type plain AcceptParams
	p.ReadyAt = p.ReadyAt.UTC()
	return marshal(plain(p))
}

// AcknowledgeParams say which order of the POS it became (F14).
type AcknowledgeParams struct {
	ExternalID string `json:"external_id"` // the POS's own number; required
}

func (p AcknowledgeParams) validate() error { return validateReference("external_id", p.ExternalID) }

// RejectParams say why a pending order is refused.
type RejectParams struct {
	Reason           Reason   `json:"reason"`                     // required
	Message          string   `json:"message,omitzero"`           // for the guest; required for ReasonOther
	UnavailableItems []string `json:"unavailable_items,omitzero"` // ids of the menu's items that are sold out
}

func (p RejectParams) validate() error {
	if err := validateReason(p.Reason, p.Message); err != nil {
		return err
	}
	for i, id := range p.UnavailableItems {
		if err := validateReference(fmt.Sprintf("unavailable_items[%d]", i), id); err != nil {
			return err
		}
	}
	return nil
}

// CancelParams say why an order is cancelled.
type CancelParams struct {
	Reason  Reason `json:"reason"`           // required
	Message string `json:"message,omitzero"` // for the guest; required for ReasonOther
}

func (p CancelParams) validate() error { return validateReason(p.Reason, p.Message) }

func validateReason(reason Reason, message string) error {
	if err := validateReference("reason", string(reason)); err != nil {
		return err
	}
	if reason == ReasonOther && strings.TrimSpace(message) == "" {
		return &ParamError{Field: "message", Rule: "is required for the reason other"}
	}
	return validateText("message", message)
}

// StatusParams say which status an order is to have.
type StatusParams struct {
	Status OrderStatus `json:"status"` // required
}

// validate keeps '-' out of a status: the default key relies on it.
func (p StatusParams) validate() error {
	if p.Status == "" {
		return &ParamError{Field: "status", Rule: "must not be empty"}
	}
	if len(p.Status) > 64 || strings.Trim(string(p.Status), "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return &ParamError{Field: "status", Rule: "must be a status such as \"ready\": a-z, 0-9 and _, at most 64"}
	}
	return nil
}

// UpdateOrderParams change an order; absent fields stay as they are.
type UpdateOrderParams struct {
	EstimatedReadyAt Patch[time.Time] `json:"estimated_ready_at,omitzero"`
}

func (p UpdateOrderParams) validate() error {
	if p == (UpdateOrderParams{}) {
		return &ParamError{Field: "estimated_ready_at", Rule: "must be set or cleared: there is nothing else to update"}
	}
	return validatePatchTime("estimated_ready_at", p.EstimatedReadyAt)
}

func validatePatchTime(field string, p Patch[time.Time]) error {
	t, ok := p.Get()
	if ok && t.IsZero() {
		return &ParamError{Field: field, Rule: "must not be the zero time; use Null to clear it"}
	}
	return validateTime(field, t)
}
