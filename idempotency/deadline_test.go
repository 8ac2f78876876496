package idempotency

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The context with a lazy timer behaves as context.WithTimeout does, whoever looks first.
func TestDeadlineContext(t *testing.T) {
	for name, look := range map[string]func(*deadlineCtx){
		"nobody waits":         func(*deadlineCtx) {},
		"somebody waits":       func(c *deadlineCtx) { c.Done() },
		"somebody asked first": func(c *deadlineCtx) { require.NoError(t, c.Err()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := withDeadline(t.Context(), time.Minute)
			defer c.stop()
			look(c)
			at, ok := c.Deadline()
			require.True(t, ok)
			require.Equal(t, time.Minute, time.Until(at))
			time.Sleep(time.Minute - time.Nanosecond)
			require.NoError(t, c.Err(), name)
			time.Sleep(time.Millisecond)
			require.ErrorIs(t, c.Err(), context.DeadlineExceeded, name)
			<-c.Done()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := withDeadline(t.Context(), time.Minute)
		child, cancel := context.WithCancel(c)
		defer cancel()
		start := time.Now()
		<-child.Done()
		require.Equal(t, time.Minute, time.Since(start))
		require.ErrorIs(t, child.Err(), context.DeadlineExceeded)
		c.stop()

		c = withDeadline(t.Context(), time.Minute)
		done := c.Done()
		c.stop()
		<-done
		require.ErrorIs(t, c.Err(), context.Canceled)
		time.Sleep(time.Hour)
		require.ErrorIs(t, c.Err(), context.Canceled, "the first end counts")
	})
}
