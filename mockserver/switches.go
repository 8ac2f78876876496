package mockserver

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Switches choose between the readings that the documented contract leaves open (clauses D…) and set
// what is assumed about the rest of the API. [DefaultSwitches] has the readings that hurt a careless
// client most; a client must behave rightly under all of them.
type Switches struct {
	// Query says whether the query belongs to "the same path" of F7: "compare" or "ignore" (D2).
	Query string `json:"query"`
	// RequireKey refuses a POST without a key with 400 instead of executing it unprotected (D7).
	RequireKey bool `json:"require_key"`
	// Hold4xx says which refusals are held for 24 hours: "after_auth" (all but 401, 403, 408, 413, 415, 429
	// and 409 conflict), "none", or "all" (those too, except 409 conflict) (D10).
	Hold4xx string `json:"hold_4xx"`
	// HoldFrom says where the 24 hours start: "completion" or "receipt" (D13).
	HoldFrom string `json:"hold_from"`
	// HoldFor is how long an answer is held (F5); 24 hours.
	HoldFor time.Duration `json:"hold_for"`
	// ClaimOnHeaders takes the key as soon as the headers are there, so that a request whose body breaks
	// off leaves it in progress until the lease ends (D14).
	ClaimOnHeaders bool `json:"claim_on_headers"`
	// AbortAfter is how long an aborted request keeps its key (F9, D16); 2 minutes.
	AbortAfter time.Duration `json:"abort_after"`
	// RetryAfterInProgress sends Retry-After: 1 with 409 idempotency_in_progress (D20).
	RetryAfterInProgress bool `json:"retry_after_in_progress"`

	// AcceptWithin is how long an order waits for its acceptance before the platform cancels it; 0 = for ever.
	AcceptWithin time.Duration `json:"accept_within"`
	// ReadyWithin is how far ahead a ready time may lie.
	ReadyWithin time.Duration `json:"ready_within"`
	// StatusSkips lets an order jump over statuses on its way: "allowed" or "refused".
	StatusSkips string `json:"status_skips"`
	// AcknowledgeOther says what a second acknowledge with another external_id does: "conflict", "replace"
	// or "ignore" (the order comes back unchanged).
	AcknowledgeOther string `json:"acknowledge_other"`
	// RejectSnoozes makes the unavailable_items of a rejection unavailable on the menu.
	RejectSnoozes bool `json:"reject_snoozes"`
	// UpdatedAfter says whether the instant itself counts in a list's updated_after: "exclusive" or "inclusive".
	UpdatedAfter string `json:"updated_after"`
	// BookingStatus is the status a booking starts with: "confirmed" or "requested".
	BookingStatus string `json:"booking_status"`
	// BookingCapacity is how many bookings may overlap before a slot counts as taken; 0 = any number.
	BookingCapacity int `json:"booking_capacity"`
	// BookingReference says whether an external_id names one booking only: "free" or "unique" (409 conflict).
	BookingReference string `json:"booking_reference"`
	// BookingListLag is how long a new booking stays out of GET /bookings, as behind a search index.
	BookingListLag time.Duration `json:"booking_list_lag"`
	// HoursOverlaps says whether opening hours may overlap: "refused" or "allowed".
	HoursOverlaps string `json:"hours_overlaps"`
	// MediaType says whether a body must be declared as application/json: "required" or "ignored".
	MediaType string `json:"media_type"`
	// RateLimit is how many requests a connection may make per minute; 0 = any number.
	RateLimit int `json:"rate_limit"`
	// MaxBody is the largest body in bytes; above it the answer is 413.
	MaxBody int64 `json:"max_body"`
	// ErrorEnvelope is the form of refusals: "nested" ({"error":{…}}) or "flat" ({"code":…,"message":…}).
	ErrorEnvelope string `json:"error_envelope"`
}

// DefaultSwitches returns the readings a server has unless it is told otherwise.
func DefaultSwitches() Switches {
	return Switches{
		Query: "compare", Hold4xx: "after_auth", HoldFrom: "completion", HoldFor: 24 * time.Hour,
		AbortAfter: 2 * time.Minute, RetryAfterInProgress: true,
		AcceptWithin: 11*time.Minute + 30*time.Second, ReadyWithin: 7 * 24 * time.Hour,
		StatusSkips: "allowed", AcknowledgeOther: "conflict", RejectSnoozes: true, UpdatedAfter: "exclusive",
		BookingStatus: BookingConfirmed, BookingReference: "free", HoursOverlaps: "refused", MediaType: "required",
		MaxBody: 10 << 20, ErrorEnvelope: "nested",
	}
}

// choices are the values a switch of type string may have.
var choices = map[string][]string{
	"query":             {"compare", "ignore"},
	"hold_4xx":          {"after_auth", "none", "all"},
	"hold_from":         {"completion", "receipt"},
	"status_skips":      {"allowed", "refused"},
	"acknowledge_other": {"conflict", "replace", "ignore"},
	"updated_after":     {"exclusive", "inclusive"},
	"booking_reference": {"free", "unique"},
	"hours_overlaps":    {"refused", "allowed"},
	"media_type":        {"required", "ignored"},
	"booking_status":    {BookingConfirmed, BookingRequested},
	"error_envelope":    {"nested", "flat"},
}

// Set changes the switch with the given name, as the command line and the admin API name it:
// Set("hold_from", "receipt"). The error says what the switch takes.
func (s *Switches) Set(name, value string) error {
	next := *s
	f, ok := next.field(name)
	if !ok {
		return fmt.Errorf("mockserver: no switch %q; there are %s", name, strings.Join(switchNames(), ", "))
	}
	switch p := f.Addr().Interface().(type) {
	case *bool:
		v, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("mockserver: switch %s takes true or false, not %q", name, value)
		}
		*p = v
	case *time.Duration:
		v, err := time.ParseDuration(value)
		if err != nil || v < 0 {
			return fmt.Errorf("mockserver: switch %s takes a duration such as 2m, not %q", name, value)
		}
		*p = v
	case *string:
		*p = value
	default:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("mockserver: switch %s takes a number, not %q", name, value)
		}
		f.SetInt(n)
	}
	if err := next.validate(); err != nil {
		return err
	}
	*s = next
	return nil
}

func (s *Switches) validate() error {
	for name, allowed := range choices {
		f, _ := s.field(name)
		ok := false
		for _, v := range allowed {
			ok = ok || f.String() == v
		}
		if !ok {
			return fmt.Errorf("mockserver: switch %s takes %s, not %q", name, strings.Join(allowed, " or "), f.String())
		}
	}
	if s.HoldFor <= 0 || s.AbortAfter <= 0 || s.MaxBody <= 0 {
		return fmt.Errorf("mockserver: the switches hold_for, abort_after and max_body must be positive")
	}
	return nil
}

func (s *Switches) field(name string) (reflect.Value, bool) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func switchNames() []string {
	t := reflect.TypeFor[Switches]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("json")
	}
	return names
}

// MarshalJSON shows durations as "2m0s" instead of nanoseconds.
func (s Switches) MarshalJSON() ([]byte, error) {
	m := map[string]any{}
	for _, name := range switchNames() {
		f, _ := s.field(name)
		if d, ok := f.Interface().(time.Duration); ok {
			m[name] = d.String()
		} else {
			m[name] = f.Interface()
		}
	}
	return json.Marshal(m)
}
