package bolt

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"os"
	"slices"

	"github.com/flavoso/flavoso-go/outbox"
)

// A reader of bbolt's pages that trusts nothing: it reads through the file, not through a memory mapping,
// checks every number before it uses it, and goes round no circle. bbolt itself stops at the first bad
// page, and a damaged page can send it into endless recursion, which no recover catches.

const (
	pageHeader  = 16
	elementSize = 16
	metaSize    = 64
	flagBranch  = 0x01
	flagLeaf    = 0x02
	flagMeta    = 0x04
	flagFree    = 0x10
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	maxDepth    = 64
)

var errPage = errors.New("page is damaged")

// pageMeta is one of the file's two roots.
type pageMeta struct {
	pageSize       uint32
	root, freelist uint64
	pages          uint64 // pages in use: all ids are lower
	txid           uint64
}

// pageFile is a bbolt file read page by page.
type pageFile struct {
	f     io.ReaderAt
	size  int64
	page  int64
	metas []pageMeta // valid ones, the newest first
	seen  map[uint64]bool
	bad   int // pages and elements that could not be read

	buckets map[string]bool // buckets seen
}

func openPages(f *os.File) (*pageFile, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p := &pageFile{f: f, size: info.Size(), seen: map[uint64]bool{}, buckets: map[string]bool{}}
	// The page size stands in the metas; the second one's place depends on it.
	for _, size := range []int64{int64(os.Getpagesize()), 4096, 8192, 16384, 65536, 1024, 2048, 32768} {
		for _, at := range []int64{0, size} {
			if m, ok := p.readMeta(at); ok && int64(m.pageSize) == size {
				p.page = size
				p.metas = append(p.metas, m)
			}
		}
		if p.page != 0 {
			break
		}
	}
	if p.page == 0 {
		p.page = int64(os.Getpagesize())
	}
	if len(p.metas) == 2 && p.metas[1].txid > p.metas[0].txid {
		p.metas[0], p.metas[1] = p.metas[1], p.metas[0]
	}
	return p, nil
}

func (p *pageFile) readMeta(at int64) (m pageMeta, ok bool) {
	var b [pageHeader + metaSize]byte
	if n, _ := p.f.ReadAt(b[:], at); n < len(b) {
		return m, false
	}
	v := b[pageHeader:]
	le := binary.LittleEndian
	h := fnv.New64a()
	_, _ = h.Write(v[:56])
	if le.Uint32(v) != boltMagic || le.Uint32(v[4:]) != boltVersion || le.Uint64(v[56:]) != h.Sum64() {
		return m, false
	}
	return pageMeta{
		pageSize: le.Uint32(v[8:]), root: le.Uint64(v[16:]), freelist: le.Uint64(v[32:]), pages: le.Uint64(v[40:]), txid: le.Uint64(v[48:]),
	}, true
}

// read returns a page with its overflow, and its type. limit is the number of pages in use.
func (p *pageFile) read(id, limit uint64) (b []byte, flags uint16, err error) {
	if id >= limit || int64(id) > p.size/p.page {
		return nil, 0, errPage
	}
	var head [pageHeader]byte
	if _, err := p.f.ReadAt(head[:], int64(id)*p.page); err != nil {
		return nil, 0, errPage
	}
	le := binary.LittleEndian
	flags = le.Uint16(head[8:])
	span := (int64(le.Uint32(head[12:])) + 1) * p.page
	if le.Uint64(head[:]) != id || int64(id)*p.page+span > p.size {
		return nil, 0, errPage
	}
	b = make([]byte, span)
	if _, err := p.f.ReadAt(b, int64(id)*p.page); err != nil {
		return nil, 0, errPage
	}
	return b, flags, nil
}

// element returns the key of a page's i-th element and what its kind has beside it.
func element(b []byte, flags uint16, i int) (key, value []byte, child uint64, kind uint32, err error) {
	at := pageHeader + i*elementSize
	if at+elementSize > len(b) {
		return nil, nil, 0, 0, errPage
	}
	le := binary.LittleEndian
	e := b[at:]
	if flags == flagBranch {
		start, end := uint64(at)+uint64(le.Uint32(e)), uint64(0)
		end = start + uint64(le.Uint32(e[4:]))
		if end > uint64(len(b)) {
			return nil, nil, 0, 0, errPage
		}
		return b[start:end], nil, le.Uint64(e[8:]), 0, nil
	}
	start := uint64(at) + uint64(le.Uint32(e[4:]))
	mid := start + uint64(le.Uint32(e[8:]))
	end := mid + uint64(le.Uint32(e[12:]))
	if end > uint64(len(b)) {
		return nil, nil, 0, 0, errPage
	}
	return b[start:mid], b[mid:end], 0, le.Uint32(e), nil
}

func elements(b []byte) int { return int(binary.LittleEndian.Uint16(b[10:])) }

// visit is called with every element of a tree's leaves. bucket is set for a bucket's root element.
type visit func(key, value []byte, bucket bool)

// walk visits the tree under a page. What cannot be read is counted in bad and left out.
func (p *pageFile) walk(id, limit uint64, depth int, fn visit) {
	if depth > maxDepth || p.seen[id] {
		p.bad++
		return
	}
	b, flags, err := p.read(id, limit)
	if err != nil || flags != flagBranch && flags != flagLeaf {
		p.bad++
		return
	}
	p.seen[id] = true
	for i := uint64(1); i < uint64(int64(len(b))/p.page); i++ {
		p.seen[id+i] = true
	}
	p.visitPage(b, flags, limit, depth, fn)
}

func (p *pageFile) visitPage(b []byte, flags uint16, limit uint64, depth int, fn visit) {
	var last []byte
	for i := range elements(b) {
		key, value, child, kind, err := element(b, flags, i)
		if err != nil {
			p.bad++
			continue
		}
		if i > 0 && string(key) <= string(last) {
			p.bad++ // bbolt searches by halving: out of order, things are not found
		}
		last = key
		if flags == flagBranch {
			p.walk(child, limit, depth+1, fn)
		} else {
			fn(key, value, kind&1 != 0)
		}
	}
}

// walkAll visits every value of every bucket under a meta, or of the named buckets only.
func (p *pageFile) walkAll(m pageMeta, fn func(bucket string, key, value []byte), only ...string) {
	p.walk(m.root, m.pages, 0, func(name, v []byte, isBucket bool) {
		if !isBucket || len(v) < 16 {
			p.bad++
			return
		}
		p.buckets[string(name)] = true
		if only != nil && !slices.Contains(only, string(name)) {
			return
		}
		in := func(key, value []byte, nested bool) {
			if nested {
				p.bad++
				return
			}
			fn(string(name), key, value)
		}
		if root := binary.LittleEndian.Uint64(v); root != 0 {
			p.walk(root, m.pages, 1, in)
			return
		}
		if inline := v[16:]; len(inline) >= pageHeader && binary.LittleEndian.Uint16(inline[8:]) == flagLeaf {
			p.visitPage(inline, flagLeaf, m.pages, 1, in)
			return
		}
		p.bad++
	})
}

// checkFormat refuses a file that a newer release wrote. It must come before anything that changes the
// file, salvage above all: to this code everything newer looks damaged.
func (p *pageFile) checkFormat() error {
	var err error
	for _, m := range p.metas {
		p.walkAll(m, func(bucket string, k, v []byte) {
			if bucket == places[bMeta].bucket && string(k) == string(formatKey) && err == nil {
				if ferr := checkFormatValue(v); errors.Is(ferr, outbox.ErrNewerFormat) {
					err = ferr
				}
			}
		}, places[bMeta].bucket)
		p.seen, p.bad = map[uint64]bool{}, 0
	}
	return err
}

// free returns the pages that a meta's free list names; false = it cannot be read.
func (p *pageFile) free(m pageMeta) (map[uint64]bool, bool) {
	b, flags, err := p.read(m.freelist, m.pages)
	if err != nil || flags != flagFree {
		return nil, false
	}
	n, at := uint64(elements(b)), uint64(pageHeader)
	if n == 0xffff {
		if len(b) < pageHeader+8 {
			return nil, false
		}
		n, at = binary.LittleEndian.Uint64(b[pageHeader:]), pageHeader+8
	}
	if n > (uint64(len(b))-at)/8 {
		return nil, false
	}
	out := make(map[uint64]bool, n)
	for i := range n {
		out[binary.LittleEndian.Uint64(b[at+8*i:])] = true
	}
	return out, true
}

// orphans visits the elements of leaf pages that no walk has reached and that skip does not name.
func (p *pageFile) orphans(skip map[uint64]bool, fn func(key, value []byte)) {
	pages := uint64((p.size + p.page - 1) / p.page)
	for id := uint64(2); id < pages; id++ {
		if p.seen[id] || skip[id] {
			continue
		}
		b, flags, err := p.read(id, pages)
		if err != nil || flags != flagLeaf {
			continue
		}
		for i := range elements(b) {
			if key, value, _, kind, err := element(b, flags, i); err == nil && kind&1 == 0 {
				fn(key, value)
			}
		}
		for i := uint64(1); i < uint64(int64(len(b))/p.page); i++ {
			p.seen[id+i] = true
		}
	}
}
