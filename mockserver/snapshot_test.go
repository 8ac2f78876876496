package mockserver_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// FuzzSnapshot restores anything: an error changes nothing, and what was restored serves without a 5xx.
func FuzzSnapshot(f *testing.F) {
	seed, err := mockserver.New(mockserver.InMemory())
	require.NoError(f, err)
	seed.AddOrder(store, mockOrder())
	snapshot, err := seed.Snapshot()
	require.NoError(f, err)
	seed.Close()
	f.Add(snapshot)
	f.Add(bytes.ReplaceAll(snapshot, []byte(`"status"`), []byte(`"state"`)))
	f.Add([]byte(`{"version":1,"connections":[{"name":"store-42","scope":"s","menu":{},"orders":[{}]}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		srv, c := start(t)
		id := srv.AddOrder(store, mockOrder())
		if srv.Restore(data) != nil {
			if a := c.get("/orders/" + id); a.err != nil || a.status != 200 {
				t.Fatalf("what was there is gone: %d %v", a.status, a.err)
			}
			return
		}
		for _, path := range []string{"/orders", "/orders/1", "/bookings?external_id=x", "/menu", "/store", "/store/hours", "/menu/availability"} {
			if a := c.get(path); a.err != nil || a.status >= 500 {
				t.Fatalf("%s: %d %v %s", path, a.status, a.err, a.body)
			}
		}
		again, err := srv.Snapshot()
		require.NoError(t, err)
		require.NoError(t, srv.Restore(again))
	})
}
