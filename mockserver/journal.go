package mockserver

import (
	"net/http"
	"sync"
	"time"
)

// Request is one request as it came over the wire, and what became of it.
type Request struct {
	Seq        int         // 1, 2, 3 … in the order of arrival
	At         time.Time   // on the server's clock
	Connection string      // whose token it carried; "" when unknown
	Conn       int         // number of the network connection: the same one twice = it was kept alive
	Method     string      // as received
	Target     string      // path and query as received, the base path included
	Path       string      // the escaped path below the base path; outside it, the whole path
	Key        string      // the Idempotency-Key, "" when there was none or several
	Header     http.Header // as received, without Authorization
	Body       []byte      // raw, after de-chunking
	Status     int         // of the answer; 0 while it is under way or when none was sent
	Replayed   bool        // the answer was a replay (F6)
	RequestID  string      // X-Request-Id of the answer
	Fault      string      // the fault it met, "" for none
	Answer     []byte      // the body that was sent, as far as it was; not kept of a GET
}

// size is what the entry weighs in the journal.
func (r *Request) size() int { return len(r.Body) + len(r.Answer) + len(r.Target) + 512 }

// journal keeps the newest requests, bounded in number and in bytes.
type journal struct {
	mu       sync.Mutex
	entries  []*Request
	seq      int
	bytes    int
	maxCount int
	maxBytes int
	dropped  int
	changed  chan struct{} // closed and replaced when something was added or answered
}

func newJournal(maxCount, maxBytes int) *journal {
	return &journal{maxCount: maxCount, maxBytes: maxBytes, changed: make(chan struct{})}
}

func (j *journal) add(r *Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq++
	r.Seq = j.seq
	j.entries = append(j.entries, r)
	j.bytes += r.size()
	j.trim()
	j.notify()
}

// update changes an entry that is in the journal already.
func (j *journal) update(r *Request, change func(*Request)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := r.size()
	change(r)
	if len(j.entries) > 0 && j.entries[0].Seq <= r.Seq {
		j.bytes += r.size() - before
	}
	j.trim()
	j.notify()
}

func (j *journal) trim() {
	n := 0
	for len(j.entries)-n > j.maxCount || (j.bytes > j.maxBytes && len(j.entries)-n > 1) {
		j.bytes -= j.entries[n].size()
		j.entries[n] = nil
		n++
	}
	j.entries = j.entries[n:]
	j.dropped += n
}

func (j *journal) notify() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// all returns copies of what is kept; the bytes of bodies are shared and never change.
func (j *journal) all() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]Request, len(j.entries))
	for i, r := range j.entries {
		out[i] = *r
	}
	return out
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries, j.bytes, j.seq, j.dropped = nil, 0, 0, 0
	j.notify()
}
