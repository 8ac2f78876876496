// Package bolt keeps an outbox in one file on the local disk: the engine a till uses unless told
// otherwise. It is built on go.etcd.io/bbolt.
//
// One process has the file at a time. A step is on stable storage when its method returns: two syncs,
// shared by everything that arrived while the commit before was under way. Opening takes the same few
// milliseconds at any backlog, because nothing is scanned. See docs/outbox.md for the file's format, the
// files beside it, and what happens to damaged ones.
package bolt

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/outbox"
)

// formatVersion is the newest layout of the file that this code reads and writes.
const formatVersion = 1

// Options are an engine's settings. The zero value is right for a till.
type Options struct {
	// LockTimeout is how long Open waits for another process to let go of the outbox; 0 = one second.
	LockTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	return o
}

// Open opens the outbox at path and creates it when there is none. The directory must exist.
//
// Errors: a *outbox.LockedError when another process, or this one, has it open; outbox.ErrNewerFormat
// when a newer release wrote it (the file is left as it is); outbox.ErrReadOnly when it cannot be
// written; outbox.ErrDamaged when nothing of it can be read.
func Open(path string, opts Options) (*Engine, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("outbox %s: %w", path, err)
	}
	e := &Engine{
		path: path, opts: opts.withDefaults(),
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), done: make(chan struct{}),
		claims: claims{instance: newInstance(), seqs: map[uint64]bool{}},
	}
	if e.lock, err = acquireLock(path+".lock", path, e.opts.LockTimeout); err != nil {
		return nil, err
	}
	if err := e.openFile(); err != nil {
		_ = e.lock.release()
		return nil, fmt.Errorf("outbox %s: %w", path, err)
	}
	go e.write()
	return e, nil
}

func newInstance() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:]) + "-"
}

func (e *Engine) openFile() error {
	_, err := os.Stat(e.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = e.create()
	}
	if err != nil {
		return classify(err)
	}
	db, err := e.openBolt(e.path)
	if err != nil {
		return classify(err)
	}
	err = guard(func() error { return db.View(checkFormat) })
	if err != nil {
		_ = guard(db.Close)
		return err
	}
	e.db = db
	return nil
}

func (e *Engine) openBolt(path string) (db *bbolt.DB, err error) {
	err = guard(func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout:      time.Second,
			FreelistType: bbolt.FreelistMapType,
			NoStatistics: true,
		})
		return err
	})
	return db, err
}

// create makes a new file under another name and moves it into place, so that the file at path is whole
// at any moment.
func (e *Engine) create() error {
	temp := e.path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := e.openBolt(temp)
	if err != nil {
		return err
	}
	err = guard(func() error {
		return db.Update(func(tx *bbolt.Tx) error { return initialize(tx, header{id: rand.Text()}) })
	})
	if cerr := guard(db.Close); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return moveIntoPlace(temp, e.path)
}

// initialize makes the buckets of an empty file.
func initialize(tx *bbolt.Tx, h header) error {
	for _, name := range bucketNames {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	meta := tx.Bucket([]byte(bucketNames[bMeta]))
	f := newFrame(tagFormat, 8)
	f.uint(formatVersion)
	if err := meta.Put(formatKey, f.finishFrame(formatKey)); err != nil {
		return err
	}
	return meta.Put(headerKey, h.encode())
}

// checkFormat makes sure that this code understands the file.
func checkFormat(tx *bbolt.Tx) error {
	meta := tx.Bucket([]byte(bucketNames[bMeta]))
	if meta == nil {
		return fmt.Errorf("%w: not an outbox", outbox.ErrDamaged)
	}
	v := meta.Get(formatKey)
	// A newer release may frame its values in another way: only the letter and the version count then.
	p, err := openFrame(tagFormat, formatKey, v)
	if err == nil {
		d := decoder{b: p}
		if version := d.uint(); d.err == nil && version > formatVersion {
			return fmt.Errorf("%w: format %d, this release knows up to %d; nothing was changed", outbox.ErrNewerFormat, version, formatVersion)
		}
	}
	if errors.Is(err, errNewerFrame) {
		return fmt.Errorf("%w: nothing was changed", outbox.ErrNewerFormat)
	}
	return err
}

// moveIntoPlace renames a finished, synced file and makes the rename durable.
func moveIntoPlace(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// classify gives the system's refusals the outbox's names.
func classify(err error) error {
	if errors.Is(err, fs.ErrPermission) || isReadOnly(err) {
		return fmt.Errorf("%w: %w", outbox.ErrReadOnly, err)
	}
	return err
}
