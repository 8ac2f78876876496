package outbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
)

// sealedHead is in front of Record.Sealed, in the clear: the sizes that limits and counts need.
const sealedHead = 16

var errSealedForm = errors.New("sealed content has an unknown form")

// BodySize returns the length of the request's body, also of a sealed record.
func (r *Record) BodySize() int64 {
	if len(r.Sealed) >= sealedHead {
		return r.sealedSize(r.Sealed[8:])
	}
	return int64(len(r.Request.Body))
}

// Size returns the bytes that count against Limits.Bytes.
func (r *Record) Size() int64 {
	if len(r.Sealed) >= sealedHead {
		return r.sealedSize(r.Sealed)
	}
	return int64(len(r.Request.Body) + len(r.Request.Target))
}

// sealedSize reads a size of sealed content. The head is in the clear: one that says more than there is was changed.
func (r *Record) sealedSize(head []byte) int64 {
	return int64(min(binary.BigEndian.Uint64(head), uint64(len(r.Sealed))))
}

// secret is what of a record is encrypted as one; the body follows it raw.
type secret struct {
	Lane, Resource, Key, Tag            string
	Fingerprint                         []byte
	Method, Target, ContentType, Accept string
	HasBody                             bool
}

// secretResult is what of a result is encrypted.
type secretResult struct {
	Message, Note, Resource string
	Header                  map[string]string
	HasBody                 bool
}

// joinBody puts a value and a body into one plaintext; splitBody takes them apart.
func joinBody(v any, body []byte) ([]byte, error) {
	head, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := binary.AppendUvarint(make([]byte, 0, len(head)+len(body)+8), uint64(len(head)))
	return append(append(out, head...), body...), nil
}

func splitBody(b []byte, v any) (body []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, errSealedForm
	}
	b = b[w:]
	return b[n:], json.Unmarshal(b[:n], v)
}

func (s *sealed) sealRecord(r *Record) (*Record, error) {
	plain, err := joinBody(secret{
		Lane: r.Lane, Resource: r.Resource, Key: r.Key, Tag: r.Tag, Fingerprint: r.Fingerprint,
		Method: r.Request.Method, Target: r.Request.Target, ContentType: r.Request.ContentType, Accept: r.Request.Accept,
		HasBody: r.Request.Body != nil,
	}, r.Request.Body)
	if err != nil {
		return nil, err
	}
	out := *r
	out.Lane, out.Key, out.Tag = s.hash("lane", r.Lane), s.hash("key", r.Key), s.hash("tag", r.Tag)
	out.Resource = s.text("resource", r.ID, r.Resource)
	out.Fingerprint = nil
	if r.Fingerprint != nil {
		out.Fingerprint = []byte(s.hash("fingerprint", string(r.Fingerprint)))
	}
	out.Request = Request{Method: r.Request.Method, Target: s.hash("target", r.Request.Target)}
	out.Sealed = binary.BigEndian.AppendUint64(nil, uint64(r.Size()))
	out.Sealed = binary.BigEndian.AppendUint64(out.Sealed, uint64(r.BodySize()))
	out.Sealed = s.aead.Seal(out.Sealed, nil, plain, []byte("record\x00"+r.ID))
	return &out, nil
}

func (s *sealed) sealResult(id string, r *Result) *Result {
	if r == nil {
		return nil
	}
	out := *r
	plain, err := joinBody(secretResult{Message: r.Message, Note: r.Note, Resource: r.Resource, Header: r.Header, HasBody: r.Body != nil}, r.Body)
	if err != nil {
		plain = nil // strings and bytes always have a form
	}
	out.Message, out.Note, out.Header = "", "", nil
	out.Resource = ""
	if id != "" {
		out.Resource = s.text("resource", id, r.Resource)
	}
	out.Body = s.aead.Seal(nil, nil, plain, []byte("result\x00"+id))
	return &out
}

// open returns the record as it was before sealing. One that cannot be opened is shown as damaged and
// keeps its Sealed.
func (s *sealed) open(r Record) Record {
	if err := s.openRecord(&r); err != nil {
		r.State = Damaged
		r.Result = &Result{Reason: "sealed", Message: "it was sealed with another key, or changed"}
	}
	return r
}

func (s *sealed) openRecord(r *Record) error {
	if len(r.Sealed) < sealedHead {
		return errSealedForm
	}
	plain, err := s.aead.Open(nil, nil, r.Sealed[sealedHead:], []byte("record\x00"+r.ID))
	if err != nil {
		return err
	}
	var x secret
	body, err := splitBody(plain, &x)
	if err != nil {
		return err
	}
	if err := s.openRest(r); err != nil {
		return err
	}
	r.Lane, r.Resource, r.Key, r.Tag, r.Fingerprint = x.Lane, x.Resource, x.Key, x.Tag, x.Fingerprint
	r.WireKey = WireKey(r.Key, r.Generation)
	r.Request = Request{Method: x.Method, Target: x.Target, ContentType: x.ContentType, Accept: x.Accept}
	if x.HasBody {
		r.Request.Body = append([]byte{}, body...)
	}
	r.Sealed = nil
	return nil
}

// openRest opens the mutable part.
func (s *sealed) openRest(r *Record) (err error) {
	if r.Last != nil {
		last := *r.Last
		if last.Err, err = s.openText("error", r.ID, last.Err); err != nil {
			return err
		}
		r.Last = &last
	}
	if r.Result == nil {
		return nil
	}
	res := *r.Result
	r.Result = &res
	if res.Body == nil { // the state machine's own, or its body was not kept
		res.Resource, err = s.openText("resource", r.ID, res.Resource)
		return err
	}
	plain, err := s.aead.Open(nil, nil, res.Body, []byte("result\x00"+r.ID))
	if err != nil { // given to a whole lane
		plain, err = s.aead.Open(nil, nil, res.Body, []byte("result\x00"))
	}
	if err != nil {
		return err
	}
	var x secretResult
	body, err := splitBody(plain, &x)
	if err != nil {
		return err
	}
	res.Message, res.Note, res.Resource, res.Header, res.Body = x.Message, x.Note, x.Resource, x.Header, nil
	if x.HasBody {
		res.Body = append([]byte{}, body...)
	}
	return nil
}
