package flavoso

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

// unsureEngine commits its first Add, claim included, and says that it does not know. The second takes its
// time, as one does that first has to repair the storage.
type unsureEngine struct {
	outbox.Engine
	adds atomic.Int32
}

func (e *unsureEngine) Add(ctx context.Context, a outbox.Addition) (outbox.Added, error) {
	switch e.adds.Add(1) {
	case 1:
		if _, err := e.Engine.Add(ctx, a); err != nil {
			return outbox.Added{}, err
		}
		return outbox.Added{}, &outbox.SaveError{ID: a.Record.ID, Err: errors.New("sync failed")}
	case 2:
		time.Sleep(50 * time.Millisecond)
	}
	return e.Engine.Add(ctx, a)
}

// TestDoingItAgainSettlesAnUnknownSave: the claim that the first Add may have made must not hold the lane.
func TestDoingItAgainSettlesAnUnknownSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = &unsureEngine{Engine: outbox.NewMemory()} })
		call := post(c, "a")
		_, err := call.Do(t.Context())
		var unknown *SaveError
		require.ErrorAs(t, err, &unknown)
		_, err = call.Do(forHours(t, 48))
		require.NoError(t, err)
		require.Equal(t, 1, api.count())
	})
}

// TestUnknownSaveIsSettledWithoutAnotherCall: nobody has to ask again for what was accepted to go out.
func TestUnknownSaveIsSettledWithoutAnotherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = &unsureEngine{Engine: outbox.NewMemory()} })
		_, err := post(c, "a").Do(t.Context())
		require.Error(t, err)
		time.Sleep(time.Minute)
		require.Equal(t, 1, api.count())
	})
}

// TestDoingItAgainAfterAFailedSync is the same with a real file.
func TestDoingItAgainAfterAFailedSync(t *testing.T) {
	for range 10 {
		d := bolttest.NewDisk()
		var o bolt.Options
		d.Attach(&o)
		e, err := bolt.Open(t.TempDir()+"/pos.outbox", o)
		require.NoError(t, err)
		api := &fakeAPI{}
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = e })
		_, err = post(c, "warm").Do(t.Context()) // what a connection learns is saved once
		require.NoError(t, err)
		d.Fail(bolttest.SyncMeta, 1)
		d.FailAt(bolt.PointCopyWritten, 1, syscall.EIO)
		call := post(c, "a")
		_, err = call.Do(t.Context())
		var unknown *SaveError
		require.ErrorAs(t, err, &unknown)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, err = call.Do(ctx)
		cancel()
		require.NoError(t, err)
		require.Equal(t, 2, api.count())
		require.NoError(t, c.Close())
		require.NoError(t, e.Close())
	}
}
