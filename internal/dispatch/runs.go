package dispatch

import (
	"maps"
	"sync"
	"time"
)

// runs follows, per operation, answers of one sort. It lives in memory: a restart counts anew, and no wall
// clock that is set can shorten a wait.
type runs struct {
	mu      sync.Mutex
	byID    map[string]run
	sweepAt int // look for those that are over when there are so many
}

type run struct {
	since    time.Time // of the first, with its monotonic reading
	last     time.Time
	count    int
	surprise surprise // see surprises; zero elsewhere
}

const (
	// runOver is when a run is over that nothing was added to: what another process has ended is not told of here.
	runOver = 2 * longestDelay
	// runsSwept is how many there are at least before those that are over are looked for.
	runsSwept = 1000
)

// met notes one more.
func (r *runs) met(id string) run {
	return r.note(id, func(*run) {})
}

// note notes one more, before which apply sees to the run: of a new one, only when it began is known.
func (r *runs) note(id string, apply func(*run)) run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]run{}
	}
	now := time.Now()
	at, ok := r.byID[id]
	if !ok {
		at.since = now
	}
	apply(&at)
	at.count++
	at.last = now
	r.byID[id] = at
	if len(r.byID) > max(r.sweepAt, runsSwept) {
		maps.DeleteFunc(r.byID, func(_ string, x run) bool { return now.Sub(x.last) > runOver })
		r.sweepAt = 2 * len(r.byID)
	}
	return at
}

// get returns the run as it is; zero = there is none.
func (r *runs) get(id string) run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// forget ends the run.
func (r *runs) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
}
