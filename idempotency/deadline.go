package idempotency

import (
	"context"
	"sync"
	"time"
)

// deadlineCtx is a context with a deadline that starts its timer only when somebody asks for Done: an
// engine in memory never does, and timers are what most of a short request's overhead would be. stop must be called.
type deadlineCtx struct {
	context.Context // without cancellation of its own
	deadline        time.Time

	mu    sync.Mutex
	done  chan struct{}
	err   error
	timer *time.Timer
}

func withDeadline(parent context.Context, deadline time.Time) *deadlineCtx {
	return &deadlineCtx{Context: parent, deadline: deadline}
}

func (c *deadlineCtx) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *deadlineCtx) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		} else {
			c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.end(context.DeadlineExceeded) })
		}
	}
	return c.done
}

func (c *deadlineCtx) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !time.Now().Before(c.deadline) {
		c.endLocked(context.DeadlineExceeded)
	}
	return c.err
}

func (c *deadlineCtx) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(err)
}

func (c *deadlineCtx) endLocked(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.done != nil {
		close(c.done)
	}
}

// stop ends the context and its timer.
func (c *deadlineCtx) stop() { c.end(context.Canceled) }
