package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// errTree says that a bucket's tree does not hang together.
var errTree = fmt.Errorf("%w: a tree of pages is broken", errFrame)

// checkInBackground looks through the branch pages of a file that is too big to be read at opening: a
// pointer that leads back to an earlier page would send bbolt round in a circle until the process dies.
// It reads bucket by bucket, so that neither the writer nor Close waits long for it.
func (e *Engine) checkInBackground() {
	defer e.checking.Done()
	f, err := os.Open(e.path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	for _, name := range bucketNames {
		h, err := e.checkBucket(f, name)
		if h == nil {
			return
		}
		if err != nil {
			_ = e.do(context.Background(), &step{alone: func() error { return e.salvageInUse(h, err) }})
			return
		}
	}
}

// checkBucket walks one bucket's branch pages; a nil file = the check is over.
func (e *Engine) checkBucket(f *os.File, name string) (*file, error) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	e.handle.RLock()
	defer e.handle.RUnlock()
	h := e.file
	if closed || h == nil {
		return nil, nil
	}
	if info, err := f.Stat(); err != nil || !os.SameFile(info, h.info) {
		return nil, nil // a fresh copy took its place meanwhile
	}
	return h, guard(func() error {
		tx, err := h.db.Begin(false) // keeps the pages it can reach as they are
		if err != nil {
			return err
		}
		p, err := openPages(f)
		if err == nil {
			b := tx.Bucket([]byte(name))
			if b == nil {
				err = errNotOutbox
			} else if root := uint64(b.Root()); root != 0 {
				depth := p.depth(root, uint64(tx.Size()/p.page))
				if depth < 0 || !p.branches(root, uint64(tx.Size()/p.page), depth) {
					err = fmt.Errorf("%w (%s)", errTree, name)
				}
			}
		}
		return errors.Join(err, tx.Rollback())
	})
}

// depth returns how many branch pages stand above the leaves; -1 = the way down is broken.
func (p *pageFile) depth(id, limit uint64) int {
	for d := range maxDepth {
		b, flags, err := p.read(id, limit)
		if err != nil || flags != flagBranch && flags != flagLeaf {
			return -1
		}
		if flags == flagLeaf {
			return d
		}
		if _, _, id, _, err = element(b, flags, 0); err != nil {
			return -1
		}
	}
	return -1
}

// branches reports whether the tree's branch pages hang together: all of them above the same depth, none
// twice, and none where a leaf must be. Leaves are not read: bbolt checks their type when it comes there.
func (p *pageFile) branches(id, limit uint64, depth int) bool {
	var leaves []uint64
	if !p.collectBranches(id, limit, depth, &leaves) {
		return false
	}
	for _, leaf := range leaves {
		if p.seen[leaf] || leaf >= limit {
			return false
		}
	}
	return true
}

func (p *pageFile) collectBranches(id, limit uint64, depth int, leaves *[]uint64) bool {
	if depth == 0 {
		*leaves = append(*leaves, id)
		return true
	}
	b, flags, err := p.read(id, limit)
	if err != nil || flags != flagBranch || p.seen[id] {
		return false
	}
	p.seen[id] = true
	for i := range elements(b) {
		_, _, child, _, err := element(b, flags, i)
		if err != nil || !p.collectBranches(child, limit, depth-1, leaves) {
			return false
		}
	}
	return true
}
