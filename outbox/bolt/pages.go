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
	seen  pageSet
	stop  func() bool // asks to end a walk early; nil = never
	bad   int         // pages and elements that could not be read

	buckets map[string]bool // buckets seen
	badIn   map[string]int  // of bad, by bucket

	base int64 // where the page stands from which a value is shown to a visitor
	room int   // and the capacity of its buffer: with that of a slice of it, the slice's place
}

func openPages(f *os.File) (*pageFile, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p := &pageFile{f: f, size: info.Size(), buckets: map[string]bool{}, badIn: map[string]int{}}
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

// pageSet is a set of page ids.
type pageSet []uint64

func (s pageSet) has(id uint64) bool { return id/64 < uint64(len(s)) && s[id/64]&(1<<(id%64)) != 0 }

func (s *pageSet) add(id uint64) {
	for id/64 >= uint64(len(*s)) {
		*s = append(*s, make([]uint64, 1+len(*s))...)
	}
	(*s)[id/64] |= 1 << (id % 64)
}

// take notes that a page and its overflow are in use. A page that two trees claim is bad.
func (p *pageFile) take(id uint64, b []byte) {
	for i := range uint64(int64(len(b)) / p.page) {
		if p.seen.has(id + i) {
			p.bad++
		}
		p.seen.add(id + i)
	}
}

// accounted reports whether every page of the file is either in a tree that was walked, or free, or holds
// the free list: a page in use that the list calls free would be written over.
func (p *pageFile) accounted(m pageMeta) bool {
	free, ok := p.free(m)
	if !ok {
		return false
	}
	b, _, err := p.read(m.freelist, m.pages)
	if err != nil {
		return false
	}
	last := m.freelist + uint64(int64(len(b))/p.page) - 1
	used := uint64(0)
	for id := uint64(2); id < m.pages; id++ {
		in := p.seen.has(id)
		list := id >= m.freelist && id <= last
		if in == free[id] && !list || list && (in || free[id]) {
			return false
		}
		if free[id] {
			used++
		}
	}
	return used == uint64(len(free))
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

// at returns where in the file a slice stands that was shown to a visitor.
func (p *pageFile) at(b []byte) int64 { return p.base + int64(p.room-cap(b)) }

func elements(b []byte) int { return int(binary.LittleEndian.Uint16(b[10:])) }

// visit is called with every element of a tree's leaves. bucket is set for a bucket's root element.
type visit func(key, value []byte, bucket bool)

// walk visits the tree under a page. What cannot be read is counted in bad and left out.
func (p *pageFile) walk(id, limit uint64, depth int, fn visit) {
	if p.stop != nil && p.stop() {
		return
	}
	if depth > maxDepth || p.seen.has(id) {
		p.bad++
		return
	}
	b, flags, err := p.read(id, limit)
	if err != nil || flags != flagBranch && flags != flagLeaf {
		p.bad++
		return
	}
	if fit := p.fit(b, flags); len(fit) < len(b) {
		p.bad++ // it claims pages that are not its own
		b = fit
	}
	p.take(id, b)
	p.visitPage(b, int64(id)*p.page, flags, limit, depth, fn)
}

// fit returns a page without the overflow that its elements do not reach into, but for the one page that bbolt
// may give it too many.
func (p *pageFile) fit(b []byte, flags uint16) []byte {
	end := int64(0)
	for i := range elements(b) {
		key, value, _, _, err := element(b, flags, i)
		if err != nil {
			return b
		}
		end = max(end, int64(cap(b)-cap(key)+len(key)))
		if len(value) > 0 {
			end = max(end, int64(cap(b)-cap(value)+len(value)))
		}
	}
	pages := (end+p.page-1)/p.page + 1
	return b[:min(int64(len(b)), pages*p.page)]
}

func (p *pageFile) visitPage(b []byte, base int64, flags uint16, limit uint64, depth int, fn visit) {
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
			p.base, p.room = base, cap(b)
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
		before := p.bad
		defer func() { p.badIn[string(name)] += p.bad - before }()
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
			p.visitPage(inline, p.at(inline), flagLeaf, m.pages, 1, in)
			return
		}
		p.bad++
	})
}

// again makes the next walk begin anew.
func (p *pageFile) again() {
	p.seen, p.buckets, p.badIn = nil, map[string]bool{}, map[string]int{}
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
		p.seen, p.bad = nil, 0
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
	if n > (uint64(len(b))-at)/8 || uint64(len(b)) > at+8*n+2*uint64(p.page) {
		return nil, false // too short for what it says, or far too long
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
		if p.seen.has(id) || skip[id] {
			continue
		}
		b, flags, err := p.read(id, pages)
		if err != nil || flags != flagLeaf {
			continue
		}
		b = p.fit(b, flags)
		for i := range elements(b) {
			p.base, p.room = int64(id)*p.page, cap(b)
			if key, value, _, kind, err := element(b, flags, i); err == nil && kind&1 == 0 {
				fn(key, value)
			}
		}
		p.take(id, b)
	}
}
