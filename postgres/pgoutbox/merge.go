package pgoutbox

import (
	"context"
	"slices"
	"sync"
)

const (
	// mergeMost is how many calls share a transaction at most, mergeBytes how many bytes they bring, and mergeAtOnce how
	// many such transactions are under way.
	mergeMost   = 128
	mergeBytes  = 1 << 20
	mergeAtOnce = 4
)

// merger lets calls that come while others are being committed share the next transaction. There is no timer: a lone
// call is run at once.
type merger[Q interface{ bytes() int }] struct {
	mu      sync.Mutex
	queue   []*merged[Q]
	running int
}

// merged is a call that waits for its answer.
type merged[Q any] struct {
	q    Q
	done chan struct{}
}

// do runs a call together with others and returns when it is answered, or when ctx has ended before it was begun.
func (m *merger[Q]) do(ctx context.Context, tasks *sync.WaitGroup, q Q, run func([]Q)) error {
	c := &merged[Q]{q: q, done: make(chan struct{})}
	m.mu.Lock()
	m.queue = append(m.queue, c)
	if m.running < mergeAtOnce && (m.running == 0 || len(m.queue) > 1) {
		m.running++
		tasks.Go(func() { m.work(run) })
	}
	m.mu.Unlock()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	i := slices.Index(m.queue, c)
	if i >= 0 {
		m.queue = slices.Delete(m.queue, i, i+1)
	}
	m.mu.Unlock()
	if i >= 0 {
		return ctx.Err()
	}
	<-c.done
	return nil
}

// work runs what has come until nothing is left.
func (m *merger[Q]) work(run func([]Q)) {
	for {
		m.mu.Lock()
		n, bytes := 0, 0
		for n < min(len(m.queue), mergeMost) && (n == 0 || bytes < mergeBytes) {
			bytes += m.queue[n].q.bytes()
			n++
		}
		batch := m.queue[:n]
		m.queue = m.queue[n:]
		if len(batch) == 0 {
			m.queue = nil
			m.running--
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		qs := make([]Q, len(batch))
		for i, c := range batch {
			qs[i] = c.q
		}
		run(qs)
		for _, c := range batch {
			close(c.done)
		}
	}
}
