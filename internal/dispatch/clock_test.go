package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// bootClock is a machine's uptime under the test's control.
type bootClock struct {
	boot string
	up   time.Duration
}

func (b *bootClock) read() (string, time.Duration) { return b.boot, b.up }

var flavosoNoon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

func TestClockKnowsFlavososTimeForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bootClock{}
		c := &clock{uptime: b.read, wall: time.Now}
		require.Zero(t, c.now(), "nothing was heard yet")

		c.observe(flavosoNoon, time.Now())
		time.Sleep(anchorAge)
		require.Equal(t, flavosoNoon.Add(anchorAge), c.now())
		time.Sleep(time.Second)
		require.Zero(t, c.now(), "too old to rely on")
	})
}

func TestClockIgnoresAnswersWithoutDate(t *testing.T) {
	b := &bootClock{}
	c := &clock{uptime: b.read, wall: time.Now}
	c.observe(flavosoNoon, time.Now())
	c.observe(time.Time{}, time.Now())
	require.WithinDuration(t, flavosoNoon, c.now(), time.Minute)
}

func TestClockSeesASleepOfTheMachine(t *testing.T) {
	b := &bootClock{boot: "a"}
	c := &clock{uptime: b.read, wall: time.Now}
	c.observe(flavosoNoon, time.Now())
	b.up += 5 * time.Minute // the monotonic clock stood still meanwhile
	require.WithinDuration(t, flavosoNoon.Add(5*time.Minute), c.now(), time.Second)
	b.up += time.Hour
	require.Zero(t, c.now())
}

func TestAgeOfAnExposure(t *testing.T) {
	at := time.Date(1970, 1, 1, 0, 0, 9, 0, time.UTC)
	cases := []struct {
		name     string
		now      time.Time // Flavoso's time; zero = not known
		boot     bootClock
		exposure outbox.Exposure
		age      time.Duration
		known    bool
	}{
		{name: "Flavoso's clock on both ends", now: flavosoNoon,
			exposure: outbox.Exposure{At: at, Server: flavosoNoon.Add(-3 * time.Hour)}, age: 3 * time.Hour, known: true},
		{name: "Flavoso's clock beats the boot clock", now: flavosoNoon, boot: bootClock{"a", time.Hour},
			exposure: outbox.Exposure{Server: flavosoNoon.Add(-3 * time.Hour), Boot: "a", Uptime: 59 * time.Minute}, age: 3 * time.Hour, known: true},
		{name: "the same boot", boot: bootClock{"a", 5 * time.Hour},
			exposure: outbox.Exposure{At: at, Boot: "a", Uptime: 2 * time.Hour}, age: 3 * time.Hour, known: true},
		{name: "another boot", boot: bootClock{"b", 5 * time.Hour},
			exposure: outbox.Exposure{At: at, Boot: "a", Uptime: 2 * time.Hour}},
		{name: "the wall clock alone is never believed", now: flavosoNoon, exposure: outbox.Exposure{At: time.Now()}},
		{name: "a time before the exposure is no age below zero", now: flavosoNoon,
			exposure: outbox.Exposure{Server: flavosoNoon.Add(50 * time.Second)}, age: 0, known: true},
		{name: "a mark from the future tells nothing", now: flavosoNoon,
			exposure: outbox.Exposure{Server: flavosoNoon.Add(time.Hour)}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &clock{uptime: tc.boot.read, wall: time.Now}
				c.observe(tc.now, time.Now())
				age, known := c.age(&tc.exposure)
				require.Equal(t, tc.known, known)
				require.Equal(t, tc.age, age)
			})
		})
	}
}

// TestClockSeesASleepThatOnlyTheWallClockShows: a suspended virtual machine's own clocks stand still, the
// boot clock included, and so does the monotonic clock of some systems while a laptop sleeps.
func TestClockSeesASleepThatOnlyTheWallClockShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := time.Date(2030, 6, 1, 14, 0, 0, 0, time.UTC)
		b := &bootClock{boot: "a"}
		c := &clock{uptime: b.read, wall: func() time.Time { return wall }}
		c.observe(flavosoNoon, time.Now())
		wall = wall.Add(25 * time.Hour)
		require.Zero(t, c.now(), "the anchor is not believed any more")
		require.Equal(t, flavosoNoon, c.mark().Server, "and an exposure seems older rather than younger")
	})
}

// TestProcessUptime: where a machine cannot tell its boots apart, ages within the process still count a
// sleep, and a clock that was set forward cannot make a mark look younger than it is.
func TestProcessUptime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := time.Date(1970, 1, 1, 0, 0, 9, 0, time.UTC)
		now := func() time.Time { return wall }
		c := &clock{uptime: processUptime(processBoot+"1", now), wall: now}
		m := c.mark()
		wall = wall.Add(25 * time.Hour) // asleep
		age, known := c.age(&outbox.Exposure{Boot: m.Boot, Uptime: m.Uptime})
		require.True(t, known)
		require.Equal(t, 25*time.Hour, age)

		c.observe(flavosoNoon, time.Now())
		wall = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC) // set
		require.Equal(t, flavosoNoon, c.mark().Server)
	})
}

func TestAnchorSurvivesARestartWithinOneBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bootClock{boot: "a", up: time.Hour}
		c := &clock{uptime: b.read, wall: time.Now}
		require.Nil(t, c.unsaved())
		c.observe(flavosoNoon, time.Now())
		saved := c.unsaved()
		require.NotNil(t, saved)
		require.Nil(t, c.unsaved(), "once an hour is enough")

		b.up += 3 * time.Minute
		time.Sleep(3 * time.Minute)
		next := &clock{uptime: b.read, wall: time.Now}
		next.restore(saved)
		require.Equal(t, flavosoNoon.Add(3*time.Minute), next.now())

		rebooted := &clock{uptime: (&bootClock{boot: "b", up: 2 * time.Hour}).read, wall: time.Now}
		rebooted.restore(saved)
		require.Zero(t, rebooted.now())
		require.Zero(t, rebooted.mark().Server)
		rebooted.restore([]byte("{"))
		rebooted.restore(nil)
	})
}
