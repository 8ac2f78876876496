package flavoso

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// waits are the calls that take as long as the network does, and what ends them with the client. Each is made while
// Flavoso cannot be reached.
var waits = map[string]struct {
	call func(ctx context.Context, s *till) error
	is   error // what the error is when the client is closed meanwhile
}{
	"Do": {func(ctx context.Context, s *till) error {
		_, err := s.Orders.Accept("a", AcceptParams{}).Do(ctx)
		return err
	}, ErrStopped},
	"Pending.Wait": {func(ctx context.Context, s *till) error {
		p, err := s.Orders.Accept("a", AcceptParams{}).Enqueue(ctx)
		if err == nil {
			_, err = p.Wait(ctx)
		}
		return err
	}, ErrStopped},
	"Attach": {func(ctx context.Context, s *till) error {
		p, err := s.Orders.Accept("a", AcceptParams{}).Enqueue(ctx)
		if err == nil {
			_, err = Attach[Order](s.Client, p.ID()).Wait(ctx)
		}
		return err
	}, ErrStopped},
	"Flush": {func(ctx context.Context, s *till) error {
		if _, err := s.Orders.Accept("a", AcceptParams{}).Enqueue(ctx); err != nil {
			return err
		}
		return s.Flush(ctx)
	}, ErrStopped},
	"Get": {func(ctx context.Context, s *till) error {
		_, err := Get[Order](ctx, s.Client, Path("orders", "a"), nil)
		return err
	}, ErrStopped},
	"List": {func(ctx context.Context, s *till) error {
		for _, err := range s.Orders.List(ctx, ListOrdersParams{}) {
			return err
		}
		return nil
	}, ErrStopped},
	"Watch": {func(ctx context.Context, s *till) error {
		return s.Orders.Watch(ctx, WatchParams{Name: "kitchen"}, func(context.Context, *Order) error { return nil })
	}, ErrStopped},
}

// TestEveryWaitEnds with its context and with the client, whatever keeps it waiting; no goroutine stays behind (the
// bubble would not end), and nothing that was saved is lost.
func TestEveryWaitEnds(t *testing.T) {
	troubles := map[string]func(s *till){
		"offline":   func(s *till) { s.srv.Inject(mockserver.Refuse().Optional()) },
		"no answer": func(s *till) { s.srv.Inject(mockserver.Hang().Optional()) },
		"500":       func(s *till) { s.srv.Inject(mockserver.Status(500).Optional()) },
		"portal":    func(s *till) { s.srv.Inject(mockserver.Portal().Optional()) },
		"the token source hangs": func(s *till) {
			require.NoError(s.t, s.Close())
			s.cfg.Token = TokenFunc(func(ctx context.Context, _ TokenRequest) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})
			s.open()
		},
	}
	for name, trouble := range troubles {
		for wait, w := range waits {
			t.Run(wait+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newTill(t, func(c *Config) { c.MaxWait = time.Hour })
					trouble(s)
					ended := func(end func(cancel context.CancelFunc)) (time.Duration, error) {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						done := make(chan error, 1)
						go func() { done <- w.call(ctx, s) }()
						time.Sleep(2500 * time.Millisecond)
						require.Empty(t, done)
						began := time.Now()
						end(cancel)
						err := <-done
						return time.Since(began), err
					}
					took, err := ended(func(cancel context.CancelFunc) { cancel() })
					require.ErrorIs(t, err, context.Canceled)
					require.Zero(t, took)
					took, err = ended(func(context.CancelFunc) { require.NoError(t, s.Close()) })
					require.ErrorIs(t, err, w.is)
					require.Zero(t, took)
					require.Empty(t, s.srv.Effects())
				})
			})
		}
	}
}
