package dispatch

import (
	"sync"
	"time"
)

// runs follows, per operation, answers of one sort. It lives in memory: a restart counts anew, and no wall
// clock that is set can shorten a wait.
type runs struct {
	mu   sync.Mutex
	byID map[string]run
}

type run struct {
	since time.Time // of the first, with its monotonic reading
	count int
}

// met notes one more.
func (r *runs) met(id string) run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]run{}
	}
	at, ok := r.byID[id]
	if !ok {
		at.since = time.Now()
	}
	at.count++
	r.byID[id] = at
	return at
}

// count returns how many there were.
func (r *runs) count(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id].count
}

// forget ends the run.
func (r *runs) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
}
