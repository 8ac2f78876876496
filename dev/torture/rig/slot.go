package rig

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/plan"
)

// slot is one outbox with its till's lives.
type slot struct {
	round      *round
	number     int
	connection string
	dir        string // of the outbox
	account    string
	style      Style
	rnd        *rand.Rand
	lives      int
	disk       *disk // its own; nil = a directory
	shared     []string
}

func newSlot(r *round, n int) (*slot, error) {
	s := &slot{round: r, number: n, connection: fmt.Sprintf("store-%d", n), rnd: rand.New(rand.NewPCG(r.options.Seed, uint64(r.number)<<8|uint64(n)<<1))}
	s.style = Style{
		Mode: r.mode, Seal: s.rnd.IntN(4) == 0, Purge: s.rnd.IntN(4) == 0, Plain: r.mode == Crashes && s.rnd.IntN(4) == 0, Menu: true,
		Workers: 1 + s.rnd.IntN(3), Calls: 1 + s.rnd.IntN(6), AttemptTimeout: time.Duration(250+s.rnd.IntN(150)) * time.Millisecond,
		LifeMin: 8 * time.Millisecond, LifeMean: time.Duration(10+s.rnd.IntN(50)) * time.Millisecond,
		PointRatio: 0.4, Jumps: 0.15, Orders: 2,
	}
	if n == r.mode.tills()-1 && r.mode == Crashes { // the last two share a connection
		s.connection = fmt.Sprintf("store-%d", n-1)
		s.style.Menu = false
		s.style.Shared = s.connection
		r.slots[n-1].style.Shared = s.connection
	}
	if r.mode == Fleet { // connecting to a database takes longer than opening a file
		s.style.LifeMin, s.style.LifeMean = 40*time.Millisecond, 120*time.Millisecond
		s.style.Jumps = 0 // a fleet's machines agree on the time: one that is ahead keeps its outcomes for so long
	}
	if r.options.Shape != nil {
		r.options.Shape(&s.style)
	}
	home := filepath.Join(r.dir, fmt.Sprintf("till-%d", n))
	s.dir, s.account = filepath.Join(home, "outbox"), filepath.Join(home, "account.jsonl")
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	switch {
	case r.mode == PowerDisk:
		s.disk, err = newDisk(home, s.dir, []string{"ext4", "xfs"}[n%2])
	case r.mode == Full:
		s.disk, err = newMemoryDisk(s.dir, "6m")
	case r.mode == Crashes && n%2 == 0:
		s.dir, err = os.MkdirTemp("/dev/shm", "torture-") // no disk is as fast, and a killed process does not know one
		if err != nil {
			s.dir, err = filepath.Join(home, "outbox"), nil
		}
	}
	if err != nil {
		return nil, err
	}
	return s, r.rotate(s.connection)
}

func (s *slot) close() error {
	var err error
	if s.disk != nil {
		err = s.disk.close()
	}
	if strings.HasPrefix(s.dir, "/dev/shm/") {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// rotate gives a connection a new token.
func (r *round) rotate(connection string) error {
	token, err := r.server.token(connection)
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, connection+".token")
	if err := os.WriteFile(path+".new", []byte(token), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// live lives and dies until the round ends.
func (s *slot) live() error {
	for time.Now().Before(s.round.end) {
		if err := s.life(); err != nil {
			return fmt.Errorf("till %d, life %d: %w", s.number, s.lives, err)
		}
	}
	return nil
}

// connections are those that the slot's processes work for.
func (s *slot) connections() []string {
	if s.style.Mode == Fleet {
		return s.round.fleetConnections()
	}
	return []string{s.connection}
}

// outbox is where the slot's operations are kept.
func (s *slot) outbox() string {
	if s.style.Mode == Fleet {
		return s.round.database.dsn()
	}
	return filepath.Join(s.dir, "pos.outbox")
}

// plan draws a life.
func (s *slot) plan() (plan.Till, error) {
	st := s.style
	s.lives++
	p := plan.Till{
		BaseURL: s.round.server.url, Connections: s.connections(), TokenDir: s.round.dir, Outbox: s.outbox(), Account: s.account,
		Slot: s.number, Life: s.lives, Seed: s.rnd.Uint64(), Menu: st.Menu && s.rnd.IntN(2) == 0, Calls: st.Calls, Workers: st.Workers, Work: st.Work, MenuOf: st.MenuOf,
		Seal: st.Seal, Purge: st.Purge, Plain: st.Plain, AttemptTimeout: st.AttemptTimeout,
	}
	if s.rnd.IntN(6) == 0 {
		p.Calls = 0 // a life that only works off what is there
	}
	if p.Calls > 0 {
		for range s.rnd.IntN(st.Orders + 1) {
			conn := s.rnd.IntN(len(p.Connections))
			id, err := s.round.server.order(p.Connections[conn])
			if err != nil {
				return p, err
			}
			p.Orders = append(p.Orders, plan.Order{ID: id, Conn: conn})
		}
		if st.Shared != "" {
			p.Shared = s.round.sharedOrders(s)
		}
	}
	points := st.Points
	if len(points) == 0 {
		points = plan.Points()
	}
	if s.rnd.Float64() < st.PointRatio {
		p.Point, p.Nth = points[s.rnd.IntN(len(points))], s.rnd.IntN(1+s.rnd.IntN(12))
		if st.Plain && !strings.HasPrefix(p.Point, "till:") && !strings.HasPrefix(p.Point, "wire:") {
			p.Point = plan.AfterExposure
		}
	}
	switch s.style.Mode {
	case PowerSeam:
		if s.rnd.IntN(3) > 0 {
			p.Point, p.Nth, p.PowerCut = "power", s.rnd.IntN(30), true
		}
	case Storage:
		s.trouble(&p)
	case Full:
		p.Tolerant = true
	case Fleet:
		p.Tolerant = true // the database may be away
		for p.Point != "" && (!strings.HasPrefix(p.Point, "till:") && !strings.HasPrefix(p.Point, "wire:") || p.Point == plan.AnswerRead) {
			p.Point = points[s.rnd.IntN(len(points))]
		}
	case Syscalls:
		p.Tolerant = true
	}
	if s.rnd.IntN(12) == 0 && p.Point == "" {
		p.EndAfter = s.lifetime()
	}
	return p, nil
}

// trouble makes the life's storage fail.
func (s *slot) trouble(p *plan.Till) {
	for range 1 + s.rnd.IntN(2) {
		f := plan.DiskFault{Op: []string{"write", "sync", "meta", "sync-meta", "full", "full"}[s.rnd.IntN(6)], Times: 1 + s.rnd.IntN(4)}
		if f.Op != "full" && s.rnd.IntN(2) == 0 {
			f.Every = 2 + s.rnd.IntN(6)
		}
		if s.rnd.IntN(2) == 0 {
			f.After = time.Duration(s.rnd.IntN(25)) * time.Millisecond
		}
		p.Disk = append(p.Disk, f)
	}
	if s.rnd.IntN(3) == 0 {
		p.Slow = time.Duration(1+s.rnd.IntN(10)) * time.Millisecond
	}
	s.round.note(func(rep *Report) { rep.Faulty++ })
}

func (s *slot) lifetime() time.Duration {
	return s.style.LifeMin + time.Duration(s.rnd.ExpFloat64()*float64(s.style.LifeMean))
}

// clock is the environment of the life's clock.
func (s *slot) clock() string {
	night := s.round.night
	text := fmt.Sprintf("%s;%s;0s:%s", "", night, night)
	if s.rnd.Float64() >= s.style.Jumps {
		return plan.ClockEnv + "=" + text
	}
	s.round.note(func(rep *Report) { rep.Jumps++ })
	// Not ahead by less than outbox.MaxHold: a lane may then be held for that long once the clock is right again.
	jump := []string{"-497000h", "-8760h", "-2h", "-30m", "24h", "5h", "-1s"}[s.rnd.IntN(7)]
	after := time.Duration(s.rnd.IntN(40)) * time.Millisecond
	if s.rnd.IntN(2) == 0 {
		after = 0
	}
	text = fmt.Sprintf("%s;%s:%s", text, after, jump)
	if s.rnd.IntN(3) == 0 { // another boot, as far as anybody can tell
		text = fmt.Sprintf(" boot %d%s", s.lives, text)
	}
	return plan.ClockEnv + "=" + text
}

// command is the till's program.
func (s *slot) command(p plan.Till) (*exec.Cmd, error) {
	cmd := exec.Command(s.round.till)
	if s.style.Mode == Fleet {
		cmd = exec.Command(s.round.worker)
	}
	if s.style.Mode == Syscalls && !p.Drain {
		what := []string{"fdatasync:error=EIO", "fdatasync:error=ENOSPC", "pwrite64:error=ENOSPC", "pwrite64:error=EIO", "fdatasync:delay_enter=4000"}[s.rnd.IntN(5)]
		when := fmt.Sprintf("when=%d+%d", 1+s.rnd.IntN(12), 2+s.rnd.IntN(9))
		// -D: the till stays our child, and is what is killed.
		cmd = exec.Command("strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,pwrite64", "-e", "inject="+what+":"+when, s.round.till)
		s.round.note(func(rep *Report) { rep.Faulty++ })
	}
	env, err := plan.Environ(p, s.clock())
	cmd.Env = env
	return cmd, err
}

// life is one life of the till, to its bitter end.
func (s *slot) life() error {
	p, err := s.plan()
	if err != nil {
		return err
	}
	s.round.day.RLock()
	defer s.round.day.RUnlock()
	cmd, err := s.command(p)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timeout := s.lifetime()
	if p.Point != "" {
		timeout += 150 * time.Millisecond // it kills itself, if it gets there
	}
	if p.EndAfter > 0 {
		timeout = 30 * time.Second
	}
	if s.style.Mode == Syscalls {
		timeout += 100 * time.Millisecond // a traced process starts slowly
	}
	full := s.fillDisk()
	killed := false
	select {
	case err = <-ended:
	case <-time.After(timeout):
		killed = cmd.Process.Kill() == nil
		err = <-ended
	}
	full()
	if err := s.ended(err, killed, said.String()); err != nil {
		return err
	}
	if s.style.Mode == PowerDisk && s.rnd.IntN(2) == 0 {
		s.round.note(func(rep *Report) { rep.Images["power: "+s.disk.kind+onLoop]++ })
		return s.disk.powerLoss()
	}
	return nil
}

// ended looks at how a process has ended.
func (s *slot) ended(err error, killed bool, said string) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		s.round.note(func(rep *Report) { rep.Polite++ })
		return nil
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			if killed {
				s.round.note(func(rep *Report) { rep.Kills++ })
			}
			return nil
		}
	}
	return fmt.Errorf("the till failed: %w\n%s", err, said)
}

// drain lets the till work off everything in good weather.
func (s *slot) drain() error {
	s.lives++
	p := plan.Till{BaseURL: s.round.server.url, Connections: s.connections(), TokenDir: s.round.dir, Outbox: s.outbox(),
		Account: s.account, Slot: s.number, Life: s.lives, Seed: 1, Seal: s.style.Seal, Drain: true, AttemptTimeout: s.style.AttemptTimeout, Plain: s.style.Plain}
	cmd, err := s.command(p)
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=;%s;0s:%s", plan.ClockEnv, s.round.night, s.round.night))
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("till %d does not drain: %w\n%s", s.number, err, said.String())
	}
	return nil
}

// sharedOrders are orders that both tills of a connection work on.
func (r *round) sharedOrders(s *slot) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(s.shared) == 0 {
		id, err := r.server.order(s.connection)
		if err != nil {
			return nil
		}
		for _, other := range r.slots {
			if other.connection == s.connection {
				other.shared = append(other.shared, id)
			}
		}
	}
	out := s.shared
	s.shared = nil
	return out
}
