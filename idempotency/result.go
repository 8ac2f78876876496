package idempotency

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"sort"
	"strconv"
)

// Result is an HTTP answer as it is stored and replayed (S14): the whole representation, so that it does
// not depend on the resource it describes (W9).
type Result struct {
	Status int
	Header http.Header // value lists are kept as they are, never joined or split
	Body   []byte

	// Omitted says that the body was too large to be stored: repeats get ResultGone, never a second run.
	Omitted bool
}

// Size is the number of bytes the result occupies.
func (r Result) Size() int64 {
	n := int64(len(r.Body))
	for k, vs := range r.Header {
		n += int64(len(k))
		for _, v := range vs {
			n += int64(len(v))
		}
	}
	return n
}

// Clone returns a deep copy.
func (r Result) Clone() Result {
	r.Header = r.Header.Clone()
	if r.Body != nil {
		r.Body = append(make([]byte, 0, len(r.Body)), r.Body...)
	}
	return r
}

// Send writes the result. Headers already set in w, and not in the result, stay.
func (r Result) Send(w http.ResponseWriter) error {
	copyHeader(w.Header(), r.Header)
	return r.send(w)
}

// send is Send after the headers have been set.
func (r Result) send(w http.ResponseWriter) error {
	h := w.Header()
	status := r.Status
	if status == 0 {
		status = http.StatusOK
	}
	if len(r.Body) > selfCounted && bodyAllowed(status) && h.Get("Content-Length") == "" {
		h.Set("Content-Length", strconv.Itoa(len(r.Body))) // so that a cut answer is noticed
	}
	w.WriteHeader(status)
	if len(r.Body) == 0 {
		return nil
	}
	_, err := w.Write(r.Body)
	return err
}

// selfCounted is the size up to which net/http counts an answer's body itself.
const selfCounted = 2048

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// resultVersion is the first byte of every encoded result. A reader that does not know it returns ErrResultFormat.
const resultVersion = 1

// MarshalBinary encodes the result in the versioned form that engines store.
func (r Result) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, 32+r.Size()+int64(4*len(r.Header)))
	b = append(b, resultVersion, 0)
	if r.Omitted {
		b[1] |= 1
	}
	if r.Header != nil {
		b[1] |= 2
	}
	b = binary.AppendUvarint(b, uint64(r.Status))
	names := make([]string, 0, len(r.Header))
	for k := range r.Header {
		names = append(names, k)
	}
	sort.Strings(names) // the same result always has the same bytes
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, k := range names {
		b = appendString(b, k)
		b = binary.AppendUvarint(b, uint64(len(r.Header[k])))
		for _, v := range r.Header[k] {
			b = appendString(b, v)
		}
	}
	return append(b, r.Body...), nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// UnmarshalBinary reads what MarshalBinary wrote. The error wraps ErrResultFormat.
func (r *Result) UnmarshalBinary(data []byte) error {
	d := decoder{data}
	switch version := d.byte(); {
	case d.rest == nil:
		return fmt.Errorf("%w: empty", ErrResultFormat)
	case version != resultVersion:
		return fmt.Errorf("%w: version %d, this release reads %d", ErrResultFormat, version, resultVersion)
	}
	var out Result
	flags := d.byte()
	out.Omitted = flags&1 != 0
	out.Status = int(d.uvarint(999))
	if flags&2 != 0 {
		out.Header = http.Header{}
	}
	for n := d.uvarint(uint64(len(data))); n > 0 && d.rest != nil; n-- {
		k := d.string()
		count := d.uvarint(uint64(len(data)))
		vs := make([]string, 0, min(count, 8))
		for ; count > 0 && d.rest != nil; count-- {
			vs = append(vs, d.string())
		}
		if out.Header != nil {
			out.Header[k] = vs
		}
	}
	if d.rest == nil || flags > 3 {
		return fmt.Errorf("%w: damaged", ErrResultFormat)
	}
	if len(d.rest) > 0 {
		out.Body = append([]byte(nil), d.rest...)
	}
	*r = out
	return nil
}

// decoder reads fields from the front; rest becomes nil at the first fault and stays so.
type decoder struct{ rest []byte }

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.rest = nil
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > most {
		d.rest = nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) string() string {
	n := d.uvarint(uint64(len(d.rest)))
	if n > uint64(len(d.rest)) {
		d.rest = nil
	}
	if d.rest == nil {
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}
