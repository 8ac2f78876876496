package flavoso

import (
	"encoding/json"
	"fmt"
	"time"
)

// Store is the restaurant as Flavoso shows it. Its form is assumed (A26).
type Store struct {
	Object                    string          `json:"object"` // "store"
	ID                        string          `json:"id"`
	Name                      string          `json:"name"`
	Timezone                  string          `json:"timezone"` // IANA, e.g. "Europe/Berlin"
	Currency                  string          `json:"currency"` // ISO 4217
	PausedUntil               time.Time       `json:"paused_until,omitzero"`
	PauseReason               string          `json:"pause_reason,omitzero"`
	DefaultPreparationMinutes int             `json:"default_preparation_minutes"` // how long an order usually takes
	UpdatedAt                 time.Time       `json:"updated_at,omitzero"`
	Version                   int64           `json:"version"`
	Raw                       json.RawMessage `json:"-"` // the object as it came, with fields unknown here
}

// Paused reports whether the restaurant takes no orders at t because of a pause.
func (s *Store) Paused(t time.Time) bool { return t.Before(s.PausedUntil) }

// UnmarshalJSON implements [json.Unmarshaler]. Unknown fields are ignored and stay reachable in Raw; null
// changes nothing.
func (s *Store) UnmarshalJSON(data []byte) error {
	type plain Store
	return decodeRaw(data, (*plain)(s), &s.Raw)
}

// UpdateStoreParams change the restaurant; absent fields stay as they are. The usual preparation time cannot be
// cleared.
type UpdateStoreParams struct {
	PausedUntil               Patch[time.Time] `json:"paused_until,omitzero"` // Null resumes
	PauseReason               Patch[string]    `json:"pause_reason,omitzero"`
	DefaultPreparationMinutes Patch[int]       `json:"default_preparation_minutes,omitzero"` // 1 to 10,080: a week
}

func (p UpdateStoreParams) validate() error {
	switch minutes, given := p.DefaultPreparationMinutes.Get(); {
	case p == (UpdateStoreParams{}):
		return &ParamError{Field: "body", Rule: "must change something"}
	case p.DefaultPreparationMinutes.isNull():
		return &ParamError{Field: "default_preparation_minutes", Rule: "cannot be cleared"}
	case given && (minutes < 1 || minutes > maxPreparationMinutes):
		return &ParamError{Field: "default_preparation_minutes", Rule: fmt.Sprintf("must be 1 to %d", maxPreparationMinutes)}
	}
	reason, _ := p.PauseReason.Get()
	return firstError(
		validatePatchTime("paused_until", p.PausedUntil),
		validateText("pause_reason", reason),
	)
}
