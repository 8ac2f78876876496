package flavoso

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// slowToSettle is an engine whose storage takes results only once it may.
type slowToSettle struct {
	outbox.Engine
	may     chan struct{}
	waiting atomic.Int64 // settlements that were handed over
}

func (e *slowToSettle) Settle(ctx context.Context, s ...outbox.Settlement) ([]outbox.Settled, error) {
	e.waiting.Add(1)
	<-e.may
	return e.Engine.Settle(ctx, s...)
}

// TestAPlaceIsFreeWhenItsAttemptIsOver: the next operation is claimed while the result of the one before is being
// saved, so that both can share a commit. Requests stay within the concurrency, and so do results that
// are not saved.
func TestAPlaceIsFreeWhenItsAttemptIsOver(t *testing.T) {
	for _, concurrency := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			e := &slowToSettle{Engine: outbox.NewMemory(), may: make(chan struct{})}
			backlog(t, e, 10, 2)
			var mu sync.Mutex
			under, most := 0, 0
			enter := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				under += n
				most = max(most, under)
			}
			gate := make(chan struct{})
			api := &fakeAPI{before: func(*http.Request) error {
				enter(1)
				defer enter(-1)
				<-gate
				return nil
			}}
			c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox, cfg.Concurrency = e, concurrency })
			synctest.Wait()
			require.Equal(t, concurrency, api.count())
			for range concurrency {
				gate <- struct{}{}
			}
			synctest.Wait()
			require.Equal(t, 2*concurrency, api.count(), "the next ones are on their way before the first are saved")
			close(gate)
			synctest.Wait()
			require.Equal(t, 2*concurrency, api.count(), "results that are not saved are bounded")
			require.Equal(t, int64(2*concurrency), e.waiting.Load())
			close(e.may)
			require.NoError(t, c.Flush(t.Context()))
			require.Equal(t, 20, api.count(), "each once")
			require.Equal(t, concurrency, most, "requests at once")
			counts, err := e.Counts(t.Context(), store)
			require.NoError(t, err)
			require.Equal(t, 20, counts.States[outbox.Succeeded])
		})
	}
}

// TestShutdownWaitsForResultsThatAreBeingSaved: an attempt that is over has left its place, and is not done.
func TestShutdownWaitsForResultsThatAreBeingSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &slowToSettle{Engine: outbox.NewMemory(), may: make(chan struct{})}
		backlog(t, e, 1, 1)
		c := newFakeTill(t, &fakeAPI{}, func(cfg *Config) { cfg.Outbox = e })
		synctest.Wait()
		require.Equal(t, int64(1), e.waiting.Load())
		done := make(chan error, 1)
		go func() { done <- c.Shutdown(t.Context()) }()
		synctest.Wait()
		require.Empty(t, done)
		close(e.may)
		require.NoError(t, <-done)
	})
}
