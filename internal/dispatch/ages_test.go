package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// setClock is a wall clock that can be set.
type setClock struct{ off time.Duration }

func (c *setClock) now() time.Time        { return time.Now().Add(c.off).Round(0) }
func (c *setClock) set(t time.Time)       { c.off = time.Until(t) }
func (c *setClock) jump(by time.Duration) { c.off += by }

// TestAgesUnderEverySetting: an operation's age follows from the setting of the clock that it was saved under, in
// this process and in the next one of the same boot.
func TestAgesUnderEverySetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall, uptime := &setClock{}, bubbleUptime()
		a := newAges(uptime, wall.now)
		type saved struct {
			at   time.Time // by the wall clock
			when time.Time
		}
		var ops []saved
		starts := []time.Time{time.Unix(9, 0), firstDay.Add(300 * 24 * time.Hour), firstDay.Add(-10 * 365 * 24 * time.Hour), firstDay.Add(24 * time.Hour)}
		for _, start := range starts {
			wall.set(start)
			a.note()
			time.Sleep(7 * time.Minute)
			ops = append(ops, saved{wall.now(), time.Now()})
			time.Sleep(3 * time.Minute)
		}
		next := newAges(uptime, wall.now)
		_, _ = a.of(ops[0].at)
		next.restore(a.text())
		require.Nil(t, a.text(), "it is saved")
		for _, ages := range []*ages{a, next} {
			for i, op := range ops {
				age, known := ages.of(op.at)
				require.True(t, known, i)
				require.Equal(t, time.Since(op.when), age, i)
			}
		}
		_, _ = next.of(ops[0].at)
		require.Nil(t, next.text(), "nothing is new to it")

		other := newAges(func() (string, time.Duration) { return "another boot", time.Minute }, wall.now)
		other.restore(mustText(t, a))
		require.Len(t, other.settings, 1, "what another boot's clock showed tells nothing")
		for i, op := range ops {
			age, known := other.of(op.at)
			require.Equal(t, i == 3, known, "only the last setting is the present one")
			if known {
				require.Equal(t, time.Since(op.when), age)
			}
		}
		other.restore([]byte("no JSON"))
		require.Len(t, other.settings, 1)
	})
}

func mustText(t *testing.T, a *ages) []byte {
	a.mu.Lock()
	a.unsaved = true
	a.mu.Unlock()
	text := a.text()
	require.NotNil(t, text)
	return text
}

// TestAgesWhereTheMachineCannotTellItsBoots: within the process a clock that is set changes nothing either, and
// nothing is saved that would be of no use.
func TestAgesWhereTheMachineCannotTellItsBoots(t *testing.T) {
	for _, uptime := range []string{"process", "none"} {
		t.Run(uptime, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wall := &setClock{}
				up := processUptime(processBoot+"a", wall.now)
				if uptime == "none" {
					up = func() (string, time.Duration) { return "", 0 }
				}
				a := newAges(up, wall.now)
				at := wall.now()
				time.Sleep(time.Minute)
				for _, by := range []time.Duration{365 * 24 * time.Hour, -2 * 365 * 24 * time.Hour} {
					wall.jump(by)
					a.note()
					age, known := a.of(at)
					require.True(t, known)
					require.Equal(t, time.Minute, age)
					require.Equal(t, time.Minute, a.steady())
				}
				require.Nil(t, a.text())
			})
		})
	}
}

// TestSettingsAreBounded: a clock that is set all the time does not fill the memory.
func TestSettingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := &setClock{}
		a := newAges(bubbleUptime(), wall.now)
		require.False(t, a.note(), "it was not set")
		wall.jump(2 * time.Second)
		require.False(t, a.note(), "so little is kept right, not set")
		for i := range 100 {
			wall.jump(time.Minute)
			require.True(t, a.note(), fmt.Sprint(i))
		}
		require.Len(t, a.settings, settingsKept)
		at := wall.now()
		time.Sleep(time.Second)
		age, known := a.of(at)
		require.True(t, known)
		require.LessOrEqual(t, age, time.Minute)
	})
}
