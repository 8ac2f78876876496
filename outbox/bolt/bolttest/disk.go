package bolttest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"sync"
	"syscall"
	"unsafe"

	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// Disk stands between one engine and its files. The zero value is not usable; see [NewDisk].
type Disk struct {
	mu      sync.Mutex
	ops     map[Op]*plan
	points  map[bolt.Point]*plan
	calls   map[bolt.Point]func()
	counts  map[bolt.Point]int
	syncs   int
	record  bool
	writes  []Write
	restore func() // puts a descriptor back that was made to fail
}

// plan says how often something fails: skip times it does not, then times it does.
type plan struct {
	skip, times, every int
	err                error
}

func (p *plan) due() bool {
	if p == nil {
		return false
	}
	if p.every > 0 {
		p.skip++
		return p.skip%p.every == 0
	}
	if p.skip > 0 {
		p.skip--
		return false
	}
	p.times--
	return p.times >= 0
}

// NewDisk returns a disk that works.
func NewDisk() *Disk {
	return &Disk{ops: map[Op]*plan{}, points: map[bolt.Point]*plan{}, calls: map[bolt.Point]func(){}, counts: map[bolt.Point]int{}}
}

// Attach puts the disk under the engine that is opened with o.
func (d *Disk) Attach(o *bolt.Options) {
	o.OpenDB = d.open
	o.Probe = d.probe
}

// Fail makes the next n operations of a kind fail. Writes fail with EIO; a sync fails as the system makes
// it fail on a descriptor that cannot be synced.
func (d *Disk) Fail(op Op, n int) { d.FailWith(op, n, syscall.EIO) }

// FailWith is Fail with another error for writes.
func (d *Disk) FailWith(op Op, n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ops[op] = &plan{times: n, err: err}
}

// FailEvery makes every n-th operation of a kind fail, from now on.
func (d *Disk) FailEvery(op Op, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ops[op] = &plan{every: n, err: syscall.EIO}
}

// FailAt makes the work at a point fail n times.
func (d *Disk) FailAt(p bolt.Point, n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.points[p] = &plan{times: n, err: err}
}

// At calls fn whenever the engine comes to a point; fn may end the process.
func (d *Disk) At(p bolt.Point, fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[p] = fn
}

// Syncs returns how many syncs commits have made.
func (d *Disk) Syncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// Count returns how often the engine came to a point.
func (d *Disk) Count(p bolt.Point) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[p]
}

// Record starts keeping every write; Writes returns them.
func (d *Disk) Record() { d.mu.Lock(); d.record, d.writes = true, nil; d.mu.Unlock() }

// Writes returns the writes since Record.
func (d *Disk) Writes() []Write {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Write(nil), d.writes...)
}

func (d *Disk) probe(p bolt.Point) error {
	d.mu.Lock()
	d.counts[p]++
	if p == bolt.PointCommitFailed && d.restore != nil {
		d.restore()
		d.restore = nil
	}
	var err error
	if pl := d.points[p]; pl.due() {
		err = pl.err
	}
	call := d.calls[p]
	d.mu.Unlock()
	if call != nil {
		call()
	}
	return err
}

// open opens a bbolt file and takes over its writes.
func (d *Disk) open(path string, mode fs.FileMode, o *bbolt.Options) (*bbolt.DB, error) {
	var f *os.File
	inner := *o
	inner.OpenFile = func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		f, err = o.OpenFile(name, flag, mode)
		return f, err
	}
	db, err := bbolt.Open(path, mode, &inner)
	if err != nil {
		return nil, err
	}
	// bbolt keeps the function it writes with in a field of its own, for its tests. There is no other
	// place between the data pages and the meta page.
	ops := reflect.ValueOf(db).Elem().FieldByName("ops")
	if !ops.IsValid() || !ops.FieldByName("writeAt").IsValid() {
		return nil, fmt.Errorf("bolttest: this release of bbolt has no ops.writeAt")
	}
	write := (*func([]byte, int64) (int, error))(unsafe.Pointer(ops.FieldByName("writeAt").UnsafeAddr()))
	h := &hooked{d: d, f: f, page: int64(db.Info().PageSize), path: path}
	h.plain = *write
	*write = h.writeAt
	return db, nil
}

// errSync stands for a failed sync where a descriptor cannot be made to fail one: for the commit it comes
// to the same.
var errSync = errors.New("bolttest: sync failed")

// hooked is one open file.
type hooked struct {
	d     *Disk
	f     *os.File
	path  string
	page  int64
	plain func([]byte, int64) (int, error)
	data  bool // the commit under way has written a data page
	real  *os.File
}

func (h *hooked) writeAt(b []byte, at int64) (int, error) {
	meta := at < 2*h.page && int64(len(b)) == h.page
	if !meta && !h.data {
		h.data = true
		if err := h.d.probe(bolt.PointCommitData); err != nil {
			return 0, err
		}
		if h.due(SyncData) && !h.breakSync() {
			return 0, errSync
		}
	}
	if meta {
		h.data = false
		if err := h.d.probe(bolt.PointCommitMeta); err != nil {
			return 0, err
		}
	}
	op := WriteData
	if meta {
		op = WriteMeta
	}
	if err := h.failure(op); err != nil {
		h.data = false
		return 0, &fs.PathError{Op: "write", Path: h.path, Err: err}
	}
	n, err := h.write(b, at)
	h.note(b, at, meta)
	if meta && err == nil {
		if err := h.d.probe(bolt.PointCommitSync); err != nil {
			return n, err
		}
		if h.due(SyncMeta) && !h.breakSync() {
			return n, errSync
		}
	}
	return n, err
}

func (h *hooked) write(b []byte, at int64) (int, error) {
	if h.real != nil {
		return h.real.WriteAt(b, at)
	}
	return h.plain(b, at)
}

func (h *hooked) due(op Op) bool {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.d.ops[op].due()
}

func (h *hooked) failure(op Op) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if p := h.d.ops[op]; p.due() {
		return p.err
	}
	return nil
}

func (h *hooked) note(b []byte, at int64, meta bool) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if meta {
		h.d.syncs += 2 // one after the data pages, one now
	}
	if h.d.record {
		w := Write{Path: h.path, At: at, Data: append([]byte(nil), b...), Meta: meta}
		if info, err := os.Stat(h.path); err == nil {
			w.Size = info.Size()
		}
		h.d.writes = append(h.d.writes, w)
	}
}
