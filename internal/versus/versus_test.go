package versus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheRatioIsTheMedianOfTheRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, order := time.Second, ""
		m := New(func() { order += "a"; time.Sleep(2 * slow) }, func() { order += "b"; time.Sleep(slow) })
		for range 4 {
			m.Round()
			slow *= 3 // the machine gets slower
		}
		m.times[0][1] *= 100 // something came in between
		require.Equal(t, 2.0, m.Ratio(0, 1))
		require.Equal(t, 0.5, m.Ratio(1, 0))
		require.Equal(t, 9*time.Second, m.Median(1))
		require.Equal(t, "abbaabba", order)
	})
}
