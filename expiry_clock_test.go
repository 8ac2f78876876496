package flavoso

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

var today = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// TestExpiryAndClocks: an operation that expires in an hour is saved, offline. A minute later something happens to
// the clock, the process or the machine. It is not given up before its hour is over as far as anybody can know, and
// not kept for much longer either.
func TestExpiryAndClocks(t *testing.T) {
	const life = time.Hour
	set := func(to time.Time) func(*till, *wallClock) {
		return func(_ *till, c *wallClock) { c.jump(to.Sub(c.now())) }
	}
	again := func(between ...func(*till, *wallClock)) func(*till, *wallClock) {
		return func(s *till, c *wallClock) {
			require.NoError(s.t, s.Close())
			for _, f := range between {
				f(s, c)
			}
			s.open()
		}
	}
	reboot := func(_ *till, c *wallClock) { c.reboot() }
	off := func(d time.Duration) func(*till, *wallClock) {
		return func(_ *till, c *wallClock) { time.Sleep(d) }
	}
	for _, tc := range []struct {
		name  string
		start time.Time
		event func(*till, *wallClock)
		over  time.Duration // after the event
	}{
		{"nothing", today, off(0), 59 * time.Minute},
		{"from 1970 to today", long1970, set(today), 59 * time.Minute},
		{"from 1970 to today, then a restart", long1970, func(s *till, c *wallClock) { set(today)(s, c); again()(s, c) }, 59 * time.Minute},
		{"from 1970 to today during a restart", long1970, again(set(today)), 59 * time.Minute},
		{"from 1970 to today during a reboot", long1970, again(set(today), reboot), life},
		{"from 1970, by another boot to 1970", long1970, again(set(long1970), reboot), life},
		{"by half a year forward", today, set(today.Add(180 * 24 * time.Hour)), 59 * time.Minute},
		{"by half a year forward during a restart", today, again(set(today.Add(180 * 24 * time.Hour))), 59 * time.Minute},
		{"by half an hour forward", today, set(today.Add(31 * time.Minute)), 59 * time.Minute},
		{"back by a year", today, set(today.Add(-365 * 24 * time.Hour)), 59 * time.Minute},
		{"back by a year during a restart", today, again(set(today.Add(-365 * 24 * time.Hour))), 59 * time.Minute},
		{"back by a year during a reboot", today, again(set(today.Add(-365*24*time.Hour)), reboot), life},
		{"back to 1970 by a reboot, and to today", today, again(set(long1970), reboot, func(s *till, c *wallClock) {
			time.AfterFunc(10*time.Minute, func() { c.jump(today.Add(11 * time.Minute).Sub(c.now())) })
		}), 59 * time.Minute},
		{"the machine sleeps", today, func(_ *till, c *wallClock) { c.sleep(30 * time.Minute) }, 29 * time.Minute},
		{"off for half an hour", today, again(off(30*time.Minute), reboot), 29 * time.Minute},
		{"off for half an hour, same boot", today, again(off(30 * time.Minute)), 29 * time.Minute},
		{"off for a day", today, again(off(24*time.Hour), reboot), 0},
		{"off for a day, same boot", today, again(off(24 * time.Hour)), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, clock := newClockTill(t, tc.start)
				s.srv.Inject(mockserver.Refuse())
				p := enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}).WithExpiry(life))
				time.Sleep(time.Minute)
				tc.event(s, clock)
				// Operations of earlier processes are looked for after a minute.
				const slack = 90 * time.Second
				if tc.over > slack {
					time.Sleep(tc.over - slack)
					require.Equal(t, StateQueued, stateOf(t, s.Client, p.ID()))
					time.Sleep(slack)
				}
				time.Sleep(slack)
				require.Equal(t, StateExpired, stateOf(t, s.Client, p.ID()))
				_, err := p2(s, p).Wait(t.Context())
				require.ErrorIs(t, err, ErrExpired)
				require.Empty(t, posts(s.srv))
			})
		})
	}
}

// TestPointlessOperationsAreNotSent: the network is back before anybody has looked for what expires. What is
// pointless is not sent; what only a clock that was set makes look so is.
func TestPointlessOperationsAreNotSent(t *testing.T) {
	for _, tc := range []struct {
		name string
		sent bool
		off  time.Duration
		jump time.Duration
	}{
		{"off for two hours", false, 2 * time.Hour, 0},
		{"off for two hours, and set back", false, 2 * time.Hour, -365 * 24 * time.Hour},
		{"a restart, and the clock was set forward", true, time.Minute, 365 * 24 * time.Hour},
		{"a restart", true, time.Minute, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, clock := newClockTill(t, today)
				refuse := s.srv.Inject(mockserver.Refuse())
				var ps []*Pending[Order]
				for range 20 {
					ps = append(ps, enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}).WithExpiry(time.Hour)))
				}
				time.Sleep(time.Second)
				require.NoError(t, s.Close())
				refuse.Remove()
				time.Sleep(tc.off)
				clock.jump(tc.jump)
				s.open()
				require.NoError(t, s.Flush(forHours(t, 2)))
				want := 0
				if tc.sent {
					want = len(ps)
				}
				require.Len(t, s.srv.Effects(), want)
				require.Len(t, posts(s.srv), want)
				for _, p := range ps {
					require.Equal(t, tc.sent, stateOf(t, s.Client, p.ID()) == StateSucceeded)
				}
			})
		})
	}
}

// TestExpiryIsNotRenewedByAttempts: where nothing tells how old an operation is, its time counts from the first
// time that it was met, however often it is tried.
func TestExpiryIsNotRenewedByAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, clock := newClockTill(t, long1970)
		s.srv.Inject(mockserver.Refuse())
		p := enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}).WithExpiry(time.Hour))
		time.Sleep(time.Second)
		require.NoError(t, s.Close())
		clock.reboot()
		s.open()
		for i := range 6 {
			time.Sleep(10 * time.Minute)
			s.Wake()
			time.Sleep(time.Second)
			if i < 5 {
				require.Equal(t, StateQueued, stateOf(t, s.Client, p.ID()), fmt.Sprint(i))
			}
		}
		time.Sleep(2 * time.Minute)
		require.Equal(t, StateExpired, stateOf(t, s.Client, p.ID()))
	})
}
