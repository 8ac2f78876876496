package flavoso

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// hoursOf reads hours as a person writes them: "friday 11:30-14:30 18:00-02:00", "2026-12-25 closed".
func hoursOf(zone string, lines ...string) *Hours {
	h := &Hours{Timezone: zone}
	for _, line := range lines {
		parts := strings.Fields(line)
		var ranges []TimeRange
		for _, r := range parts[1:] {
			if from, to, ok := strings.Cut(r, "-"); ok {
				ranges = append(ranges, TimeRange{Open: from, Close: to})
			}
		}
		switch {
		case parts[0] == "daily":
			for _, d := range week {
				h.Weekly = append(h.Weekly, DayHours{Day: d, Ranges: ranges})
			}
		case parts[0][0] >= '0' && parts[0][0] <= '9':
			h.SpecialDays = append(h.SpecialDays, SpecialDay{Date: parts[0], Closed: len(ranges) == 0, Ranges: ranges})
		default:
			h.Weekly = append(h.Weekly, DayHours{Day: Day(parts[0]), Ranges: ranges})
		}
	}
	return h
}

// TestOpeningHours: from a moment on, the restaurant opens and closes at these moments. Moments have their
// offset, so that a time that comes twice is clear.
func TestOpeningHours(t *testing.T) {
	for _, tc := range []struct {
		name    string
		hours   *Hours
		from    string
		open    bool
		changes []string // "never" = none follows
	}{
		{"never open", hoursOf("Europe/Berlin"), "2026-11-30T12:00:00+01:00", false, []string{"never"}},
		{"always open", hoursOf("Europe/Berlin", "daily 00:00-24:00"), "2026-11-30T12:00:00+01:00", true, []string{"never"}},
		{"always open, from six to six", hoursOf("Europe/Berlin", "daily 06:00-06:00"), "2026-11-30T12:00:00+01:00", true, []string{"never"}},
		{"lunch and dinner", hoursOf("Europe/Berlin", "monday 11:30-14:30 18:00-22:00"), "2026-11-30T11:29:59+01:00", false,
			[]string{"2026-11-30T11:30:00+01:00", "2026-11-30T14:30:00+01:00", "2026-11-30T18:00:00+01:00", "2026-11-30T22:00:00+01:00", "2026-12-07T11:30:00+01:00"}},
		{"open from the first moment", hoursOf("Europe/Berlin", "monday 11:30-14:30"), "2026-11-30T11:30:00+01:00", true, []string{"2026-11-30T14:30:00+01:00"}},
		{"closed from the last moment", hoursOf("Europe/Berlin", "monday 11:30-14:30"), "2026-11-30T14:30:00+01:00", false, []string{"2026-12-07T11:30:00+01:00"}},
		{"over midnight", hoursOf("Europe/Berlin", "friday 18:00-02:00"), "2026-12-05T01:59:00+01:00", true, []string{"2026-12-05T02:00:00+01:00", "2026-12-11T18:00:00+01:00"}},
		{"sunday night into monday", hoursOf("Europe/Berlin", "sunday 18:00-02:00"), "2026-12-07T01:59:59+01:00", true, []string{"2026-12-07T02:00:00+01:00", "2026-12-13T18:00:00+01:00"}},
		{"ranges that follow on each other are one", hoursOf("Europe/Berlin", "friday 18:00-24:00", "saturday 00:00-03:00 03:00-05:00"), "2026-12-04T20:00:00+01:00", true, []string{"2026-12-05T05:00:00+01:00"}},
		{"ranges that overlap are open together", hoursOf("Europe/Berlin", "friday 18:00-22:00 20:00-23:00"), "2026-12-04T21:00:00+01:00", true, []string{"2026-12-04T23:00:00+01:00"}},
		{"until midnight", hoursOf("Europe/Berlin", "friday 18:00-00:00"), "2026-12-04T23:59:59+01:00", true, []string{"2026-12-05T00:00:00+01:00"}},

		{"a special day is closed", hoursOf("Europe/Berlin", "friday 18:00-22:00", "2026-12-25 closed"), "2026-12-18T23:00:00+01:00", false, []string{"2027-01-01T18:00:00+01:00"}},
		{"a special day ends with yesterday's spill running", hoursOf("Europe/Berlin", "daily 18:00-02:00", "2026-12-25 closed"), "2026-12-25T01:00:00+01:00", true,
			[]string{"2026-12-25T02:00:00+01:00", "2026-12-26T18:00:00+01:00"}},
		{"a special night before a closed day", hoursOf("Europe/Berlin", "daily 11:00-20:00", "2026-12-31 18:00-04:00", "2027-01-01 closed"), "2026-12-31T12:00:00+01:00", false,
			[]string{"2026-12-31T18:00:00+01:00", "2027-01-01T04:00:00+01:00", "2027-01-02T11:00:00+01:00"}},
		{"only one special day, years ahead", hoursOf("Europe/Berlin", "2031-05-01 10:00-12:00"), "2026-11-30T12:00:00+01:00", false, []string{"2031-05-01T10:00:00+02:00", "2031-05-01T12:00:00+02:00", "never"}},
		{"always open but for one day, years ahead", hoursOf("Europe/Berlin", "daily 06:00-06:00", "2031-05-01 closed"), "2026-11-30T12:00:00+01:00", true, []string{"2031-05-01T06:00:00+02:00", "2031-05-02T06:00:00+02:00", "never"}},
		{"closed for weeks", hoursOf("Europe/Berlin", "daily 10:00-12:00", "2026-12-01 closed", "2026-12-02 closed", "2026-12-03 closed"), "2026-11-30T13:00:00+01:00", false, []string{"2026-12-04T10:00:00+01:00"}},

		// Europe/Berlin: 2026-03-29 02:00 → 03:00, 2026-10-25 03:00 → 02:00.
		{"Berlin, spring: opening in the gap", hoursOf("Europe/Berlin", "sunday 02:30-05:00"), "2026-03-29T01:00:00+01:00", false, []string{"2026-03-29T03:00:00+02:00", "2026-03-29T05:00:00+02:00"}},
		{"Berlin, spring: closing in the gap", hoursOf("Europe/Berlin", "saturday 22:00-02:30"), "2026-03-29T01:59:59+01:00", true, []string{"2026-03-29T03:00:00+02:00"}},
		{"Berlin, spring: all of it in the gap", hoursOf("Europe/Berlin", "sunday 02:10-02:50"), "2026-03-29T00:00:00+01:00", false, []string{"2026-04-05T02:10:00+02:00"}},
		{"Berlin, spring: the night is an hour shorter", hoursOf("Europe/Berlin", "saturday 22:00-06:00"), "2026-03-28T22:00:00+01:00", true, []string{"2026-03-29T06:00:00+02:00"}},
		{"Berlin, autumn: opens at the first 02:30", hoursOf("Europe/Berlin", "sunday 02:30-05:00"), "2026-10-25T00:00:00+02:00", false, []string{"2026-10-25T02:30:00+02:00", "2026-10-25T05:00:00+01:00"}},
		{"Berlin, autumn: closes at the second 02:30", hoursOf("Europe/Berlin", "saturday 22:00-02:30"), "2026-10-25T02:45:00+02:00", true, []string{"2026-10-25T02:30:00+01:00"}},
		{"Berlin, autumn: within the fold", hoursOf("Europe/Berlin", "sunday 02:10-02:20"), "2026-10-25T02:00:00+02:00", false, []string{"2026-10-25T02:10:00+02:00", "2026-10-25T02:20:00+01:00"}},
		{"Berlin, autumn: always open stays open", hoursOf("Europe/Berlin", "daily 00:00-24:00"), "2026-10-24T12:00:00+02:00", true, []string{"never"}},

		// America/New_York: 2026-03-08 02:00 → 03:00, 2026-11-01 02:00 → 01:00.
		{"New York, spring: opening in the gap", hoursOf("America/New_York", "sunday 02:00-04:00"), "2026-03-08T01:30:00-05:00", false, []string{"2026-03-08T03:00:00-04:00", "2026-03-08T04:00:00-04:00"}},
		{"New York, autumn: closes at the second 01:30", hoursOf("America/New_York", "saturday 18:00-01:30"), "2026-11-01T01:30:00-04:00", true, []string{"2026-11-01T01:30:00-05:00", "2026-11-07T18:00:00-05:00"}},
		{"New York, autumn: opens at the first 01:00", hoursOf("America/New_York", "sunday 01:00-03:00"), "2026-11-01T00:00:00-04:00", false, []string{"2026-11-01T01:00:00-04:00", "2026-11-01T03:00:00-05:00"}},

		// Australia/Lord_Howe changes by half an hour: 2026-04-05 02:00 → 01:30, 2026-10-04 02:00 → 02:30.
		{"Lord Howe, autumn: closes at the second 01:45", hoursOf("Australia/Lord_Howe", "saturday 18:00-01:45"), "2026-04-05T01:50:00+11:00", true, []string{"2026-04-05T01:45:00+10:30"}},
		{"Lord Howe, spring: opening in the gap", hoursOf("Australia/Lord_Howe", "sunday 02:15-05:00"), "2026-10-04T01:59:00+10:30", false, []string{"2026-10-04T02:30:00+11:00", "2026-10-04T05:00:00+11:00"}},

		{"no summer time", hoursOf("Asia/Kolkata", "sunday 02:30-05:00"), "2026-03-29T01:00:00+05:30", false, []string{"2026-03-29T02:30:00+05:30", "2026-03-29T05:00:00+05:30", "2026-04-05T02:30:00+05:30"}},
		{"the gap is at midnight", hoursOf("America/Santiago", "saturday 22:00-24:00", "sunday 00:00-02:00"), "2026-09-05T22:00:00-04:00", true, []string{"2026-09-06T02:00:00-03:00"}},
		{"a day that was skipped", hoursOf("Pacific/Apia", "daily 10:00-12:00"), "2011-12-29T12:00:00-10:00", false, []string{"2011-12-31T10:00:00+14:00"}},
		{"the moment is in another zone", hoursOf("Europe/Berlin", "monday 11:30-14:30"), "2026-11-30T10:29:00Z", false, []string{"2026-11-30T11:30:00+01:00"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339, tc.from)
			require.NoError(t, err)
			open, err := tc.hours.IsOpen(at)
			require.NoError(t, err)
			require.Equal(t, tc.open, open, "at %s", tc.from)
			for _, change := range tc.changes {
				next, opens, err := tc.hours.NextChange(at)
				require.NoError(t, err)
				if change == "never" {
					require.True(t, next.IsZero(), "%s", next)
					continue
				}
				want, err := time.Parse(time.RFC3339, change)
				require.NoError(t, err)
				require.True(t, next.Equal(want), "%s, want %s", next.In(want.Location()), change)
				require.Equal(t, !open, opens)
				at, open = next, opens
			}
		})
	}
}

func TestHoursThatCannotBeReadAreNotGuessed(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, h := range []*Hours{
		{}, hoursOf("Mars/Olympus"), hoursOf("Europe/Berlin", "monday 9-10"), hoursOf("Europe/Berlin", "someday 10:00-12:00"),
		hoursOf("Europe/Berlin", "2026-02-30 closed"),
	} {
		_, err := h.IsOpen(now)
		var invalid *ValidationError
		require.ErrorAs(t, err, &invalid)
		_, _, err = h.NextChange(now)
		require.ErrorAs(t, err, &invalid)
	}
}

// TestHoursAgreeWithTheClocks compares the evaluation with clocks that are looked at every quarter of an
// hour, and NextChange with IsOpen.
func TestHoursAgreeWithTheClocks(t *testing.T) {
	starts := map[string][]string{
		"Europe/Berlin":       {"2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z", "2026-12-30T12:00:00Z"},
		"America/New_York":    {"2026-03-07T12:00:00Z", "2026-10-31T12:00:00Z"},
		"Australia/Lord_Howe": {"2026-04-04T12:00:00Z", "2026-10-03T12:00:00Z"},
		"America/Santiago":    {"2026-04-04T12:00:00Z", "2026-09-05T12:00:00Z"},
		"Asia/Kolkata":        {"2026-03-28T12:00:00Z"},
	}
	clockTime := rapid.Custom(func(t *rapid.T) string {
		hour := rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 11, 18, 22, 23}).Draw(t, "hour")
		return fmt.Sprintf("%02d:%02d", hour, rapid.SampledFrom([]int{0, 15, 30, 45}).Draw(t, "minute"))
	})
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata"}).Draw(t, "zone")
		start, err := time.Parse(time.RFC3339, rapid.SampledFrom(starts[zone]).Draw(t, "start"))
		if err != nil {
			t.Fatal(err)
		}
		ranges := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) TimeRange {
			return TimeRange{Open: clockTime.Draw(t, "open"), Close: clockTime.Draw(t, "close")}
		}), 0, 2)
		h := &Hours{Timezone: zone}
		for _, d := range week {
			h.Weekly = append(h.Weekly, DayHours{Day: d, Ranges: ranges.Draw(t, string(d))})
		}
		if special := ranges.Draw(t, "special"); rapid.Bool().Draw(t, "has special") {
			h.SpecialDays = []SpecialDay{{Date: start.AddDate(0, 0, 1).Format(time.DateOnly), Closed: len(special) == 0, Ranges: special}}
		}
		opens := takesPlace(t, h, start)
		at := start.Add(time.Duration(rapid.IntRange(0, 36*60).Draw(t, "minutes")) * time.Minute)
		open, err := h.IsOpen(at)
		if err != nil || open != opens(at) {
			t.Fatalf("%s: open %t, want %t (%v)", at, open, opens(at), err)
		}
		next, opening, err := h.NextChange(at)
		if err != nil {
			t.Fatal(err)
		}
		for m := at; m.Before(at.Add(24*time.Hour)) && (next.IsZero() || m.Before(next)); m = m.Add(time.Minute) {
			if opens(m) != open {
				t.Fatalf("it changes at %s, not at %s", m, next)
			}
		}
		if !next.IsZero() && next.Before(start.Add(72*time.Hour)) && (opening == open || opens(next) == open) {
			t.Fatalf("at %s it does not change", next)
		}
	})
}

// takesPlace is another way to evaluate hours: a range is open from the first quarter at which the clock
// shows its beginning or more, until the last at which it shows its end; where it jumps over that, until after
// the last at which it shows less.
func takesPlace(t *rapid.T, h *Hours, around time.Time) func(time.Time) bool {
	zone, err := time.LoadLocation(h.Timezone)
	if err != nil {
		t.Fatal(err)
	}
	const quarter = 15 * time.Minute // nothing here begins or ends between two
	type shown struct{ at, wall time.Time }
	var clock []shown
	for at := around.Add(-72 * time.Hour); at.Before(around.Add(120 * time.Hour)); at = at.Add(quarter) {
		l := at.In(zone)
		clock = append(clock, shown{at, time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)})
	}
	s, _ := h.read()
	var open []interval
	for date := s.localDate(around).AddDate(0, 0, -2); date.Before(around.Add(96 * time.Hour)); date = date.AddDate(0, 0, 1) {
		for _, r := range s.on(date) {
			from, to := date.Add(time.Duration(r.start)*time.Minute), date.Add(time.Duration(r.end)*time.Minute)
			var in interval
			for _, m := range clock {
				if in.from.IsZero() && !m.wall.Before(from) {
					in.from = m.at
				}
				switch m.wall.Compare(to) {
				case 0:
					in.until = m.at
				case -1:
					in.until = m.at.Add(quarter)
				}
			}
			open = append(open, in)
		}
	}
	return func(at time.Time) bool {
		for _, in := range open {
			if !at.Before(in.from) && at.Before(in.until) {
				return true
			}
		}
		return false
	}
}

func FuzzHours(f *testing.F) {
	f.Add([]byte(`{"timezone":"Europe/Berlin","weekly":[{"day":"friday","ranges":[{"open":"18:00","close":"02:00"}]}]}`), int64(1_774_746_000))
	f.Add([]byte(`{"timezone":"Pacific/Apia","special_days":[{"date":"9999-12-31","ranges":[{"open":"00:00","close":"24:00"}]}]}`), int64(1_325_203_200))
	f.Add([]byte(`{"timezone":"UTC","weekly":[{"day":"monday","ranges":[{"open":"00:00","close":"00:00"}]}],"special_days":[{"date":"0000-01-01","closed":true}]}`), int64(-62_135_596_800))
	f.Fuzz(func(t *testing.T, data []byte, unix int64) {
		var h Hours
		if h.UnmarshalJSON(data) != nil {
			return
		}
		at := time.Unix(unix%253_402_300_800, 0)
		open, err := h.IsOpen(at)
		next, opening, err2 := h.NextChange(at)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%v, %v", err, err2)
		}
		if h.Validate() == nil && err != nil {
			t.Fatalf("valid, but: %v", err)
		}
		if err == nil && !next.IsZero() && (!next.After(at) || opening == open) {
			t.Fatalf("from %s (open %t): %s (open %t)", at, open, next, opening)
		}
	})
}

func TestDayOf(t *testing.T) {
	assert.Equal(t, Friday, DayOf(time.Date(2026, 12, 4, 0, 0, 0, 0, time.UTC).Weekday()))
	assert.Equal(t, Sunday, DayOf(time.Sunday))
	assert.Equal(t, Saturday, DayOf(time.Saturday))
	assert.Empty(t, DayOf(-1))
	assert.Empty(t, DayOf(7))
}
