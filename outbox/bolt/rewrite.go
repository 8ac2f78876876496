package bolt

import (
	"go.etcd.io/bbolt"
)

// rewriteBytes bounds the transactions in which a copy is written.
const rewriteBytes = 8 << 20

// rewrite goes on from a fresh copy of the file: after a failed sync, when what was written may not be on
// the disk although it reads back, and to give space back. At any moment the name stands for a whole
// file, the old one or the new one. On an error the engine keeps the handle it has.
func (e *Engine) rewrite() error {
	if err := e.at(PointCopyBegin); err != nil {
		return err
	}
	src := e.file
	err := guard(func() error {
		return src.db.View(func(tx *bbolt.Tx) error {
			if err := checkFormat(tx); err != nil {
				return err
			}
			v := tx.Bucket([]byte(places[bMeta].bucket)).Get(headerKey)
			h, err := decodeHeader(v)
			if err != nil {
				return err
			}
			return e.build(h, func(dst *bbolt.DB) error { return copyBuckets(dst, tx) }, PointCopyWritten)
		})
	})
	if err != nil {
		return err
	}
	if err := e.publish(PointCopyRenamed, closeFile); err != nil {
		return err
	}
	return e.swap(closeFile)
}

// swap opens the file that is now at the engine's path and lets the old handle go.
func (e *Engine) swap(letGo func(*file)) error {
	if err := e.openMoved(letGo); err != nil {
		return err
	}
	e.salvageInPlace()
	return nil
}

func (e *Engine) openMoved(letGo func(*file)) error {
	if err := e.at(PointCopyDone); err != nil {
		return err
	}
	if e.opened { // by rename
		h, err := e.file.header()
		if err != nil {
			return err
		}
		e.id, e.commits, e.moved, e.opened = h.id, h.commits, false, false
		return nil
	}
	f, err := e.openBolt(e.path)
	if err != nil {
		return err
	}
	h, err := f.header()
	if err != nil {
		_ = f.close()
		return err
	}
	e.stopCheck.Store(true)
	e.handle.Lock()
	old := e.file
	e.file = f
	e.handle.Unlock()
	e.id, e.commits, e.moved = h.id, h.commits, false
	if old != nil {
		letGo(old)
	}
	return nil
}

func (h *file) header() (out header, err error) {
	err = guard(func() error {
		return h.db.View(func(tx *bbolt.Tx) error {
			if err := checkFormat(tx); err != nil {
				return err
			}
			out, err = decodeHeader(tx.Bucket([]byte(places[bMeta].bucket)).Get(headerKey))
			return err
		})
	})
	return out, err
}

// copyBuckets copies every value as it is, damaged ones too: judging them is the salvage's work.
func copyBuckets(dst *bbolt.DB, src *bbolt.Tx) error {
	var tx *bbolt.Tx
	size := 0
	begin := func() (err error) {
		if tx != nil {
			if err := tx.Commit(); err != nil {
				return err
			}
		}
		tx, err = dst.Begin(true)
		size = 0
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the last commit
	for _, name := range bucketNames {
		b := src.Bucket([]byte(name))
		if b == nil && name == bufferBucket {
			continue // in format 1
		}
		if b == nil {
			return errNotOutbox
		}
		to := tx.Bucket([]byte(name))
		to.FillPercent = 0.9
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if name == places[bMeta].bucket && string(k) == string(formatKey) {
				continue // the copy has the present format
			}
			if size > rewriteBytes {
				if err := begin(); err != nil {
					return err
				}
				to = tx.Bucket([]byte(name))
				to.FillPercent = 0.9
			}
			size += len(k) + len(v)
			if err := to.Put(k, v); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}
