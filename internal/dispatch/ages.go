package dispatch

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// ages tells how long ago operations were saved, which is what their expiry counts from. A record knows the
// time of the wall clock alone, and that clock may start in 1970 and be set at any moment. Within one process
// the time that passes is counted on clocks that nobody sets. Over restarts within one boot of the machine it
// follows from what the wall clock showed at the boot, under each setting that operations were saved under.
// Over boots the wall clock is believed where it can be right, and otherwise an operation has its full time from
// when it was met again: what somebody wants done is not given up because nobody knows what time it is.
type ages struct {
	uptime Uptime
	wall   func() time.Time
	start  time.Time // with its monotonic reading
	boot   string    // at the start
	up     time.Duration

	mu       sync.Mutex
	settings []clockSetting // of this boot, the oldest first
	used     bool           // there are operations that expire
	unsaved  bool
}

// clockSetting is one setting of the wall clock.
type clockSetting struct {
	Boot string    `json:"boot"`
	Zero time.Time `json:"zero"` // what it showed, or would have, when the machine was booted
}

const (
	// sameSetting is how much two settings must differ to be two: more than clocks that are kept right do.
	sameSetting = 5 * time.Second
	// settingsKept bounds how many are kept.
	settingsKept = 16
	// stateWallClock is the name under which they survive a restart of the process.
	stateWallClock = "wall_clock"
)

// firstDay is before any operation was ever saved: a wall clock that shows less was not set.
var firstDay = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newAges(uptime Uptime, wall func() time.Time) *ages {
	a := &ages{uptime: uptime, wall: wall, start: time.Now()}
	a.boot, a.up = uptime()
	a.note()
	return a
}

// machine is the uptime, on a clock that no setting of the wall clock moves.
func (a *ages) machine() (boot string, up time.Duration) {
	if boot, up = a.uptime(); boot == "" || strings.HasPrefix(boot, processBoot) {
		return a.boot, time.Since(a.start)
	}
	return boot, up
}

// steady is the time since the start. It goes on while the machine sleeps, where the machine can tell.
func (a *ages) steady() time.Duration {
	elapsed := time.Since(a.start)
	if boot, up := a.machine(); boot == a.boot && !strings.HasPrefix(boot, processBoot) {
		elapsed = max(elapsed, up-a.up)
	}
	return elapsed
}

// note looks how the wall clock is set now, and reports whether that is new.
func (a *ages) note() bool {
	boot, up := a.machine()
	zero := a.wall().Round(0).Add(-up)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.settings {
		if s.Boot == boot && s.Zero.Sub(zero).Abs() < sameSetting {
			return false
		}
	}
	a.settings = append(a.settings, clockSetting{boot, zero})
	a.settings = a.settings[max(len(a.settings)-settingsKept, 0):]
	a.unsaved = true
	return true
}

// of returns how long ago an operation was saved, at the time saved of the wall clock. false = nothing tells.
func (a *ages) of(saved time.Time) (age time.Duration, known bool) {
	boot, up := a.machine()
	now := a.wall().Round(0)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = true
	for _, s := range a.settings {
		at := saved.Sub(s.Zero) // the uptime then, if the clock was set so
		if s.Boot != boot || at < -sameSetting || at > up+sameSetting {
			continue
		}
		if d := max(up-at, 0); !known || d < age {
			age, known = d, true
		}
	}
	if known {
		return age, true
	}
	if age = now.Sub(saved); age < 0 || saved.Before(firstDay) {
		return 0, false
	}
	return age, true
}

// left returns how much of an operation's time is left. vague = it counts from now, as nothing tells better.
func (a *ages) left(saved, expires time.Time) (left time.Duration, vague bool) {
	age, known := a.of(saved)
	return expires.Sub(saved) - age, !known
}

// text returns the settings to save, and nil when they are saved or nobody needs them.
func (a *ages) text() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.used || !a.unsaved || a.boot == "" || strings.HasPrefix(a.boot, processBoot) {
		return nil
	}
	text, err := json.Marshal(a.settings)
	if err != nil {
		return nil
	}
	a.unsaved = false
	return text
}

// restore takes up the settings of earlier processes within this boot.
func (a *ages) restore(text []byte) {
	var saved []clockSetting
	if json.Unmarshal(text, &saved) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.settings
	a.settings = nil
	for _, s := range saved {
		if s.Boot == a.boot {
			a.settings = append(a.settings, s)
		}
	}
	for _, s := range now {
		known := false
		for _, k := range a.settings {
			known = known || k.Boot == s.Boot && k.Zero.Sub(s.Zero).Abs() < sameSetting
		}
		if !known {
			a.settings = append(a.settings, s)
		} else {
			a.unsaved = false
		}
	}
	a.settings = a.settings[max(len(a.settings)-settingsKept, 0):]
}

// keepAges saves how the wall clock is set, once there are operations that expire. Processes that share the storage
// have machines, and clocks, of their own.
func (d *Dispatcher) keepAges() {
	if d.shared {
		return
	}
	if text := d.ages.text(); text != nil {
		if err := d.engine.SaveState(d.ctx, "", stateWallClock, text); err != nil && d.ctx.Err() == nil {
			d.log.Warn("flavoso.state_not_saved", "connection", "", "state", stateWallClock, "error", err)
		}
	}
}

// loadAges takes up what an earlier process knew of the wall clock.
func (d *Dispatcher) loadAges() error {
	if d.shared {
		return nil
	}
	text, err := d.engine.LoadState(d.ctx, "", stateWallClock)
	d.ages.restore(text)
	return err
}

// timeOver reports whether an operation, which was never sent, is pointless by now.
func (d *Dispatcher) timeOver(rec *outbox.Record) bool {
	if rec.Expires.IsZero() {
		return false
	}
	if at, noted := d.expiries.when(rec.ID); noted {
		return d.ages.steady() >= at
	}
	left, _ := d.ages.left(rec.Created, rec.Expires)
	return left <= 0
}
