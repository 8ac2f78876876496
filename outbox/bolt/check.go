package bolt

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// checkInBackground reads a file through that is too big for that at opening. Some damage must be found
// before bbolt comes to it: a pointer that leads back to an earlier page sends it round in a circle until
// the process dies, a page that claims to be longer than it is gives away those behind it.
//
// A read transaction keeps the pages as they are meanwhile. The check gives way to a fresh copy and to
// Close.
func (e *Engine) checkInBackground() {
	defer e.checking.Done()
	h, err := e.checkOnce()
	if err != nil {
		_ = e.do(context.Background(), &step{alone: func() error { return e.salvageInUse(h, err) }})
	}
}

func (e *Engine) checkOnce() (*file, error) {
	e.handle.RLock()
	defer e.handle.RUnlock()
	h := e.file
	if h == nil || e.stopCheck.Load() {
		return nil, nil
	}
	return h, guard(func() error {
		tx, err := h.db.Begin(false)
		if err != nil {
			return nil // closed meanwhile
		}
		err = e.checkPages(h, tx)
		return errors.Join(err, tx.Rollback())
	})
}

func (e *Engine) checkPages(h *file, tx *bbolt.Tx) error {
	p, err := openPages(h.f)
	if err != nil || len(p.metas) == 0 || p.metas[0].txid != uint64(tx.ID()) {
		return nil // a commit came in between; the next opening checks
	}
	p.stop = e.stopCheck.Load
	broken := 0
	m := p.metas[0]
	p.walkAll(m, func(_ string, k, v []byte) {
		if !framed(k, v) {
			broken++
		}
	})
	switch {
	case e.stopCheck.Load():
		return nil
	case p.bad > 0 || broken > 0:
		return fmt.Errorf("%w: %d pages and %d values are unreadable", errFrame, p.bad, broken)
	case !p.accounted(m):
		return fmt.Errorf("%w: the list of free pages is wrong", errFrame)
	}
	return nil
}

// framed reports whether a value passes its checksum under its key, or under the key in the index.
func framed(k, v []byte) bool {
	if len(v) == 0 || len(k) == 0 {
		return false
	}
	if _, err := openFrame(v[0], k, v); err == nil {
		return true
	}
	_, err := openFrame(v[0], k[1:], v)
	return err == nil
}
