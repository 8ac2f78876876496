package dispatch

import (
	"sync"
	"time"
)

// foreign counts, per operation, the answers that were not Flavoso's since the last one that was. It lives
// in memory: a restart counts anew, and no wall clock that is set can shorten the wait.
type foreign struct {
	mu   sync.Mutex
	byID map[string]foreignRun
}

type foreignRun struct {
	since time.Time // with its monotonic reading
	count int
}

// met notes one more and reports whether it is enough to give up trying.
func (f *foreign) met(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	run, ok := f.byID[id]
	if !ok {
		run.since = time.Now()
	}
	run.count++
	if f.byID == nil {
		f.byID = map[string]foreignRun{}
	}
	f.byID[id] = run
	return run.count >= slowTries && time.Since(run.since) >= slowFor
}

// forget ends the run: Flavoso answered.
func (f *foreign) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byID, id)
}
