package bolt

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/outbox"
)

// reader is what read and write transactions share.
type reader struct {
	tx       *bbolt.Tx
	b        tables
	h        header
	buffer   *buffer // the index's changes; nil = all are in the index
	instance string
	err      error // the first storage error or damage; a wave is rolled back then
	visited  int   // entries that List looked at

	lookedForHolds, anyHolds bool // see noHolds
}

// newReader begins a transaction. f, the file's handle, may have its write buffer in memory; nil = the file has
// none, or it does not matter.
func newReader(tx *bbolt.Tx, instance string, f *file) (r reader, err error) {
	r = reader{tx: tx, instance: instance}
	meta := tx.Bucket([]byte(places[bMeta].bucket))
	if meta == nil {
		return r, errNotOutbox
	}
	if r.h, err = decodeHeader(meta.Get(headerKey)); err != nil {
		return r, err
	}
	if f != nil {
		if r.buffer, err = f.bufferOf(tx, &r.h); err != nil {
			return r, err
		}
	}
	r.b = openTables(tx, r.buffer)
	return r, nil
}

func (t *reader) counts(connection string) (counts, error) {
	key := countsKey(connection)
	return decodeCounts(key, t.b[bMeta].get(key))
}

// find returns the record with an ID, without bodies unless asked; nil = there is none.
func (t *reader) find(id string, bodies bool) *entry {
	v := t.b[bID].get([]byte(id))
	if v == nil || id == "" {
		return nil
	}
	p, err := openFrame(tagID, []byte(id), v)
	t.fail(err)
	d := decoder{b: p}
	seq, connection := d.fixed(), d.str()
	if t.fail(d.err); t.err != nil {
		return nil
	}
	return t.load(seq, connection, bodies)
}

// load returns a record whole. One that fails its checksum ends the transaction (see fail): the file is
// salvaged then, which keeps the record as a damaged one. Bodies left out stay nil; what is returned holds
// no memory of the transaction.
func (t *reader) load(seq uint64, connection string, bodies bool) *entry {
	r := &entry{}
	r.Connection = connection
	t.loadProgress(r, seq)
	key := seqKey(seq)
	t.fail(decodeRequest(key, t.b[bRequest].get(key), &r.Record))
	r.WireKey = outbox.WireKey(r.Key, r.Generation)
	if bodies {
		r.Request.Body, r.Sealed = clone(r.Request.Body), clone(r.Sealed)
	} else {
		r.Request.Body, r.Sealed = nil, nil
	}
	if bodies && r.body && r.Result != nil {
		body, err := openFrame(tagBody, key, t.b[bBody].get(key))
		t.fail(err)
		r.Result.Body = append([]byte{}, body...)
	}
	return r
}

// loadProgress fills in the mutable part of a record of r.Connection: all that its place in the lane needs.
func (t *reader) loadProgress(r *entry, seq uint64) {
	r.Seq = seq
	key := liveKey(r.Connection, seq)
	v := t.b[bLive].get(key)
	if v == nil {
		key = seqKey(seq)
		v = t.b[bDone].get(key)
	}
	t.fail(decodeProgress(key, v, r))
	if !t.claimHolds(r) {
		r.Claim = outbox.Claim{}
	}
	if r.line < t.h.line && r.Unfinished() {
		r.ApplySuspect()
	}
}

// claimHolds reports whether r has a claim of this engine that no salvage has ended.
func (t *reader) claimHolds(r *entry) bool {
	return r.Claimed() && t.holdsClaim(r.line, r.Claim.Token)
}

func (t *reader) holdsClaim(line uint64, token string) bool {
	return strings.HasPrefix(token, t.instance) && line >= t.h.line
}

// fail notes the first error of the transaction.
func (t *reader) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

func hasPrefix(k, prefix []byte) bool { return k != nil && bytes.HasPrefix(k, prefix) }

func outcomeOf(key, v []byte) (seq uint64, connection string, finished time.Time, err error) {
	p, err := openFrame(tagOutcome, key, v)
	if err != nil {
		return 0, "", time.Time{}, err
	}
	d := decoder{b: p}
	seq, connection, finished = d.fixed(), d.str(), d.time()
	return seq, connection, finished, d.err
}

func seqOf(letter byte, key, v []byte) (uint64, error) {
	p, err := openFrame(letter, key, v)
	if err != nil {
		return 0, err
	}
	if len(p) < 8 {
		return 0, errFrame
	}
	return binary.BigEndian.Uint64(p), nil
}
