package flavoso

import (
	"cmp"
	"slices"
	"time"
)

// Times are wall-clock times of the zone. When clocks change:
//
//   - A time that the clocks jump over (spring) is the moment of the jump: who opens or closes at 02:30 does
//     it when 02:00 becomes 03:00. A range that lies in the gap whole does not take place.
//   - Of a time that comes twice (autumn) an opening takes place at the first and a closing at the second.

// IsOpen reports whether the restaurant is open at t. Ranges that overlap are open together.
//
// It fails with a *ValidationError when a range, a date or the zone cannot be read, and when the machine has
// no time zone database; see [Hours].
func (h *Hours) IsOpen(t time.Time) (bool, error) {
	s, err := h.schedule()
	if err != nil {
		return false, err
	}
	return s.isOpen(t), nil
}

// NextChange returns the first moment after t at which the restaurant opens (open is true) or closes. The
// zero time says that it never does: it is always open or always closed. It fails as IsOpen does.
func (h *Hours) NextChange(t time.Time) (at time.Time, open bool, err error) {
	s, err := h.schedule()
	if err != nil {
		return time.Time{}, false, err
	}
	at, open = s.nextChange(t)
	return at, open, nil
}

// schedule is the hours as they can be evaluated. Overlaps do no harm there.
func (h *Hours) schedule() (*schedule, error) {
	s, f := h.read()
	f = slices.DeleteFunc(f, func(f Fault) bool { return f.Code == "overlap" })
	if len(f) == 0 && s.zone == nil {
		f.add("/timezone", "unknown", "%q cannot be looked up: this machine has no time zone database; import time/tzdata", h.Timezone)
	}
	return s, f.err()
}

// interval is when a range takes place: from on, until just before until.
type interval struct{ from, until time.Time }

// intervals are when the ranges that start on a date take place, by their beginning.
func (s *schedule) intervals(date time.Time) []interval {
	var out []interval
	for _, sp := range s.on(date) {
		first, _ := moments(date.Add(time.Duration(sp.start)*time.Minute), s.zone)
		_, last := moments(date.Add(time.Duration(sp.end)*time.Minute), s.zone)
		if first.Before(last) {
			out = append(out, interval{first, last})
		}
	}
	slices.SortFunc(out, func(a, b interval) int { return cmp.Or(a.from.Compare(b.from), a.until.Compare(b.until)) })
	return out
}

// localDate is the date at t in the zone, as a midnight in UTC.
func (s *schedule) localDate(t time.Time) time.Time {
	y, m, d := t.In(s.zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// reach is how many days before t a range may start that is still open at t: one, and one more where a
// zone skips a day.
const reach = 2

func (s *schedule) isOpen(t time.Time) bool {
	today := s.localDate(t)
	for days := -reach; days <= 1; days++ {
		for _, in := range s.intervals(today.AddDate(0, 0, days)) {
			if !t.Before(in.from) && t.Before(in.until) {
				return true
			}
		}
	}
	return false
}

// settled is how many days without a special one show everything that the week can do: three of them,
// because in one the clocks may change.
const settled = 21

// nextChange walks through the days. While it is open, until is the end of the ranges that follow on each
// other.
func (s *schedule) nextChange(t time.Time) (at time.Time, open bool) {
	wasOpen, until := s.isOpen(t), t
	date := s.localDate(t).AddDate(0, 0, -reach)
	for quiet := 0; ; {
		for _, in := range s.intervals(date) {
			switch {
			case !in.until.After(t):
			case !wasOpen: // in.from is after t, as nothing is open at t
				return in.from, true
			case in.from.After(until):
				return until, false
			case in.until.After(until):
				until = in.until
			}
		}
		if wasOpen && s.localDate(until).AddDate(0, 0, reach).Before(date) {
			return until, false
		}
		date = date.AddDate(0, 0, 1)
		if _, special := s.special[date]; special {
			quiet = 0
		} else if quiet++; quiet > settled {
			// The week alone changes nothing; only a special day can.
			next, ok := s.specialAfter(date)
			if !ok {
				return time.Time{}, false
			}
			if skipTo := next.AddDate(0, 0, -reach-1); skipTo.After(date) {
				date = skipTo
				if wasOpen { // at every moment before the special day
					until, _ = moments(date.AddDate(0, 0, 1), s.zone)
				}
			}
			quiet = 0
		}
	}
}

// specialAfter is the first special day after a date.
func (s *schedule) specialAfter(date time.Time) (time.Time, bool) {
	i, _ := slices.BinarySearchFunc(s.dates, date.AddDate(0, 0, 1), time.Time.Compare)
	if i == len(s.dates) {
		return time.Time{}, false
	}
	return s.dates[i], true
}

// moments are the first and the last moment at which the zone's clocks show wall, whose fields are read
// without a zone. Where they jump over it, both are the moment of the jump.
func moments(wall time.Time, zone *time.Location) (first, last time.Time) {
	// Every offset that is in use around wall, of which the clocks show it under one, two or none.
	const around = 36 * time.Hour
	at := wall.Add(-around).In(zone)
	for {
		_, offset := at.Zone()
		_, next := at.ZoneBounds()
		shown := time.Unix(wall.Unix()-int64(offset), 0)
		begun := !shown.Before(at)
		if begun && (next.IsZero() || shown.Before(next)) {
			if first.IsZero() {
				first = shown
			}
			last = shown
		} else if !begun && first.IsZero() {
			first, last = at, at // the jump to this offset went past wall
		}
		if next.IsZero() || next.After(wall.Add(around)) {
			break
		}
		at = next.In(zone)
	}
	return first.UTC(), last.UTC()
}
