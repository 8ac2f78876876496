package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPaceHalvesUnderStrainAndGrowsBack(t *testing.T) {
	now := time.Now()
	p := newPace(8)
	require.Equal(t, 8, p.free())

	p.strained(1, now)
	require.Equal(t, 4, p.free())
	for range 6 {
		p.strained(1, now)
	}
	require.Equal(t, 1, p.free(), "never below one")

	for range 100 {
		p.good(now)
	}
	require.Equal(t, 1, p.free(), "answers alone do not make it grow: time does")
	for n := 2; n <= 8; n++ {
		now = now.Add(growEvery)
		p.good(now)
		p.good(now)
		require.Equal(t, n, p.free(), "one more each time")
	}
	now = now.Add(time.Hour)
	p.good(now)
	require.Equal(t, 8, p.free(), "never above the bound")
}

func TestPaceLeavesAPlaceWhenOnlyOneLaneStrains(t *testing.T) {
	now := time.Now()
	p := newPace(8)
	for range 6 {
		p.strained(2, now)
	}
	require.Equal(t, 2, p.free())
	p.restart(now)
	p.strained(2, now)
	require.Equal(t, 1, p.free(), "strain never makes it grow")
}

func TestPaceDoublesAfterAnOutage(t *testing.T) {
	now := time.Now()
	p := newPace(16)
	p.restart(now)
	for _, want := range []int{1, 2, 4, 8, 9, 10} {
		require.Equal(t, want, p.free(), "doubled until half the last limit, and one more each time from there")
		p.good(now) // too early
		now = now.Add(growEvery)
		p.good(now)
	}
}

func TestPaceCountsWhatIsUnderWay(t *testing.T) {
	p := newPace(3)
	p.inflight = 2
	require.Equal(t, 1, p.free())
	p.strained(1, time.Now())
	require.Equal(t, 0, p.free(), "more under way than allowed is not a negative number of places")
}
