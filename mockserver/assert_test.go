package mockserver_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

func TestAssertExactlyOnceTellsWhatHappened(t *testing.T) {
	srv, c := start(t)
	require.Equal(t, 201, c.post("/bookings", c.booking("table-7"), "k1").status)
	assert.True(t, srv.AssertExactlyOnce(&recorder{}, "bookings.create", "table-7"))
	id := srv.Bookings(store)[0].ID
	assert.True(t, srv.AssertExactlyOnce(&recorder{}, "bookings.create", id))

	require.Equal(t, 422, c.post("/bookings", c.booking("table-7")+" ", "k1").status)
	require.Equal(t, 201, c.post("/bookings", c.booking("table-7"), "k2").status)
	for _, resource := range []string{"table-7", id} {
		rec := &recorder{}
		assert.False(t, srv.AssertExactlyOnce(rec, "bookings.create", resource), "a doubled reference is found by id too")
		require.Len(t, rec.errors, 1)
		for _, part := range []string{"happened 2 times, want exactly once", `key "k1"`, `key "k2"`, "→ 201", "→ 422",
			"near miss: with the key \"k1\"", "the bodies part at byte"} {
			assert.Contains(t, rec.errors[0], part)
		}
	}

	rec := &recorder{}
	assert.False(t, srv.AssertExactlyOnce(rec, "orders.accept", "no-such-order"))
	assert.Contains(t, rec.errors[0], "happened 0 times")
	assert.Contains(t, rec.errors[0], "no request named it; 3 requests came in all")

	rec = &recorder{}
	assert.True(t, srv.AssertNever(rec, "bookings.cancel", id))
	assert.False(t, srv.AssertNever(rec, "bookings.create", "table-7"))
	assert.Contains(t, rec.errors[0], "want never")
}

func TestAssertSameBytesShowsTheFirstDifference(t *testing.T) {
	srv, c := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	path := "/orders/" + id + "/accept"
	long := strings.Repeat("x", 100)
	require.Equal(t, 200, c.post(path, `{"preparation_minutes":20,"note":"`+long+`"}`, "k").status)
	require.True(t, c.post(path, `{"preparation_minutes":20,"note":"`+long+`"}`, "k").replayed())
	assert.True(t, srv.AssertSameBytes(&recorder{}, "k"))
	c.post(path, `{"preparation_minutes":25,"note":"`+long+`"}`, "k")
	c.post(path+"?x", "", "k")
	rec := &recorder{}
	assert.False(t, srv.AssertSameBytes(rec, "k"))
	require.Len(t, rec.errors, 2)
	assert.Contains(t, rec.errors[0], "request 1 and request 3: the bodies part at byte 24")
	assert.Contains(t, rec.errors[0], `first: "{\"preparation_minutes\":2" ▶ "0,`)
	assert.Contains(t, rec.errors[1], "target /v1"+path+", then /v1"+path+"?x")

	rec = &recorder{}
	assert.False(t, srv.AssertSameBytes(rec, "other"))
	assert.Contains(t, rec.errors[0], "keys that came: k")
}

func TestAssertSameBytesGoesByConnection(t *testing.T) {
	srv, c := start(t)
	require.Equal(t, 201, c.post("/bookings", c.booking("a"), "k").status)
	c.token = srv.Token("store-43")
	require.Equal(t, 201, c.post("/bookings", c.booking("b"), "k").status)
	srv.AssertSameBytes(t, "k")
}

func TestJournalIsBounded(t *testing.T) {
	srv, c := start(t, mockserver.WithJournal(10, 1<<20))
	for i := range 30 {
		require.Equal(t, 200, c.get(fmt.Sprintf("/store?n=%d", i)).status)
	}
	rs := srv.Requests()
	require.Len(t, rs, 10)
	assert.Equal(t, 30, rs[9].Seq)
	assert.Equal(t, "/v1/store?n=29", rs[9].Target)

	small, c := start(t, mockserver.WithJournal(1000, 20_000))
	for range 10 {
		c.post("/bookings", strings.Repeat(" ", 5000), "")
	}
	assert.LessOrEqual(t, len(small.Requests()), 4)
	assert.NotEmpty(t, small.Requests())
}

func TestRequestsShowWhatWasSent(t *testing.T) {
	srv, c := start(t)
	body := c.booking("b")
	c.do("POST", "/bookings?x=%61", body, "Idempotency-Key: k", "X-Trace: 7")
	c.do("POST", "/bookings?x=%61", body, "Idempotency-Key: k")
	rs := srv.Requests()
	require.Len(t, rs, 2)
	r := rs[0]
	assert.Equal(t, []any{store, "POST", "/v1/bookings?x=%61", "/bookings", "k", 201, false, body},
		[]any{r.Connection, r.Method, r.Target, r.Path, r.Key, r.Status, r.Replayed, string(r.Body)})
	assert.Equal(t, "7", r.Header.Get("X-Trace"))
	assert.Empty(t, r.Header.Get("Authorization"), "tokens are in no journal")
	assert.Contains(t, string(r.Answer), `"object":"booking"`)
	assert.True(t, rs[1].Replayed)
	assert.Equal(t, r.Conn, rs[1].Conn, "the connection was kept alive")
	assert.Equal(t, r.RequestID, srv.Effects()[0].RequestID)
}

func TestWaitForRequestsEnds(t *testing.T) {
	srv, _ := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := srv.WaitForRequests(ctx, func([]mockserver.Request) bool { return false })
	assert.ErrorIs(t, err, context.Canceled)
	require.NoError(t, srv.Close())
	_, err = srv.WaitForRequests(t.Context(), func([]mockserver.Request) bool { return false })
	assert.ErrorContains(t, err, "closed")
}

// TestSameSeedSameStory plays one afternoon twice, random faults included, and compares every byte.
func TestSameSeedSameStory(t *testing.T) {
	play := func(seed uint64) (story []any) {
		synctest.Test(t, func(t *testing.T) {
			srv, c := start(t, mockserver.WithSeed(seed))
			srv.Inject(mockserver.Status(500).Ratio(0.3))
			srv.Inject(mockserver.DropResponse().Ratio(0.3).On("POST", ""))
			for _, id := range srv.AddOrders(store, 10) {
				for range 3 {
					c.post("/orders/"+id+"/accept", "", "accept-"+id)
				}
				c.post("/bookings", c.booking(id), "")
				time.Sleep(time.Minute)
			}
			story = append(story, srv.Requests(), srv.Effects(), srv.Orders(store), srv.Bookings(store))
		})
		return story
	}
	assert.Equal(t, play(7), play(7))
	assert.NotEqual(t, play(7), play(8))
}

// Test200InstancesAreIndependent lets 200 servers live and work at once, each with its own time, faults and
// orders.
func Test200InstancesAreIndependent(t *testing.T) {
	const instances = 200
	servers := make([]*mockserver.Server, instances)
	for i := range servers {
		servers[i] = mockserver.Start(t)
		servers[i].Clock().Advance(time.Duration(i) * time.Hour)
	}
	var wg sync.WaitGroup
	for i, srv := range servers {
		wg.Go(func() {
			c := newClient(t, srv)
			id := srv.AddOrder(store, mockserver.Order{DisplayNumber: fmt.Sprint(i)})
			srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
			assert.Error(t, c.post("/orders/"+id+"/accept", "", "k").err)
			a := c.post("/orders/"+id+"/accept", "", "k")
			assert.True(t, a.replayed())
			assert.Equal(t, fmt.Sprint(i), a.field("display_number"))
			date, err := time.Parse(time.RFC1123, a.header.Get("Date"))
			assert.NoError(t, err)
			assert.WithinDuration(t, time.Now().Add(time.Duration(i)*time.Hour), date, 10*time.Minute)
			srv.AssertExactlyOnce(t, "orders.accept", id)
			assert.Len(t, srv.Requests(), 2)
		})
	}
	wg.Wait()
}

func TestResetBringsBackTheSeed(t *testing.T) {
	srv, c := start(t)
	first := srv.AddOrder(store, mockserver.Order{})
	require.Equal(t, 201, c.post("/bookings", c.booking("b"), "k").status)
	srv.Inject(mockserver.Status(500))
	require.NoError(t, srv.SetSwitches(func(s *mockserver.Switches) error { s.RequireKey = true; return nil }))
	srv.Clock().Advance(time.Hour)
	srv.Reset()
	assert.Empty(t, srv.Requests())
	assert.Empty(t, srv.Effects())
	assert.Empty(t, srv.Keys(""))
	assert.WithinDuration(t, time.Now(), srv.Clock().Now(), time.Minute)
	assert.Equal(t, mockserver.DefaultSwitches(), srv.Switches())
	assert.Equal(t, 200, c.get("/store").status)
	assert.Equal(t, first, srv.AddOrder(store, mockserver.Order{}), "the same seed, the same ids")
}
