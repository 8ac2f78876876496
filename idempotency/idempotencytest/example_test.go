package idempotencytest_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/idempotency/idempotencytest"
)

// In the test of an engine: the factory gives each case an engine over storage of its own, and says how its time
// is moved.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestEnginePassesTheSuite(t *testing.T)
		idempotencytest.Run(t, func(t *testing.T) idempotencytest.Fixture {
			var ahead atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			return idempotencytest.Fixture{
				Engine:  idempotency.NewMemory(idempotency.WithClock(now)),
				Advance: func(d time.Duration) { ahead.Add(int64(d)) },
			}
		})
	}
}
