package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/outbox"
)

// file is the open outbox file.
type file struct {
	db   *bbolt.DB
	f    *os.File    // bbolt's own; kept so that an abandoned handle can be let go
	info os.FileInfo // which file it is
	kept atomic.Pointer[kept]
}

// openBolt opens a bbolt file. bbolt creates an empty one when there is none.
func (e *Engine) openBolt(path string) (*file, error) {
	h := &file{}
	o := bbolt.Options{
		Timeout:      time.Second,
		FreelistType: bbolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			f, err = os.OpenFile(name, flag, mode)
			h.f = f
			return f, err
		},
	}
	open := e.opts.OpenDB
	if open == nil {
		open = bbolt.Open
	}
	err := guard(func() (err error) {
		h.db, err = open(path, 0o600, &o)
		return err
	})
	if err != nil {
		if isFault(err) {
			h.abandon()
		}
		return nil, err
	}
	if h.info, err = h.f.Stat(); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *file) close() error { return guard(h.db.Close) }

func closeFile(h *file) { _ = h.close() }

// abandon lets go of a handle that must not be touched: its descriptor and with it the lock. The mapping
// stays until the process ends; readers may still be looking at it.
func (h *file) abandon() {
	if h.f != nil {
		_ = h.f.Close()
	}
}

// errReplaced says that the name no longer stands for the open file.
var errReplaced = errors.New("the file was removed or replaced while it was open")

// inPlace checks that path still names the open file: what is committed to a file without a name is lost
// when it is closed.
func (e *Engine) inPlace() error {
	now, err := os.Stat(e.path)
	if err == nil && os.SameFile(now, e.file.info) {
		return nil
	}
	return fmt.Errorf("%w: outbox %s: %w", outbox.ErrFault, e.path, errReplaced)
}

// create makes a new file under another name and moves it into place, so that the file at path is whole
// at any moment.
func (e *Engine) create(h header) error {
	if err := e.build(h, func(*bbolt.DB) error { return nil }, PointCreateWritten); err != nil {
		return err
	}
	return e.publish(PointCreateRenamed, closeFile)
}

// build makes a file under another name, lets fill write to it and syncs it.
func (e *Engine) build(h header, fill func(*bbolt.DB) error, written Point) (err error) {
	temp := e.path + tempSuffix
	if err := removeIfThere(temp); err != nil {
		return err
	}
	f, err := e.openBolt(temp)
	if err != nil {
		return err
	}
	err = guard(func() error {
		// Nothing depends on the copy before the one sync at its end.
		f.db.NoSync = true
		if err := f.db.Update(func(tx *bbolt.Tx) error { return initialize(tx, h) }); err != nil {
			return err
		}
		if err := fill(f.db); err != nil {
			return err
		}
		if err := e.at(written); err != nil {
			return err
		}
		return f.db.Sync()
	})
	if cerr := f.close(); err == nil {
		err = cerr
	}
	if err == nil && written == PointCopyWritten {
		err = e.at(PointCopySynced)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}

// publish gives the file that was built its name, durably. Open it with swap.
func (e *Engine) publish(renamed Point, letGo func(*file)) error {
	temp := e.path + tempSuffix
	err := e.rename(temp, letGo)
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	e.moved = true
	if err := e.at(renamed); err != nil {
		return err
	}
	return syncDir(filepath.Dir(e.path))
}

// rename replaces the file at the engine's path. Where the system does not replace an open file it is
// closed first, and whichever file has the name then is opened in its place.
func (e *Engine) rename(temp string, letGo func(*file)) error {
	if !e.opts.closeFirst || e.file == nil {
		return os.Rename(temp, e.path)
	}
	e.stopCheck.Store(true)
	e.handle.Lock()
	defer e.handle.Unlock()
	letGo(e.file) // everything is in the copy
	err := os.Rename(temp, e.path)
	f, oerr := e.openBolt(e.path)
	if oerr != nil {
		return errors.Join(err, oerr)
	}
	e.file, e.opened = f, err == nil
	return err
}

// tempSuffix names the file that a copy is built in; one left by a crash is removed at the next open.
const tempSuffix = ".new"

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// initialize makes the buckets of an empty file.
func initialize(tx *bbolt.Tx, h header) error {
	for _, name := range bucketNames {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	meta := tx.Bucket([]byte(places[bMeta].bucket))
	f := newFrame(tagFormat, 8)
	f.uint(FormatVersion)
	if err := meta.Put(formatKey, f.finishFrame(formatKey)); err != nil {
		return err
	}
	return meta.Put(headerKey, h.encode())
}

// checkFormat makes sure that this code understands the file.
func checkFormat(tx *bbolt.Tx) error {
	meta := tx.Bucket([]byte(places[bMeta].bucket))
	if meta == nil {
		return errNotOutbox
	}
	return checkFormatValue(meta.Get(formatKey))
}

func checkFormatValue(v []byte) error {
	p, err := openFrame(tagFormat, formatKey, v)
	if errors.Is(err, errNewerFrame) {
		return fmt.Errorf("%w: nothing was changed", outbox.ErrNewerFormat)
	}
	if err != nil {
		return err
	}
	d := decoder{b: p}
	if version := d.uint(); d.err == nil && version > FormatVersion {
		return fmt.Errorf("%w: format %d, this release knows up to %d; nothing was changed", outbox.ErrNewerFormat, version, FormatVersion)
	}
	return d.err
}

var errNotOutbox = errors.New("not an outbox file")

// classify gives the system's refusals the outbox's names.
func classify(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission) || isReadOnly(err):
		return fmt.Errorf("%w: %w", outbox.ErrReadOnly, err)
	case isFull(err):
		return &outbox.FullError{Limit: "disk", Err: err}
	}
	return err
}

// isFull reports whether the disk is full. bbolt hides the system's error in some texts.
func isFull(err error) bool {
	return err != nil && (isDiskFull(err) || strings.Contains(err.Error(), errDiskFull.Error()))
}

// isWriteFull reports whether a write found the disk full before anything depended on it. A sync that
// reports it has lost pages, like any sync that fails.
func isWriteFull(err error) bool {
	var pe *fs.PathError
	return errors.As(err, &pe) && pe.Op == "write" && isDiskFull(err) ||
		err != nil && strings.Contains(err.Error(), "file resize error") && isFull(err)
}
