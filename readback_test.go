package flavoso

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// effectsOf counts what a kind of request really changed.
func effectsOf(srv *mockserver.Server, kind string) int {
	n := 0
	for _, e := range srv.Effects() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// TestBookingIsLookedForBeforeItIsRepeated: every way in which a booking can be made without its answer,
// also where Flavoso would execute the repeat (F9, F10).
func TestBookingIsLookedForBeforeItIsRepeated(t *testing.T) {
	on := func(f mockserver.Fault) mockserver.Fault { return f.On("POST", "/bookings") }
	cases := []struct {
		name   string
		faults []mockserver.Fault
		opts   []mockserver.Option
	}{
		{"5xx after the commit, held", []mockserver.Fault{on(mockserver.StatusAfterCommit(500)).Times(1)}, nil},
		{"5xx after the commit, not held", []mockserver.Fault{on(mockserver.StatusAfterCommit(500)).NotHeld().Times(1)}, nil},
		{"503 with Retry-After after the commit, not held", []mockserver.Fault{on(mockserver.StatusAfterCommit(503)).NotHeld().RetryAfter(5 * time.Minute).Times(1)}, nil},
		{"429 after the commit", []mockserver.Fault{on(mockserver.StatusAfterCommit(429)).NotHeld().Times(1)}, nil},
		{"the lease is aborted after the commit", []mockserver.Fault{on(mockserver.CrashAfterCommit()).Times(1)}, nil},
		{"the lease is aborted before the commit", []mockserver.Fault{on(mockserver.CrashBeforeCommit()).Times(1)}, nil},
		{"both, one after the other", []mockserver.Fault{on(mockserver.CrashBeforeCommit()).Times(1), on(mockserver.StatusAfterCommit(502)).NotHeld().Times(1)}, nil},
		{"executed late", []mockserver.Fault{on(mockserver.Late(3 * time.Second)).Times(1)}, nil},
		{"executed very late", []mockserver.Fault{on(mockserver.Late(10 * time.Minute)).Times(1)}, nil},
		{"all are executed late", []mockserver.Fault{on(mockserver.Late(20 * time.Second)).Times(5)}, nil},
		{"slow in the handler, past the timeout", []mockserver.Fault{on(mockserver.Delay(45 * time.Second)).At(mockserver.StageInHandler).Times(1)}, nil},
		{"the table is taken by the booking itself", []mockserver.Fault{on(mockserver.StatusAfterCommit(500)).NotHeld().Times(1)},
			[]mockserver.Option{mockserver.WithSwitches(func(s *mockserver.Switches) { s.BookingCapacity = 1 })}},
		{"the reference is taken by the booking itself", []mockserver.Fault{on(mockserver.StatusAfterCommit(500)).NotHeld().Times(1)},
			[]mockserver.Option{mockserver.WithSwitches(func(s *mockserver.Switches) { s.BookingReference = "unique" })}},
		{"the table is taken by the booking itself, and the list lags", []mockserver.Fault{on(mockserver.StatusAfterCommit(500)).NotHeld().Times(1)},
			[]mockserver.Option{mockserver.WithSwitches(func(s *mockserver.Switches) { s.BookingCapacity, s.BookingListLag = 1, 5*time.Second })}},
		{"the look fails at first", []mockserver.Fault{on(mockserver.StatusAfterCommit(500)).NotHeld().Times(1), mockserver.Status(503).On("GET", "/bookings").Times(3)}, nil},
		{"the look meets a portal at first", []mockserver.Fault{on(mockserver.StatusAfterCommit(500)).NotHeld().Times(1), mockserver.Portal().On("GET", "").Times(3)}, nil},
		{"the look is cut at first", []mockserver.Fault{on(mockserver.StatusAfterCommit(500)).NotHeld().Times(1), mockserver.Truncate(30).On("GET", "/bookings").Times(3)}, nil},
		{"the look says 404 first, which is no list", []mockserver.Fault{on(mockserver.StatusAfterCommit(500)).NotHeld().Times(1), mockserver.Status(403).On("GET", "/bookings").Times(2)}, nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory, tc.opts...)
				for _, f := range tc.faults {
					s.srv.Inject(f)
				}
				got, err := s.Bookings.Create("2026-11-30-17", booking(4)).Do(forHours(t, 5))
				require.NoError(t, err)
				require.Equal(t, "2026-11-30-17", got.ExternalID)
				require.Equal(t, 4, got.PartySize)
				time.Sleep(time.Hour) // what was late has arrived
				require.Equal(t, 1, effectsOf(s.srv, "bookings.create"))
				for _, r := range posts(s.srv) {
					require.Equal(t, posts(s.srv)[0].Key, r.Key)
					require.Equal(t, string(posts(s.srv)[0].Body), string(r.Body))
				}
			})
		})
	}
}

// TestSlotTakenBySomebodyElse: the same refusal is final when the look finds nothing of ours.
func TestSlotTakenBySomebodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory, mockserver.WithSwitches(func(s *mockserver.Switches) { s.BookingCapacity = 1 }))
		_, err := s.Bookings.Create("theirs", booking(2)).Do(t.Context())
		require.NoError(t, err)
		s.srv.Inject(mockserver.Status(500).On("POST", "/bookings").Times(1))
		// The conflict could come from an own request that still runs: it is looked at again for a while.
		_, err = s.Bookings.Create("ours", booking(4)).Do(forHours(t, 1))
		require.ErrorIs(t, err, ErrConflict)
		require.Equal(t, FateRefused, FateOf(err))
		require.Equal(t, 1, effectsOf(s.srv, "bookings.create"))
	})
}

// TestSameNumberAsYesterday: a reference that starts again every day meets yesterday's booking. It is
// never taken for today's, and never made in silence.
func TestSameNumberAsYesterday(t *testing.T) {
	today, yesterday := booking(4), booking(4)
	yesterday.StartsAt = today.StartsAt.Add(-24 * time.Hour)
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		_, err := s.Bookings.Create("17", yesterday).Do(t.Context())
		require.NoError(t, err)
		_, err = s.Bookings.Create("17", today).Do(t.Context())
		var reused *KeyReusedError
		require.ErrorAs(t, err, &reused)
		require.Equal(t, FateNotSent, FateOf(err))
		require.Len(t, posts(s.srv), 1, "nothing went on the wire")

		// A day later, on a device that knows nothing of it, and with an attempt whose fate is unknown.
		time.Sleep(25 * time.Hour)
		other := s.another(t)
		s.srv.Inject(mockserver.Status(500).On("POST", "/bookings").Times(1))
		_, err = other.Bookings.Create("17", today).Do(t.Context())
		var api *APIError
		require.ErrorAs(t, err, &api)
		require.ErrorIs(t, err, ErrConflict)
		var found Booking
		require.NoError(t, json.Unmarshal(api.Body, &found), "it shows the one that was found")
		require.True(t, found.StartsAt.Equal(yesterday.StartsAt))

		// Both may exist: the equal one counts.
		third := s.another(t)
		s.srv.Inject(mockserver.StatusAfterCommit(500).NotHeld().On("POST", "/bookings").Times(1))
		time.Sleep(25 * time.Hour)
		got, err := third.Bookings.Create("17", today).Do(t.Context())
		require.NoError(t, err)
		require.True(t, got.StartsAt.Equal(today.StartsAt))
		require.Equal(t, 2, effectsOf(s.srv, "bookings.create"))
	})
}

// another opens a client of the same connection on an outbox of its own: a second till, or a device that
// was installed anew.
func (s *till) another(t *testing.T) *Client {
	t.Helper()
	cfg := s.cfg
	cfg.OutboxPath, cfg.Outbox = "", outbox.NewMemory()
	c, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// TestBookingThatEndedMeanwhile: made, answer lost, and cancelled or declined before anybody looked. It must
// not be made again.
func TestBookingThatEndedMeanwhile(t *testing.T) {
	for _, status := range []string{mockserver.BookingCancelled, mockserver.BookingDeclined} {
		t.Run(status, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory)
				s.srv.Inject(mockserver.StatusAfterCommit(503).NotHeld().RetryAfter(time.Minute).On("POST", "/bookings").Times(1))
				p := enqueue(t, s.Bookings.Create("17", booking(4)))
				time.Sleep(5 * time.Second)
				b := s.srv.Bookings(store)[0]
				s.srv.ChangeBooking(store, b.ID, func(b *mockserver.Booking) { b.Status = status })
				_, err := p.Wait(forHours(t, 1))
				require.ErrorIs(t, err, ErrConflict)
				var api *APIError
				require.ErrorAs(t, err, &api)
				require.Contains(t, string(api.Body), status)
				require.Len(t, posts(s.srv), 1)
			})
		})
	}
}

// TestStaleReplayIsJudgedFresh: a replay shows the past (W9). What was cancelled since is not to be cooked.
func TestStaleReplayIsJudgedFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		s.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
		p := enqueue(t, s.Orders.Accept(id, AcceptParams{}))
		for len(s.srv.Effects()) == 0 {
			time.Sleep(time.Millisecond)
		}
		s.srv.CancelOrder(store, id)
		_, err := p.Wait(t.Context())
		var unexpected *UnexpectedStateError
		require.ErrorAs(t, err, &unexpected)
		require.Equal(t, "cancelled", unexpected.Got)
		require.Equal(t, FateDone, FateOf(err))
		sent := posts(s.srv)
		require.True(t, sent[len(sent)-1].Replayed, "Flavoso itself said confirmed")
		require.Contains(t, string(sent[len(sent)-1].Answer), "confirmed")

		// The same holds for a booking.
		s.srv.Inject(mockserver.DropResponse().On("POST", "/bookings").Times(1))
		s.srv.Inject(mockserver.Delay(20*time.Second).On("GET", "/bookings").Times(1))
		b := enqueue(t, s.Bookings.Create("17", booking(4)))
		for len(s.srv.Bookings(store)) == 0 {
			time.Sleep(time.Millisecond)
		}
		s.srv.ChangeBooking(store, s.srv.Bookings(store)[0].ID, func(b *mockserver.Booking) { b.Status = mockserver.BookingCancelled })
		_, err = b.Wait(forHours(t, 1))
		require.Error(t, err)
		require.NotEqual(t, FateNotSent, FateOf(err))
		require.Equal(t, 1, effectsOf(s.srv, "bookings.create"))
	})
}

// TestStaleWhenThePresentCannotBeRead: the answer is a replay, and says so.
func TestStaleWhenThePresentCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		s.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
		s.srv.Inject(mockserver.Hang().On("GET", "/orders/{id}"))
		call := s.Orders.Accept(id, AcceptParams{})
		began := time.Now()
		order, err := call.Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, OrderConfirmed, order.Status)
		o, _ := call.Outcome()
		require.True(t, o.Stale)
		require.True(t, o.Replayed)
		require.False(t, o.ByOther)
		require.Less(t, time.Since(began), 10*time.Second, "the present is asked for once, for five seconds")
	})
}

// TestPresentIsReadAfterALateAnswer: an answer that used up its attempt's time leaves time for the look.
func TestPresentIsReadAfterALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept").Times(1))
		s.srv.Inject(mockserver.Delay(29*time.Second).On("POST", "/orders/{id}/accept").Times(1))
		s.srv.Inject(mockserver.Delay(2*time.Second).On("GET", "/orders/{id}").Times(1))
		call := s.Orders.Accept(id, AcceptParams{})
		_, err := call.Do(forHours(t, 1))
		require.NoError(t, err)
		o, _ := call.Outcome()
		require.False(t, o.Stale)
	})
}

// TestAnsweredBookingIsNotTakenForAnother: the look after a repeat finds only an older booking under the
// reference, because the list lags. The answer itself is the better witness.
func TestAnsweredBookingIsNotTakenForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		older := booking(2)
		_, err := s.Bookings.Create("17", older).Do(t.Context())
		require.NoError(t, err)
		time.Sleep(25 * time.Hour)
		require.NoError(t, s.srv.SetSwitches(func(sw *mockserver.Switches) error { sw.BookingListLag = time.Hour; return nil }))
		other := s.another(t)
		call := NewCall[Booking](other, "POST", "/bookings", nil)
		*call = *other.Bookings.Create("17", booking(4))
		got, err := call.Do(t.Context())
		require.NoError(t, err)
		third := s.another(t)
		again, err := third.Bookings.Create("17", booking(4)).Do(t.Context()) // a replay, so the present is read
		require.NoError(t, err)
		require.Equal(t, got.ID, again.ID)
		require.Equal(t, 4, again.PartySize)
	})
}

// TestCutSuccessIsNotUndone: a 201 whose body broke off is known to be done. Nothing that a repeat meets
// can change that, and the wait for the body ends.
func TestCutSuccessIsNotUndone(t *testing.T) {
	cases := []struct {
		name  string
		after []mockserver.Fault
	}{
		{"the repeat is refused", []mockserver.Fault{mockserver.Status(409).Code("conflict")}},
		{"the repeat is not found", []mockserver.Fault{mockserver.Status(404)}},
		{"the repeat is invalid", []mockserver.Fault{mockserver.Status(422)}},
		{"the key is said to be another's", []mockserver.Fault{mockserver.Status(422).Code("idempotency_key_reused")}},
		{"the body never comes whole", []mockserver.Fault{mockserver.Truncate(20)}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory)
				s.srv.Inject(mockserver.Truncate(20).On("POST", "").Times(1))
				for _, f := range tc.after {
					s.srv.Inject(f.On("POST", ""))
				}
				call := plainPost(s)
				_, err := call.Do(forHours(t, 1))
				require.Equal(t, FateDone, FateOf(err), "%v", err)
				var decode *DecodeError
				require.ErrorAs(t, err, &decode)
				require.NotEmpty(t, decode.Body)
				o, _ := call.Outcome()
				require.Equal(t, StateSucceeded, o.State)
				require.Equal(t, 200, o.Status)
				require.Equal(t, 1, effectsOf(s.srv, "orders.accept"))
			})
		})
	}
	t.Run("the window passes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, inMemory)
			s.srv.Inject(mockserver.Truncate(20).On("POST", "").Times(1))
			s.srv.Inject(mockserver.Status(503).On("POST", "").Optional())
			p := enqueue(t, plainPost(s))
			time.Sleep(time.Second)
			require.NoError(t, s.Close())
			time.Sleep(25 * time.Hour)
			s.open()
			_, err := p2(s, p).Wait(forHours(t, 1))
			require.Equal(t, FateDone, FateOf(err), "%v", err)
		})
	})
}

// TestRefusalThatAnEarlierAttemptMayHaveCaused: without a way to read, it is not called a rejection.
func TestRefusalThatAnEarlierAttemptMayHaveCaused(t *testing.T) {
	for _, second := range []mockserver.Fault{
		mockserver.Status(409).Code("conflict"), mockserver.Status(404), mockserver.Status(410),
		mockserver.Status(403).On("POST", ""), mockserver.Status(422).Code("idempotency_key_reused"),
	} {
		t.Run(second.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory)
				s.srv.Inject(mockserver.StatusAfterCommit(500).NotHeld().On("POST", "").Times(1))
				s.srv.Inject(second.On("POST", ""))
				call := plainPost(s)
				_, err := call.Do(t.Context())
				require.ErrorIs(t, err, ErrUncertain)
				require.Equal(t, FateUnknown, FateOf(err))
				require.Equal(t, 1, effectsOf(s.srv, "orders.accept"))
			})
		})
	}
}

// TestAStatusOfTomorrowIsNoAcceptance: an order is read back with a status that this version does not know. That
// does not tell that it was accepted; accepting it again harms nothing (F13).
func TestAStatusOfTomorrowIsNoAcceptance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		s.srv.Inject(mockserver.Reset().On("POST", "").Times(1))
		s.srv.Inject(mockserver.UnknownEnum().On("GET", "/orders/{id}").Times(1))
		p := enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}))
		for len(posts(s.srv)) < 1 {
			time.Sleep(time.Millisecond)
		}
		refuse := s.srv.Inject(mockserver.Refuse())
		time.Sleep(25 * time.Hour) // nothing but reading tells now
		refuse.Remove()
		order, err := p.Wait(forHours(t, 2))
		require.NoError(t, err)
		require.Equal(t, OrderConfirmed, order.Status)
		require.Equal(t, 1, effectsOf(s.srv, "orders.accept"))
	})
}

// TestRefusedNowAndDoneBefore: the first attempt was done and its answer lost; by the time of the next one
// Flavoso would not allow it any more. That it was done is the truth all the same.
func TestRefusedNowAndDoneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		ready := time.Now().Add(time.Hour).Truncate(time.Second)
		s.srv.Inject(mockserver.DropResponse().On("PATCH", "/orders/{id}").Times(1))
		away := s.srv.Inject(mockserver.Status(503).On("PATCH", "/orders/{id}"))
		p := enqueue(t, s.Orders.Update(id, UpdateOrderParams{EstimatedReadyAt: Set(ready)}))
		time.Sleep(2 * time.Hour)
		require.Equal(t, 1, effectsOf(s.srv, "orders.update"))
		away.Remove()
		order, err := p.Wait(forHours(t, 2))
		require.NoError(t, err)
		require.True(t, order.EstimatedReadyAt.Equal(ready))
		require.Equal(t, 1, effectsOf(s.srv, "orders.update"))
		requests := s.srv.Requests()
		require.Equal(t, 422, lastOf(requests, "PATCH").Status, "the last attempt was refused")
	})
}

// lastOf returns the last request of a method.
func lastOf(requests []mockserver.Request, method string) (last mockserver.Request) {
	for _, r := range requests {
		if r.Method == method {
			last = r
		}
	}
	return last
}
