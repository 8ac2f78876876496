package flavoso

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// stranger sends a request past every client: another program of the same connection.
func (s *till) stranger(t *testing.T, path, key, body string) int {
	t.Helper()
	tr := s.srv.Transport()
	defer tr.CloseIdleConnections()
	req, err := http.NewRequest("POST", s.srv.BaseURL()+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.srv.Token(store))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := (&http.Client{Transport: tr}).Do(req)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func TestTwoTillsWantTheSame(t *testing.T) {
	cases := []struct {
		name string
		wish func(c *Client, id string, n int) error // by the n-th till
		kind string
	}{
		{"accept, other bytes", func(c *Client, id string, n int) error {
			_, err := c.Orders.Accept(id, AcceptParams{PreparationMinutes: 10 * n}).Do(c.ctx)
			return err
		}, "orders.accept"},
		{"accept, the same bytes", func(c *Client, id string, _ int) error {
			_, err := c.Orders.Accept(id, AcceptParams{}).Do(c.ctx)
			return err
		}, "orders.accept"},
		{"acknowledge, the same bytes", func(c *Client, id string, _ int) error {
			_, err := c.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-1"}).Do(c.ctx)
			return err
		}, "orders.acknowledge"},
		{"booking, other bytes", func(c *Client, _ string, n int) error {
			p := booking(4)
			p.Customer.Name = fmt.Sprint("guest ", n)
			_, err := c.Bookings.Create("17", p).Do(c.ctx)
			return err
		}, "bookings.create"},
		{"booking, the same bytes", func(c *Client, _ string, _ int) error {
			_, err := c.Bookings.Create("17", booking(4)).Do(c.ctx)
			return err
		}, "bookings.create"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory)
				id := s.srv.AddOrder(store, patient())
				require.NoError(t, tc.wish(s.Client, id, 1))
				for n := range 3 {
					other := s.another(t)
					require.NoError(t, tc.wish(other, id, n+2))
					for o, err := range other.Operations.List(t.Context(), OperationFilter{}) {
						require.NoError(t, err)
						require.True(t, o.ByOther, "it was not this till")
						require.Equal(t, StateSucceeded, o.State)
					}
				}
				require.Equal(t, 1, effectsOf(s.srv, tc.kind))
			})
		})
	}
}

// TestTwoTillsWantDifferentThings: the later one is told, and nothing is overwritten.
func TestTwoTillsWantDifferentThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		_, err := s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-1"}).Do(t.Context())
		require.NoError(t, err)
		_, err = s.another(t).Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-2"}).Do(t.Context())
		require.ErrorIs(t, err, ErrKeyReused)
		require.Equal(t, FateRefused, FateOf(err))
		order, _ := s.srv.Order(store, id)
		require.Equal(t, "T-1", order.ExternalID)
		require.Len(t, posts(s.srv), 2)
	})
}

// TestTwoTillsAtOnce: both want every order, over a network that drops answers.
func TestTwoTillsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		other := s.another(t)
		s.srv.Inject(mockserver.DropResponse().On("POST", "").Ratio(0.3))
		// Of a booking the other till's first request would be executed again (F10), and nothing could help.
		s.srv.Inject(mockserver.StatusAfterCommit(503).NotHeld().On("POST", "/orders/{id}/accept").Ratio(0.2))
		s.srv.Inject(mockserver.Delay(2*time.Second).At(mockserver.StageInHandler).On("POST", "").Ratio(0.3))
		var wg sync.WaitGroup
		for i := range 20 {
			id := s.srv.AddOrder(store, patient())
			for n, c := range []*Client{s.Client, other} {
				wg.Go(func() {
					_, err := c.Orders.Accept(id, AcceptParams{PreparationMinutes: 10 + n}).Do(forHours(t, 10))
					require.NoError(t, err)
					_, err = c.Bookings.Create(fmt.Sprint("ref-", i), booking(4)).Do(forHours(t, 10))
					require.NoError(t, err)
				})
			}
		}
		wg.Wait()
		require.Equal(t, 20, effectsOf(s.srv, "orders.accept"))
		require.Equal(t, 20, effectsOf(s.srv, "bookings.create"))
	})
}

// TestBookingOfAnotherTillIsStillBeingMade: the key is taken and nothing can be found yet. Taking the next
// key at once would make a second booking.
func TestBookingOfAnotherTillIsStillBeingMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		s.srv.Inject(mockserver.Delay(5*time.Second).At(mockserver.StageInHandler).On("POST", "/bookings").Times(1))
		enqueue(t, s.Bookings.Create("17", booking(4)))
		time.Sleep(time.Second)
		p := booking(4)
		p.Note = "window seat"
		call := s.another(t).Bookings.Create("17", p)
		_, err := call.Do(t.Context())
		require.NoError(t, err)
		o, _ := call.Outcome()
		require.True(t, o.ByOther)
		require.Equal(t, 1, effectsOf(s.srv, "bookings.create"))
	})
}

// TestBookingUnderOneReferenceIsMadeOnce: however long the other till's request takes within its lease (F9),
// and however often somebody says that waiting is pointless, the table is not booked twice. Flavoso answers
// 422 to the second request before it looks whether the first is still under way (D18).
func TestBookingUnderOneReferenceIsMadeOnce(t *testing.T) {
	for _, takes := range []time.Duration{5 * time.Second, 25 * time.Second, 115 * time.Second} {
		for _, how := range []struct {
			name  string
			hurry func(c *Client)
		}{
			{"left alone", func(*Client) {}},
			{"wake", func(c *Client) { c.Wake() }},
			{"flush", func(c *Client) {
				ctx, cancel := context.WithTimeout(c.ctx, time.Second)
				defer cancel()
				_ = c.Flush(ctx)
			}},
		} {
			t.Run(fmt.Sprint(takes, ", ", how.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newTill(t, inMemory)
					s.srv.Inject(mockserver.Delay(takes).At(mockserver.StageInHandler).On("POST", "/bookings").Times(1))
					enqueue(t, s.another(t).Bookings.Create("17", booking(4)))
					time.Sleep(time.Second)
					p := enqueue(t, s.Bookings.Create("17", booking(2)))
					for range 30 {
						time.Sleep(3 * time.Second)
						how.hurry(s.Client)
					}
					_, err := p.Wait(forHours(t, 1))
					require.ErrorIs(t, err, ErrConflict)
					require.Equal(t, 1, effectsOf(s.srv, "bookings.create"))
				})
			})
		}
	}
}

// TestBookingKeyOfSomethingElseMovesOn: nothing is found under the reference once every request that could
// explain the refusal is over, so the next key is taken.
func TestBookingKeyOfSomethingElseMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		require.NotEqual(t, 201, s.stranger(t, "/bookings", "booking-17", `{}`))
		began := time.Now()
		call := s.Bookings.Create("17", booking(4))
		_, err := call.Do(forHours(t, 1))
		require.NoError(t, err)
		require.Greater(t, time.Since(began), 2*time.Minute)
		require.Less(t, time.Since(began), 3*time.Minute)
		o, _ := call.Outcome()
		require.Equal(t, "booking-17~2", string(o.Key))
		require.Less(t, len(posts(s.srv)), 10)
	})
}

// TestKeyThatStandsForSomethingElse: a derived key moves on, with the same bytes, as often as eight times.
func TestKeyThatStandsForSomethingElse(t *testing.T) {
	for _, taken := range []int{1, 2, 7, 8} {
		t.Run(fmt.Sprint(taken, " are taken"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, inMemory)
				id := s.srv.AddOrder(store, patient())
				call := s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-1"})
				for n := range taken {
					key := string(call.Key())
					if n > 0 {
						key = fmt.Sprintf("%s~%d", key, n+1)
					}
					require.Equal(t, 422, s.stranger(t, "/orders/"+id+"/acknowledge", key, `{}`))
				}
				_, err := call.Do(forHours(t, 1))
				o, _ := call.Outcome()
				var ours []mockserver.Request
				for _, r := range posts(s.srv)[taken:] {
					ours = append(ours, r)
					require.Equal(t, `{"external_id":"T-1"}`, string(r.Body), "the bytes stay")
				}
				if taken == 8 {
					require.ErrorIs(t, err, ErrKeyReused)
					require.Len(t, ours, 8)
					return
				}
				require.NoError(t, err)
				require.Len(t, ours, taken+1)
				require.Equal(t, fmt.Sprintf("%s~%d", call.Key(), taken+1), string(o.Key))
				require.Equal(t, string(o.Key), ours[taken].Key)
				require.False(t, o.ByOther)
				require.Equal(t, 1, effectsOf(s.srv, "orders.acknowledge"))

				again, err := s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-1"}).Do(t.Context())
				require.NoError(t, err, "the wish is known under its logical key")
				require.Equal(t, "T-1", again.ExternalID)
				require.Len(t, posts(s.srv), 2*taken+1)
			})
		})
	}
}

// TestGenerationSurvivesARestart: the second key is chosen once and kept.
func TestGenerationSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, patient())
		call := s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-1"})
		s.stranger(t, "/orders/"+id+"/acknowledge", string(call.Key()), `{}`)
		s.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/acknowledge").Nth(2).Times(1))
		p := enqueue(t, call)
		for effectsOf(s.srv, "orders.acknowledge") == 0 {
			time.Sleep(time.Millisecond)
		}
		s.restart()
		_, err := p2(s, p).Wait(forHours(t, 1))
		require.NoError(t, err)
		sent := posts(s.srv)
		require.Equal(t, string(call.Key())+"~2", sent[len(sent)-1].Key)
		require.True(t, sent[len(sent)-1].Replayed)
		require.Equal(t, 1, effectsOf(s.srv, "orders.acknowledge"))
	})
}

// TestReplayedRejectionOnTheFirstExposure: what is replayed was another sender's answer. A reinstalled till
// asks once more under the next key.
func TestReplayedRejectionOnTheFirstExposure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		past := booking(4)
		past.StartsAt = time.Now().Add(-time.Hour)
		_, err := s.Bookings.Create("17", past).Do(t.Context())
		require.ErrorIs(t, err, ErrInvalid)

		other := s.another(t)
		_, err = other.Bookings.Create("17", past).Do(t.Context())
		require.ErrorIs(t, err, ErrInvalid)
		sent := posts(s.srv)
		require.Len(t, sent, 3)
		require.True(t, sent[1].Replayed)
		require.Equal(t, "booking-17~2", sent[2].Key)
		require.False(t, sent[2].Replayed)
	})
}

// TestExplicitKeysAreNeverChanged: the key was the caller's choice, and so is what to do about it.
func TestExplicitKeysAreNeverChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		s.stranger(t, "/orders/"+id+"/acknowledge", "mine", `{}`)
		before := len(posts(s.srv))
		_, err := s.Orders.Accept(id, AcceptParams{}).WithKey("mine").Do(t.Context())
		require.ErrorIs(t, err, ErrKeyReused)
		require.Equal(t, FateRefused, FateOf(err))
		require.Len(t, posts(s.srv), before+1)

		// The replay of somebody else's rejection is a rejection.
		past := booking(4)
		past.StartsAt = time.Now().Add(-time.Hour)
		_, err = s.Bookings.Create("17", past).WithKey("k2").Do(t.Context())
		require.ErrorIs(t, err, ErrInvalid)
		before = len(posts(s.srv))
		_, err = s.another(t).Bookings.Create("17", past).WithKey("k2").Do(t.Context())
		var api *APIError
		require.ErrorAs(t, err, &api)
		require.ErrorIs(t, err, ErrInvalid)
		require.True(t, api.Replayed)
		require.Len(t, posts(s.srv), before+1)

		// The replay of somebody else's success is a success.
		call := s.Orders.Accept(id, AcceptParams{}).WithKey("k3")
		_, err = call.Do(t.Context())
		require.NoError(t, err)
		twin := s.another(t).Orders.Accept(id, AcceptParams{}).WithKey("k3")
		_, err = twin.Do(t.Context())
		require.NoError(t, err)
		o, _ := twin.Outcome()
		require.True(t, o.ByOther && o.Replayed)
		require.Equal(t, 1, effectsOf(s.srv, "orders.accept"))
	})
}

// TestWhatItMayHaveDoneItselfIsNotAnothers: the first attempt was done behind an answer that is not held (F10). Then
// another program had the key. What is read back cannot be told from that one's doing, and is not called so.
func TestWhatItMayHaveDoneItselfIsNotAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		id := s.srv.AddOrder(store, patient())
		s.srv.Inject(mockserver.StatusAfterCommit(503).NotHeld().RetryAfter(time.Minute).On("POST", "/orders/{id}/acknowledge").Times(1))
		call := s.Orders.Acknowledge(id, AcknowledgeParams{ExternalID: "T-1"})
		p := enqueue(t, call)
		time.Sleep(10 * time.Second)
		require.Equal(t, 422, s.stranger(t, "/orders/"+id+"/acknowledge", string(call.Key()), `{}`))
		_, err := p.Wait(forHours(t, 1))
		require.NoError(t, err)
		sent := posts(s.srv)
		require.Equal(t, 422, sent[len(sent)-1].Status)
		require.False(t, sent[len(sent)-1].Replayed, "the key is another's")
		o, _ := call.Outcome()
		require.False(t, o.ByOther)
		require.Equal(t, "read_back", o.Reason)
		require.Equal(t, 1, effectsOf(s.srv, "orders.acknowledge"))
	})
}

// TestTheWaitForAnothersRequestBeginsWhenItIsMet: a conflict, and the key was free. Two minutes and a half later another
// till's request has it. That one has only just begun, and taking the next key would make a second booking.
func TestTheWaitForAnothersRequestBeginsWhenItIsMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		other := s.another(t)
		s.srv.Inject(mockserver.Reset().On("POST", "/bookings").Times(1))
		s.srv.Inject(mockserver.Status(409).Code("conflict").On("POST", "/bookings").Times(5))
		s.srv.Inject(mockserver.Delay(time.Minute).At(mockserver.StageInHandler).On("POST", "/bookings").Times(1))
		p := enqueue(t, s.Bookings.Create("17", booking(4)))
		for len(posts(s.srv)) < 6 {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(30 * time.Second)
		enqueue(t, other.Bookings.Create("17", booking(2)))
		_, err := p.Wait(forHours(t, 1))
		require.ErrorIs(t, err, ErrConflict)
		require.Equal(t, 1, effectsOf(s.srv, "bookings.create"))
	})
}

// TestTheNextKeyOfAnotherProcessHasItsOwnWait: two processes share an outbox. That one of them has waited for who had
// the first key says nothing about the one that has the next.
func TestTheNextKeyOfAnotherProcessHasItsOwnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, func(cfg *Config) { cfg.OutboxPath, cfg.Outbox = "", sharedMemory{outbox.NewMemory()} })
		cfg := s.cfg
		partner, err := Open(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, partner.Close()) }()
		require.NotEqual(t, 201, s.stranger(t, "/bookings", "booking-17", `{}`))
		require.NotEqual(t, 201, s.stranger(t, "/bookings", "booking-17~2", `{}`))
		began := time.Now()
		call := s.Bookings.Create("17", booking(4))
		_, err = call.Do(forHours(t, 1))
		require.NoError(t, err)
		require.Equal(t, 1, effectsOf(s.srv, "bookings.create"))
		var first = map[string]time.Time{}
		for _, r := range posts(s.srv)[2:] {
			if _, met := first[r.Key]; !met {
				first[r.Key] = r.At
			}
		}
		require.Len(t, first, 3)
		require.GreaterOrEqual(t, first["booking-17~3"].Sub(first["booking-17~2"]), 2*time.Minute+30*time.Second)
		require.GreaterOrEqual(t, first["booking-17~2"].Sub(began), 2*time.Minute+30*time.Second)
	})
}
