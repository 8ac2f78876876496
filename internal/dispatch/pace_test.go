package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPaceHalvesUnderStrainAndGrowsBack(t *testing.T) {
	p := newPace(8)
	require.Equal(t, 8, p.free())

	p.strained(1)
	require.Equal(t, 4, p.free())
	for range 6 {
		p.strained(1)
	}
	require.Equal(t, 1, p.free(), "never below one")

	p.good()
	require.Equal(t, 2, p.free(), "one more per round, and the round of one is one answer")
	for range 200 {
		p.good()
	}
	require.Equal(t, 8, p.free(), "never above the bound")
}

func TestPaceDoublesPerRoundAfterAnOutage(t *testing.T) {
	p := newPace(8)
	p.restart()
	require.Equal(t, 1, p.free())
	p.good() // the round of one
	require.Equal(t, 2, p.free())
	p.good()
	p.good() // the round of two
	require.Equal(t, 4, p.free(), "doubled until half the last limit")
	p.good()
	require.Equal(t, 4, p.free(), "from there one per round")
	for range 4 {
		p.good()
	}
	require.Equal(t, 5, p.free())
}

func TestPaceCountsWhatIsUnderWay(t *testing.T) {
	p := newPace(3)
	p.inflight = 2
	require.Equal(t, 1, p.free())
	p.strained(1)
	require.Equal(t, 0, p.free(), "more under way than allowed is not a negative number of places")
}
