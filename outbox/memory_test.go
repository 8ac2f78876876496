package outbox_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/outboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryKeepsTheContract(t *testing.T) {
	outboxtest.Run(t, func(testing.TB) outboxtest.Storage {
		return outboxtest.Storage{Open: func() (outbox.Engine, error) { return outbox.NewMemory(), nil }}
	})
}
