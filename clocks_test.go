package flavoso

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// newClockTill opens a client on a machine whose clock shows start.
func newClockTill(t *testing.T, start time.Time) (*till, *wallClock) {
	clock := newWallClock(start)
	return newTill(t, func(c *Config) { c.now, c.uptime = clock.now, clock.uptime }), clock
}

var long1970 = time.Date(1970, 1, 1, 0, 0, 9, 0, time.UTC)

// TestClockJumps: the wall clock is set while operations are in every phase. Nothing is lost, nothing is
// done twice, and nothing waits much longer than it would have.
func TestClockJumps(t *testing.T) {
	jumps := []struct {
		name  string
		start time.Time
		jump  func(s *till, c *wallClock)
	}{
		{"from 1970 to today", long1970, func(_ *till, c *wallClock) { c.jump(56 * 365 * 24 * time.Hour) }},
		{"from 1970 to today, with a restart", long1970, func(s *till, c *wallClock) {
			require.NoError(s.t, s.Close())
			c.jump(56 * 365 * 24 * time.Hour)
			s.open()
		}},
		{"back to 1970, with a restart", time.Time{}, func(s *till, c *wallClock) {
			require.NoError(s.t, s.Close())
			c.jump(-c.now().Sub(long1970))
			c.reboot()
			s.open()
		}},
		{"back by a year", time.Time{}, func(_ *till, c *wallClock) { c.jump(-365 * 24 * time.Hour) }},
		{"back by two hours", time.Time{}, func(_ *till, c *wallClock) { c.jump(-2 * time.Hour) }},
		{"back by half an hour", time.Time{}, func(_ *till, c *wallClock) { c.jump(-30 * time.Minute) }},
		{"forward by a day", time.Time{}, func(_ *till, c *wallClock) { c.jump(24 * time.Hour) }},
		{"forward by a day and back again", time.Time{}, func(_ *till, c *wallClock) {
			c.jump(24 * time.Hour)
			time.Sleep(10 * time.Second)
			c.jump(-24 * time.Hour)
		}},
		{"another boot", time.Time{}, func(s *till, c *wallClock) {
			require.NoError(s.t, s.Close())
			c.reboot()
			s.open()
		}},
	}
	for _, j := range jumps {
		t.Run(j.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if j.start.IsZero() {
					j.start = time.Now()
				}
				s, clock := newClockTill(t, j.start)
				// In every phase: answered, refused for a while, no answer, in the handler, and queued behind one.
				on := func(f mockserver.Fault) mockserver.Fault { return f.On("POST", "/bookings") }
				s.srv.Inject(on(mockserver.StatusAfterCommit(500)).NotHeld().Times(2))
				s.srv.Inject(on(mockserver.Hang()).Times(2))
				s.srv.Inject(on(mockserver.DropResponse()).Times(2))
				s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept").Times(15))
				var waits []func() error
				for i := range 8 {
					p := enqueue(t, s.Bookings.Create(fmt.Sprint("ref-", i), booking(4)))
					waits = append(waits, func() error { _, err := p2(s, p).Wait(forHours(t, 2)); return err })
					id := s.srv.AddOrder(store, patient())
					a := enqueue(t, s.Orders.Accept(id, AcceptParams{}))
					k := enqueue(t, s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T"}))
					waits = append(waits, func() error { _, err := p2(s, a).Wait(forHours(t, 2)); return err })
					waits = append(waits, func() error { _, err := p2(s, k).Wait(forHours(t, 2)); return err })
				}
				time.Sleep(20 * time.Second)
				require.NotZero(t, s.Status().Waiting)
				j.jump(s, clock)
				began := time.Now()
				for _, wait := range waits {
					require.NoError(t, wait())
				}
				require.Less(t, time.Since(began), 28*time.Minute, "nothing waits for the clock")
				time.Sleep(time.Hour)
				require.Equal(t, 8, effectsOf(s.srv, "bookings.create"))
				require.Equal(t, 8, effectsOf(s.srv, "orders.accept"))
				require.Equal(t, 8, effectsOf(s.srv, "orders.acknowledge"))
				require.Less(t, len(s.srv.Requests()), 400, "nothing spins")
			})
		})
	}
}

// TestTwoWeeksAsleep: a machine that is suspended in the middle of its work goes on when it wakes up, and
// sends nothing that relies on what Flavoso has forgotten since.
func TestTwoWeeksAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, clock := newClockTill(t, time.Now())
		s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(3))
		s.srv.Inject(mockserver.Refuse().Optional()).Remove()
		id := s.srv.AddOrder(store, patient())
		accept := enqueue(t, s.Orders.Accept(id, AcceptParams{}))
		book := enqueue(t, s.Bookings.Create("17", booking(4)))
		call := enqueue(t, plainPost(s))
		for len(s.srv.Effects()) < 3 {
			time.Sleep(time.Millisecond)
		}
		clock.sleep(14 * 24 * time.Hour)
		s.srv.Clock().Advance(14 * 24 * time.Hour)
		s.srv.ForgetKeys()
		_, err := accept.Wait(forHours(t, 1))
		require.NoError(t, err)
		_, err = book.Wait(forHours(t, 1))
		require.NoError(t, err)
		_, err = call.Wait(forHours(t, 1))
		require.ErrorIs(t, err, ErrUncertain)
		require.Len(t, s.srv.Effects(), 3)
		require.Len(t, posts(s.srv), 3)
	})
}

// TestStartIn1970KnowsWhatItSent: the wall clock is set between two attempts. Their distance is still known
// from the machine's uptime and Flavoso's own clock, so that nothing is given up.
func TestStartIn1970KnowsWhatItSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, clock := newClockTill(t, long1970)
		s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
		call := enqueue(t, plainPost(s))
		for len(s.srv.Effects()) < 1 {
			time.Sleep(time.Millisecond)
		}
		clock.jump(56 * 365 * 24 * time.Hour)
		_, err := call.Wait(forHours(t, 1))
		require.NoError(t, err)
		require.True(t, posts(s.srv)[1].Replayed)
	})
}

// TestRebootWithinTheWindow: after another boot only Flavoso's clock tells how long ago an attempt was. It
// is asked, and the repeat goes out, where an answer was seen before the attempt.
func TestRebootWithinTheWindow(t *testing.T) {
	for _, tc := range []struct {
		name string
		off  time.Duration
		err  error
	}{
		{"an hour", time.Hour, nil},
		{"23 hours", 23 * time.Hour, nil},
		{"25 hours", 25 * time.Hour, ErrUncertain},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, clock := newClockTill(t, time.Now())
				_, err := Get[map[string]any](t.Context(), s.Client, "/store", nil)
				require.NoError(t, err)
				s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
				call := enqueue(t, plainPost(s))
				for len(s.srv.Effects()) < 1 {
					time.Sleep(time.Millisecond)
				}
				require.NoError(t, s.Close())
				time.Sleep(tc.off)
				clock.reboot()
				clock.jump(-clock.now().Sub(long1970)) // and its battery is empty
				s.open()
				_, err = p2(s, call).Wait(forHours(t, 1))
				if tc.err == nil {
					require.NoError(t, err)
					require.Len(t, posts(s.srv), 2)
				} else {
					require.ErrorIs(t, err, tc.err)
					require.Len(t, posts(s.srv), 1)
				}
				require.Len(t, s.srv.Effects(), 1)
			})
		})
	}
}

// TestPauseDoesNotOutliveAClockSetBack: a Retry-After saved under a clock that was right is not waited for
// until that clock is right again.
func TestPauseDoesNotOutliveAClockSetBack(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart: ", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, clock := newClockTill(t, time.Now())
				s.srv.Inject(mockserver.RateLimit(20*time.Minute).On("POST", "").Times(1))
				p := enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}))
				time.Sleep(time.Minute)
				require.False(t, s.Status().PausedUntil.IsZero())
				if restart {
					s.restart()
				}
				clock.jump(-365 * 24 * time.Hour)
				_, err := p2(s, p).Wait(forHours(t, 1))
				require.NoError(t, err)
				require.Len(t, posts(s.srv), 2)
			})
		})
	}
}

// TestBacklogWrittenTodayAndReadIn1970: every due time lies half a century ahead, and one lane fails on and
// on, so that there is always something due soon.
func TestBacklogWrittenTodayAndReadIn1970(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, clock := newClockTill(t, time.Now())
		refuse := s.srv.Inject(mockserver.Refuse())
		var waits []*Pending[Booking]
		for i := range 30 {
			waits = append(waits, enqueue(t, s.Bookings.Create(fmt.Sprint("ref-", i), booking(4))))
		}
		time.Sleep(time.Hour)
		require.NoError(t, s.Close())
		clock.jump(-clock.now().Sub(long1970))
		clock.reboot()
		refuse.Remove()
		s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept"))
		s.open()
		enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}))
		for _, p := range waits {
			_, err := p2(s, p).Wait(forHours(t, 1))
			require.NoError(t, err)
		}
		require.Equal(t, 30, effectsOf(s.srv, "bookings.create"))
		before := len(s.srv.Requests())
		time.Sleep(time.Hour)
		require.Less(t, len(s.srv.Requests())-before, 300, "nothing spins")
	})
}

// TestQuietClientAsksNothing: without work, and offline, the counts stay low.
func TestQuietClientAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, clock := newClockTill(t, time.Now())
		_, err := s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
		n := len(s.srv.Requests())
		for _, d := range []time.Duration{24 * time.Hour, -48 * time.Hour, 365 * 24 * time.Hour} {
			clock.jump(d)
			time.Sleep(6 * time.Hour)
		}
		require.Len(t, s.srv.Requests(), n)
	})
}

// TestHoldsAndDueTimesOfAClockThatWasAhead: what was saved under a clock that was ahead of the right one is not
// late by as much.
func TestHoldsAndDueTimesOfAClockThatWasAhead(t *testing.T) {
	for _, ahead := range []time.Duration{15 * time.Minute, 90 * time.Minute, 5 * time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, clock := newClockTill(t, time.Now().Add(ahead))
				id := s.srv.AddOrder(store, patient())
				s.srv.Inject(mockserver.DropResponse().On("PATCH", "/orders/{id}").Times(1))
				first := enqueue(t, s.Orders.Update(id, UpdateOrderParams{EstimatedReadyAt: Set(time.Now().Add(2 * time.Hour))}))
				second := enqueue(t, s.Orders.Update(id, UpdateOrderParams{EstimatedReadyAt: Set(time.Now().Add(3 * time.Hour))}))
				_, err := first.Wait(forHours(t, 1))
				require.NoError(t, err)
				require.NoError(t, s.Close())
				clock.jump(-ahead)
				clock.reboot()
				s.open()
				began := time.Now()
				_, err = p2(s, second).Wait(forHours(t, 10))
				require.NoError(t, err)
				require.Less(t, time.Since(began), 5*time.Minute)
			})
		})
	}
}
