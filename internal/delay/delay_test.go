package delay

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestJitterStaysInItsSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		attempt := rapid.IntRange(-5, math.MaxInt).Draw(t, "attempt")
		base := time.Duration(rapid.Int64().Draw(t, "base"))
		floor := time.Duration(rapid.Int64Min(0).Draw(t, "floor"))
		most := time.Duration(rapid.Int64Min(0).Draw(t, "most"))
		d := Jitter(attempt, base, floor, most)
		upper := min(grow(base, attempt), most)
		if d < 0 || d > upper || upper > floor && d < floor {
			t.Fatalf("%v not in [%v, %v]", d, floor, upper)
		}
	})
}

func TestDefaultSpans(t *testing.T) {
	for attempt, upper := range map[int]time.Duration{
		-1: 500 * time.Millisecond, 0: 500 * time.Millisecond, 1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second,
		7: time.Minute, 8: time.Minute, 62: time.Minute, 63: time.Minute, 64: time.Minute, math.MaxInt: time.Minute,
	} {
		for range 200 {
			d := Default(attempt)
			assert.GreaterOrEqual(t, d, Floor, "attempt %d", attempt)
			assert.LessOrEqual(t, d, upper, "attempt %d", attempt)
		}
	}
}

// Every tenth of the span is drawn about equally often: 10 000 draws, 1 000 expected in each, and a
// deviation of 10 standard deviations does not happen by chance.
func TestJitterIsUniform(t *testing.T) {
	const draws, tenths = 10_000, 10
	var count [tenths]int
	for range draws {
		d := Jitter(3, 500*time.Millisecond, time.Second, time.Minute) // [1 s, 4 s]
		count[min(int((d-time.Second)*tenths/(3*time.Second)), tenths-1)]++
	}
	for i, n := range count {
		assert.InDelta(t, draws/tenths, n, 300, "tenth %d", i)
	}
}

func TestEmptySpans(t *testing.T) {
	assert.Equal(t, 20*time.Millisecond, Jitter(0, time.Second, 50*time.Millisecond, 20*time.Millisecond))
	assert.Equal(t, time.Duration(0), Jitter(0, 0, 0, time.Minute))
	assert.Equal(t, time.Duration(0), Jitter(0, -1, 50, -1))
}
