package flavoso

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFlushWithAnUnsavedVerdict waits for the storage without spinning.
func TestFlushWithAnUnsavedVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, api := newFaulty(), &fakeAPI{}
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = f })
		f.script(&rule{method: "Settle", err: errDisk})
		looks := f.script(&rule{method: "List", when: func(any) bool { return true }})
		_, err := post(c, "a").Do(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, c.Flush(contextFor(t, 30*time.Second)), context.DeadlineExceeded)
		require.Less(t, f.hits(looks), 100)
	})
}
