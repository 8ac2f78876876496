package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Verification is what [Verify] found.
type Verification struct {
	Path       string
	Size       int64 // bytes of the file; 0 = it is missing or empty
	Records    int   // operations that are kept, by the kept totals
	Unfinished int   // of them waiting or parked
	Problems   []Problem
}

// Problem is one thing that is wrong with an outbox's files.
type Problem struct {
	Text   string // what is wrong, for people; holds nothing of the operations but their ids
	AtOpen AtOpen // what Open does about it
}

// AtOpen is what [Open] does about a problem.
type AtOpen string

// What Open does.
const (
	OpenRefuses  AtOpen = "refuses"  // it returns an error and changes nothing
	OpenSalvages AtOpen = "salvages" // it saves what can be read into a new file and keeps the old one aside
	OpenSuspects AtOpen = "suspects" // every unfinished operation counts as sent since its creation
	OpenIgnores  AtOpen = "ignores"  // nothing: it works all the same
)

// VerifyOptions are Verify's settings.
type VerifyOptions struct {
	// LockTimeout is how long to wait for another process to let go of the outbox; 0 = one second.
	LockTimeout time.Duration
	// Quick looks at a file of more than 32 MiB only where it begins, as Open does.
	Quick bool
	// Progress is told how much of the file was read; nil = nobody is.
	Progress func(read, size int64)
}

// Verify looks for damage without changing anything: at every page, value, record, index and total of the
// file, and whether the file is the one that stood here last. It needs about a kilobyte of memory for each
// operation.
//
// What is wrong is in the Verification; the error says why nothing could be said: a *outbox.LockedError while
// another process has the outbox open, fs.ErrNotExist when nothing is there and nothing was ever saved.
func Verify(ctx context.Context, path string, o VerifyOptions) (v Verification, err error) {
	full, err := realPath(path)
	if err != nil {
		return v, fmt.Errorf("outbox %s: %w", path, err)
	}
	v.Path = full
	if err := checkKind(full); err != nil {
		return v, fmt.Errorf("outbox %s: %w", full, err)
	}
	m, noMark := readMark(full + markSuffix)
	if noMark != nil && !errors.Is(noMark, errNoMark) {
		return v, fmt.Errorf("outbox %s: %w", full, noMark)
	}
	info, err := os.Stat(full)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing:
		return v, fmt.Errorf("outbox %s: %w", full, err)
	case missing && m.commits == 0:
		return v, fmt.Errorf("outbox %s: %w", full, fs.ErrNotExist)
	case missing:
		v.add(OpenRefuses, "the file is missing, but the mark beside it says that operations were saved in it")
		return v, nil
	}
	if m.commits == 0 && foreign(full) {
		v.Size = info.Size()
		v.add(OpenRefuses, "%s", noOutbox(true, errNoRoots))
		return v, nil
	}
	release, err := lockToRead(full, o.LockTimeout)
	if err != nil {
		return v, err
	}
	defer release()
	if v.Size = info.Size(); v.Size == 0 {
		if m.commits > 0 {
			v.add(OpenRefuses, "the file is empty, but the mark beside it says that operations were saved in it")
		}
		return v, nil
	}
	f, err := os.Open(full)
	if err != nil {
		return v, fmt.Errorf("outbox %s: %w", full, err)
	}
	defer func() { _ = f.Close() }()
	err = v.file(ctx, f, m, noMark != nil, &o)
	return v, err
}

// foreign reports whether a file that was never locked as an outbox is something else: nothing is made beside it then.
func foreign(full string) bool {
	if _, err := os.Lstat(full + lockSuffix); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	f, err := os.Open(full)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	p, err := openPages(f)
	return err == nil && p.size > 0 && len(p.metas) == 0
}

func (v *Verification) add(at AtOpen, format string, args ...any) {
	v.Problems = append(v.Problems, Problem{Text: fmt.Sprintf(format, args...), AtOpen: at})
}

// lockToRead keeps others from writing. Where nobody can write, as on a medium with a backup, there is no
// lock file to be made and none is needed.
func lockToRead(full string, timeout time.Duration) (release func(), err error) {
	if timeout == 0 {
		timeout = time.Second
	}
	l, err := acquireLock(full+lockSuffix, full, timeout)
	if isReadOnly(err) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = l.release() }, nil
}

// file looks at the pages.
func (v *Verification) file(ctx context.Context, f *os.File, m mark, noMark bool, o *VerifyOptions) error {
	p, err := openPages(f)
	if err != nil {
		return err
	}
	if err := p.checkFormat(); err != nil {
		v.add(OpenRefuses, "%v", err)
		return nil
	}
	read := int64(0)
	p.stop = func() bool {
		if o.Progress != nil && read < p.size {
			o.Progress(read, p.size)
		}
		read += p.page
		return ctx.Err() != nil
	}
	roots := len(p.metas)
	whole := !o.Quick || p.size <= checkWhole
	c, cause := examine(p, whole)
	if c == nil {
		c = head(p, cause != nil)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if o.Progress != nil {
		o.Progress(p.size, p.size)
	}
	v.Unfinished = int(c.total.unfinished())
	for _, n := range c.total.states {
		v.Records += int(n)
	}
	switch {
	case cause != nil && !c.hasHeader && len(c.requests) == 0 && len(c.progress) == 0:
		v.add(OpenRefuses, "%s", noOutbox(noMark, cause))
		return nil
	case cause != nil:
		v.add(OpenSalvages, "%v", cause)
		return nil
	}
	if why := doubt(roots, m, noMark, c.header); why != "" {
		at := OpenSuspects
		if v.Unfinished == 0 {
			at = OpenIgnores // there is nothing that could be sent twice
		}
		v.add(at, "%s", why)
	}
	v.records(c)
	return nil
}

// noOutbox says what a file is that nothing can be read of.
func noOutbox(noMark bool, cause error) string {
	if noMark {
		return fmt.Sprintf("this is no outbox file, or all of it was overwritten (%v)", cause)
	}
	return fmt.Sprintf("%v, and nothing else in it can be read", cause)
}

// head reads the header and the totals of a file that was not read whole, or what is left of a damaged one.
func head(p *pageFile, damaged bool) *collection {
	p.seen, p.bad = nil, 0
	if damaged {
		c, _ := collect(p)
		return c
	}
	c := newCollection(p)
	c.current = true
	p.walkAll(p.metas[0], func(_ string, k, val []byte) { c.take(k, val) }, places[bMeta].bucket)
	return c
}

// records looks whether each record keeps the rules of the state machine.
func (v *Verification) records(c *collection) {
	for seq, f := range c.progress {
		var r entry
		err := decodeProgress(f.key(seq), c.read(f), &r)
		if err == nil {
			err = decodeRequest(seqKey(seq), c.read(c.requests[seq]), &r.Record)
		}
		if err == nil {
			r.Seq, r.WireKey = seq, outbox.WireKey(r.Key, r.Generation)
			err = r.Check()
		}
		if err != nil {
			v.add(OpenIgnores, "%v", err)
		}
	}
}
