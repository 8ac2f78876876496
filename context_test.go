package flavoso

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// TestContextEnds in every phase of a Do: before anything is saved nothing happens; later the operation
// goes on without its caller.
func TestContextEnds(t *testing.T) {
	t.Run("before saving", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := &fakeAPI{}
			c := newFakeTill(t, api, nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("the guest left"))
			_, err := post(c, "a").Do(ctx)
			require.Equal(t, FateNotSent, FateOf(err))
			require.ErrorContains(t, err, "the guest left")
			time.Sleep(time.Minute)
			require.Zero(t, api.count())
		})
	})
	t.Run("while saving", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			f, api := newFaulty(&rule{method: "Add", wait: gate}), &fakeAPI{}
			c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = f })
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			call := post(c, "a")
			go func() {
				_, err := call.Do(ctx)
				done <- err
			}()
			synctest.Wait()
			cancel()
			synctest.Wait()
			require.Empty(t, done, "the commit is awaited: the answer is definite")
			close(gate)
			err := <-done
			if err != nil { // the engine looked at the context before its step
				require.Equal(t, FateNotSent, FateOf(err), "%v", err)
				require.ErrorIs(t, err, context.Canceled)
			}
			time.Sleep(time.Minute)
			require.Zero(t, api.count())
		})
	})
	t.Run("while sending", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := &fakeAPI{before: func(r *http.Request) error {
				select {
				case <-time.After(10 * time.Second):
					return nil
				case <-r.Context().Done():
					return r.Context().Err()
				}
			}}
			c := newFakeTill(t, api, nil)
			call := post(c, "a")
			_, err := call.Do(contextFor(t, time.Second))
			var pending *PendingError
			require.ErrorAs(t, err, &pending)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, StateSent, pending.State)
			require.False(t, pending.FirstSent.IsZero())
			time.Sleep(time.Minute)
			require.Equal(t, 1, api.count(), "the attempt went on")
			o, _ := call.Outcome()
			require.Equal(t, StateSucceeded, o.State)
		})
	})
	t.Run("while waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTill(t, nil)
			refuse := s.srv.Inject(mockserver.Refuse())
			id := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(24 * time.Hour)})
			call := s.Orders.Accept(id, AcceptParams{})
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, cancel)
			_, err := call.Do(ctx)
			var pending *PendingError
			require.ErrorAs(t, err, &pending)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, StateQueued, pending.State)
			require.True(t, pending.FirstSent.IsZero(), "provably never sent")
			refuse.Remove()
			s.Wake()
			require.NoError(t, s.Flush(contextFor(t, time.Hour)))
			require.Len(t, s.srv.Effects(), 1)
		})
	})
}
