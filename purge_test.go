package flavoso

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// A client that takes no outcomes removes what is over, of its own connection: the application of another one in the
// same storage has not taken its outcomes over yet, and keeps what it has for longer.
func TestAClientRemovesNothingOfOtherConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := sharedMemory{outbox.NewMemory()}
		open := func(connection string, keep time.Duration, onOutcome func(context.Context, *Client, Outcome) error) *Client {
			return newFakeTill(t, &fakeAPI{}, func(c *Config) {
				c.Connection, c.Outbox, c.KeepFinished, c.OnOutcome = connection, engine, keep, onOutcome
			})
		}
		done := func(c *Client, lane string) string {
			p, err := post(c, lane).Enqueue(t.Context())
			require.NoError(t, err)
			_, err = p.Wait(t.Context())
			require.NoError(t, err)
			return p.ID()
		}
		a := open("a", time.Hour, nil)
		b := open("b", 30*24*time.Hour, func(_ context.Context, _ *Client, o Outcome) error {
			if o.Lane == "later" {
				return errors.New("not now")
			}
			return nil
		})
		own, taken, open2 := done(a, "own"), done(b, "taken"), done(b, "later")
		time.Sleep(24 * time.Hour)
		_, err := a.Operations.Get(t.Context(), own)
		require.ErrorIs(t, err, ErrNotFound, "an hour is over")
		_, err = b.Operations.Get(t.Context(), open2)
		require.NoError(t, err, "it is still to be taken over")
		_, err = b.Operations.Get(t.Context(), taken)
		require.NoError(t, err, "it is kept for 30 days")
	})
}

// A file holds what an earlier connection of the till has left in it: that goes, too, once it was taken over.
func TestWhatAnEarlierConnectionLeftInAFileIsRemovedOnceItWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "pos.outbox")
		open := func(connection string) *Client {
			return newFakeTill(t, &fakeAPI{}, func(c *Config) {
				c.Connection, c.Outbox, c.OutboxPath, c.KeepFinished = connection, nil, path, time.Hour
			})
		}
		c := open("before")
		var ids []string
		for _, lane := range []string{"seen", "unseen"} {
			p, err := post(c, lane).Enqueue(t.Context())
			require.NoError(t, err)
			_, err = p.Wait(t.Context())
			require.NoError(t, err)
			ids = append(ids, p.ID())
		}
		require.NoError(t, c.Operations.Ack(t.Context(), ids[0]))
		require.NoError(t, c.Close())
		c = open("after")
		time.Sleep(24 * time.Hour)
		_, err := c.Operations.Get(t.Context(), ids[0])
		require.ErrorIs(t, err, ErrNotFound)
		_, err = c.Operations.Get(t.Context(), ids[1])
		require.NoError(t, err)
	})
}
