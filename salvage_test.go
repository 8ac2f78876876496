package flavoso

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

// TestSalvageInUseKeepsTheVerdict: the file is found damaged, and salvaged, while an attempt is under way.
// The answer to it counts although its claim is gone.
func TestSalvageInUseKeepsTheVerdict(t *testing.T) {
	d := bolttest.NewDisk()
	var o bolt.Options
	d.Attach(&o)
	e, err := bolt.Open(t.TempDir()+"/pos.outbox", o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	var c *Client
	var posts atomic.Int32
	api := &fakeAPI{before: func(r *http.Request) error {
		if r.Method == http.MethodPost && posts.Add(1) == 1 {
			d.FailAt(bolt.PointCopyBegin, 1, berrors.ErrInvalid) // damage is found ...
			d.Fail(bolttest.WriteData, 1)                        // ... when a commit fails
			_, err := put(c, "other", 1).Enqueue(context.Background())
			require.NoError(t, err)
		}
		return nil
	}}
	c = newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = e })
	call := post(c, "a")
	_, err = call.Do(t.Context())
	require.NoError(t, err, "Flavoso answered 200, and we had the answer")
	require.NotEmpty(t, e.Reports(), "the file was salvaged")
	require.Equal(t, e.Reports(), c.OutboxReports())
	require.EqualValues(t, 1, posts.Load())
	o2, ok := call.Outcome()
	require.True(t, ok)
	require.Equal(t, StateSucceeded, o2.State)
	require.True(t, o2.Durable)
}
