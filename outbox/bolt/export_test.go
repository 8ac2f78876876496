package bolt

import "context"

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
