package mockserver

import (
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // zones are checked the same way on every machine
)

// hours are a restaurant's opening hours. The server checks their shape; it does not judge whether the
// restaurant is open.
type hours struct {
	Object      string       `json:"object"`
	ID          string       `json:"id"`
	Timezone    string       `json:"timezone"`
	Weekly      []weekday    `json:"weekly"`
	SpecialDays []specialDay `json:"special_days"`
}

type weekday struct {
	Day    string      `json:"day"`
	Ranges []timeRange `json:"ranges"`
}

type specialDay struct {
	Date   string      `json:"date"`
	Closed bool        `json:"closed,omitzero"`
	Ranges []timeRange `json:"ranges,omitzero"`
}

// timeRange is half-open, in local time. Close ≤ Open means the next day.
type timeRange struct {
	Open  string `json:"open"`
	Close string `json:"close"`
}

func seedHours() hours {
	h := hours{Object: "store_hours", ID: "hours", Timezone: "Europe/Berlin", SpecialDays: []specialDay{}}
	for _, d := range weekdays {
		evening := timeRange{"17:30", "22:00"}
		if d == "friday" || d == "saturday" {
			evening.Close = "01:00"
		}
		h.Weekly = append(h.Weekly, weekday{d, []timeRange{{"11:30", "14:30"}, evening}})
	}
	return h
}

var weekdays = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

func getHours(c *call) answer { return ok(c.conn.hours) }

func putHours(c *call) answer {
	in := hours{Object: "store_hours", ID: "hours"}
	if p := c.decode(&in); p != nil {
		return refuse(p)
	}
	in.Object, in.ID = "store_hours", "hours"
	if in.Weekly == nil {
		in.Weekly = []weekday{}
	}
	if in.SpecialDays == nil {
		in.SpecialDays = []specialDay{}
	}
	if p := in.check(c.server.Switches().HoursOverlaps == "allowed"); p != nil {
		return refuse(p)
	}
	if string(encode(in)) != string(encode(c.conn.hours)) { // F15: the same again changes nothing
		c.conn.hours = in
		c.effect("store.hours", "store", "")
	}
	return ok(in)
}

// span is a range in minutes from the start of its own day.
type span struct {
	pointer    string
	start, end int
}

const dayMinutes = 24 * 60

func (h *hours) check(overlapsAllowed bool) *problem {
	var f findings
	if h.Timezone == "" {
		f.add("/timezone", "required", "timezone is required")
	} else if _, err := time.LoadLocation(h.Timezone); err != nil || h.Timezone == "Local" {
		f.add("/timezone", "unknown", fmt.Sprintf("%q is not an IANA time zone", h.Timezone))
	}
	var week [7][]span
	seen := map[string]int{}
	for i, d := range h.Weekly {
		at := fmt.Sprintf("/weekly/%d", i)
		day := slices.Index(weekdays, d.Day)
		if first, dup := seen[d.Day]; dup {
			f.add(at+"/day", "duplicate", fmt.Sprintf("%s is given at /weekly/%d already", d.Day, first))
		} else if day < 0 {
			f.add(at+"/day", "unknown", fmt.Sprintf("%q is not a day of the week", d.Day))
		}
		seen[d.Day] = i
		spans := readRanges(&f, at, d.Ranges)
		if day >= 0 {
			week[day] = append(week[day], spans...)
		}
	}
	overlaps := new(findings)
	for day := range week {
		checkOverlaps(overlaps, week[day], week[(day+1)%7])
	}
	h.checkSpecialDays(&f, overlaps, week)
	if !overlapsAllowed {
		f = append(f, *overlaps...)
	}
	return f.problem()
}

func (h *hours) checkSpecialDays(f, overlaps *findings, week [7][]span) {
	special := map[time.Time][]span{}
	var dates []time.Time
	for i, d := range h.SpecialDays {
		at := fmt.Sprintf("/special_days/%d", i)
		date, err := time.Parse(time.DateOnly, d.Date)
		if err != nil {
			f.add(at+"/date", "format", fmt.Sprintf("%q is not a date like 2026-12-31", d.Date))
		}
		if d.Closed == (len(d.Ranges) > 0) {
			f.add(at, "closed_or_ranges", "a special day is either closed or has ranges")
		}
		spans := readRanges(f, at, d.Ranges)
		if err != nil {
			continue
		}
		if _, dup := special[date]; dup {
			f.add(at+"/date", "duplicate", d.Date+" is given twice")
			continue
		}
		special[date] = spans
		dates = append(dates, date)
	}
	on := func(date time.Time) []span {
		if spans, ok := special[date]; ok {
			return spans
		}
		return week[(int(date.Weekday())+6)%7]
	}
	for _, date := range dates {
		next, before := date.AddDate(0, 0, 1), date.AddDate(0, 0, -1)
		checkOverlaps(overlaps, special[date], on(next))
		if _, done := special[before]; !done {
			checkSpill(overlaps, on(before), special[date])
		}
	}
}

// readRanges reads the ranges of one day and reports those that are not times.
func readRanges(f *findings, at string, ranges []timeRange) []span {
	var out []span
	for i, r := range ranges {
		s := span{pointer: fmt.Sprintf("%s/ranges/%d", at, i)}
		var okOpen, okClose bool
		if s.start, okOpen = clockTime(r.Open); !okOpen || s.start == dayMinutes {
			f.add(s.pointer+"/open", "format", fmt.Sprintf("%q is not a time from 00:00 to 23:59", r.Open))
			okOpen = false
		}
		if s.end, okClose = clockTime(r.Close); !okClose {
			f.add(s.pointer+"/close", "format", fmt.Sprintf("%q is not a time from 00:00 to 24:00", r.Close))
		}
		if !okOpen || !okClose {
			continue
		}
		if s.end <= s.start {
			s.end += dayMinutes
		}
		out = append(out, s)
	}
	return out
}

func clockTime(s string) (minutes int, ok bool) {
	if len(s) != 5 || s[2] != ':' {
		return 0, false
	}
	for _, i := range []int{0, 1, 3, 4} {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	h, m := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	minutes = h*60 + m
	return minutes, m < 60 && minutes <= dayMinutes
}

// checkOverlaps reports ranges of a day that overlap each other or, past midnight, the next day's.
func checkOverlaps(f *findings, day, next []span) {
	for i, a := range day {
		for _, b := range day[i+1:] {
			if a.start < b.end && b.start < a.end {
				f.add(b.pointer, "overlap", a.pointer+" and "+b.pointer+" overlap")
			}
		}
	}
	checkSpill(f, day, next)
}

func checkSpill(f *findings, day, next []span) {
	for _, a := range day {
		for _, b := range next {
			if a.pointer != b.pointer && a.end > b.start+dayMinutes {
				f.add(b.pointer, "overlap", a.pointer+" runs past midnight into "+b.pointer)
			}
		}
	}
}
