// Package rig runs a torture: real till processes on real files against a real mock server process, killed
// again and again, in every weather, and judged by the server's ledger.
package rig

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/account"
	"github.com/flavoso/flavoso-go/dev/torture/judge"
	"github.com/flavoso/flavoso-go/dev/torture/overlay"
)

// Options say what a run is like.
type Options struct {
	Seed  uint64
	For   time.Duration // how long to go on; rounds are finished
	Kills int           // stop when so many processes were killed; 0 = For decides
	Round time.Duration // how long tills live and die before they are judged; 0 = 10 s
	Modes []Mode        // one after the other; empty = all that work here
	Keep  bool          // leave the files of a failed round
	Log   io.Writer     // progress

	// Patches are laid over the till's sources: mutants.
	Patches []overlay.Patch
	// Shape changes each round's tills, for a short run that looks at one thing.
	Shape func(*Style)
	// Only names the faults that the mock server makes, each to Ratio of the requests; empty = all of them, a
	// few at a time.
	Only  []string
	Ratio float64
	// Restless makes what happens to everybody happen more often: restarts of the server, and nights.
	Restless bool
	// Outages makes the server's restarts the one thing that happens, and one follow the other.
	Outages bool
}

// Report is what came of a run.
type Report struct {
	Seed       uint64
	Rounds     map[string]int // by mode
	Kills      int            // kill -9 from outside
	Deaths     map[string]int // by the till itself, by point
	Images     map[string]int // power losses, by kind
	Polite     int            // lives that ended by themselves
	Restarts   int            // of the mock server
	Rotations  int            // of tokens
	Databases  int            // restarts of PostgreSQL
	Nights     int            // of 25 hours
	Jumps      int            // lives whose clock was set
	Faulty     int            // lives with a failing storage
	Full       int            // times a real disk was full
	Excused    map[string]int
	Counts     judge.Counts
	Violations []judge.Violation
	Skipped    map[string]string // modes that cannot run here, and why
	Files      string            // of a failed round, when they were left
	Took       time.Duration
}

// Killed is the number of processes that did not get to end. A power loss at the seam is an end of its own; that of
// a disk follows one that is counted already.
func (r *Report) Killed() int {
	n := r.Kills
	for _, k := range r.Deaths {
		n += k
	}
	for kind, k := range r.Images {
		if !strings.HasSuffix(kind, onLoop) {
			n += k
		}
	}
	return n
}

// onLoop ends the name of a power loss of a whole disk.
const onLoop = " on a loop device"

// Run runs a torture. The error says that the rig itself failed; what the judge objects to is in the report.
func Run(o Options) (*Report, error) {
	if o.Round == 0 {
		o.Round = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	rep := &Report{Seed: o.Seed, Rounds: map[string]int{}, Deaths: map[string]int{}, Images: map[string]int{}, Excused: map[string]int{},
		Skipped: map[string]string{}, Counts: judge.Counts{Points: map[string]int{}, States: map[string]int{}}}
	dir, err := os.MkdirTemp("", "torture-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if !o.Keep || len(rep.Violations) == 0 {
			_ = os.RemoveAll(dir)
		}
	}()
	till, mock := filepath.Join(dir, "till"), filepath.Join(dir, "mock")
	if err := errors.Join(overlay.Build("till", till, slices.Concat(overlay.Clock, overlay.Pace, o.Patches)), overlay.Build("mock", mock, nil)); err != nil {
		return nil, err
	}
	worker := filepath.Join(dir, "worker")
	modes := o.Modes
	if len(modes) == 0 {
		modes = Modes()
	}
	modes = slices.DeleteFunc(slices.Clone(modes), func(m Mode) bool {
		why := m.missing()
		if why != "" {
			rep.Skipped[string(m)] = why
		}
		return why != ""
	})
	if len(modes) == 0 {
		return rep, nil
	}
	if slices.Contains(modes, Fleet) {
		if err := overlay.Build("worker", worker, slices.Concat(overlay.Clock, overlay.Pace, overlay.FleetPace, o.Patches)); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	for n := 0; ; n++ {
		r := &round{options: o, mode: modes[n%len(modes)], number: n, dir: filepath.Join(dir, fmt.Sprint(n)), till: till, worker: worker, report: rep,
			rnd: rand.New(rand.NewPCG(o.Seed, uint64(n)))}
		r.server = &server{binary: mock, dir: r.dir, seed: o.Seed*1_000_003 + uint64(n)*101, only: o.Only, ratio: o.Ratio, wild: true}
		if err := r.run(); err != nil {
			return rep, fmt.Errorf("seed %d, round %d (%s), files in %s: %w", o.Seed, n, r.mode, r.dir, err)
		}
		rep.Rounds[string(r.mode)]++
		rep.Took = time.Since(began)
		fmt.Fprintf(o.Log, "%7s  round %d (%s): %d processes killed, %d operations, %d effects, %d objections\n", rep.Took.Round(time.Second), n,
			r.mode, rep.Killed(), rep.Counts.Begun, rep.Counts.Effects, len(rep.Violations))
		if len(rep.Violations) > 0 && o.Keep {
			rep.Files = r.dir
		}
		if len(rep.Violations) > 0 || o.Kills > 0 && rep.Killed() >= o.Kills || o.Kills == 0 && rep.Took >= o.For {
			return rep, nil
		}
		if err := os.RemoveAll(r.dir); err != nil {
			return rep, err
		}
	}
}

// round is one server and some tills, from the first life to the judge.
type round struct {
	options  Options
	mode     Mode
	number   int
	dir      string
	till     string // the programs
	worker   string
	database *database
	server   *server
	slots    []*slot
	rnd      *rand.Rand
	end      time.Time

	day    sync.RWMutex  // held by every life; a night has it alone
	night  time.Duration // how much time nights have taken
	mu     sync.Mutex    // guards report
	report *Report
}

func (r *round) note(change func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r.report)
}

func (r *round) run() (err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	if err := r.server.start(); err != nil {
		return err
	}
	defer func() { _ = r.server.stop() }()
	if r.mode == Fleet {
		if err := r.startFleet(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.database.stop()) }()
	}
	for i := range r.mode.tills() {
		s, err := newSlot(r, i)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		r.slots = append(r.slots, s)
	}
	r.end = time.Now().Add(r.options.Round)
	var failed firstError
	var all sync.WaitGroup
	for _, s := range r.slots {
		all.Go(func() { failed.set(s.live()) })
	}
	all.Go(func() { failed.set(r.events()) })
	all.Wait()
	if failed.err != nil {
		return failed.err
	}
	return r.judge()
}

// events are what happens to everybody.
func (r *round) events() error {
	rnd := rand.New(rand.NewPCG(r.options.Seed, uint64(r.number)<<8|1))
	pause := 500
	if r.options.Restless || r.options.Outages {
		pause = 100
	}
	for {
		time.Sleep(time.Duration(50+rnd.IntN(pause)) * time.Millisecond)
		if time.Now().After(r.end) {
			return nil
		}
		var err error
		switch n := rnd.IntN(12); {
		case n < 3 || r.options.Outages:
			err = r.server.restart(time.Duration(rnd.IntN(60)) * time.Millisecond)
			r.note(func(rep *Report) { rep.Restarts++ })
		case n < 5:
			names := r.slots[rnd.IntN(len(r.slots))].connections()
			err = r.rotate(names[rnd.IntN(len(names))])
			r.note(func(rep *Report) { rep.Rotations++ })
		case n < 7 && r.database != nil:
			err = r.database.restart()
			r.note(func(rep *Report) { rep.Databases++ })
		case (n == 5 || r.options.Restless && n < 9) && r.mode.nights():
			err = r.sleep()
		}
		if err != nil {
			return err
		}
	}
}

// sleep lets a night pass, longer than Flavoso remembers a key: nobody works, and every clock goes on.
func (r *round) sleep() error {
	const long = 25 * time.Hour
	r.day.Lock()
	defer r.day.Unlock()
	r.night += long
	r.note(func(rep *Report) { rep.Nights++ })
	return r.server.advance(long)
}

// judge lets everything settle in good weather, and judges.
func (r *round) judge() error {
	if err := r.server.quiet(); err != nil {
		return err
	}
	var failed firstError
	var all sync.WaitGroup
	for _, s := range r.slots {
		if r.mode == Fleet && s.number > 0 {
			continue // one worker is enough for what all of them left
		}
		all.Go(func() { failed.set(s.drain()) })
	}
	all.Wait()
	if failed.err != nil {
		return failed.err
	}
	var e judge.Evidence
	var err error
	for _, s := range r.slots {
		t := judge.Till{Slot: s.number, Connection: s.connection, Purges: s.style.Purge, Hold: s.style.AttemptTimeout}
		if t.Events, err = account.Read(s.account); err != nil {
			return err
		}
		e.Tills = append(e.Tills, t)
	}
	if r.mode == Fleet {
		e.Tills = []judge.Till{fleetTill(e.Tills)}
	}
	if e.Server, err = r.server.evidence(); err != nil {
		return err
	}
	v := judge.Judge(e)
	r.note(func(rep *Report) {
		rep.Violations = append(rep.Violations, v.Violations...)
		add(rep.Excused, v.Excused)
		add(rep.Counts.States, v.Counts.States)
		add(rep.Deaths, without(v.Counts.Points, "power"))
		add(rep.Images, only(v.Counts.Points, "power"))
		c := &rep.Counts
		c.Lives += v.Counts.Lives
		c.Begun += v.Counts.Begun
		c.Accepted += v.Counts.Accepted
		c.Requests += v.Counts.Requests
		c.Replays += v.Counts.Replays
		c.Effects += v.Counts.Effects
	})
	return nil
}

func add(to, from map[string]int) {
	for k, n := range from {
		to[k] += n
	}
}

func only(m map[string]int, prefix string) map[string]int {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(k string, _ int) bool { return !strings.HasPrefix(k, prefix) })
	return out
}

func without(m map[string]int, prefix string) map[string]int {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(k string, _ int) bool { return strings.HasPrefix(k, prefix) })
	return out
}

// firstError keeps the first of several errors.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}
