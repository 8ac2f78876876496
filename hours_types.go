package flavoso

import "time"

// Hours are a restaurant's opening hours, in local time. Their form is assumed (A27).
//
// A day that Weekly does not name is closed. A special day replaces the ranges that start on its date; what
// runs over midnight from the day before stays.
//
// [Hours.Validate], [Hours.IsOpen] and [Hours.NextChange] need the time zone database. Linux and macOS
// bring one; on Windows, and in images without one, import time/tzdata in your main package:
//
//	import _ "time/tzdata" // some 450 KB
type Hours struct {
	Timezone    string       `json:"timezone"` // IANA, e.g. "Europe/Berlin"
	Weekly      []DayHours   `json:"weekly"`
	SpecialDays []SpecialDay `json:"special_days"`
	Extra       Extra        `json:"-"` // fields unknown here; sent back as they came
}

// Day is a day of the week.
type Day string

// The days of the week.
const (
	Monday    Day = "monday"
	Tuesday   Day = "tuesday"
	Wednesday Day = "wednesday"
	Thursday  Day = "thursday"
	Friday    Day = "friday"
	Saturday  Day = "saturday"
	Sunday    Day = "sunday"
)

var week = []Day{Sunday, Monday, Tuesday, Wednesday, Thursday, Friday, Saturday} // as time.Weekday counts

// DayOf is the day of the week that Go calls w; "" when there is no such day.
func DayOf(w time.Weekday) Day {
	if w < time.Sunday || w > time.Saturday {
		return ""
	}
	return week[w]
}

// DayHours are the ranges that start on a day of the week.
type DayHours struct {
	Day    Day         `json:"day"`
	Ranges []TimeRange `json:"ranges"`
	Extra  Extra       `json:"-"`
}

// SpecialDay says how one date differs: closed, or open in these ranges.
type SpecialDay struct {
	Date   string      `json:"date"` // e.g. "2026-12-31"
	Closed bool        `json:"closed,omitzero"`
	Ranges []TimeRange `json:"ranges,omitempty"`
	Extra  Extra       `json:"-"`
}

// TimeRange is when the restaurant is open: from Open on, until just before Close. A Close that is not
// after Open is on the next day. All day is 00:00 to 24:00.
type TimeRange struct {
	Open  string `json:"open"`  // "00:00" to "23:59"
	Close string `json:"close"` // "00:00" to "24:00"
	Extra Extra  `json:"-"`
}

// UnmarshalJSON implements [json.Unmarshaler]. Unknown fields are kept in Extra; null changes nothing.
func (h *Hours) UnmarshalJSON(data []byte) error {
	type plain Hours
	return decodeExtra(data, (*plain)(h), &h.Extra, "object", "id") // Flavoso's names for the document, not part of it
}

// MarshalJSON implements [json.Marshaler].
func (h Hours) MarshalJSON() ([]byte, error) {
	type plain Hours
	h.Weekly, h.SpecialDays = notNil(h.Weekly), notNil(h.SpecialDays)
	return encodeExtra(plain(h), h.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]; unknown fields are kept in Extra.
func (d *DayHours) UnmarshalJSON(data []byte) error {
	type plain DayHours
	return decodeExtra(data, (*plain)(d), &d.Extra)
}

// MarshalJSON implements [json.Marshaler].
func (d DayHours) MarshalJSON() ([]byte, error) {
	type plain DayHours
	d.Ranges = notNil(d.Ranges)
	return encodeExtra(plain(d), d.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]; unknown fields are kept in Extra.
func (d *SpecialDay) UnmarshalJSON(data []byte) error {
	type plain SpecialDay
	return decodeExtra(data, (*plain)(d), &d.Extra)
}

// MarshalJSON implements [json.Marshaler].
func (d SpecialDay) MarshalJSON() ([]byte, error) {
	type plain SpecialDay
	return encodeExtra(plain(d), d.Extra)
}

// UnmarshalJSON implements [json.Unmarshaler]; unknown fields are kept in Extra.
func (r *TimeRange) UnmarshalJSON(data []byte) error {
	type plain TimeRange
	return decodeExtra(data, (*plain)(r), &r.Extra)
}

// MarshalJSON implements [json.Marshaler].
func (r TimeRange) MarshalJSON() ([]byte, error) {
	type plain TimeRange
	return encodeExtra(plain(r), r.Extra)
}
