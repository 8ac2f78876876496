package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Every value in the file is framed: the bucket's letter, the version of its layout, the payload, and a
// CRC-32C over letter, version, key and payload. bbolt's own checksums cover only its two meta pages, so
// without this a flipped bit would come back as good data.

// recordVersion is the newest layout of values that this code writes and reads.
const recordVersion = 1

var (
	errFrame      = errors.New("value fails its checksum")
	errNewerFrame = errors.New("value has a newer layout")
	castagnoli    = crc32.MakeTable(crc32.Castagnoli)
)

func checksum(head, key, payload []byte) uint32 {
	sum := crc32.Update(0, castagnoli, head)
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, payload)
}

// newFrame starts a value; finishFrame completes it.
func newFrame(letter byte, size int) *encoder {
	e := &encoder{b: make([]byte, 0, size+8)}
	e.b = append(e.b, letter, recordVersion)
	return e
}

func (e *encoder) finishFrame(key []byte) []byte {
	return binary.LittleEndian.AppendUint32(e.b, checksum(e.b[:2], key, e.b[2:]))
}

// openFrame checks a value and returns its payload, which aliases v.
func openFrame(letter byte, key, v []byte) ([]byte, error) {
	if len(v) < 6 || v[0] != letter {
		return nil, errFrame
	}
	end := len(v) - 4
	if binary.LittleEndian.Uint32(v[end:]) != checksum(v[:2], key, v[2:end]) {
		return nil, errFrame
	}
	if v[1] > recordVersion {
		return nil, errNewerFrame
	}
	return v[2:end], nil
}

type encoder struct{ b []byte }

func (e *encoder) uint(v uint64)  { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)    { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) str(s string)   { e.uint(uint64(len(s))); e.b = append(e.b, s...) }
func (e *encoder) raw(b []byte)   { e.b = append(e.b, b...) }
func (e *encoder) fixed(v uint64) { e.b = binary.BigEndian.AppendUint64(e.b, v) }
func (e *encoder) time(t time.Time) {
	if t.IsZero() {
		e.int(0)
		e.int(-1)
		return
	}
	e.int(t.Unix())
	e.int(int64(t.Nanosecond()))
}

// bytes keeps nil and empty apart.
func (e *encoder) bytes(b []byte) {
	if b == nil {
		e.uint(0)
		return
	}
	e.uint(uint64(len(b)) + 1)
	e.b = append(e.b, b...)
}

func (e *encoder) flags(fs ...bool) {
	var v uint64
	for i, f := range fs {
		if f {
			v |= 1 << i
		}
	}
	e.uint(v)
}

// decoder reads what encoder wrote. After an error everything reads as zero and err stays set, so that
// callers check once.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = errFrame
	}
	d.b = nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) str() string  { return string(d.text()) }
func (d *decoder) text() []byte { return d.take(d.uint()) }

func (d *decoder) fixed() uint64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (d *decoder) time() time.Time {
	sec, nsec := d.int(), d.int()
	if nsec < 0 || d.err != nil {
		return time.Time{}
	}
	return time.Unix(sec, nsec).UTC()
}

// bytes returns a slice of the decoder's input.
func (d *decoder) bytes() []byte {
	n := d.uint()
	if n == 0 {
		return nil
	}
	b := d.take(n - 1)
	if b == nil && d.err == nil {
		b = []byte{}
	}
	return b
}

func (d *decoder) flags(fs ...*bool) {
	v := d.uint()
	for i, f := range fs {
		*f = v&(1<<i) != 0
	}
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// entry is a record as the engine works with it: the record and what only this engine needs to know.
type entry struct {
	outbox.Record
	dueSeq uint64 // where its lane's entry in the due index stands; 0 = it has none
	size   int64  // Record.Size at Add, kept apart so that counts survive a damaged request
	line   uint64 // the suspicion line (see header) that the mutable part was written under
	commit uint64 // the commit that wrote the mutable part; tells versions apart in a salvage
	body   bool   // the result's body is in its own bucket
}

func encodeRequest(key []byte, r *outbox.Record) []byte {
	e := newFrame(tagRequest, 256+len(r.Request.Body)+len(r.Sealed))
	e.str(r.ID)
	e.str(r.Connection)
	e.str(r.Lane)
	e.str(r.Kind)
	e.str(r.Resource)
	e.str(r.Key)
	e.flags(r.KeyDerived, r.RepeatSafe, r.StopLaneOnReject)
	e.bytes(r.Fingerprint)
	e.str(r.Tag)
	e.time(r.Created)
	e.time(r.Expires)
	e.str(r.Request.Method)
	e.str(r.Request.Target)
	e.str(r.Request.ContentType)
	e.str(r.Request.Accept)
	e.bytes(r.Sealed)
	e.bytes(r.Request.Body)
	return e.finishFrame(key)
}

// decodeRequest fills r's frozen part. Bodies are left out, or alias v.
func decodeRequest(key, v []byte, r *outbox.Record) error {
	p, err := openFrame(tagRequest, key, v)
	if err != nil {
		return err
	}
	d := decoder{b: p}
	r.ID = d.str()
	r.Connection = d.str()
	r.Lane = d.str()
	r.Kind = d.str()
	r.Resource = d.str()
	r.Key = d.str()
	d.flags(&r.KeyDerived, &r.RepeatSafe, &r.StopLaneOnReject)
	r.Fingerprint = clone(d.bytes())
	r.Tag = d.str()
	r.Created = d.time()
	r.Expires = d.time()
	r.Request.Method = d.str()
	r.Request.Target = d.str()
	r.Request.ContentType = d.str()
	r.Request.Accept = d.str()
	r.Sealed = d.bytes()
	r.Request.Body = d.bytes()
	return d.err
}

// stateLetters are the states in the file; their order is part of the format.
var stateLetters = outbox.States()

func stateByte(s outbox.State) byte {
	for i, k := range stateLetters {
		if k == s {
			return byte('a' + i)
		}
	}
	return '?'
}

func stateOf(b byte) (outbox.State, error) {
	if i := int(b) - 'a'; i >= 0 && i < len(stateLetters) {
		return stateLetters[i], nil
	}
	return "", fmt.Errorf("%w: state %q", errFrame, b)
}

// encodeProgress writes the mutable part. Its first payload byte is the state, so that lists can skip
// records without decoding them. A new layout must keep that and the suspicion line behind it.
func encodeProgress(key []byte, r *entry) []byte {
	e := newFrame(tagProgress, 256)
	e.b = append(e.b, stateByte(r.State))
	e.uint(r.line)
	e.uint(r.commit)
	e.str(r.ID)
	e.time(r.Created)
	e.int(r.size)
	e.uint(uint64(r.Generation))
	e.time(r.Due)
	e.uint(r.dueSeq)
	e.uint(uint64(r.Attempts))
	e.uint(uint64(r.Revision))
	e.uint(uint64(r.Acked))
	e.uint(r.OutcomeSeq)
	e.time(r.Finished)
	e.str(r.SupersededBy)
	e.flags(r.Suspect, r.Claimed(), r.Exposure != nil, r.Last != nil, r.Result != nil, r.body)
	if r.Claimed() {
		e.str(r.Claim.Token)
		e.time(r.Claim.At)
		e.time(r.Claim.Until)
	}
	if x := r.Exposure; x != nil {
		e.str(x.Claim)
		e.time(x.At)
		e.time(x.Server)
		e.str(x.Boot)
		e.int(int64(x.Uptime))
	}
	if a := r.Last; a != nil {
		e.int(int64(a.N))
		e.time(a.Start)
		e.time(a.End)
		e.int(int64(a.Status))
		e.str(a.Code)
		e.str(a.RequestID)
		e.str(a.Err)
		e.flags(a.NeverSent, a.Unanswered != 0)
		e.int(int64(a.RetryAfter))
		if a.Unanswered != 0 {
			e.int(int64(a.Unanswered))
		}
	}
	if s := r.Result; s != nil {
		e.int(int64(s.Status))
		e.str(s.Code)
		e.flags(s.Clean, s.Truncated, s.Replayed, s.ByOther, s.Stale, s.Header != nil)
		e.str(s.Reason)
		e.str(s.Message)
		e.str(s.RequestID)
		if s.Header != nil {
			e.uint(uint64(len(s.Header)))
			for k, v := range s.Header {
				e.str(k)
				e.str(v)
			}
		}
		e.str(s.Resource)
		e.str(s.Note)
		e.time(s.At)
	}
	return e.finishFrame(key)
}

// decodeProgress fills r's mutable part; the result's body is read apart.
func decodeProgress(key, v []byte, r *entry) error {
	p, err := openFrame(tagProgress, key, v)
	if err != nil {
		return err
	}
	if len(p) == 0 {
		return errFrame
	}
	if r.State, err = stateOf(p[0]); err != nil {
		return err
	}
	d := decoder{b: p[1:]}
	r.line = d.uint()
	r.commit = d.uint()
	r.ID = d.str()
	r.Created = d.time()
	r.size = d.int()
	r.Generation = int(d.uint())
	r.Due = d.time()
	r.dueSeq = d.uint()
	r.Attempts = int(d.uint())
	r.Revision = int(d.uint())
	r.Acked = int(d.uint())
	r.OutcomeSeq = d.uint()
	r.Finished = d.time()
	r.SupersededBy = d.str()
	var claimed, exposed, last, result bool
	d.flags(&r.Suspect, &claimed, &exposed, &last, &result, &r.body)
	if claimed {
		r.Claim.Token = d.str()
		r.Claim.At = d.time()
		r.Claim.Until = d.time()
	}
	if exposed {
		r.Exposure = &outbox.Exposure{Claim: d.str(), At: d.time(), Server: d.time(), Boot: d.str(), Uptime: time.Duration(d.int())}
	}
	if last {
		a := &outbox.Attempt{N: int(d.int()), Start: d.time(), End: d.time(), Status: int(d.int()), Code: d.str(), RequestID: d.str(), Err: d.str()}
		var unanswered bool
		d.flags(&a.NeverSent, &unanswered)
		a.RetryAfter = time.Duration(d.int())
		if unanswered {
			a.Unanswered = int(d.int())
		}
		r.Last = a
	}
	if result {
		s := &outbox.Result{Status: int(d.int()), Code: d.str()}
		var header bool
		d.flags(&s.Clean, &s.Truncated, &s.Replayed, &s.ByOther, &s.Stale, &header)
		s.Reason = d.str()
		s.Message = d.str()
		s.RequestID = d.str()
		if header {
			n := d.uint()
			s.Header = map[string]string{}
			for ; n > 0 && d.err == nil; n-- {
				k := d.str()
				s.Header[k] = d.str()
			}
		}
		s.Resource = d.str()
		s.Note = d.str()
		s.At = d.time()
		r.Result = s
	}
	return d.err
}

// decodeClaim reads no more of the mutable part than whose it is: its suspicion line and the claim's token, which
// aliases v and is empty when it is not claimed.
func decodeClaim(key, v []byte) (line uint64, token []byte, err error) {
	p, err := openFrame(tagProgress, key, v)
	if err != nil {
		return 0, nil, err
	}
	if len(p) == 0 {
		return 0, nil, errFrame
	}
	d := decoder{b: p[1:]}
	line = d.uint()
	d.uint() // commit
	d.text() // ID
	d.time() // Created
	d.int()  // size
	d.uint() // Generation
	d.time() // Due
	for range 5 {
		d.uint() // dueSeq, Attempts, Revision, Acked, OutcomeSeq
	}
	d.time() // Finished
	d.text() // SupersededBy
	var suspect, claimed bool
	if d.flags(&suspect, &claimed); claimed {
		token = d.text()
	}
	return line, token, d.err
}

func encodeTombstone(key []byte, t *outbox.Tombstone) []byte {
	e := newFrame(tagKey, 128)
	e.b = append(e.b, keyGone)
	e.str(t.ID)
	e.uint(uint64(t.Generation))
	e.bytes(t.Fingerprint)
	e.b = append(e.b, stateByte(t.State))
	e.str(t.Code)
	e.flags(t.Clean, t.RepeatSafe)
	e.str(t.Resource)
	e.time(t.Until)
	return e.finishFrame(key)
}

func decodeTombstone(d *decoder, t *outbox.Tombstone) (err error) {
	t.ID = d.str()
	t.Generation = int(d.uint())
	t.Fingerprint = clone(d.bytes())
	if b := d.take(1); b != nil {
		t.State, err = stateOf(b[0])
	}
	t.Code = d.str()
	d.flags(&t.Clean, &t.RepeatSafe)
	t.Resource = d.str()
	t.Until = d.time()
	return errors.Join(err, d.err)
}
