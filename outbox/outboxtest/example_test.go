package outboxtest_test

import (
	"path/filepath"
	"testing"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/outboxtest"
)

// In the test of an engine: fresh gives each case storage of its own.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestEngineKeepsTheContract(t *testing.T)
		outboxtest.Run(t, func(t testing.TB) outboxtest.Storage {
			path := filepath.Join(t.TempDir(), "pos.outbox")
			return outboxtest.Storage{
				Open:    func() (outbox.Engine, error) { return bolt.Open(path, bolt.Options{}) },
				Reopens: true, // a new engine finds what an earlier one saved
			}
		})
	}
}
