// Package account is a till's own account of what it was asked for, what it was promised and what it was
// told: an append-only file beside the outbox, that the judge compares with the server's ledger.
//
// Every event is one write to a file that is open for appending. A process that is killed in the middle of one
// leaves half a line, which counts as not written: what it was about to promise it has not promised. The file lies
// outside of whatever loses its power, so it is not synced.
package account

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// The events of an account.
const (
	Opened     = "opened"     // a process has opened the outbox
	Began      = "began"      // a call is about to be made
	Saved      = "saved"      // Enqueue returned, or Hooks.Saved was called: the operation is durable
	Returned   = "returned"   // a call came back with a fate
	Outcome    = "outcome"    // Config.OnOutcome was called
	RolledBack = "rolledback" // the transaction it was saved in was taken back: it was never there
	Canceled   = "canceled"   // Operations.Cancel succeeded: it was provably never sent
	Dying      = "dying"      // the process kills itself at a named point
	Kept       = "kept"       // an operation as the outbox shows it when everything has settled
	Settled    = "settled"    // the list of Kept is complete
	Note       = "note"       // something worth telling in a story
)

// Event is one line of an account. Which fields are set depends on What.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	Life int       `json:"life"`         // of which process
	Op   string    `json:"op,omitempty"` // the operation's name: its tag
	ID   string    `json:"id,omitempty"` // the outbox's own id of it

	// Of Began.
	Connection string `json:"connection,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Lane       string `json:"lane,omitempty"`
	Wish       string `json:"wish,omitempty"` // operations of one wish must come to one effect together
	Method     string `json:"method,omitempty"`
	Target     string `json:"target,omitempty"`
	Marker     string `json:"marker,omitempty"`   // a part of the body that no other request to the target has
	ReadBack   string `json:"readback,omitempty"` // the target that tells whether it was done; "" = nothing can

	// Of Returned.
	Fate  string `json:"fate,omitempty"`
	Error string `json:"error,omitempty"`

	// Of Outcome and Kept.
	State     string    `json:"state,omitempty"`
	Revision  int       `json:"revision,omitempty"`
	Status    int       `json:"status,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Key       string    `json:"key,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
	FirstSent time.Time `json:"first_sent,omitzero"`
	ByOther   bool      `json:"by_other,omitempty"`
	Acked     bool      `json:"acked,omitempty"`
	Body      []byte    `json:"body,omitempty"` // of the request, of Kept

	Text string `json:"text,omitempty"` // of Dying: the point; of Note
}

// Writer appends to an account. It may be used by many goroutines.
type Writer struct {
	mu   sync.Mutex
	file *os.File
	life int
}

// Append opens the account at path for a process's life.
func Append(path string, life int) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// The life before may have been killed in the middle of a line.
	end := make([]byte, 1)
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		if _, err := f.ReadAt(end, info.Size()-1); err != nil || end[0] != '\n' {
			if _, err := f.Write([]byte("\n")); err != nil {
				return nil, err
			}
		}
	}
	return &Writer{file: f, life: life}, nil
}

// Write appends an event. An account that cannot be written is worth nothing: the process ends.
func (w *Writer) Write(e Event) {
	e.At, e.Life = time.Now(), w.life
	line, err := json.Marshal(e)
	if err == nil {
		w.mu.Lock()
		_, err = w.file.Write(append(line, '\n'))
		w.mu.Unlock()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "account:", err)
		os.Exit(4)
	}
}

// Tail returns the events among the last size bytes.
func (w *Writer) Tail(size int64) ([]Event, error) {
	info, err := w.file.Stat()
	if err != nil {
		return nil, err
	}
	from := max(info.Size()-size, 0)
	buf := make([]byte, info.Size()-from)
	if _, err := w.file.ReadAt(buf, from); err != nil && err != io.EOF {
		return nil, err
	}
	if from > 0 {
		_, buf, _ = bytes.Cut(buf, []byte("\n")) // the first line may be half
	}
	return read(bytes.NewReader(buf))
}

// Read reads a whole account; there may be none yet.
func Read(path string) ([]Event, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f)
}

func read(r io.Reader) ([]Event, error) {
	var out []Event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // half a line
		}
		out = append(out, e)
	}
	return out, lines.Err()
}
