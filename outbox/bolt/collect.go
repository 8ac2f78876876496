package bolt

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/flavoso/flavoso-go/outbox"
)

// found is a value of the damaged file. Big ones are only remembered by their place, so that a big outbox
// is not held in memory.
type found struct {
	at      int64
	n       int
	value   []byte // of small kinds; nil = read it at its place
	prefix  string // of the key, before the seq
	commit  uint64
	current bool // in use when the file was last written; otherwise it may be an old version
}

// there reports whether something was found.
func (f found) there() bool { return f.n > 0 }

// read returns the value; nil when it cannot be read any more.
func (c *collection) read(f found) []byte {
	if f.value != nil || f.n == 0 {
		return f.value
	}
	b := make([]byte, f.n)
	if _, err := c.pages.f.ReadAt(b, f.at); err != nil {
		return nil
	}
	return b
}

// key returns the key that a record's value was found under.
func (f found) key(seq uint64) []byte { return appendSeq([]byte(f.prefix), seq) }

// collection is everything of a damaged file that passes its checksum, by what it is about.
type collection struct {
	pages     *pageFile
	broken    int // values that fail their checksum
	requests  map[uint64]found
	progress  map[uint64]found
	bodies    map[uint64]found
	lanes     map[uint64][2]string // connection and lane of unfinished records, from the lane index
	ids       map[uint64][2]string // ID and connection, from the ID index
	keySeqs   map[uint64][2]string // connection and key, from the key index
	tombs     map[string]found     // key entries whose record is gone
	states    map[string]found
	holds     map[string]found
	named     map[string]bool // key entries of either kind
	outlived  []string        // key entries that the tombstone index names
	n         map[place]int   // values by place
	prefixes  map[string]string
	changes   map[string][]byte // the write buffer's, by key in the index; nil = deleted
	live      int               // how far the index can be believed
	stale     bool              // it may name records that were deleted
	detached  bool              // what is collected now does not alias the file's pages
	format    uint64
	header    header
	hasHeader bool
	total     counts
	hasTotal  bool
	current   bool // what is collected now was in use

	// Claims of this engine that were answered outlive the salvage: whoever has one is at work. One of a
	// commit in doubt was given to nobody yet.
	instance string
	durable  uint64
}

func newCollection(p *pageFile) *collection {
	return &collection{
		pages: p, requests: map[uint64]found{}, progress: map[uint64]found{}, bodies: map[uint64]found{},
		lanes: map[uint64][2]string{}, ids: map[uint64][2]string{}, keySeqs: map[uint64][2]string{},
		tombs: map[string]found{}, states: map[string]found{}, holds: map[string]found{},
		named: map[string]bool{}, n: map[place]int{}, prefixes: map[string]string{}, changes: map[string][]byte{},
	}
}

// collect reads what can be read of a file. clean reports whether it is whole: every page and every
// value, from the newest root.
func collect(p *pageFile) (c *collection, clean bool) {
	c = newCollection(p)
	c.current = true
	complete := false
	if len(p.metas) > 0 {
		// Buckets come in the order of their names: the write buffer before the index that it lies over.
		log := changeLog{}
		p.walkAll(p.metas[0], func(bucket string, k, v []byte) {
			if bucket != bufferBucket {
				c.visit(bucket, k, v)
			} else if log.add(k, v) {
				maps.Copy(c.changes, log[lastSeq(k)]) // in the order of commits
			} else {
				c.broken++
			}
		})
		c.takeChanges()
		complete = uint64(len(log)) == c.header.buffered
	} else {
		p.bad++
	}
	if c.truncated() {
		p.bad++
	}
	if p.bad == 0 && c.broken == 0 && c.hasHeader && complete {
		return c, p.accounted(p.metas[0]) && c.consistent()
	}
	bad := p.bad
	rest := collectDamaged(p)
	p.bad, rest.broken = bad, c.broken
	return rest, false
}

// collectDamaged reads what can be read of a damaged file.
func collectDamaged(p *pageFile) *collection {
	c := newCollection(p)
	// Pages of the current tree that nothing leads to any more are those that are neither free nor
	// reached. Without the free list nobody can tell them from pages given back long ago.
	var free map[uint64]bool
	known := false
	if len(p.metas) > 0 {
		free, known = p.free(p.metas[0])
		c.survey(p.metas[0], free)
		c.stale = c.live != liveKnown
	}
	c.current = true
	c.takeRoot(p.metas)
	c.current = known
	p.orphans(free, func(k, v []byte) {
		if len(p.metas) == 0 && len(v) > 0 && v[0] == tagBuffer {
			c.takeHistory(k, v)
			return
		}
		c.visit(indexBucket, k, v)
	})
	if len(p.metas) == 2 {
		// The root before the last commit: what that commit replaced is still there.
		c.current = false
		c.survey(p.metas[1], nil)
		c.takeRoot(p.metas[1:])
	}
	return c
}

// takeHistory takes what a value of the write buffer has put, where no root tells what came after it.
func (c *collection) takeHistory(k, v []byte) {
	one := changeLog{}
	if !one.add(k, v) {
		c.broken++
		return
	}
	c.changes = one.all()
	c.takeChanges()
	c.changes = nil
}

// survey reads a root's write buffer, with what is left of its pages when the free ones are known, and finds out how
// far what the index says of unfinished records can be believed. A change that came after it may have stood
// in a part of the write buffer that is gone. Where what is known of final records is not whole either, one of
// them could look unfinished: then nothing is believed.
func (c *collection) survey(m pageMeta, free map[uint64]bool) {
	p, log := c.pages, changeLog{}
	var h header
	broken := 0
	p.again()
	p.walkAll(m, func(bucket string, k, v []byte) {
		switch bucket {
		case bufferBucket:
			log.add(k, v)
		case places[bMeta].bucket:
			if head, err := decodeHeader(v); err == nil && string(k) == string(headerKey) {
				h = head
			}
		case places[bDone].bucket:
			if !framed(k, v) {
				broken++
			}
		}
	})
	lost := p.badIn[places[bDone].bucket] > 0 || !p.buckets[places[bDone].bucket]
	if free != nil {
		p.orphans(free, func(k, v []byte) {
			if len(v) > 0 && v[0] == tagBuffer {
				log.add(k, v)
			}
		})
	}
	c.changes = log.all()
	switch {
	case h.id != "" && uint64(len(log)) == h.buffered:
		c.live = liveKnown
	case broken > 0 || lost:
		c.live = liveUnknown
	default:
		c.live = liveOld
	}
}

// How far what the index says of unfinished records can be believed.
const (
	liveKnown   = iota
	liveOld     // it may be an old version
	liveUnknown // the record may be over
)

// takeRoot takes what the first of roots leads to; none is fine.
func (c *collection) takeRoot(roots []pageMeta) {
	c.takeChanges()
	c.pages.again()
	if len(roots) > 0 {
		c.pages.walkAll(roots[0], c.visit)
	}
}

// changeLog is what the write buffer says, by commit.
type changeLog map[uint64]map[string][]byte

// add reads a value of the bucket; false = it is unreadable.
func (l changeLog) add(key, v []byte) bool {
	all := map[string][]byte{}
	if decodeChanges(key, v, func(k, v []byte) { all[string(k)] = clone(v) }) != nil || len(key) != 8 {
		return false
	}
	l[lastSeq(key)] = all
	return true
}

// all returns the last change of each key.
func (l changeLog) all() map[string][]byte {
	out := map[string][]byte{}
	for _, commit := range slices.Sorted(maps.Keys(l)) {
		maps.Copy(out, l[commit])
	}
	return out
}

// visit takes a value, unless the write buffer has another in its place or it is the buffer's own.
func (c *collection) visit(bucket string, k, v []byte) {
	where := place{bucket, 0}
	switch bucket {
	case bufferBucket:
		return
	case indexBucket:
		if _, changed := c.changes[string(k)]; changed || len(v) > 0 && v[0] == tagBuffer {
			return
		}
		if len(k) > 0 {
			where.letter = k[0]
		}
	}
	c.n[where]++
	c.take(k, v)
}

// takeChanges takes what the write buffer has put.
func (c *collection) takeChanges() {
	c.detached = true
	for k, v := range c.changes {
		if v != nil {
			c.n[place{indexBucket, k[0]}]++
			c.take([]byte(k), v)
		}
	}
	c.detached = false
}

// consistent compares the indexes and totals with the records: a page that lost elements at its end reads
// well otherwise.
func (c *collection) consistent() bool {
	var sum counts
	var outcomes, bodies, unfinished int
	heads := map[[2]string]uint64{}
	for seq, f := range c.progress {
		var r entry
		if decodeProgress(f.key(seq), c.read(f), &r) != nil || decodeRequest(seqKey(seq), c.read(c.requests[seq]), &r.Record) != nil {
			return false
		}
		if r.line < c.header.line && r.Unfinished() {
			r.ApplySuspect()
		}
		sum.add(&r, 1)
		if r.OutcomeSeq != 0 {
			outcomes++
		}
		if r.body {
			bodies++
		}
		if r.Unfinished() {
			unfinished++
			lane := [2]string{r.Connection, r.Lane}
			if c.lanes[seq] != lane {
				return false
			}
			if head := heads[lane]; head == 0 || seq < head {
				heads[lane] = seq
			}
		}
		if r.Key != "" && !c.named[string(nameKey(r.Connection, r.Key))] {
			return false
		}
	}
	due := 0
	for _, seq := range heads {
		var r entry
		f := c.progress[seq]
		if _ = decodeProgress(f.key(seq), c.read(f), &r); r.State.Parked() {
			sum.held++
		} else {
			due++
		}
	}
	for _, key := range c.outlived {
		if !c.named[key] {
			return false
		}
	}
	for bucket, n := range map[int]int{
		bRequest: len(c.progress), bID: len(c.progress), bLane: unfinished, bLive: unfinished, bDone: len(c.progress) - unfinished,
		bDue: due, bOutcome: outcomes, bUnacked: int(sum.unacked), bBody: bodies,
	} {
		if c.n[places[bucket]] != n {
			return false
		}
	}
	return sum == c.total && c.buckets() == c.wanted()
}

// buckets returns how many of the outbox's buckets there are.
func (c *collection) buckets() (n int) {
	for _, name := range bucketNames {
		if _, ok := c.pages.buckets[name]; ok {
			n++
		}
	}
	return n
}

// wanted returns how many there must be.
func (c *collection) wanted() int {
	if c.format == 1 {
		return len(bucketNames) - 1 // no write buffer
	}
	return len(bucketNames)
}

// truncated reports whether the file is shorter than its newest root says.
func (c *collection) truncated() bool {
	p := c.pages
	return len(p.metas) > 0 && int64(p.metas[0].pages)*p.page > p.size
}

// take keeps a value if it passes its checksum. Its letter says what it is, wherever it is.
func (c *collection) take(key, value []byte) {
	if len(value) < 6 || len(key) == 0 {
		c.broken++
		return
	}
	p, err := openFrame(value[0], key, value)
	if err != nil {
		key = key[1:] // in the index
		p, err = openFrame(value[0], key, value)
	}
	if err != nil {
		c.broken++
		return
	}
	f := found{n: len(value), current: c.current}
	if c.detached {
		f.value = value
	} else {
		f.at = c.pages.at(value)
	}
	switch value[0] {
	case tagRequest:
		keep(c.requests, lastSeq(key), f)
	case tagProgress:
		var r entry
		if decodeProgress(key, value, &r) != nil {
			c.broken++
			return
		}
		f.commit = r.commit
		if f.prefix = c.intern(key[:max(0, len(key)-8)]); f.prefix != "" {
			if c.live == liveUnknown {
				return
			}
			f.current = f.current && c.live == liveKnown
		}
		keep(c.progress, lastSeq(key), f)
	case tagBody:
		keep(c.bodies, lastSeq(key), f)
	case tagLane:
		if conn, rest, ok := cutText(key); ok {
			if lane, _, ok := cutText(rest); ok {
				c.lanes[lastSeq(key)] = [2]string{conn, lane}
			}
		}
	case tagID:
		d := decoder{b: p}
		if seq, conn := d.fixed(), d.str(); d.err == nil && c.current {
			c.ids[seq] = [2]string{string(key), conn}
		}
	case tagKey:
		c.takeKey(key, value, p, f)
	case tagTombstone:
		if _, rest, ok := cutTime(key); ok {
			c.outlived = append(c.outlived, string(rest))
		}
	case tagState:
		f.value = clone(value)
		keep(c.states, string(key), f)
	case tagHold:
		f.value = clone(value)
		keep(c.holds, string(key), f)
	case tagFormat:
		d := decoder{b: p}
		c.format = max(c.format, d.uint())
	case tagHeader:
		if h, err := decodeHeader(value); err == nil && (!c.hasHeader || h.commits > c.header.commits) {
			c.header, c.hasHeader = h, true
		}
	case tagCounts:
		if t, err := decodeCounts(key, value); err == nil && c.current && strings.TrimPrefix(string(key), "counts ") == "" {
			c.total, c.hasTotal = t, true
		}
	}
}

// intern keeps one copy of the few prefixes that many keys share.
func (c *collection) intern(b []byte) string {
	s, ok := c.prefixes[string(b)]
	if !ok {
		s = string(b)
		c.prefixes[s] = s
	}
	return s
}

func (c *collection) takeKey(key, value, p []byte, f found) {
	conn, name, ok := cutText(key)
	if !ok || len(p) == 0 {
		c.broken++
		return
	}
	c.named[string(key)] = true
	if p[0] == keyGone {
		var t outbox.Tombstone
		d := decoder{b: p[1:]}
		if decodeTombstone(&d, &t) == nil {
			f.commit = uint64(t.Generation)
			f.value = clone(value)
			keep(c.tombs, string(key), f)
		}
		return
	}
	if len(p) == 9 && c.current {
		c.keySeqs[binary.BigEndian.Uint64(p[1:])] = [2]string{conn, string(name)}
	}
}

// keep prefers what was in use, then the later version.
func keep[K comparable](m map[K]found, k K, f found) {
	if old, ok := m[k]; ok && (old.current && !f.current || old.current == f.current && old.commit >= f.commit) {
		return
	}
	m[k] = f
}
