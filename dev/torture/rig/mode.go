package rig

import (
	"os"
	"os/exec"
	"time"
)

// Mode is what a round is about.
type Mode string

// The modes.
const (
	// Crashes: processes killed at random and at named points, in every weather, with clocks that jump, tokens
	// that rotate and two tills on one connection.
	Crashes Mode = "crashes"
	// Storage: the same on a storage whose writes and syncs fail, are slow, or find the disk full, at the
	// engine's own seam.
	Storage Mode = "storage"
	// Full: the same on a small file system that is really full now and then.
	Full Mode = "full disk"
	// Syscalls: syncs and writes of the process fail, injected by strace.
	Syscalls Mode = "system calls"
	// PowerSeam: at the end of a life the file keeps what was synced and any part of what was not, torn
	// pages included.
	PowerSeam Mode = "power loss at the seam"
	// PowerDisk: the outbox lies on a file system of its own; at the end of a life that file system's
	// disk is what it was at that moment, without what the machine had not written yet.
	PowerDisk Mode = "power loss of a disk"
	// Fleet: workers of a fleet share an outbox in PostgreSQL, which is restarted like everything else.
	Fleet Mode = "fleet"
)

// Modes lists all modes.
func Modes() []Mode {
	return []Mode{Crashes, PowerSeam, Crashes, Storage, Crashes, PowerDisk, Full, Syscalls, Fleet}
}

// missing says what a mode needs and does not have here; "" = nothing.
func (m Mode) missing() string {
	switch m {
	case Full, PowerDisk:
		if os.Getuid() != 0 {
			return "it mounts file systems, which needs root"
		}
		if m == PowerDisk {
			return tryDisk()
		}
	case Fleet:
		if _, err := findPostgres(); err != nil {
			return err.Error()
		}
	case Syscalls:
		if _, err := exec.LookPath("strace"); err != nil {
			return "it needs strace"
		}
	}
	return ""
}

// tills is how many outboxes a round has.
func (m Mode) tills() int {
	if m == PowerDisk || m == Syscalls || m == Fleet {
		return 3
	}
	return 5
}

// nights reports whether nights pass.
func (m Mode) nights() bool { return m == Crashes || m == PowerSeam }

// Style is what the lives of one till are like.
type Style struct {
	Mode           Mode
	Shared         string // the connection it shares with another till; "" = none
	Seal, Purge    bool
	Plain          bool // the client opens its outbox itself
	Menu           bool
	Workers, Calls int
	Work, MenuOf   []string
	AttemptTimeout time.Duration
	LifeMin        time.Duration // how long a life is at least, and on average beyond that
	LifeMean       time.Duration
	Points         []string // where it kills itself; empty = everywhere
	PointRatio     float64  // of lives that kill themselves
	Jumps          float64  // of lives whose clock is set
	Orders         int      // new ones for each life
}
