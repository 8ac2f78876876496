package mockserver

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Injected is a fault that a server has. Its methods are safe for concurrent use.
type Injected struct {
	set   *faultSet
	id    string
	spec  faultSpec
	rnd   *random
	seen  int // matching requests that no earlier fault took
	fired int
	gone  bool
	err   error
}

// ID names the fault in the admin API; "" for one that was not accepted.
func (f *Injected) ID() string { return f.id }

// Fired returns how often the fault has fired.
func (f *Injected) Fired() int {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	return f.fired
}

// Remove takes the fault away. Removing it twice is the same as once.
func (f *Injected) Remove() {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.gone = true
}

// Err says why the fault was not accepted; nil when it was. A server made by Start fails its test as well.
func (f *Injected) Err() error { return f.err }

// faultSet holds a server's faults in the order they were injected.
type faultSet struct {
	mu    sync.Mutex
	seed  uint64
	rules []*Injected
	count int
}

func (s *faultSet) inject(spec faultSpec) *Injected {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &Injected{set: s, spec: spec}
	if err := spec.validate(); err != nil {
		f.err = fmt.Errorf("mockserver: fault %s: %w", spec.Name, err)
		return f
	}
	s.count++
	f.id = fmt.Sprintf("fault-%d", s.count)
	f.rnd = newRandom(s.seed, fmt.Sprintf("fault %d", s.count))
	s.rules = append(s.rules, f)
	return f
}

// reset is clear and the numbers from 1 again, so that a ratio draws the same as in a new server.
func (s *faultSet) reset() {
	s.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count = 0
}

func (s *faultSet) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.rules {
		f.gone = true
	}
	s.rules = nil
}

// remove takes away the fault with this id.
func (s *faultSet) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.rules {
		if f.id == id && !f.gone {
			f.gone = true
			return true
		}
	}
	return false
}

// unfired returns an error that names the faults which never fired and should have.
func (s *faultSet) unfired() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, f := range s.rules {
		if f.fired == 0 && !f.spec.Optional && f.spec.Ratio == nil {
			errs = append(errs, fmt.Errorf("mockserver: the fault %s never fired (%d requests matched it)", f.spec, f.seen))
		}
	}
	return errors.Join(errs...)
}

// times is how often the fault may fire; 0 = any number.
func (f *Injected) times() int {
	if f.spec.Times == 0 && f.spec.Nth > 0 {
		return 1
	}
	return f.spec.Times
}

// strike counts a matching call and decides whether the fault fires. The caller holds the lock.
func (f *Injected) strike() bool {
	f.seen++
	if times := f.times(); f.seen < f.spec.Nth || (times > 0 && f.fired >= times) {
		return false
	}
	if f.spec.Ratio != nil && f.rnd.float() >= *f.spec.Ratio {
		return false
	}
	f.fired++
	return true
}

// refusing reports whether the next dial may be refused; then no connection is kept alive.
func (s *faultSet) refusing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.rules {
		if !f.gone && f.spec.Name == faultRefuse && (f.times() == 0 || f.fired < f.times()) {
			return true
		}
	}
	return false
}

// refuses decides about a new connection.
func (s *faultSet) refuses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.rules {
		if !f.gone && f.spec.Name == faultRefuse && f.strike() {
			return true
		}
	}
	return false
}

// plan is what goes wrong with one request.
type plan struct {
	act                      faultSpec // Name "" = nothing but the waits
	before, inHandler, after time.Duration
	delayed                  bool
}

// name is the fault as the journal shows it.
func (p plan) name() string {
	if p.act.Name == "" && p.delayed {
		return faultDelay
	}
	return p.act.Name
}

// is reports whether the plan's fault is name, at stage if one is given.
func (p plan) is(name, stage string) bool {
	at := p.act.Stage
	if at == "" {
		at = StageBefore
	}
	return p.act.Name == name && (stage == "" || at == stage)
}

// plan asks the faults in order what happens to a request. One that asks for no operation of the API, such
// as a browser's look at /, must not use up a fault that was meant for another: it meets only those
// whose path names it.
func (s *faultSet) plan(method, path, connection string, operation bool) plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p plan
	for _, f := range s.rules {
		if f.gone || f.spec.Name == faultRefuse || (f.spec.Path == "" && !operation) ||
			!f.spec.matches(method, path, connection) || !f.strike() {
			continue
		}
		if f.spec.Name != faultDelay {
			p.act = f.spec
			break
		}
		p.delayed = true
		switch d := time.Duration(f.spec.Delay); f.spec.Stage {
		case StageInHandler:
			p.inHandler += d
		case StageAfter:
			p.after += d
		default:
			p.before += d
		}
	}
	return p
}

func (f faultSpec) matches(method, path, connection string) bool {
	return (f.Method == "" || strings.EqualFold(f.Method, method)) &&
		(f.Connection == "" || f.Connection == connection) &&
		(f.Path == "" || pathMatches(f.Path, path))
}

// pathMatches compares segment by segment; a segment in braces matches any one.
func pathMatches(pattern, path string) bool {
	for {
		p, patternRest, more := strings.Cut(pattern, "/")
		s, pathRest, moreToo := strings.Cut(path, "/")
		if more != moreToo {
			return false
		}
		variable := strings.HasPrefix(p, "{") && strings.HasSuffix(p, "}") && s != ""
		if p != s && !variable {
			return false
		}
		if !more {
			return true
		}
		pattern, path = patternRest, pathRest
	}
}
