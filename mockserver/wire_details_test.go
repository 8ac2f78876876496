package mockserver_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestWhatFollowsTheBodysValueIsRefused: a body is one JSON value; a bracket too many is no end of it.
func TestWhatFollowsTheBodysValueIsRefused(t *testing.T) {
	srv, c := start(t)
	for _, tail := range []string{"}", "]", "} ", " ]", "}{", "x", ",", "{}", "\x00"} {
		a := c.post("/bookings", c.booking("b-1")+tail, "")
		assert.Equal(t, 400, a.status, "%q", tail)
		assert.Equal(t, "invalid_request", a.code(), "%q", tail)
	}
	assert.Empty(t, srv.Effects())
	assert.Equal(t, 201, c.post("/bookings", c.booking("b-1")+" \r\n\t", "").status, "white space is none")
}

// TestUnknownEnumShowsInListsToo: most clients meet orders in lists.
func TestUnknownEnumShowsInListsToo(t *testing.T) {
	srv, c := start(t)
	srv.AddOrders(store, 2)
	srv.Inject(mockserver.UnknownEnum().On("GET", "/orders").Times(1))
	var odd struct {
		Data []struct {
			Status string
			Future json.RawMessage `json:"future_field"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(c.get("/orders").body), &odd))
	require.Len(t, odd.Data, 2)
	for _, o := range odd.Data {
		assert.Equal(t, "awaiting_drone", o.Status)
		assert.NotEmpty(t, o.Future)
	}
	assert.NotContains(t, c.get("/orders").body, "awaiting_drone")
}

// TestACursorSurvivesDeletions: who pages while an order is deleted misses none of the others, also over a
// restart.
func TestACursorSurvivesDeletions(t *testing.T) {
	srv, c := start(t)
	for i := range 6 {
		srv.AddOrder(store, mockserver.Order{ID: "o-" + strconv.Itoa(i)})
	}
	page := c.get("/orders?limit=3")
	cursor := page.field("next_cursor").(string)
	srv.DeleteOrder(store, "o-1")
	snap, err := srv.Snapshot()
	require.NoError(t, err)
	rest := func() (ids []string) {
		var l struct{ Data []struct{ ID string } }
		require.NoError(t, json.Unmarshal([]byte(c.get("/orders?limit=3&cursor="+cursor).body), &l))
		for _, o := range l.Data {
			ids = append(ids, o.ID)
		}
		return ids
	}
	assert.Equal(t, []string{"o-3", "o-4", "o-5"}, rest())
	srv.Reset()
	require.NoError(t, srv.Restore(snap))
	assert.Equal(t, []string{"o-3", "o-4", "o-5"}, rest())
	srv.AddOrder(store, mockserver.Order{ID: "o-1"})
	assert.Len(t, srv.Orders(store), 6)
	assert.Equal(t, "o-1", srv.Orders(store)[5].ID, "made again, it arrives again")
}

// TestAConnectionMadeAnewHasNewIDs, so that nobody takes its first booking for the former one's.
func TestAConnectionMadeAnewHasNewIDs(t *testing.T) {
	srv, c := start(t)
	before := []string{srv.Store(store).ID, srv.AddOrder(store, mockserver.Order{})}
	c.token = srv.Reconnect(store)
	after := []string{srv.Store(store).ID, srv.AddOrder(store, mockserver.Order{})}
	assert.NotEqual(t, before[0], after[0])
	assert.NotEqual(t, before[1], after[1])
}

// TestAChangeSeesWhatTimeHasDone: an order whose deadline has passed was cancelled by the platform before a
// guest could.
func TestAChangeSeesWhatTimeHasDone(t *testing.T) {
	srv, _ := start(t)
	id := srv.AddOrder(store, mockserver.Order{})
	srv.Clock().Advance(mockserver.DefaultSwitches().AcceptWithin)
	require.NoError(t, srv.ChangeOrder(store, id, func(o *mockserver.Order) {
		assert.Equal(t, mockserver.StatusCancelled, o.Status)
		assert.Equal(t, "system", o.Cancellation.By)
	}))
}
