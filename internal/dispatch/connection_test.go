package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConnectionGoesOffline(t *testing.T) {
	now := time.Now()
	fresh := func() *connection { return newConnection(Connection{}, 4) }
	second := func(int) time.Duration { return time.Second }

	c := fresh()
	c.failed("order:1", false, now, second)
	c.failed("order:1", false, now, second)
	require.True(t, c.able(now), "one lane's trouble is not the network's")
	c.failed("order:2", false, now, second)
	require.Equal(t, offline, c.condition)
	require.Equal(t, now, c.since)
	require.False(t, c.able(now))

	c = fresh()
	c.failed("order:1", true, now, second)
	require.Equal(t, offline, c.condition, "a request that found no peer is proof enough")
	require.Equal(t, now.Add(time.Second), c.nextProbe)

	c.up(now)
	require.True(t, c.able(now))
	require.Equal(t, 1, c.pace.free(), "careful after an outage")
	c.failed("order:3", false, now, second)
	require.True(t, c.able(now), "an answer in between starts the count anew")
}

func TestConnectionPauseOnlyGrows(t *testing.T) {
	now := time.Now()
	c := newConnection(Connection{}, 4)
	require.True(t, c.pause(now.Add(time.Minute)))
	require.False(t, c.pause(now.Add(time.Second)))
	require.False(t, c.able(now))
	require.True(t, c.able(now.Add(time.Minute)))
}

func TestTokensAreRefreshedOnceForAll(t *testing.T) {
	var refreshes atomic.Int32
	tok := newTokens(func(_ context.Context, rejected string) (string, error) {
		if rejected == "" {
			return "old", nil
		}
		refreshes.Add(1)
		return "new", nil
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			got, err := tok.refresh(context.Background(), "old")
			require.NoError(t, err)
			require.Equal(t, "new", got)
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, refreshes.Load())

	got, err := tok.get(context.Background())
	require.NoError(t, err)
	require.Equal(t, "new", got, "a source that still gives the refused token is not asked to prove it")
}

func TestTokensAskAgainWhenNothingBetterCame(t *testing.T) {
	var asked []string
	tok := newTokens(func(_ context.Context, rejected string) (string, error) {
		asked = append(asked, rejected)
		if len(asked) == 1 {
			return "", errors.New("the identity service is down")
		}
		return "same", nil
	})
	_, err := tok.refresh(context.Background(), "same")
	require.Error(t, err)
	for range 2 {
		got, err := tok.refresh(context.Background(), "same")
		require.NoError(t, err)
		require.Equal(t, "same", got)
	}
	require.Equal(t, []string{"same", "same", "same"}, asked)
}

// TestAWokenConnectionComesBackAtOnce: devices spread their return after an outage, but not one whose owner
// says that the network is back.
func TestAWokenConnectionComesBackAtOnce(t *testing.T) {
	begin := time.Now()
	for _, woken := range []bool{false, true} {
		rested := 0
		for range 100 {
			c := newConnection(Connection{Name: "a"}, 4)
			c.down(offline, begin, time.Second)
			c.woken = woken
			back := begin.Add(24 * time.Hour)
			c.up(back)
			if !c.able(back) {
				rested++
			}
			require.True(t, c.reachable(back))
			require.True(t, c.able(back.Add(longestSpread)))
		}
		require.Equal(t, !woken, rested > 0)
	}
}
