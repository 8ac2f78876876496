package mockserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

func with(change func(*mockserver.Switches)) mockserver.Option {
	return mockserver.WithSwitches(change)
}

func TestD2QueryCanBeIgnored(t *testing.T) {
	_, c := start(t, with(func(s *mockserver.Switches) { s.Query = "ignore" }))
	body := c.booking("b")
	require.Equal(t, 201, c.post("/bookings?a=1", body, "k").status)
	assert.True(t, c.post("/bookings?a=2", body, "k").replayed())
	assert.True(t, c.post("/bookings", body, "k").replayed())
	assert.Equal(t, 422, c.post("/bookings", body+" ", "k").status)
}

func TestD6KeySurvivesTokenRotationAndNotReconnection(t *testing.T) {
	srv, c := start(t)
	body := c.booking("b")
	require.Equal(t, 201, c.post("/bookings", body, "k").status)
	old := c.token
	c.token = srv.RotateToken(store)
	assert.True(t, c.post("/bookings", body, "k").replayed(), "the connection is the same")
	c.token = old
	assert.Equal(t, 401, c.post("/bookings", body, "k").status, "D11: although the result is stored")
	c.token = srv.Reconnect(store)
	a := c.post("/bookings", body, "k")
	assert.Equal(t, 201, a.status)
	assert.False(t, a.replayed(), "revoked and made again is a new scope")
	srv.RevokeTokens(store)
	assert.Equal(t, 401, c.get("/store").status)
}

func TestD7KeyCanBeRequired(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.RequireKey = true }))
	assert.Equal(t, "invalid_request", c.post("/bookings", c.booking("b"), "").code())
	assert.Empty(t, srv.Effects())
	assert.Equal(t, 201, c.post("/bookings", c.booking("b"), "k").status)
	assert.Equal(t, 200, c.do("PATCH", "/store", `{}`).status, "POST only")
}

// TestD10WhichRefusalsAreHeld goes through the refusals under every reading.
func TestD10WhichRefusalsAreHeld(t *testing.T) {
	refusals := map[string]func(c *client) answer{
		"404 object":  func(c *client) answer { return c.post("/orders/none/accept", "", "k") },
		"422 invalid": func(c *client) answer { return c.post("/bookings", `{}`, "k") },
		"400 no JSON": func(c *client) answer { return c.post("/bookings", `{`, "k") },
		"415": func(c *client) answer {
			return c.do("POST", "/bookings", "x", "Idempotency-Key: k", "Content-Type: text/plain")
		},
		"413": func(c *client) answer { return c.post("/bookings", strings.Repeat(" ", 2000), "k") },
		"409 conflict": func(c *client) answer {
			return c.post("/orders/"+c.srv.Orders(store)[0].ID+"/reject", `{"reason":"too_busy"}`, "k")
		},
	}
	held := map[string]map[string]bool{
		"after_auth": {"404 object": true, "422 invalid": true, "400 no JSON": true},
		"none":       {},
		"all":        {"404 object": true, "422 invalid": true, "400 no JSON": true, "415": true, "413": true},
	}
	for reading, want := range held {
		for name, send := range refusals {
			t.Run(reading+"/"+name, func(t *testing.T) {
				srv, c := start(t, with(func(s *mockserver.Switches) { s.Hold4xx, s.MaxBody = reading, 1000 }))
				srv.AddOrder(store, mockserver.Order{Status: mockserver.StatusReady})
				first, again := send(c), send(c)
				assert.Equal(t, name[:3], fmt.Sprint(first.status))
				assert.Equal(t, first.status, again.status)
				assert.Equal(t, want[name], again.replayed())
			})
		}
	}
}

func TestD11RepeatMayMeet401And429(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.RateLimit = 2 }))
	body := c.booking("b")
	require.Equal(t, 201, c.post("/bookings", body, "k").status)
	require.True(t, c.post("/bookings", body, "k").replayed())
	a := c.post("/bookings", body, "k")
	assert.Equal(t, 429, a.status)
	assert.Equal(t, "60", a.header.Get("Retry-After"))
	srv.Clock().Advance(time.Minute)
	assert.True(t, c.post("/bookings", body, "k").replayed())
}

func TestD13HoldFromReceipt(t *testing.T) {
	for reading, expired := range map[string]bool{"completion": false, "receipt": true} {
		t.Run(reading, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, c := start(t, with(func(s *mockserver.Switches) { s.HoldFrom = reading }))
				srv.Inject(mockserver.Delay(time.Hour).At(mockserver.StageInHandler).Times(1))
				body := c.booking("b")
				require.Equal(t, 201, c.post("/bookings", body, "k").status)
				time.Sleep(23 * time.Hour)
				assert.Equal(t, !expired, c.post("/bookings", body, "k").replayed())
			})
		})
	}
}

// TestD14RequestThatBreaksOff sends half a body over a raw connection.
func TestD14RequestThatBreaksOff(t *testing.T) {
	for _, claims := range []bool{false, true} {
		t.Run(fmt.Sprintf("claim_on_headers=%v", claims), func(t *testing.T) {
			srv := mockserver.Start(t, with(func(s *mockserver.Switches) { s.ClaimOnHeaders = claims }))
			c := newClient(t, srv)
			body := c.booking("b")
			conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(srv.BaseURL(), "http://"), "/v1"))
			require.NoError(t, err)
			_, err = fmt.Fprintf(conn, "POST /v1/bookings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n%s",
				c.token, len(body), body[:10])
			require.NoError(t, err)
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			_, _ = io.Copy(io.Discard, conn)
			require.NoError(t, conn.Close())
			rs, err := srv.WaitForRequests(t.Context(), func(rs []mockserver.Request) bool { return len(rs) == 1 })
			require.NoError(t, err)
			assert.Equal(t, "broken_off", rs[0].Fault)
			if claims {
				assert.Equal(t, 409, c.post("/bookings", body, "k").status)
				srv.Clock().Advance(2 * time.Minute)
			}
			assert.Equal(t, 201, c.post("/bookings", body, "k").status)
			srv.AssertExactlyOnce(t, "bookings.create", "b")
		})
	}
}

func TestD16AbortAfterCanBeSet(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.AbortAfter = 10 * time.Second }))
	srv.Inject(mockserver.CrashBeforeCommit().Times(1))
	body := c.booking("b")
	require.Error(t, c.post("/bookings", body, "k").err)
	srv.Clock().Advance(9 * time.Second)
	assert.Equal(t, 409, c.post("/bookings", body, "k").status)
	srv.Clock().Advance(time.Second)
	assert.Equal(t, 201, c.post("/bookings", body, "k").status)
}

func TestD20RetryAfterCanBeOff(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.RetryAfterInProgress = false }))
	srv.Inject(mockserver.CrashBeforeCommit().Times(1))
	body := c.booking("b")
	require.Error(t, c.post("/bookings", body, "k").err)
	a := c.post("/bookings", body, "k")
	assert.Equal(t, 409, a.status)
	assert.Empty(t, a.header.Get("Retry-After"))
}

// TestD23OrderOfChecks sends a request that is wrong in every way, and mends it step by step.
func TestD23OrderOfChecks(t *testing.T) {
	srv, c := start(t, with(func(s *mockserver.Switches) { s.RateLimit, s.MaxBody = 1, 100 }))
	long, text := strings.Repeat("x", 200), "Content-Type: text/plain"
	wrong := c.token
	c.token = "wrong"
	assert.Equal(t, 404, c.do("POST", "/nowhere", long, "Idempotency-Key: ", text).status)
	assert.Equal(t, 405, c.do("DELETE", "/bookings", long, "Idempotency-Key: ", text).status)
	assert.Equal(t, 401, c.do("POST", "/bookings", long, "Idempotency-Key: ", text).status)
	c.token = wrong
	require.Equal(t, 200, c.get("/store").status)
	assert.Equal(t, 429, c.do("POST", "/bookings", long, "Idempotency-Key: ", text).status)
	require.NoError(t, srv.SetSwitches(func(s *mockserver.Switches) error { s.RateLimit = 0; return nil }))
	assert.Equal(t, 400, c.do("POST", "/bookings", long, "Idempotency-Key: ", text).status)
	assert.Equal(t, 415, c.do("POST", "/bookings", long, "Idempotency-Key: k", text).status)
	assert.Equal(t, 413, c.do("POST", "/bookings", long, "Idempotency-Key: k").status)
	assert.Equal(t, 400, c.do("POST", "/bookings", "x", "Idempotency-Key: k").status)
	assert.Equal(t, 422, c.do("POST", "/bookings", "y", "Idempotency-Key: k").status, "fingerprint before validation")
}

// TestD24AndW1ExactlyOneExecutes lets many repeats race for a key, new and just freed.
func TestD24AndW1ExactlyOneExecutes(t *testing.T) {
	for name, crash := range map[string]bool{"new key": false, "key just freed": true} {
		t.Run(name, func(t *testing.T) {
			srv, c := start(t)
			body := c.booking("b")
			if crash {
				srv.Inject(mockserver.CrashBeforeCommit().Times(1))
				require.Error(t, c.post("/bookings", body, "k").err)
				srv.Clock().Advance(2 * time.Minute)
			}
			var wg sync.WaitGroup
			var mu sync.Mutex
			count := map[string]int{}
			for range 50 {
				wg.Go(func() {
					a := c.post("/bookings", body, "k")
					mu.Lock()
					defer mu.Unlock()
					switch {
					case a.status == 201 && !a.replayed():
						count["executed"]++
					case a.status == 201 || a.status == 409:
						count["repeat"]++
					}
				})
			}
			wg.Wait()
			assert.Equal(t, map[string]int{"executed": 1, "repeat": 49}, count)
			srv.AssertExactlyOnce(t, "bookings.create", "b")
		})
	}
}

func TestD25SnapshotAndRestore(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	body := c.booking("b")
	require.Equal(t, 200, c.post("/orders/"+id+"/accept", "", "accept").status)
	require.Equal(t, 200, c.do("POST", "/menu/availability", `{"changes":[{"item_id":"ramen","status":"unavailable"}]}`).status)
	snap, err := srv.Snapshot()
	require.NoError(t, err)
	require.Equal(t, 201, c.post("/bookings", body, "k").status)

	require.NoError(t, srv.Restore(snap))
	assert.Empty(t, srv.Bookings(store))
	assert.Equal(t, 201, c.post("/bookings", body, "k").status, "what came later is forgotten, key and effect")
	assert.True(t, c.post("/orders/"+id+"/accept", "", "accept").replayed())
	assert.Contains(t, c.get("/menu/availability").body, "ramen")

	srv.ForgetKeys()
	a := c.post("/orders/"+id+"/accept", "", "accept")
	assert.False(t, a.replayed(), "a restart that loses the keys")
	assert.Equal(t, "confirmed", a.field("status"))

	other, c2 := start(t)
	require.NoError(t, other.Restore(snap))
	assert.True(t, c2.post("/orders/"+id+"/accept", "", "accept").replayed())
	for _, bad := range []string{"", "{}", `{"version":9}`, `{"version":1,"keys":"x"}`} {
		assert.Error(t, other.Restore([]byte(bad)), bad)
	}
	assert.True(t, c2.post("/orders/"+id+"/accept", "", "accept").replayed(), "a bad snapshot changes nothing")
}

// TestW9ReplayShowsThePast holds the answer although what it shows is gone.
func TestW9ReplayShowsThePast(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	first := c.post("/orders/"+id+"/accept", "", "k")
	require.NoError(t, srv.CancelOrder(store, id))
	assert.Equal(t, first.body, c.post("/orders/"+id+"/accept", "", "k").body)
	srv.DeleteOrder(store, id)
	assert.Equal(t, first.body, c.post("/orders/"+id+"/accept", "", "k").body)
	assert.Equal(t, 404, c.get("/orders/"+id).status)
}

func TestSwitchesRefuseNonsense(t *testing.T) {
	_, err := mockserver.New(mockserver.InMemory(), with(func(s *mockserver.Switches) { s.Query = "maybe" }))
	assert.ErrorContains(t, err, "query takes compare or ignore")
	s := mockserver.DefaultSwitches()
	for name, value := range map[string]string{"nothing": "1", "hold_from": "never", "hold_for": "soon", "require_key": "perhaps", "max_body": "-1", "booking_capacity": "x"} {
		assert.Error(t, s.Set(name, value), name)
	}
	require.NoError(t, s.Set("abort_after", "90s"))
	assert.Equal(t, 90*time.Second, s.AbortAfter)
}

func TestTLSWithItsOwnCertificate(t *testing.T) {
	srv := mockserver.Start(t, mockserver.WithTLS())
	c := newClient(t, srv)
	assert.True(t, strings.HasPrefix(srv.BaseURL(), "https://127.0.0.1:"))
	for _, transport := range []*http.Transport{srv.Transport(), overTCP(srv)} {
		c.http = &http.Client{Transport: transport}
		id := srv.AddOrder(store, mockserver.Order{})
		srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
		assert.Error(t, c.post("/orders/"+id+"/accept", "", "k"+id).err)
		assert.True(t, c.post("/orders/"+id+"/accept", "", "k"+id).replayed())
		srv.Inject(mockserver.Reset().Times(1))
		assert.Error(t, c.post("/bookings", "{}", "").err)
		assert.Equal(t, 200, c.get("/store").status)
		transport.CloseIdleConnections()
	}
	_, err := http.Get(srv.BaseURL() + "/store")
	assert.ErrorContains(t, err, "certificate")
	http.DefaultClient.CloseIdleConnections()
}

// TestEffectAndHeldAnswerAreOneStep looks at the server's state while many bookings are made: there is
// never a booking without its held answer, nor an answer without its booking.
func TestEffectAndHeldAnswerAreOneStep(t *testing.T) {
	srv, c := start(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	looked := 0
	wg.Go(func() {
		for {
			snap, err := srv.Snapshot()
			if !assert.NoError(t, err) {
				return
			}
			looked++
			assert.Equal(t, strings.Count(string(snap), `"object":"booking"`), completed(t, snap))
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	var makers sync.WaitGroup
	for maker := range 8 {
		makers.Go(func() {
			for i := range 25 {
				key := fmt.Sprintf("b-%d-%d", maker, i)
				assert.Equal(t, 201, c.post("/bookings", c.booking(key), key).status)
			}
		})
	}
	makers.Wait()
	close(stop)
	wg.Wait()
	assert.Positive(t, looked)
	last, err := srv.Snapshot()
	require.NoError(t, err)
	assert.Equal(t, 200, completed(t, last))
}

// completed counts the keys of a snapshot whose answer is held.
func completed(t *testing.T, snap []byte) int {
	var s struct {
		Keys struct {
			Records []struct{ Record struct{ State string } }
		}
	}
	require.NoError(t, json.Unmarshal(snap, &s))
	n := 0
	for _, r := range s.Keys.Records {
		if r.Record.State == "completed" {
			n++
		}
	}
	return n
}
