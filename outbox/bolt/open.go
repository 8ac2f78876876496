// Package bolt keeps an outbox in one file on the local disk: the engine a till uses unless told
// otherwise. It is built on go.etcd.io/bbolt.
//
// One process has the file at a time. A step is on stable storage when its method returns: two syncs,
// shared by everything that arrived while the commit before was under way. Opening takes the same few
// milliseconds at any backlog, because nothing is scanned. See docs/outbox.md for the file's format, the
// files beside it, and what happens to damaged ones.
package bolt

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/flavoso/flavoso-go/outbox"
)

// FormatVersion is the newest layout of the file: what this release writes. It reads every older one.
const FormatVersion = 2

// Options are an engine's settings. The zero value is right for a till.
type Options struct {
	// LockTimeout is how long Open waits for another process to let go of the outbox; 0 = one second.
	LockTimeout time.Duration
	// AllowNetwork opens an outbox on a network file system. Locks there may not reach the other
	// machines, and two tills on one outbox do everything twice.
	AllowNetwork bool
	// StartFresh opens an empty outbox where one must be and nothing of it can be read, instead of
	// refusing. What is left of the old one is kept aside.
	StartFresh bool
	// Logger is told of damage and what was done about it; nil = silent.
	Logger *slog.Logger

	// Probe is called at each [Point]; an error it returns makes the work there fail. For tests.
	Probe func(Point) error
	// OpenDB replaces bbolt.Open. For tests, see package bolttest.
	OpenDB func(path string, mode fs.FileMode, o *bbolt.Options) (*bbolt.DB, error)

	checkWhole int64                             // see checkWhole
	closeFirst bool                              // see rename
	fileSystem func(path string) (uint32, error) // tests pretend another file system
}

func (o Options) withDefaults() Options {
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	o.closeFirst = o.closeFirst || runtime.GOOS == "windows"
	if o.checkWhole == 0 {
		o.checkWhole = checkWhole
	}
	return o
}

// Open opens the outbox at path and creates it when there is none. The directory must exist; a symbolic
// link stands for the file it leads to. A damaged file
// is salvaged and kept aside; [Engine.Reports] tells.
//
// Errors: a *outbox.LockedError when another process, or this one, has it open; outbox.ErrNewerFormat
// when a newer release wrote it (nothing is changed); outbox.ErrReadOnly when it cannot be written;
// outbox.ErrDamaged when an outbox must be there and nothing of it can be read.
func Open(path string, opts Options) (*Engine, error) {
	full, err := realPath(path)
	if err != nil {
		return nil, fmt.Errorf("outbox %s: %w", path, err)
	}
	e := &Engine{
		path: full, opts: opts.withDefaults(),
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), role: make(chan struct{}, 1), done: make(chan struct{}),
		tokens:  tokens{instance: newInstance()},
		ballast: ballast{path: full + ballastSuffix},
	}
	if _, err := os.Stat(filepath.Dir(full)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("outbox %s: its directory must exist: %w", full, err)
	}
	if err := checkKind(full); err != nil {
		return nil, fmt.Errorf("outbox %s: %w", full, err)
	}
	if err := e.refuseNetwork(); err != nil {
		return nil, fmt.Errorf("outbox %s: %w", full, err)
	}
	if e.lock, err = acquireLock(full+lockSuffix, full, e.opts.LockTimeout); err != nil {
		return nil, err
	}
	if err := e.openFile(); err != nil {
		if e.file != nil {
			_ = e.file.close()
		}
		_ = e.lock.release()
		return nil, fmt.Errorf("outbox %s: %w", full, classify(err))
	}
	e.stopCheck.Store(false)
	if e.file.info.Size() > e.opts.checkWhole {
		e.checking.Add(1)
		go e.checkInBackground()
	}
	e.role <- struct{}{}
	go e.write()
	return e, nil
}

// realPath returns the path of the file itself where path is a symbolic link: the engine replaces the file
// by another of its name, and keeps others beside it.
func realPath(path string) (string, error) {
	full, err := filepath.Abs(path)
	for range maxLinks {
		if err != nil {
			return full, err
		}
		info, lerr := os.Lstat(full)
		if lerr != nil || info.Mode()&fs.ModeSymlink == 0 {
			return full, nil // a file that is missing is made there
		}
		var to string
		if to, err = os.Readlink(full); err == nil && !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(full), to)
		}
		full = to
	}
	return "", errors.New("too many symbolic links")
}

// checkKind refuses what no outbox can be in, before anything is made beside it.
func checkKind(full string) error {
	info, err := os.Stat(full)
	switch {
	case err != nil || info.Mode().IsRegular():
		return nil // whoever opens it says what is wrong
	case info.IsDir():
		return fmt.Errorf("it is a directory; the outbox is a file, such as %s", filepath.Join(full, "pos.outbox"))
	}
	return errors.New("it is no regular file")
}

// maxLinks bounds how many links are followed, as systems do.
const maxLinks = 40

// The files beside the outbox.
const (
	lockSuffix    = ".lock"
	ballastSuffix = ".ballast"
)

func newInstance() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:]) + "-"
}

// checkWhole is the size up to which a file is read whole at opening. A bigger one is only looked at
// where it begins, so that opening takes the same time at any size; the rest is done in the background.
const checkWhole = 32 << 20

// openFile opens what is at path, creates it when nothing is and nothing must be, or salvages it.
func (e *Engine) openFile() error {
	for _, left := range []string{e.path + tempSuffix, e.path + markSuffix + tempSuffix, e.ballast.path + tempSuffix} {
		if err := removeIfThere(left); err != nil {
			return err
		}
	}
	m, noMark := readMark(e.path + markSuffix)
	if noMark != nil && !errors.Is(noMark, errNoMark) {
		return noMark
	}
	e.mark = m
	info, err := os.Stat(e.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0:
		if err := e.start(err != nil); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if err := e.openExisting(info.Size() <= e.opts.checkWhole, noMark != nil); err != nil {
			return err
		}
	}
	e.ballast.restore()
	e.bringMarkUp()
	return nil
}

// start makes a new outbox where no file is, or an empty one.
func (e *Engine) start(missing bool) error {
	if e.mark.commits > 0 {
		what := "is empty"
		if missing {
			what = "is missing"
		}
		if !e.opts.StartFresh {
			return fmt.Errorf("%w: the file %s, but %s says that operations were saved in it: put it back, or start fresh (Options.StartFresh)",
				outbox.ErrDamaged, what, e.path+markSuffix)
		}
		e.report(Report{At: time.Now(), Cause: "the file " + what + "; started fresh"})
		e.mark = mark{}
	}
	if err := e.create(header{id: rand.Text()}); err != nil {
		return err
	}
	return e.swap(nil)
}

func (e *Engine) openExisting(whole, noMark bool) error {
	cause, roots, err := e.inspect(whole)
	if err != nil {
		return err
	}
	if cause == nil {
		f, err := e.openBolt(e.path)
		switch {
		case errors.Is(err, berrors.ErrTimeout):
			return &outbox.LockedError{Path: e.path}
		case isDamage(err):
			cause = err
		case err != nil:
			return err
		default:
			e.file = f
		}
	}
	var h header
	if cause == nil {
		if h, err = e.file.header(); isDamage(err) {
			cause = err
		} else if err != nil {
			return err
		}
	}
	if cause != nil {
		if err := e.salvage(cause); err != nil {
			return err
		}
		return nil
	}
	e.id, e.commits = h.id, h.commits
	why := doubt(roots, e.mark, noMark, h)
	if why == "" {
		return nil
	}
	if err = e.suspect(why); isDamage(err) {
		return e.salvage(err)
	}
	return err
}

// doubt says why the file may not show the last that this outbox knew; "" = it does.
func doubt(roots int, m mark, noMark bool, h header) string {
	switch {
	case roots < 2:
		// Two roots take turns, so that one is whole at any moment. If the other was torn by a power cut
		// its commit was never answered; if it was damaged, an answered one is gone.
		return "one of two roots is unreadable: the last commit may be gone"
	case noMark && h.commits > 0:
		return "no mark beside the file: it may be a copy"
	case !noMark && m.id != h.id:
		return "the mark beside the file is another outbox's"
	case !noMark && m.commits > h.commits:
		return "the file is older than the mark beside it: it was restored"
	}
	return ""
}

// inspect looks at the file's pages without bbolt, which a damaged page can drive into endless recursion.
// cause says what is wrong with it; roots is how many of its two roots are whole. With whole set every
// page and value is looked at.
func (e *Engine) inspect(whole bool) (cause error, roots int, err error) {
	f, err := os.OpenFile(e.path, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	p, err := openPages(f)
	if err != nil {
		return nil, 0, err
	}
	roots = len(p.metas)
	if err := p.checkFormat(); err != nil {
		return nil, roots, err
	}
	_, cause = examine(p, whole)
	return cause, roots, nil
}

var errNoRoots = errors.New("both roots are unreadable")

// examine says what is wrong with a file's pages; nil = nothing was found. With whole set every page and
// value is looked at, and what was read is returned.
func examine(p *pageFile, whole bool) (c *collection, cause error) {
	if len(p.metas) == 0 {
		return nil, errNoRoots
	}
	if int64(p.metas[0].pages)*p.page > p.size {
		return nil, errors.New("the file is cut short")
	}
	if _, ok := p.free(p.metas[0]); !ok {
		return nil, errors.New("the list of free pages is unreadable")
	}
	if !whole {
		return nil, nil
	}
	c, clean := collect(p)
	switch {
	case clean:
		return c, nil
	case p.bad == 0 && c.broken == 0:
		return c, errors.New("the indexes do not match the records")
	}
	return c, fmt.Errorf("%d pages and %d values are unreadable", p.bad, c.broken)
}

// suspect draws a line: every record that is unfinished now counts as sent since its creation.
func (e *Engine) suspect(cause string) error {
	r := Report{At: time.Now(), Cause: cause}
	err := guard(func() error {
		return e.file.db.Update(func(tx *bbolt.Tx) error {
			t, err := newTxn(tx, &e.tokens, e.file)
			if err != nil {
				return err
			}
			t.h.line++
			t.h.commits = max(t.h.commits, e.mark.commits) + 1
			e.tried = t.h.commits
			prefix := countsKey("")
			c := t.b[bMeta].cursor()
			var names []string
			for k, _ := c.seek(prefix); hasPrefix(k, prefix); k, _ = c.next() {
				names = append(names, string(k[len(prefix):]))
			}
			for _, name := range names {
				t.total(name).suspect()
			}
			total := t.total("")
			r.Suspect = int(total.unfinished())
			for _, n := range total.states {
				r.Salvaged += int(n)
			}
			if r.Suspect == 0 {
				return nil
			}
			return t.finish()
		})
	})
	if err == nil && r.Suspect > 0 {
		e.commits = e.tried
		e.report(r)
	}
	return err
}

// Adopt makes the outbox at path this machine's own after a whole disk image was restored or copied, which
// nothing in the files can show: every unfinished operation counts as sent since its creation, and what
// is not repeat-safe is read back before it is sent.
func Adopt(path string, opts Options) (Report, error) {
	e, err := Open(path, opts)
	if err != nil {
		return Report{}, err
	}
	err = e.do(context.Background(), &step{alone: func() error { return e.suspect("adopted") }})
	var r Report
	if all := e.Reports(); len(all) > 0 {
		r = all[len(all)-1]
	}
	return r, errors.Join(err, e.Close())
}
