package outbox

import (
	"context"
	"sync"
)

// NewMemory returns an engine that keeps everything in memory: for tests, and for programs that choose
// to lose what is waiting when they end. It keeps the whole contract of [Engine] except durability.
func NewMemory() Engine {
	return &memory{
		recs:    map[string]*Record{},
		conns:   map[string]*memConn{},
		total:   memCounts{states: map[State]int{}},
		keys:    map[connName]*Tombstone{},
		state:   map[connName][]byte{},
		changed: make(chan struct{}, 1),
	}
}

type connName struct{ conn, name string }

type memory struct {
	mu         sync.Mutex
	closed     bool
	seq        uint64
	outcomeSeq uint64
	dueSeq     uint64
	recs       map[string]*Record
	order      []*Record // every record kept, by Seq
	conns      map[string]*memConn
	total      memCounts
	keys       map[connName]*Tombstone
	state      map[connName][]byte
	changed    chan struct{}
}

// memConn is what one connection has.
type memConn struct {
	lanes  map[string]*memLane
	due    dueHeap // lanes whose head waits unclaimed
	counts memCounts
}

type memCounts struct {
	states  map[State]int
	bytes   int64
	held    int
	unacked int
}

func (m *memory) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	return nil
}

func (m *memory) signal() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *memory) conn(name string) *memConn {
	c := m.conns[name]
	if c == nil {
		c = &memConn{lanes: map[string]*memLane{}, counts: memCounts{states: map[State]int{}}}
		m.conns[name] = c
	}
	return c
}

// count adds or removes (sign -1) what r contributes to the totals.
func (m *memory) count(r *Record, sign int) {
	for _, c := range []*memCounts{&m.conn(r.Connection).counts, &m.total} {
		c.states[r.State] += sign
		if c.states[r.State] == 0 {
			delete(c.states, r.State)
		}
		if r.Unfinished() {
			c.bytes += int64(sign) * r.Size()
		}
		if r.Unacked() {
			c.unacked += sign
		}
	}
}

// Changed implements Engine.
func (m *memory) Changed() <-chan struct{} { return m.changed }

// Close implements Engine.
func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
