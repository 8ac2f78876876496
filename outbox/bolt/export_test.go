package bolt

import (
	"context"

	"github.com/flavoso/flavoso-go/outbox"
)

// Queued returns how many steps wait for the writer.
func (e *Engine) Queued() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queue)
}

// PretendFileSystem makes an engine believe that it is on a file system of that type.
func PretendFileSystem(o *Options, kind uint32) {
	o.fileSystem = func(string) (uint32, error) { return kind, nil }
}

// CheckNothingAtOpen makes every file count as too big to be looked through at opening.
func CheckNothingAtOpen(o *Options) { o.checkWhole = -1 }

// WaitForCheck waits for the check in the background.
func (e *Engine) WaitForCheck() { e.checking.Wait() }

// HasTombstones reports whether a key outlives its record.
func (e *Engine) HasTombstones() (has bool) {
	_ = e.view(context.Background(), func(t *reader) error {
		k, _ := t.b[bTombstone].cursor().first()
		has = k != nil
		return nil
	})
	return has
}

// FormatValue returns the value that says which format a file has, as a release with that frame layout
// would write it.
func FormatValue(format uint64, layout byte) []byte {
	f := newFrame(tagFormat, 8)
	f.b[1] = layout
	f.uint(format)
	return f.finishFrame(formatKey)
}

// CloseFirst makes the engine close its file before another takes its name, as on Windows.
func CloseFirst(o *Options) { o.closeFirst = true }

// PurgeScan is how many outcomes that must stay one Purge passes over.
const PurgeScan = purgeScan

// MarkQuiet is how long after a commit the mark is brought up at the latest, when nobody waits.
const MarkQuiet = markQuiet

// RoomEvery is how often a full disk is asked for room.
const RoomEvery = roomEvery

// Holds returns how many holds of lanes are kept.
func (e *Engine) Holds() (n int) {
	_ = e.view(context.Background(), func(t *reader) error {
		n = 0
		c := t.b[bHold].cursor()
		for k, _ := c.first(); k != nil; k, _ = c.next() {
			n++
		}
		return nil
	})
	return n
}

// Walked returns how many entries a list looks at.
func (e *Engine) Walked(q outbox.Query) (n int) {
	_ = e.view(context.Background(), func(t *reader) error {
		n = 0
		next := t.walk(&q, 0)
		for _, _, _, ok := next(); ok; _, _, _, ok = next() {
			n++
		}
		return nil
	})
	return n
}

// Visited returns how many entries List looks at for one page.
func (e *Engine) Visited(q outbox.Query) (n int) {
	after, limit, _ := q.Start()
	var p outbox.Page
	for more := true; more; {
		_ = e.view(context.Background(), func(t *reader) error {
			after, more = t.list(&q, after, limit, &p)
			n += t.visited
			return nil
		})
	}
	return n
}

// CompactFrom is the size below which a file is left alone.
const CompactFrom = compactFrom
