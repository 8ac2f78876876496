package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What another process has ended is never forgotten by name: it goes by itself.
func TestRunsForgetWhatIsNotMetAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r runs
		r.met("goes on")
		for hour := range 48 {
			for i := range 1000 {
				r.met(fmt.Sprint(hour, " ", i))
			}
			r.met("goes on")
			time.Sleep(time.Hour)
		}
		require.Less(t, len(r.byID), 16_000)
		require.Equal(t, 50, r.met("goes on").count)
		r.forget("goes on")
		require.Zero(t, r.get("goes on"))
	})
}
