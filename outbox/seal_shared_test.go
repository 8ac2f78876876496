package outbox_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// together is a shared engine whose first readers of the data key meet before any of them goes on.
type together struct {
	outbox.Engine
	readers atomic.Int32
	all     chan struct{}
}

func (e *together) Shared() bool { return true }

func (e *together) LoadState(ctx context.Context, connection, name string) ([]byte, error) {
	v, err := e.Engine.LoadState(ctx, connection, name)
	switch n := e.readers.Add(1); {
	case n == 2:
		close(e.all)
	case n == 1:
		<-e.all
	}
	return v, err
}

// Processes that seal an empty outbox at the same time can read each other's operations, then and later.
func TestSealingASharedOutboxTogether(t *testing.T) {
	e := &together{Engine: outbox.NewMemory(), all: make(chan struct{})}
	opened := make(chan outbox.Engine, 2)
	for range 2 {
		go func() {
			s, err := outbox.Seal(e, sealKey(1))
			if err != nil {
				t.Error(err)
			}
			opened <- s
		}()
	}
	one, other := <-opened, <-opened
	later, err := outbox.Seal(e, sealKey(2), sealKey(1))
	require.NoError(t, err)
	for i, s := range []outbox.Engine{one, other, later} {
		id := string(rune('a' + i))
		_, err := s.Add(ctx, outbox.Addition{Now: time.Now(), Record: outbox.Record{ID: id, Connection: "c", Lane: "lane", Kind: "call",
			Request: outbox.Request{Method: "POST", Target: "/things", Body: []byte(id)}}})
		require.NoError(t, err)
		for _, reader := range []outbox.Engine{one, other, later} {
			rec, err := reader.Get(ctx, id)
			require.NoError(t, err)
			require.Equal(t, id, string(rec.Request.Body))
		}
	}
}
