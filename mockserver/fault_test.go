package mockserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// overBoth runs a test over memory and over a TCP port.
func overBoth(t *testing.T, run func(t *testing.T, srv *mockserver.Server, c *client)) {
	t.Run("memory", func(t *testing.T) {
		srv, c := start(t)
		run(t, srv, c)
	})
	t.Run("tcp", func(t *testing.T) {
		srv := mockserver.Start(t)
		c := newClient(t, srv)
		c.http = &http.Client{Transport: &http.Transport{}}
		defer c.http.CloseIdleConnections()
		run(t, srv, c)
	})
}

func TestDropResponseCommitsAndSendsNoByte(t *testing.T) {
	overBoth(t, func(t *testing.T, srv *mockserver.Server, c *client) {
		for _, warm := range []bool{false, true} {
			id := srv.AddOrder(store, mockserver.Order{})
			if warm {
				require.Equal(t, 200, c.get("/store").status)
			}
			f := srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
			a := c.post("/orders/"+id+"/accept", "", "accept-"+id)
			require.Error(t, a.err)
			assert.Equal(t, 1, f.Fired())
			srv.AssertExactlyOnce(t, "orders.accept", id)
			b := c.post("/orders/"+id+"/accept", "", "accept-"+id)
			assert.True(t, b.replayed())
			srv.AssertExactlyOnce(t, "orders.accept", id)
			srv.AssertSameBytes(t, "accept-"+id)
		}
		var posts []mockserver.Request
		for _, r := range srv.Requests() {
			if r.Method == "POST" {
				posts = append(posts, r)
			}
		}
		require.Len(t, posts, 4, "no request more on the wire than the client made")
		assert.Equal(t, "drop_response", posts[0].Fault)
		assert.Zero(t, posts[0].Status)
	})
}

func TestResetBreaksBeforeTheEffect(t *testing.T) {
	overBoth(t, func(t *testing.T, srv *mockserver.Server, c *client) {
		srv.Inject(mockserver.Reset().On("POST", "/bookings").Times(1))
		a := c.post("/bookings", c.booking("b"), "k")
		assert.ErrorIs(t, a.err, syscall.ECONNRESET)
		assert.Empty(t, srv.Effects())
		assert.Empty(t, srv.Keys(store))
	})
}

func TestRefuseOverTransportNeverConnects(t *testing.T) {
	srv, c := start(t)
	require.Equal(t, 200, c.get("/store").status) // leaves a connection alive, which must not be used
	f := srv.Inject(mockserver.Refuse().Times(2))
	for range 2 {
		connected := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
		req, err := http.NewRequestWithContext(ctx, "POST", srv.BaseURL()+"/bookings", strings.NewReader("{}"))
		require.NoError(t, err)
		_, err = c.http.Do(req)
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.False(t, connected)
	}
	assert.Equal(t, 2, f.Fired())
	assert.Equal(t, 200, c.get("/store").status)
	assert.Len(t, srv.Requests(), 2)
}

func TestRefuseOverTCPIsNotARequest(t *testing.T) {
	srv := mockserver.Start(t)
	c := newClient(t, srv)
	c.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	srv.Inject(mockserver.Refuse().Times(1))
	assert.Error(t, c.post("/bookings", c.booking("b"), "").err)
	assert.Empty(t, srv.Requests())
	assert.Equal(t, 201, c.post("/bookings", c.booking("b"), "").status)
}

func TestAnswersInTheServersPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		fault       mockserver.Fault
		status      int
		retryAfter  string
		body        string
		fromFlavoso bool
		contentType string
	}{
		"status":            {mockserver.Status(500), 500, "", `"internal"`, true, "application/json"},
		"status 503":        {mockserver.Status(503), 503, "1", `"unavailable"`, true, "application/json"},
		"status, code":      {mockserver.Status(409).Code("conflict"), 409, "", `"conflict"`, true, "application/json"},
		"status, body":      {mockserver.Status(500).Body("oops"), 500, "", "oops", true, "application/json"},
		"status, date":      {mockserver.Status(503).RetryAfterHeader("Fri, 31 Dec 1999 23:59:59 GMT"), 503, "Fri, 31 Dec 1999 23:59:59 GMT", "", true, "application/json"},
		"rate limit":        {mockserver.RateLimit(1500 * time.Millisecond), 429, "2", `"rate_limited"`, true, "application/json"},
		"rate limit, blank": {mockserver.RateLimit(0), 429, "", `"rate_limited"`, true, "application/json"},
		"portal":            {mockserver.Portal(), 200, "", "<!doctype html>", false, "text/html"},
		"proxy error":       {mockserver.ProxyError(), 502, "", "<html>", false, "text/html"},
	} {
		t.Run(name, func(t *testing.T) {
			srv, c := start(t)
			srv.Inject(tc.fault.On("POST", "/bookings").Times(1))
			a := c.post("/bookings", c.booking("b"), "k")
			require.NoError(t, a.err)
			assert.Equal(t, tc.status, a.status)
			assert.Equal(t, tc.retryAfter, a.header.Get("Retry-After"))
			assert.Contains(t, a.body, tc.body)
			assert.Equal(t, tc.fromFlavoso, a.header.Get("X-Request-Id") != "")
			assert.Contains(t, a.header.Get("Content-Type"), tc.contentType)
			assert.Empty(t, srv.Effects())
			assert.Equal(t, 201, c.post("/bookings", c.booking("b"), "k").status, "nothing was held")
		})
	}
}

func TestTruncateCutsTheBodyBehindARightLength(t *testing.T) {
	overBoth(t, func(t *testing.T, srv *mockserver.Server, c *client) {
		srv.Inject(mockserver.Truncate(10).On("POST", "/bookings").Times(1))
		a := c.post("/bookings", c.booking("b"), "k")
		assert.ErrorIs(t, a.err, io.ErrUnexpectedEOF)
		assert.Len(t, a.body, 10)
		assert.True(t, c.post("/bookings", c.booking("b"), "k").replayed())
	})
}

func TestUnknownEnumChangesThisAnswerOnly(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	srv.Inject(mockserver.UnknownEnum().On("GET", "/orders/{id}").Times(1))
	a := c.get("/orders/" + id)
	assert.Equal(t, "awaiting_drone", a.field("status"))
	assert.NotNil(t, a.field("future_field"))
	assert.Equal(t, "pending", c.get("/orders/"+id).field("status"))
}

func TestLateExecutesAfterTheClientGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := start(t)
		srv.Inject(mockserver.Late(time.Minute).On("POST", "/bookings").Times(1))
		body := c.booking("b")
		assert.Error(t, c.post("/bookings", body, "k").err)
		assert.Empty(t, srv.Effects())
		time.Sleep(time.Minute)
		synctest.Wait()
		srv.AssertExactlyOnce(t, "bookings.create", "b")
		assert.True(t, c.post("/bookings", body, "k").replayed())
	})
}

func TestDelaysWaitAtTheirStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, stage := range []string{mockserver.StageBefore, mockserver.StageInHandler, mockserver.StageAfter} {
			srv, c := start(t)
			srv.Inject(mockserver.Delay(time.Minute).At(stage).On("POST", "/bookings").Times(1))
			var a answer
			done := make(chan struct{})
			begun := time.Now()
			go func() { defer close(done); a = c.post("/bookings", c.booking("b"), "k") }()
			synctest.Wait()
			switch stage {
			case mockserver.StageBefore:
				assert.Empty(t, srv.Keys(store))
			case mockserver.StageInHandler:
				assert.Equal(t, "processing", srv.Keys(store)[0].State)
				assert.Empty(t, srv.Effects())
			case mockserver.StageAfter:
				assert.Len(t, srv.Effects(), 1)
			}
			<-done
			assert.Equal(t, 201, a.status)
			assert.Equal(t, time.Minute, time.Since(begun))
		}
	})
}

// TestD15ClientThatLeavesDoesNotStopTheHandler is W5: the request outlives the client's timeout.
func TestD15ClientThatLeavesDoesNotStopTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := start(t)
		srv.Inject(mockserver.Delay(time.Minute).At(mockserver.StageInHandler).Times(1))
		c.http.Timeout = 10 * time.Second
		body := c.booking("b")
		require.Error(t, c.post("/bookings", body, "k").err)
		assert.Equal(t, "idempotency_in_progress", c.post("/bookings", body, "k").code())
		time.Sleep(time.Minute)
		assert.True(t, c.post("/bookings", body, "k").replayed())
		srv.AssertExactlyOnce(t, "bookings.create", "b")
	})
}

func TestHangEndsWithTheClientOrTheServer(t *testing.T) {
	overBoth(t, func(t *testing.T, srv *mockserver.Server, c *client) {
		srv.Inject(mockserver.Hang())
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", srv.BaseURL()+"/store", nil)
		require.NoError(t, err)
		go func() {
			_, _ = srv.WaitForRequests(t.Context(), func(rs []mockserver.Request) bool { return len(rs) == 1 })
			cancel()
		}()
		_, err = c.http.Do(req)
		assert.ErrorIs(t, err, context.Canceled)
		go func() {
			_, _ = srv.WaitForRequests(t.Context(), func(rs []mockserver.Request) bool { return len(rs) == 2 })
			_ = srv.Close()
		}()
		assert.Error(t, c.get("/store").err)
	})
}

func TestDripArrivesWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := start(t)
		id := srv.AddOrder(store, mockserver.Order{})
		srv.Inject(mockserver.Drip(100, time.Second).Times(1))
		begun := time.Now()
		a := c.get("/orders/" + id)
		require.NoError(t, a.err)
		assert.Equal(t, id, a.field("id"))
		assert.Equal(t, time.Duration((len(a.body)-1)/100)*time.Second, time.Since(begun))
	})
}

func TestFaultsChooseTheirCalls(t *testing.T) {
	statuses := func(t *testing.T, faults ...mockserver.Fault) []int {
		srv, c := start(t)
		for _, f := range faults {
			srv.Inject(f.Optional())
		}
		var got []int
		for range 6 {
			got = append(got, c.get("/store").status)
		}
		return got
	}
	for name, tc := range map[string]struct {
		faults []mockserver.Fault
		want   []int
	}{
		"until removed":      {[]mockserver.Fault{mockserver.Status(500)}, []int{500, 500, 500, 500, 500, 500}},
		"times":              {[]mockserver.Fault{mockserver.Status(500).Times(2)}, []int{500, 500, 200, 200, 200, 200}},
		"nth":                {[]mockserver.Fault{mockserver.Status(500).Nth(3)}, []int{200, 200, 500, 200, 200, 200}},
		"nth, times":         {[]mockserver.Fault{mockserver.Status(500).Nth(3).Times(2)}, []int{200, 200, 500, 500, 200, 200}},
		"ratio 0":            {[]mockserver.Fault{mockserver.Status(500).Ratio(0)}, []int{200, 200, 200, 200, 200, 200}},
		"ratio 1":            {[]mockserver.Fault{mockserver.Status(500).Ratio(1)}, []int{500, 500, 500, 500, 500, 500}},
		"a script":           {[]mockserver.Fault{mockserver.Status(500).Times(1), mockserver.Status(503).Times(2)}, []int{500, 503, 503, 200, 200, 200}},
		"another path":       {[]mockserver.Fault{mockserver.Status(500).On("GET", "/orders")}, []int{200, 200, 200, 200, 200, 200}},
		"another method":     {[]mockserver.Fault{mockserver.Status(500).On("POST", "")}, []int{200, 200, 200, 200, 200, 200}},
		"another connection": {[]mockserver.Fault{mockserver.Status(500).For("store-1")}, []int{200, 200, 200, 200, 200, 200}},
		"this connection":    {[]mockserver.Fault{mockserver.Status(500).For(store).Times(1)}, []int{500, 200, 200, 200, 200, 200}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, statuses(t, tc.faults...)) })
	}
	mixed := mockserver.Status(500).Ratio(0.5)
	assert.Equal(t, statuses(t, mixed), statuses(t, mixed), "same seed, same draws")
}

func TestFaultThatNeverFiresFailsItsTest(t *testing.T) {
	rec := &recorder{}
	srv := mockserver.Start(rec, mockserver.InMemory())
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
	srv.Inject(mockserver.Status(500).Optional())
	srv.Inject(mockserver.Status(500)).Remove()
	rec.end()
	require.Len(t, rec.errors, 1)
	assert.Contains(t, rec.errors[0], `"fault":"drop_response"`)
	assert.Contains(t, rec.errors[0], "never fired")
}

func TestSenselessFaultsAreRefused(t *testing.T) {
	for _, f := range []mockserver.Fault{
		{}, mockserver.Status(99), mockserver.Delay(0), mockserver.Drip(0, time.Second), mockserver.Status(500).Times(-1),
		mockserver.Status(500).Ratio(1.5), mockserver.Refuse().On("POST", "/orders"), mockserver.Status(500).At("never"),
		mockserver.Hang().At("never"), mockserver.Status(500).On("POST", "orders"), mockserver.DropResponse().NotHeld(),
	} {
		rec := &recorder{}
		srv := mockserver.Start(rec, mockserver.InMemory())
		assert.Error(t, srv.Inject(f).Err(), f.String())
		rec.end()
		assert.Len(t, rec.errors, 1, f.String())
	}
}

func TestTransportReachesThisServerOnly(t *testing.T) {
	_, c := start(t)
	_, err := c.http.Get("http://api.flavoso.com/v1/store")
	var netErr *net.OpError
	assert.Error(t, err)
	assert.False(t, errors.As(err, &netErr))
	assert.Contains(t, err.Error(), "reaches 127.0.0.1:1 only")
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := start(t)
		srv.Inject(mockserver.Hang().At(mockserver.StageInHandler).On("POST", "/bookings"))
		srv.Inject(mockserver.Delay(time.Hour).On("GET", "/store"))
		srv.Inject(mockserver.Late(time.Hour).On("GET", "/menu"))
		for range 3 {
			go c.post("/bookings", c.booking("b"), "")
			go c.get("/store")
			go c.get("/menu")
		}
		synctest.Wait()
		require.NoError(t, srv.Close())
		require.NoError(t, srv.Close())
		assert.ErrorIs(t, c.get("/menu").err, syscall.ECONNREFUSED)
	}) // the bubble ends only when every goroutine has
}

// TestStartInsideABubbleNeedsNoPort lets time move although nobody said InMemory.
func TestStartInsideABubbleNeedsNoPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.Start(t)
		c := newClient(t, srv)
		srv.Inject(mockserver.Delay(24*time.Hour).On("GET", "/store").Times(1))
		begun := time.Now()
		assert.Equal(t, 200, c.get("/store").status)
		assert.Equal(t, 24*time.Hour, time.Since(begun))
	})
}

// TestHandlerFaultsStrikeRequestsWithoutAKeyToo: a PUT has no key to claim, and its process can die as well.
func TestHandlerFaultsStrikeRequestsWithoutAKeyToo(t *testing.T) {
	for name, tc := range map[string]struct {
		fault   mockserver.Fault
		effects int
	}{
		"crash before": {mockserver.CrashBeforeCommit(), 0},
		"crash after":  {mockserver.CrashAfterCommit(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			srv, c := start(t)
			srv.Inject(tc.fault.On("PUT", "/menu").Times(1))
			assert.Error(t, c.do("PUT", "/menu", smallMenu).err)
			assert.Len(t, srv.Effects(), tc.effects)
			assert.Equal(t, 200, c.do("PUT", "/menu", smallMenu).status)
			srv.AssertExactlyOnce(t, "menu.put", "menu")
		})
	}
	synctest.Test(t, func(t *testing.T) {
		srv, c := start(t)
		srv.Inject(mockserver.Delay(time.Minute).At(mockserver.StageInHandler).On("PATCH", "/store").Times(1))
		begun := time.Now()
		assert.Equal(t, 200, c.do("PATCH", "/store", `{"default_preparation_minutes":7}`).status)
		assert.Equal(t, time.Minute, time.Since(begun))
	})
}

func TestABodyThatIsTooLargeGetsToReadWhy(t *testing.T) {
	overBoth(t, func(t *testing.T, srv *mockserver.Server, c *client) {
		a := c.do("PUT", "/menu", strings.Repeat(" ", 20<<20))
		require.NoError(t, a.err)
		assert.Equal(t, 413, a.status)
	})
}

// TestTheOverlayStaysTheCallers adds the same order twice and changes what was handed out.
func TestTheOverlayStaysTheCallers(t *testing.T) {
	srv, _ := start(t)
	o := mockserver.LargeOrder(3)
	o.Items[0].ID = ""
	a, b := srv.AddOrder(store, o), srv.AddOrder(store, o)
	assert.Empty(t, o.Items[0].ID)
	oa, _ := srv.Order(store, a)
	ob, _ := srv.Order(store, b)
	assert.NotEqual(t, oa.Items[0].ID, ob.Items[0].ID)
	oa.Items[0].Name = "changed"
	again, _ := srv.Order(store, a)
	assert.NotEqual(t, "changed", again.Items[0].Name)
}
