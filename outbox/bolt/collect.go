package bolt

import (
	"encoding/binary"
	"strings"

	"github.com/flavoso/flavoso-go/outbox"
)

// find is where a value stands in the damaged file. Values are read again when they are needed, so that
// a big outbox is not held in memory.
type found struct {
	key, value []byte
	commit     uint64
	reachable  bool // reached from a root, so it was in use
}

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
	header    header
	hasHeader bool
	total     counts
	stale     bool // pages were read that may have been given back before: old versions may be among them
	reachable bool // what is collected now was reached from a root
}

// collect reads what can be read of a file. clean reports whether it is whole: every page and every
// value, from the newest root.
func collect(p *pageFile) (c *collection, clean bool) {
	c = &collection{
		pages: p, requests: map[uint64]found{}, progress: map[uint64]found{}, bodies: map[uint64]found{},
		lanes: map[uint64][2]string{}, ids: map[uint64][2]string{}, keySeqs: map[uint64][2]string{},
		tombs: map[string]found{}, states: map[string]found{}, holds: map[string]found{},
	}
	c.reachable = true
	if len(p.metas) > 0 {
		p.walkAll(p.metas[0], func(_ string, k, v []byte) { c.take(k, v) })
	} else {
		p.bad++
	}
	if len(p.metas) == 2 && p.metas[0].pages > uint64(p.size/p.page) || c.truncated() {
		p.bad++
	}
	if p.bad == 0 && c.broken == 0 && c.hasHeader {
		return c, true
	}
	c.reachable = false
	seen := p.seen
	if len(p.metas) == 2 {
		// The root before the last commit: what that commit replaced is still there.
		p.seen = map[uint64]bool{}
		p.walkAll(p.metas[1], func(_ string, k, v []byte) { c.take(k, v) })
		for id := range p.seen {
			seen[id] = true
		}
		p.seen = seen
	}
	var free map[uint64]bool
	if len(p.metas) > 0 {
		var ok bool
		if free, ok = p.free(p.metas[0]); !ok {
			c.stale = true
		}
	} else {
		c.stale = true
	}
	p.orphans(free, c.take)
	return c, false
}

// truncated reports whether the file is shorter than its newest root says.
func (c *collection) truncated() bool {
	p := c.pages
	return len(p.metas) > 0 && int64(p.metas[0].pages)*p.page > p.size
}

// take keeps a value if it passes its checksum. Its letter says what it is, whatever bucket it is in.
func (c *collection) take(key, value []byte) {
	if len(value) < 6 {
		c.broken++
		return
	}
	p, err := openFrame(value[0], key, value)
	if err != nil {
		c.broken++
		return
	}
	f := found{clone(key), clone(value), 0, c.reachable}
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
		if seq, conn := d.fixed(), d.str(); d.err == nil && c.reachable {
			c.ids[seq] = [2]string{string(key), conn}
		}
	case tagKey:
		c.takeKey(key, p, f)
	case tagState:
		keep(c.states, string(key), f)
	case tagHold:
		keep(c.holds, string(key), f)
	case tagHeader:
		if h, err := decodeHeader(value); err == nil && (!c.hasHeader || h.commits > c.header.commits) {
			c.header, c.hasHeader = h, true
		}
	case tagCounts:
		if t, err := decodeCounts(key, value); err == nil && c.reachable && strings.TrimPrefix(string(key), "counts ") == "" {
			c.total = t
		}
	}
}

func (c *collection) takeKey(key, p []byte, f found) {
	conn, name, ok := cutText(key)
	if !ok || len(p) == 0 {
		c.broken++
		return
	}
	if p[0] == keyGone {
		var t outbox.Tombstone
		d := decoder{b: p[1:]}
		if decodeTombstone(&d, &t) == nil {
			f.commit = uint64(t.Generation)
			keep(c.tombs, string(key), f)
		}
		return
	}
	if len(p) == 9 && c.reachable {
		c.keySeqs[binary.BigEndian.Uint64(p[1:])] = [2]string{conn, string(name)}
	}
}

// keep prefers what was in use, then the later version.
func keep[K comparable](m map[K]found, k K, f found) {
	if old, ok := m[k]; ok && (old.reachable && !f.reachable || old.reachable == f.reachable && old.commit >= f.commit) {
		return
	}
	m[k] = f
}
