package flavoso

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// TestOfflineMarksNothing: three days without a network leave no mark, whatever was tried meanwhile; on
// day four everything is sent once, and what needs no look-back is not looked up.
func TestOfflineMarksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		refuse := s.srv.Inject(mockserver.Refuse())
		var ids []string
		for i := range 10 {
			ids = append(ids, enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{})).ID())
			ids = append(ids, enqueue(t, plainPost(s)).ID())
			ids = append(ids, enqueue(t, s.Bookings.Create(string(rune('a'+i)), booking(4))).ID())
			time.Sleep(7 * time.Hour)
			if i == 4 {
				s.restart()
			}
			if i%2 == 0 {
				s.Wake()
				synctest.Wait()
			}
		}
		for _, id := range ids {
			rec := s.record(id)
			require.Equal(t, outbox.Queued, rec.State)
			require.Nil(t, rec.Exposure)
			require.True(t, rec.NeverSent())
		}
		require.Empty(t, s.srv.Requests())

		refuse.Remove()
		s.Wake()
		require.NoError(t, s.Flush(forHours(t, 1)))
		require.Len(t, posts(s.srv), len(ids))
		for _, r := range s.srv.Requests() {
			require.True(t, r.Method == "POST" || r.Path == "/store", "%s %s: nothing was sent before, so there is nothing to look up", r.Method, r.Path)
		}
	})
}

// plainPost is a call that nothing can be looked up for.
func plainPost(s *till) *Call[Order] {
	return NewCall[Order](s.Client, "POST", Path("orders", s.srv.AddOrder(store, patient()), "accept"), nil)
}

// TestMarkIsRemovedOnlyByProof: GotConn is the only proof. A dial that fails leaves the operation unsent; a
// connection that dies, however early, and any failure of a transport that is not ours leave it sent.
func TestMarkIsRemovedOnlyByProof(t *testing.T) {
	cases := []struct {
		name  string
		wrap  func(*http.Transport) http.RoundTripper
		fault mockserver.Fault
		sent  bool
	}{
		{name: "the dial is refused", fault: mockserver.Refuse()},
		{name: "the connection dies", fault: mockserver.Reset().On("POST", ""), sent: true},
		{name: "no answer comes", fault: mockserver.Hang().On("POST", ""), sent: true},
		{name: "the dial is refused under a custom transport", fault: mockserver.Refuse(),
			wrap: func(tr *http.Transport) http.RoundTripper { return roundTripper(tr.RoundTrip) }, sent: true},
		{name: "a custom transport invents the error of a dial", fault: mockserver.Refuse().Optional(),
			wrap: func(*http.Transport) http.RoundTripper {
				return roundTripper(func(*http.Request) (*http.Response, error) {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
				})
			}, sent: true},
		{name: "our transport's dial returns what looks like a read error", fault: mockserver.Refuse().Optional(),
			wrap: func(tr *http.Transport) http.RoundTripper {
				tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
				}
				return tr
			}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill(t, func(c *Config) {
					if tc.wrap != nil {
						c.Transport = tc.wrap(c.Transport.(*http.Transport))
					}
				})
				s.srv.Inject(tc.fault)
				p := enqueue(t, s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{}))
				time.Sleep(2 * time.Minute)
				rec := s.record(p.ID())
				require.Equal(t, !tc.sent, rec.NeverSent())
				require.Equal(t, tc.sent, rec.State == outbox.Sent)
				o, err := s.Operations.Get(t.Context(), p.ID())
				require.NoError(t, err)
				require.Equal(t, !tc.sent, o.FirstSent.IsZero())
				err = s.Operations.Cancel(t.Context(), p.ID())
				if tc.sent {
					require.Error(t, err, "what may have been sent cannot be called off")
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestMarkOfACrashedClaimStays: a later claim that provably reached nobody removes its own mark, never the
// one it found.
func TestMarkOfACrashedClaimStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		s.srv.Inject(mockserver.Hang().On("POST", "/bookings").Times(1))
		p := enqueue(t, s.Bookings.Create("17", booking(4)))
		time.Sleep(time.Second)
		before := s.record(p.ID())
		require.True(t, before.Claimed())
		require.NoError(t, s.Close()) // the claim is broken off with its request on the wire

		refuse := s.srv.Inject(mockserver.Refuse())
		s.open()
		time.Sleep(time.Hour)
		after := s.record(p.ID())
		require.Equal(t, outbox.Sent, after.State)
		require.Equal(t, before.Exposure.Claim, after.Exposure.Claim)
		require.True(t, before.Exposure.At.Equal(after.Exposure.At))

		refuse.Remove()
		_, err := p2(s, p).Wait(forHours(t, 1))
		require.NoError(t, err)
		var looked bool
		for _, r := range s.srv.Requests() {
			looked = looked || r.Method == "GET" && r.Path == "/bookings"
		}
		require.True(t, looked, "it may have been sent, so it is looked for first")
		require.Len(t, s.srv.Effects(), 1)
	})
}

// TestOneClaimOneRequest: warm connections that die under a request make net/http repeat it silently, if
// they are let. Every request that reached the server is an attempt that was counted.
func TestOneClaimOneRequest(t *testing.T) {
	calls := []struct {
		name string
		path string
		make func(s *till) *Call[Order]
	}{
		{"accept", "/orders/{id}/accept", func(s *till) *Call[Order] {
			return s.Orders.Accept(s.srv.AddOrder(store, patient()), AcceptParams{PreparationMinutes: 20})
		}},
		{"a POST without a body", "/orders/{id}/accept", func(s *till) *Call[Order] {
			return NewCall[Order](s.Client, "POST", Path("orders", s.srv.AddOrder(store, patient()), "accept"), nil)
		}},
		{"a PATCH", "/orders/{id}", func(s *till) *Call[Order] {
			return NewCall[Order](s.Client, "PATCH", Path("orders", s.srv.AddOrder(store, patient())), map[string]any{"estimated_ready_at": "2100-01-01T12:00:00Z"})
		}},
		{"a DELETE without a body", "/nowhere", func(s *till) *Call[Order] {
			return NewCall[Order](s.Client, "DELETE", "/nowhere", nil)
		}},
	}
	faults := []struct {
		name  string
		fault mockserver.Fault
	}{
		{"reset", mockserver.Reset()}, {"dropped answer", mockserver.DropResponse()},
		{"late", mockserver.Late(3 * time.Second)},
	}
	for _, call := range calls {
		for _, f := range faults {
			t.Run(call.name+", "+f.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newTill(t, inMemory)
					for range 4 { // warm connections
						_, err := Get[map[string]any](t.Context(), s.Client, "/store", nil)
						require.NoError(t, err)
					}
					c := call.make(s)
					s.srv.Inject(f.fault.On(c.record.Request.Method, call.path).Times(3))
					_, _ = c.Do(forHours(t, 10))
					o, ok := c.Outcome()
					require.True(t, ok)
					time.Sleep(time.Minute)
					wire := 0
					for _, r := range s.srv.Requests() {
						if r.Method != "GET" {
							wire++
						}
					}
					require.GreaterOrEqual(t, wire, 4)
					require.Equal(t, wire, o.Attempts)
				})
			})
		}
	}
}

// TestSleepBetweenClaimAndFirstByte: a machine that slept in between must not send what was right to send
// when it was claimed.
func TestSleepBetweenClaimAndFirstByte(t *testing.T) {
	t.Run("in the token source", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asleep atomic.Int32
			s := newTill(t, func(c *Config) {
				token := c.Token
				c.Token = TokenFunc(func(ctx context.Context, r TokenRequest) (string, error) {
					if asleep.Add(-1) == 0 {
						time.Sleep(25 * time.Hour)
					}
					return token.Token(ctx, r)
				})
			})
			s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
			asleep.Store(2) // the second time the source is asked: before the repeat
			call := plainPost(s)
			_, err := call.Do(forHours(t, 40))
			require.ErrorIs(t, err, ErrUncertain)
			require.Len(t, posts(s.srv), 1, "the repeat was not sent a day later")
		})
	})
	t.Run("in the token source, on the first attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int32
			s := newTill(t, func(c *Config) {
				token := c.Token
				c.Token = TokenFunc(func(ctx context.Context, r TokenRequest) (string, error) {
					if asked.Add(1) == 1 {
						time.Sleep(25 * time.Hour)
					}
					return token.Token(ctx, r)
				})
			})
			id := s.srv.AddOrder(store, patient())
			p := enqueue(t, s.Orders.Accept(id, AcceptParams{}))
			time.Sleep(24 * time.Hour)
			require.Empty(t, s.srv.Requests())
			_, err := p.Wait(forHours(t, 10))
			require.NoError(t, err)
			rec := s.record(p.ID())
			require.Equal(t, 2, rec.Attempts)
			require.WithinDuration(t, time.Now(), rec.Exposure.At, time.Minute, "the window began with the claim that was sent")
		})
	})
	// The dial is the last place: the monotonic clock that timeouts run on stands still while a machine
	// sleeps, so that only the wall clock tells.
	t.Run("in the dial", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			clock := newWallClock(time.Now())
			var dials atomic.Int32
			s := newTill(t, func(c *Config) {
				c.now, c.uptime = clock.now, clock.uptime
				tr := c.Transport.(*http.Transport)
				dial := tr.DialContext
				tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if dials.Add(1) == 2 {
						clock.sleep(25 * time.Hour)
					}
					return dial(ctx, network, addr)
				}
			})
			s.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
			call := plainPost(s)
			_, err := call.Do(forHours(t, 1))
			require.ErrorIs(t, err, ErrUncertain)
			require.Len(t, posts(s.srv), 1, "the repeat was not sent a day later")
		})
	})
}
