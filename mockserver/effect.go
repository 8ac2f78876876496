package mockserver

import (
	"sync"
	"time"
)

// Effect is one thing that a request really changed. A request that found everything as it wanted it
// (F13, F14, F15), a replay and a refusal have none. What the platform does by itself, such as
// cancelling an order nobody accepted, is no request's effect and is not in the ledger.
type Effect struct {
	Seq        int       `json:"seq"`
	Connection string    `json:"connection"`
	Kind       string    `json:"kind"`                // "orders.accept", "bookings.create", …
	Resource   string    `json:"resource"`            // id of what changed
	Reference  string    `json:"reference,omitempty"` // external_id of a booking
	Key        string    `json:"key"`
	RequestID  string    `json:"request_id"`
	At         time.Time `json:"at"`
}

// ledger keeps the newest effects, bounded in number.
type ledger struct {
	mu      sync.Mutex
	entries []Effect
	seq     int
	max     int
}

func (l *ledger) add(effects []Effect) {
	if len(effects) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range effects {
		l.seq++
		e.Seq = l.seq
		l.entries = append(l.entries, e)
	}
	if over := len(l.entries) - l.max; over > 0 {
		l.entries = l.entries[over:]
	}
}

func (l *ledger) all() []Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Effect(nil), l.entries...)
}

func (l *ledger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.seq = nil, 0
}
