package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// What the file holds. Keys hold strings in an order-preserving, self-terminating form (appendText) and
// numbers as eight bytes, big endian. Small entries share the bucket "index", each kind behind its own
// letter: a commit touches a page of every kind, and fewer trees mean fewer pages to write.
//
//	bucket   key
//	meta     "format"                      the file's format
//	         "header"                      identity and the counters that number things
//	         "counts " connection          totals of a connection; of all under ""
//	request  seq                           what was accepted, frozen: written once
//	done     seq                           progress of final records
//	body     seq                           bodies of results
//	buffer   commit                        changes of the index that are not in it yet (see buffer.go)
//	index    l connection seq              progress of waiting and parked records
//	         n connection lane seq         unfinished records; the first of a lane is its head → a state that is
//	                                       parked when the record is
//	         h connection lane             holds back the next head of a lane → time
//	         d connection due dueSeq       lane heads that wait → seq
//	         i id                          → seq, connection
//	         k connection key              → seq of the key's latest record, or its tombstone
//	         t until connection key        tombstones in the order in which they end
//	         o outcomeSeq                  outcomes in the order in which they became known
//	         u outcomeSeq                  those that the application has not taken over
//	         s connection name             blobs of SaveState
//
// A file of format 1 has no bucket buffer: all changes are in the index.
var bucketNames = [...]string{"meta", "request", "done", "body", indexBucket, bufferBucket}

const indexBucket = "index"

// place says where a kind of entry is: in a bucket of its own, or behind a letter in the index.
type place struct {
	bucket string
	letter byte
}

var places = [kindCount]place{
	bMeta: {"meta", 0}, bRequest: {"request", 0}, bDone: {"done", 0}, bBody: {"body", 0},
	bLive: {indexBucket, 'l'}, bLane: {indexBucket, 'n'}, bHold: {indexBucket, 'h'}, bDue: {indexBucket, 'd'},
	bID: {indexBucket, 'i'}, bKey: {indexBucket, 'k'}, bTombstone: {indexBucket, 't'},
	bOutcome: {indexBucket, 'o'}, bUnacked: {indexBucket, 'u'}, bState: {indexBucket, 's'},
}

// The kinds of entries.
const (
	bMeta = iota
	bRequest
	bDone
	bBody
	bLive
	bLane
	bHold
	bDue
	bID
	bKey
	bTombstone
	bOutcome
	bUnacked
	bState
	kindCount
)

// The letters that frames start with.
const (
	tagFormat    = 'F'
	tagHeader    = 'H'
	tagCounts    = 'C'
	tagRequest   = 'R'
	tagProgress  = 'P'
	tagBody      = 'B'
	tagLane      = 'L'
	tagHold      = 'O'
	tagDue       = 'D'
	tagID        = 'I'
	tagKey       = 'K'
	tagTombstone = 'T'
	tagOutcome   = 'N'
	tagState     = 'S'
	tagBuffer    = 'W'
)

// What a key entry starts with.
const (
	keyKept = 'k' // the record is kept: its seq follows
	keyGone = 'g' // only the tombstone is left
)

var (
	formatKey = []byte("format")
	headerKey = []byte("header")
)

func countsKey(connection string) []byte { return append([]byte("counts "), connection...) }

// maxText bounds identifiers, so that every index key fits bbolt's limit.
const maxText = 4096

func checkText(name, s string) error {
	if len(s) > maxText {
		return fmt.Errorf("outbox: %s is %d bytes long, at most %d are kept", name, len(s), maxText)
	}
	return nil
}

// appendText appends s so that byte order of keys is the order of the strings and no string's form is a
// prefix of another's.
func appendText(b []byte, s string) []byte {
	if strings.IndexByte(s, 0) < 0 {
		return append(append(b, s...), 0, 1)
	}
	for i := 0; i < len(s); i++ {
		b = append(b, s[i])
		if s[i] == 0 {
			b = append(b, 0xff)
		}
	}
	return append(b, 0, 1)
}

// afterText is greater than every key that starts with s, and not greater than any other that follows.
func afterText(s string) []byte {
	b := appendText(nil, s)
	b[len(b)-1]++
	return b
}

// cutText undoes appendText and returns what follows.
func cutText(b []byte) (s string, rest []byte, ok bool) {
	if i := bytes.IndexByte(b, 0); i >= 0 && i+1 < len(b) && b[i+1] == 1 {
		return string(b[:i]), b[i+2:], true
	}
	var out []byte
	for i := 0; i+1 < len(b); i++ {
		if b[i] != 0 {
			out = append(out, b[i])
			continue
		}
		i++
		if b[i] == 1 {
			return string(out), b[i+1:], true
		}
		out = append(out, 0)
	}
	return "", nil, false
}

func appendTime(b []byte, t time.Time) []byte {
	// Times before 1970 sort first; a sign-flipped nanosecond count keeps the order.
	return binary.BigEndian.AppendUint64(b, uint64(clampNano(t))^(1<<63))
}

// clampNano keeps times that do not fit 64 bits of nanoseconds (years 1678 to 2262) in order.
func clampNano(t time.Time) int64 {
	switch {
	case t.Year() < 1678:
		return -1 << 63
	case t.Year() > 2261:
		return 1<<63 - 1
	}
	return t.UnixNano()
}

func cutTime(b []byte) (time.Time, []byte, bool) {
	if len(b) < 8 {
		return time.Time{}, nil, false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(b)^(1<<63))).UTC(), b[8:], true
}

func appendSeq(b []byte, seq uint64) []byte { return binary.BigEndian.AppendUint64(b, seq) }

func seqKey(seq uint64) []byte { return appendSeq(make([]byte, 0, 8), seq) }

func lastSeq(key []byte) uint64 {
	if len(key) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key[len(key)-8:])
}

// newText begins a key with a string, with room for n bytes more.
func newText(s string, n int) []byte { return appendText(make([]byte, 0, len(s)+2+n), s) }

func liveKey(connection string, seq uint64) []byte { return appendSeq(newText(connection, 8), seq) }

func lanePrefix(connection, lane string) []byte {
	return appendText(newText(connection, len(lane)+2+8), lane)
}

func laneKey(connection, lane string, seq uint64) []byte {
	return appendSeq(lanePrefix(connection, lane), seq)
}

func dueKey(connection string, due time.Time, dueSeq uint64) []byte {
	return appendSeq(appendTime(newText(connection, 16), due), dueSeq)
}

func nameKey(connection, name string) []byte { return append(newText(connection, len(name)), name...) }

// source is a bucket of a transaction, opened when it is first needed: most transactions need few of them.
type source struct {
	tx   *bbolt.Tx
	name string
	b    *bbolt.Bucket
	at   *bbolt.Cursor // looks things up: bbolt's Get makes a cursor, and its stack, for each
	key  []byte        // room for a key that is looked up
}

// bucket panics where the bucket is missing, as bbolt does on damaged pages; see guard.
func (s *source) bucket() *bbolt.Bucket {
	if s.b == nil {
		if s.b = s.tx.Bucket([]byte(s.name)); s.b == nil {
			panic(fmt.Errorf("%w: bucket %q is missing", errNotOutbox, s.name))
		}
		if s.name == places[bRequest].bucket {
			s.b.FillPercent = 0.9 // its keys only grow: full pages instead of half-empty ones
		}
	}
	return s.b
}

func (s *source) get(k []byte) []byte {
	if s.at == nil {
		s.at = s.bucket().Cursor()
	}
	if at, v := s.at.Seek(k); bytes.Equal(at, k) {
		return v
	}
	return nil
}

// table is one kind of entries in a transaction.
type table struct {
	source *source
	letter byte
	buffer *buffer // of the transaction; nil = entries are changed in their bucket
}

type tables [kindCount]table

// openTables returns the tables of a transaction; buffer, if there is one, has the changes of the index.
func openTables(tx *bbolt.Tx, buffer *buffer) (t tables) {
	sources := make([]source, len(bucketNames))
	for i, name := range bucketNames {
		sources[i] = source{tx: tx, name: name}
	}
	for kind, p := range places {
		t[kind] = table{source: &sources[sourceOf[kind]], letter: p.letter}
		if p.letter != 0 {
			t[kind].buffer = buffer
		}
	}
	return t
}

// sourceOf says which bucket a kind is in.
var sourceOf = func() (of [kindCount]int) {
	for kind, p := range places {
		of[kind] = slices.Index(bucketNames[:], p.bucket)
	}
	return of
}()

// buffered returns the changes that lie over the bucket; nil = none.
func (t table) buffered() *changes {
	if t.buffer == nil {
		return nil
	}
	return t.buffer.changes
}

// key returns an entry's key in its bucket.
func (t table) key(k []byte) []byte {
	if t.letter == 0 {
		return k
	}
	return append(append(make([]byte, 0, len(k)+1), t.letter), k...)
}

// look is key for what is only looked up: it lasts until the next one.
func (t table) look(k []byte) []byte {
	if t.letter == 0 {
		return k
	}
	t.source.key = append(append(t.source.key[:0], t.letter), k...)
	return t.source.key
}

func (t table) get(k []byte) []byte {
	k = t.look(k)
	if c := t.buffered(); c != nil {
		if i, there := c.search(k); there {
			return c.list[i].value
		}
	}
	return t.source.get(k)
}

func (t table) put(k, v []byte, commit uint64) error {
	if c := t.buffered(); c != nil {
		c.set(t.key(k), v, commit)
		return nil
	}
	return t.source.bucket().Put(t.key(k), v)
}

func (t table) delete(k []byte, commit uint64) error {
	if c := t.buffered(); c != nil {
		c.set(t.key(k), nil, commit)
		return nil
	}
	return t.source.bucket().Delete(t.key(k))
}

func (t table) cursor() *cursor {
	c := &cursor{t: t, c: t.source.bucket().Cursor()}
	c.renew()
	return c
}

// cursor goes through one kind of entries; nil keys say that there are no more. It sees them as they were
// when it was made; while it is in use no entry of its kind may be changed.
type cursor struct {
	t       table
	c       *bbolt.Cursor
	k, v    []byte // where the bucket's cursor stands
	changes []*change
	i       int // the change that comes next
}

// renew lets the cursor see the entries as they are now. It has to be moved to a place next.
func (c *cursor) renew() {
	if b := c.t.buffered(); b != nil {
		c.changes = b.list
	}
}

// change returns the change at the cursor; nil = the bucket's entry comes first.
func (c *cursor) change() *change {
	if c.i < len(c.changes) {
		if x := c.changes[c.i]; c.k == nil || bytes.Compare(x.key, c.k) <= 0 {
			return x
		}
	}
	return nil
}

// entry returns the entry at the cursor, past what was deleted.
func (c *cursor) entry() ([]byte, []byte) {
	for {
		x := c.change()
		switch {
		case x != nil && x.value != nil:
			return c.strip(x.key, x.value)
		case x == nil && c.k == nil:
			return nil, nil
		case x == nil:
			return c.strip(c.k, c.v)
		}
		c.step()
	}
}

// step goes past the entry at the cursor.
func (c *cursor) step() {
	x := c.change()
	if c.k != nil && (x == nil || bytes.Equal(x.key, c.k)) {
		c.k, c.v = c.c.Next()
	}
	if x != nil {
		c.i++
	}
}

func (c *cursor) strip(k, v []byte) ([]byte, []byte) {
	if c.t.letter == 0 {
		return k, v
	}
	if k[0] != c.t.letter {
		return nil, nil
	}
	return k[1:], v
}

func (c *cursor) seek(k []byte) ([]byte, []byte) {
	k = c.t.look(k)
	c.k, c.v = c.c.Seek(k)
	if len(c.changes) > 0 {
		c.i, _ = (&changes{list: c.changes}).search(k)
	}
	return c.entry()
}

func (c *cursor) first() ([]byte, []byte) { return c.seek(nil) }

func (c *cursor) next() ([]byte, []byte) {
	c.step()
	return c.entry()
}

// before returns the last entry that is smaller than k. The cursor is not to be moved afterwards.
func (c *cursor) before(k []byte) ([]byte, []byte) {
	k = c.t.look(k)
	var tk, tv []byte
	if at, _ := c.c.Seek(k); at == nil {
		tk, tv = c.c.Last()
	} else {
		tk, tv = c.c.Prev()
	}
	i := 0
	if len(c.changes) > 0 {
		i, _ = (&changes{list: c.changes}).search(k)
	}
	for i--; i >= 0; i-- {
		x := c.changes[i]
		order := bytes.Compare(x.key, tk)
		if tk != nil && order < 0 {
			break
		}
		if x.value != nil {
			return c.strip(x.key, x.value)
		}
		if order == 0 {
			tk, tv = c.c.Prev()
		}
	}
	if tk == nil {
		return nil, nil
	}
	return c.strip(tk, tv)
}
