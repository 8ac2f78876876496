// Package plan is what a rig tells its child processes: how a till lives and dies, and what weather a
// mock server makes.
package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

// Env is the environment variable that carries a child's plan as JSON.
const Env = "FLAVOSO_TORTURE_PLAN"

// ClockEnv is the environment variable the till's wall clock follows; see package overlay.
const ClockEnv = "FLAVOSO_TORTURE_CLOCK"

// The points at which a till can kill itself, beside those of the storage ([bolttest.Points]).
const (
	BeforeSave    = "till: before save"
	AfterSave     = "till: after save"
	AfterExposure = "till: after exposure"
	HalfWritten   = "wire: half of a request written"
	Written       = "wire: a request written"
	Answered      = "wire: the server has committed and answered"
	AnswerRead    = "wire: answer read, verdict not saved"
	OutcomeSaved  = "till: outcome saved"
	InHandler     = "till: handler running"
	HandlerDone   = "till: handler done, not acknowledged"
)

// Points lists every point at which a till can kill itself.
func Points() []string {
	points := []string{BeforeSave, AfterSave, AfterExposure, HalfWritten, Written, Answered, AnswerRead, OutcomeSaved, InHandler, HandlerDone}
	for _, p := range bolttest.Points() {
		points = append(points, string(p))
	}
	return points
}

// Till is one life of a till.
type Till struct {
	BaseURL     string
	Connections []string
	TokenDir    string // holds a file for each connection's token; replaced when it is rotated
	Outbox      string // path of the outbox file; of a fleet, its database
	Migrate     bool   // make the database's tables
	Account     string // path of the account file
	Slot        int
	Life        int
	Seed        uint64

	Orders  []Order  // that nobody else has seen
	Shared  []string // ids of orders that another till of the connection works on too
	Menu    bool     // this till writes the menu and the store: nobody else of its connection does
	Calls   int      // how many operations a worker makes; 0 = it only works off what is there
	Workers int
	Work    []string // kinds to choose from; empty = all
	MenuOf  []string // the same for what is written without a key
	Drain   bool     // work off everything, list it, and end

	Point    string        // where to kill itself; "" = nowhere
	Nth      int           // after so many passes of Point
	PowerCut bool          // at Point, put an image in the outbox's place as a power cut would leave it
	EndAfter time.Duration // close politely after so long; 0 = never

	Disk []DiskFault   // what goes wrong with the storage
	Slow time.Duration // how long a sync takes

	Seal           bool // the outbox is encrypted
	Purge          bool // finished operations are removed when they have been taken over
	Plain          bool // let the client open its outbox itself: no faults of the storage
	Tolerant       bool // the storage may fail in ways the plan does not know of
	AttemptTimeout time.Duration
}

// Order is an order at one of a plan's connections.
type Order struct {
	ID   string
	Conn int
}

// DiskFault is something that goes wrong with the storage: writes or syncs of a kind that fail, each Every-th
// for as long as the process lives, or Times of them after Skip.
type DiskFault struct {
	Op    string // "write", "sync", "meta", "sync-meta", "full"
	Every int
	Times int
	After time.Duration
}

// Mock is one life of a mock server.
type Mock struct {
	Addr    string
	Seed    uint64
	Restore string        // what an earlier life left behind; "" = nothing
	Dump    string        // where to leave everything at the end
	Weather bool          // make faults
	Only    []string      // the faults to make; empty = all, a few at a time
	Ratio   float64       // with Only: of requests that each of them meets
	Offset  time.Duration // of the clock
}

// Read reads the plan that a child was given.
func Read(v any) error {
	text := os.Getenv(Env)
	if text == "" {
		return fmt.Errorf("%s is not set: this program is started by the rig", Env)
	}
	return json.Unmarshal([]byte(text), v)
}

// Environ is the environment of a child that is given plan.
func Environ(plan any, more ...string) ([]string, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	return append(append(os.Environ(), Env+"="+string(text)), more...), nil
}
