// Package versus times ways of doing the same thing against each other: in one process, in turn, in short
// rounds. A machine or a disk that gets slower meanwhile slows all of them, and the median of the rounds'
// ratios leaves out what disturbed a few. Benchmarks use it; nothing else does.
package versus

import (
	"slices"
	"time"
)

// Match compares its sides. Not safe for concurrent use.
type Match struct {
	sides []func()
	times [][]time.Duration // by side, by round
}

// New returns a match between sides. Each does the same amount of work whenever it is called.
func New(sides ...func()) *Match {
	return &Match{sides: sides, times: make([][]time.Duration, len(sides))}
}

// Round runs every side once. Who begins moves on from round to round.
func (m *Match) Round() {
	first := len(m.times[0])
	for i := range m.sides {
		side := (first + i) % len(m.sides)
		start := time.Now()
		m.sides[side]()
		m.times[side] = append(m.times[side], time.Since(start))
	}
}

// Ratio returns the median over the rounds of the time of side i, divided by that of side j. There must have
// been a round.
func (m *Match) Ratio(i, j int) float64 {
	ratios := make([]float64, len(m.times[i]))
	for round := range ratios {
		ratios[round] = float64(m.times[i][round]) / float64(m.times[j][round])
	}
	return median(ratios)
}

// Median returns the median time of a side's rounds.
func (m *Match) Median(i int) time.Duration { return median(slices.Clone(m.times[i])) }

func median[T float64 | time.Duration](v []T) T {
	slices.Sort(v)
	return v[len(v)/2]
}
