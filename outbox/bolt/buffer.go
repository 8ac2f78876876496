package bolt

import (
	"bytes"
	"slices"
	"sort"

	"go.etcd.io/bbolt"
)

// A step changes a handful of entries of the index, each on a page of its own, and most of them are changed
// or deleted again soon: an operation waits, is claimed, and is gone. Written at once they would make up most of a
// commit. Changes of the index are therefore gathered in the write buffer: a commit appends its own, as one
// value, to the bucket "buffer", and when they have become many, one commit takes all of them over into
// the index and empties the bucket. What is read from the index is what the tree holds with the changes over
// it. They are kept sorted in memory, and are read from the file where memory does not have them.

// bufferBytes is how much the write buffer may hold. Memory, and the time that opening and one commit out of many
// take, grow with it.
const bufferBytes = 32 << 10

const bufferBucket = "buffer"

// change is what became of one key of the index. It does not change itself.
type change struct {
	key    []byte // as in the index
	value  []byte // nil = deleted
	commit uint64
}

// changes are sorted by key, with the last change of each. What is shared is not changed any more.
type changes struct {
	list []*change
	size int
}

const changeOverhead = 48

// search returns where k is or belongs.
func (c *changes) search(k []byte) (i int, there bool) {
	i = sort.Search(len(c.list), func(i int) bool { return bytes.Compare(c.list[i].key, k) >= 0 })
	return i, i < len(c.list) && bytes.Equal(c.list[i].key, k)
}

// set keeps a change. It keeps k and v.
func (c *changes) set(k, v []byte, commit uint64) {
	i, there := c.search(k)
	if there {
		c.size += len(v) - len(c.list[i].value)
		c.list[i] = &change{k, v, commit}
		return
	}
	c.size += len(k) + len(v) + changeOverhead
	c.list = slices.Insert(c.list, i, &change{k, v, commit})
}

// clone returns a copy to be changed.
func (c *changes) clone() *changes {
	list := make([]*change, len(c.list), len(c.list)+128)
	copy(list, c.list)
	return &changes{list, c.size}
}

// encode returns the changes of one commit as a value of the bucket; nil = there are none.
func (c *changes) encode(key []byte, commit uint64) []byte {
	n, size := 0, 0
	for _, x := range c.list {
		if x.commit == commit {
			n++
			size += len(x.key) + len(x.value) + 8
		}
	}
	if n == 0 {
		return nil
	}
	e := newFrame(tagBuffer, size)
	for _, x := range c.list {
		if x.commit == commit {
			e.bytes(x.key)
			e.bytes(x.value)
		}
	}
	return e.finishFrame(key)
}

// decodeChanges calls fn with every change of a value of the bucket; what it gets aliases v.
func decodeChanges(key, v []byte, fn func(k, v []byte)) error {
	p, err := openFrame(tagBuffer, key, v)
	if err != nil {
		return err
	}
	d := decoder{b: p}
	for len(d.b) > 0 {
		k, value := d.bytes(), d.bytes()
		if d.err == nil && len(k) == 0 {
			d.fail()
		}
		if d.err == nil {
			fn(k, value)
		}
	}
	return d.err
}

// buffer is the write buffer of a transaction.
type buffer struct{ changes *changes }

// kept is what a file's write buffer held after a commit.
type kept struct {
	commit  uint64
	changes *changes
}

// bufferOf returns the write buffer as a transaction sees it: from memory, if that is of the same commit, or from
// the file. nil = the file's format has none.
func (h *file) bufferOf(tx *bbolt.Tx, head *header) (*buffer, error) {
	b := tx.Bucket([]byte(bufferBucket))
	if b == nil {
		return nil, nil
	}
	if k := h.kept.Load(); k != nil && k.commit == head.commits {
		return &buffer{k.changes}, nil
	}
	out := &changes{}
	n := uint64(0)
	cur := b.Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		n++
		if err := decodeChanges(k, v, func(key, value []byte) { out.set(clone(key), clone(value), 0) }); err != nil {
			return nil, err
		}
	}
	if n != head.buffered {
		return nil, errFrame
	}
	return &buffer{out}, nil
}

// keep notes what the write buffer holds after the transaction's commit, for those that follow.
func (t *txn) keep(h *file) {
	if t.buffer != nil {
		h.kept.Store(&kept{t.h.commits, t.buffer.changes})
	}
}

// flush takes the changes over into the index.
func (t *txn) flush() {
	index := t.tx.Bucket([]byte(indexBucket))
	at := index.Cursor() // one for all: bbolt's Delete makes another for each
	for _, x := range t.buffer.changes.list {
		if x.value != nil {
			t.fail(index.Put(x.key, x.value))
		} else if k, _ := at.Seek(x.key); bytes.Equal(k, x.key) {
			t.fail(at.Delete())
		}
	}
	t.buffer.changes = &changes{}
	if t.h.buffered > 0 {
		t.h.buffered = 0
		t.fail(t.tx.DeleteBucket([]byte(bufferBucket)))
		_, err := t.tx.CreateBucket([]byte(bufferBucket))
		t.fail(err)
	}
}

// finishBuffer saves the changes of this commit: in the buffer, or with everything in the index when they are so many
// that writing them twice would cost more than it spares.
func (t *txn) finishBuffer() {
	if t.buffer == nil {
		return
	}
	key := seqKey(t.h.commits)
	v := t.buffer.changes.encode(key, t.h.commits)
	switch {
	case v == nil:
	case len(v) > bufferBytes/2 && !t.thin:
		t.flush()
	default:
		t.h.buffered++
		b := t.tx.Bucket([]byte(bufferBucket))
		b.FillPercent = 0.9 // its keys only grow
		t.fail(b.Put(key, v))
	}
}
