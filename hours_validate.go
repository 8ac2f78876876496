package flavoso

import (
	"fmt"
	"slices"
	"time"
)

// Validate finds everything that is wrong with the opening hours (A27), overlapping ranges included, also
// past midnight; the *ValidationError has all faults, each with a JSON pointer, as Flavoso's own answer
// has. nil = nothing. [StoreService.PutHours] does it, too.
//
// On a machine without a time zone database the name of the zone is left to Flavoso to check.
func (h *Hours) Validate() error {
	_, f := h.read()
	return f.err()
}

// schedule is opening hours that are understood.
type schedule struct {
	zone    *time.Location
	weekly  [7][]span // by time.Weekday
	special map[time.Time][]span
	dates   []time.Time // of special, sorted; midnights in UTC that stand for local dates
}

// span is a range in minutes from the start of its date; end is above 24 h when it is on the next date.
type span struct {
	at         string // its pointer
	start, end int
}

const dayMinutes = 24 * 60

// read understands the hours as far as possible and reports what is wrong.
func (h *Hours) read() (*schedule, faults) {
	var f faults
	s := &schedule{special: map[time.Time][]span{}}
	s.zone = readZone(&f, h.Timezone)
	given := map[Day]int{}
	for i, d := range h.Weekly {
		at := fmt.Sprintf("/weekly/%d", i)
		weekday := slices.Index(week, d.Day)
		if first, twice := given[d.Day]; twice {
			f.add(at+"/day", "duplicate", "%q is given at /weekly/%d already", string(d.Day), first)
		} else if weekday < 0 {
			f.add(at+"/day", "unknown", "%q is not a day of the week, such as \"monday\"", string(d.Day))
		}
		given[d.Day] = i
		spans := readSpans(&f, at, d.Ranges)
		if weekday >= 0 {
			s.weekly[weekday] = append(s.weekly[weekday], spans...)
		}
	}
	for i, d := range h.SpecialDays {
		at := fmt.Sprintf("/special_days/%d", i)
		date, err := time.Parse(time.DateOnly, d.Date)
		if err != nil {
			f.add(at+"/date", "format", "%q is not a date such as \"2026-12-31\"", d.Date)
		}
		if d.Closed == (len(d.Ranges) > 0) {
			f.add(at, "closed_or_ranges", "must be closed or have ranges")
		}
		spans := readSpans(&f, at, d.Ranges)
		_, twice := s.special[date]
		switch {
		case err != nil:
		case twice:
			f.add(at+"/date", "duplicate", "%s is given twice", d.Date)
		default:
			s.special[date] = spans
			s.dates = append(s.dates, date)
		}
	}
	slices.SortFunc(s.dates, time.Time.Compare)
	s.checkOverlaps(&f)
	return s, f
}

// readZone finds a zone. nil = it cannot be evaluated.
func readZone(f *faults, name string) *time.Location {
	if name == "" {
		f.add("/timezone", "required", "must be an IANA time zone such as \"Europe/Berlin\"")
		return nil
	}
	zone, err := time.LoadLocation(name)
	if name == "Local" || err != nil && hasZones() {
		f.add("/timezone", "unknown", "%q is not an IANA time zone such as \"Europe/Berlin\"", name)
		return nil
	}
	return zone
}

// hasZones reports whether there is a time zone database.
func hasZones() bool {
	_, err := time.LoadLocation("Europe/Berlin")
	return err == nil
}

func readSpans(f *faults, at string, ranges []TimeRange) []span {
	var spans []span
	for i, r := range ranges {
		at := fmt.Sprintf("%s/ranges/%d", at, i)
		open, openOK := readClock(r.Open)
		if openOK = openOK && open < dayMinutes; !openOK {
			f.add(at+"/open", "format", "%q is not a time from \"00:00\" to \"23:59\"", r.Open)
		}
		closes, closeOK := readClock(r.Close)
		if !closeOK {
			f.add(at+"/close", "format", "%q is not a time from \"00:00\" to \"24:00\"", r.Close)
		}
		if !openOK || !closeOK {
			continue
		}
		if closes <= open {
			closes += dayMinutes
		}
		spans = append(spans, span{at: at, start: open, end: closes})
	}
	return spans
}

// readClock reads "HH:MM" up to "24:00".
func readClock(s string) (minutes int, ok bool) {
	if len(s) != 5 || s[2] != ':' {
		return 0, false
	}
	for _, c := range []byte{s[0], s[1], s[3], s[4]} {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	hour, minute := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	minutes = hour*60 + minute
	return minutes, minute < 60 && minutes <= dayMinutes
}

// on returns the ranges that start on a date.
func (s *schedule) on(date time.Time) []span {
	if spans, special := s.special[date]; special {
		return spans
	}
	return s.weekly[date.Weekday()]
}

// checkOverlaps reports ranges that meet: in the week that repeats, and around every special day. The
// pointer is that of the later one.
func (s *schedule) checkOverlaps(f *faults) {
	for day, spans := range s.weekly {
		within(f, spans)
		spill(f, spans, s.weekly[(day+1)%7])
	}
	for _, date := range s.dates {
		within(f, s.special[date])
		spill(f, s.special[date], s.on(date.AddDate(0, 0, 1)))
		before := date.AddDate(0, 0, -1)
		if _, special := s.special[before]; !special { // else it was looked at from there
			spill(f, s.on(before), s.special[date])
		}
	}
}

// within reports ranges of one day that overlap.
func within(f *faults, spans []span) {
	for i, a := range spans {
		for _, b := range spans[i+1:] {
			if a.start < b.end && b.start < a.end {
				f.add(b.at, "overlap", "overlaps %s", a.at)
			}
		}
	}
}

// spill reports ranges that run past midnight into those of the next day.
func spill(f *faults, spans, next []span) {
	for _, a := range spans {
		for _, b := range next {
			if a.at != b.at && a.end > b.start+dayMinutes {
				f.add(b.at, "overlap", "%s runs past midnight into it", a.at)
			}
		}
	}
}
