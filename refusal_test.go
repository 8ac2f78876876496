package flavoso

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestForbiddenRepeatWhileTheFirstStillRuns: a 403 is decided before the key is looked at, and says nothing about
// the request that is still running (D10, D11).
func TestForbiddenRepeatWhileTheFirstStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		s.srv.Inject(mockserver.Delay(45*time.Second).At(mockserver.StageInHandler).On("POST", "/bookings").Times(1))
		s.srv.Inject(mockserver.Status(403).On("POST", "/bookings").Nth(2).Times(1))
		p := enqueue(t, s.Bookings.Create("17", booking(4)))
		_, err := p.Wait(forHours(t, 1))
		time.Sleep(time.Hour)
		require.Equal(t, 1, effectsOf(s.srv, "bookings.create"))
		require.NotEqual(t, FateRefused, FateOf(err), "it was made: %v", err)
	})
}

// TestOrderUpdateRefusedAfterItWasDone: a lost answer, and time goes by.
func TestOrderUpdateRefusedAfterItWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
		s.srv.Inject(mockserver.DropResponse().On("PATCH", "").Times(1))
		p := enqueue(t, s.Orders.Update(id, UpdateOrderParams{EstimatedReadyAt: Set(time.Now().Add(10 * time.Minute))}))
		for effectsOf(s.srv, "orders.update") == 0 {
			time.Sleep(time.Millisecond)
		}
		down := s.srv.Inject(mockserver.Refuse())
		time.Sleep(20 * time.Minute)
		down.Remove()
		_, err = p.Wait(forHours(t, 1))
		require.Equal(t, 1, effectsOf(s.srv, "orders.update"))
		require.NotEqual(t, FateRefused, FateOf(err), "it was done: %v", err)
	})
}

// TestAcceptRefusedAfterItWasDone: an effect behind an answer that is not held (F10), and time goes by.
func TestAcceptRefusedAfterItWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		s.srv.Inject(mockserver.StatusAfterCommit(503).NotHeld().On("POST", "/orders/{id}/accept").Times(1))
		at := time.Now().Add(10 * time.Minute)
		p := enqueue(t, s.Orders.Accept(id, AcceptParams{ReadyAt: at}))
		for effectsOf(s.srv, "orders.accept") == 0 {
			time.Sleep(time.Millisecond)
		}
		down := s.srv.Inject(mockserver.Refuse())
		time.Sleep(20 * time.Minute)
		down.Remove()
		_, err := p.Wait(forHours(t, 1))
		require.Equal(t, 1, effectsOf(s.srv, "orders.accept"))
		require.NotEqual(t, FateRefused, FateOf(err), "it was done: %v", err)
	})
}

// TestYesterdaysBookingIsThereWhileTheFirstStillRuns: what is found under the reference is older than the request
// that is on its way.
func TestYesterdaysBookingIsThereWhileTheFirstStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		_, err := s.Bookings.Create("17", booking(2)).Do(t.Context())
		require.NoError(t, err)
		time.Sleep(25 * time.Hour)
		other := s.another(t)
		s.srv.Inject(mockserver.Delay(45*time.Second).At(mockserver.StageInHandler).On("POST", "/bookings").Times(1))
		p := enqueue(t, other.Bookings.Create("17", booking(4)))
		_, err = p.Wait(forHours(t, 1))
		time.Sleep(time.Hour)
		require.Equal(t, 2, effectsOf(s.srv, "bookings.create"))
		require.NotEqual(t, FateRefused, FateOf(err), "it was made: %v", err)
	})
}

// TestAReplayedRefusalMayBeARepeats: the first attempt was done behind an answer that is not held (F10). The second
// one comes too late and is refused for good, and that answer gets lost. What the third one hears is the refusal of
// the second; it says nothing about the first.
func TestAReplayedRefusalMayBeARepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		s.srv.Inject(mockserver.StatusAfterCommit(503).NotHeld().On("POST", "/orders/{id}/accept").Times(1))
		s.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
		p := enqueue(t, s.Orders.Accept(id, AcceptParams{ReadyAt: time.Now().Add(10 * time.Minute)}))
		for effectsOf(s.srv, "orders.accept") == 0 {
			time.Sleep(time.Millisecond)
		}
		down := s.srv.Inject(mockserver.Refuse())
		time.Sleep(20 * time.Minute)
		down.Remove()
		_, err := p.Wait(forHours(t, 1))
		sent := posts(s.srv)
		require.Len(t, sent, 3)
		require.Equal(t, 422, sent[2].Status)
		require.True(t, sent[2].Replayed)
		require.Equal(t, 1, effectsOf(s.srv, "orders.accept"))
		require.NoError(t, err, "it was done")
	})
}

// TestTheReplayOfTheOnlyAnswerIsBelieved: of the one attempt that was made before, the held answer is the only one
// there can be. Nobody has to decide or to be asked what it meant, a 404 not excepted.
func TestTheReplayOfTheOnlyAnswerIsBelieved(t *testing.T) {
	for _, tc := range []struct {
		name string
		path string
		body any
		is   error
	}{
		{"404", Path("orders", "0b8f1d5e-6a51-4f3c-8d3b-0d3c1f0e7a11", "accept"), nil, ErrNotFound},
		{"422", "/bookings", map[string]any{"party_size": -1}, ErrInvalid},
	} {
		for _, asks := range []bool{false, true} {
			t.Run(fmt.Sprint(tc.name, ", reconciler ", asks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					asked := 0
					s := newTill(t, func(cfg *Config) {
						inMemory(cfg)
						if asks {
							cfg.Reconcile = func(context.Context, *Client, Operation) (Resolution, error) {
								asked++
								return Resolution{Decision: SendAgain}, nil
							}
						}
					})
					s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
					_, err := NewCall[map[string]any](s.Client, "POST", tc.path, tc.body).Do(forHours(t, 1))
					require.ErrorIs(t, err, tc.is)
					require.Equal(t, FateRefused, FateOf(err))
					require.True(t, posts(s.srv)[1].Replayed)
					require.LessOrEqual(t, asked, 1, "only before it was sent again")
				})
			})
		}
	}
}

// TestTheReplayOfARepeatsAnswerIsNoVerdict: the same with two attempts before it. The 404 may be the second one's,
// because the first one was done, and nothing can be read back.
func TestTheReplayOfARepeatsAnswerIsNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		s.srv.Inject(mockserver.Status(503).On("POST", "").Times(1))
		s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
		_, err := NewCall[map[string]any](s.Client, "POST", Path("orders", "0b8f1d5e-6a51-4f3c-8d3b-0d3c1f0e7a11", "accept"), nil).Do(forHours(t, 1))
		require.ErrorIs(t, err, ErrUncertain)
		require.True(t, posts(s.srv)[2].Replayed)
	})
}

// TestTheWaitCountsFromTheLastAttemptThatMayRun: a conflict is looked at again until every request that could explain
// it is over, and one of those is an attempt that was made while waiting.
func TestTheWaitCountsFromTheLastAttemptThatMayRun(t *testing.T) {
	for _, code := range []string{"conflict", "idempotency_key_reused", "forbidden"} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory)
				status := map[string]int{"conflict": 409, "idempotency_key_reused": 422, "forbidden": 403}[code]
				s.srv.Inject(mockserver.Reset().On("POST", "/bookings").Times(1))
				for range 4 {
					s.srv.Inject(mockserver.Status(status).Code(code).On("POST", "/bookings").Times(1))
				}
				s.srv.Inject(mockserver.Late(75*time.Second).On("POST", "/bookings").Times(1))
				s.srv.Inject(mockserver.Status(status).Code(code).On("POST", "/bookings"))
				call := s.Bookings.Create("17", booking(4))
				_, err := call.Do(forHours(t, 1))
				time.Sleep(time.Hour)
				require.Equal(t, 1, effectsOf(s.srv, "bookings.create"))
				require.NoError(t, err, "it was made")
				o, _ := call.Outcome()
				require.False(t, o.ByOther, "and by nobody else")
			})
		})
	}
}

// TestTheWaitEnds: what is refused again and again is believed in the end, also when some attempts get no answer.
func TestTheWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		conflict := func() { s.srv.Inject(mockserver.Status(409).Code("conflict").On("POST", "/bookings").Times(1)) }
		s.srv.Inject(mockserver.Reset().On("POST", "/bookings").Times(1))
		for range 3 {
			conflict()
			conflict()
			s.srv.Inject(mockserver.Reset().On("POST", "/bookings").Times(1))
		}
		s.srv.Inject(mockserver.Status(409).Code("conflict").On("POST", "/bookings"))
		began := time.Now()
		_, err := s.Bookings.Create("17", booking(4)).Do(forHours(t, 1))
		require.ErrorIs(t, err, ErrConflict)
		require.Less(t, time.Since(began), 5*time.Minute)
		require.Empty(t, s.srv.Bookings(store))
	})
}

// TestTheWaitIsShortWhenEveryAttemptWasAnswered: a 403, or another booking under the reference, says nothing about a
// request that may still run. There is none.
func TestTheWaitIsShortWhenEveryAttemptWasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		s.srv.Inject(mockserver.Status(503).On("POST", "/bookings").Times(3))
		s.srv.Inject(mockserver.Status(403).On("POST", "/bookings"))
		began := time.Now()
		_, err := s.Bookings.Create("17", booking(4)).Do(forHours(t, 1))
		require.ErrorIs(t, err, ErrForbidden)
		require.Less(t, time.Since(began), time.Minute)
	})
}

// TestPauseThatWasOverBeforeItsRepeat: the pause was set, its answer lost, and by the time of the repeat it is over:
// Flavoso refuses it now, and does not show that it was there. Nobody can know whether it was, and nobody has to
// decide: the lane goes on.
func TestPauseThatWasOverBeforeItsRepeat(t *testing.T) {
	for _, done := range []bool{true, false} {
		t.Run(fmt.Sprint("done ", done), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory)
				first := mockserver.Reset()
				if done {
					first = mockserver.DropResponse()
				}
				s.srv.Inject(first.On("PATCH", "/store").Times(1))
				call := s.Store.Update(UpdateStoreParams{PausedUntil: Set(time.Now().Add(10 * time.Minute)), PauseReason: Set("too busy")})
				p := enqueue(t, call)
				for len(s.srv.Requests()) == 0 {
					time.Sleep(time.Millisecond)
				}
				down := s.srv.Inject(mockserver.Refuse())
				next := enqueue(t, s.Store.Update(UpdateStoreParams{DefaultPreparationMinutes: Set(25)}))
				time.Sleep(20 * time.Minute)
				down.Remove()
				_, err := p.Wait(forHours(t, 1))
				require.Equal(t, FateUnknown, FateOf(err), "%v", err)
				o, _ := call.Outcome()
				require.Equal(t, StateAbandoned, o.State)
				require.Equal(t, "lapsed", o.Reason)
				_, err = next.Wait(forHours(t, 1))
				require.NoError(t, err)
			})
		})
	}
}

// TestPauseThatIsRefusedForAnotherReason: reading tells where it can.
func TestPauseThatIsRefusedForAnotherReason(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wish  func() UpdateStoreParams
		later time.Duration
		what  Fate
	}{
		{"it would still last", func() UpdateStoreParams {
			return UpdateStoreParams{PausedUntil: Set(time.Now().Add(time.Hour))}
		}, 20 * time.Minute, FateRefused},
		{"it does not show its other part", func() UpdateStoreParams {
			return UpdateStoreParams{PausedUntil: Set(time.Now().Add(10 * time.Minute)), DefaultPreparationMinutes: Set(33)}
		}, 20 * time.Minute, FateRefused},
		{"it is no pause", func() UpdateStoreParams { return UpdateStoreParams{DefaultPreparationMinutes: Set(33)} }, 20 * time.Minute, FateRefused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory)
				s.srv.Inject(mockserver.Reset().On("PATCH", "/store").Times(1))
				s.srv.Inject(mockserver.Status(422).On("PATCH", "/store").Times(1))
				p := enqueue(t, s.Store.Update(tc.wish()))
				for len(s.srv.Requests()) == 0 {
					time.Sleep(time.Millisecond)
				}
				down := s.srv.Inject(mockserver.Refuse())
				time.Sleep(tc.later)
				down.Remove()
				_, err := p.Wait(forHours(t, 1))
				require.Equal(t, tc.what, FateOf(err), "%v", err)
			})
		})
	}
}
