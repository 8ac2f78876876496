package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/outboxtest"
)

func TestBoltKeepsTheContract(t *testing.T) {
	outboxtest.Run(t, func(t testing.TB) outboxtest.Storage {
		path := filepath.Join(fastDir(t), "pos.outbox")
		return outboxtest.Storage{
			Open:    func() (outbox.Engine, error) { return bolt.Open(path, bolt.Options{}) },
			Reopens: true,
		}
	})
}
