package dispatch

import (
	"testing"
	"time"
)

// FuzzSavedClocks takes up any saved anchor and any saved settings of the wall clock: what cannot be read changes nothing,
// and what can makes no age negative and no reading's bounds cross.
func FuzzSavedClocks(f *testing.F) {
	f.Add([]byte(`{"server":"2026-11-30T12:00:00Z","wall":"2026-11-30T12:00:01Z","boot":"b","uptime":1000000000}`),
		[]byte(`[{"boot":"b","zero":"2026-11-30T11:00:00Z"},{"boot":"c","zero":"1970-01-01T00:00:00Z"}]`), int64(1_796_000_000))
	f.Add([]byte(`{"server":"9999-12-31T23:59:59Z","boot":"b","uptime":-9223372036854775808}`), []byte(`[{"boot":"b","zero":"0001-01-01T00:00:00Z"}]`), int64(-1))
	f.Add([]byte(`null`), []byte(`{}`), int64(0))
	f.Fuzz(func(t *testing.T, anchor, settings []byte, saved int64) {
		uptime := func() (string, time.Duration) { return "b", time.Hour }
		c := &clock{uptime: uptime, wall: time.Now}
		c.restore(anchor)
		if _, least, most := c.reading(); least < 0 || most < least {
			t.Fatalf("%q: at least %v, at most %v", anchor, least, most)
		}
		a := newAges(uptime, time.Now)
		a.restore(settings)
		if n := len(a.settings); n == 0 || n > settingsKept {
			t.Fatalf("%q: %d settings", settings, n)
		}
		if age, known := a.of(time.Unix(saved, 0)); age < 0 || !known && age != 0 {
			t.Fatalf("%q: an age of %v", settings, age)
		}
		a.text()
	})
}
