package outbox

import (
	"bytes"
	"testing"
)

// FuzzSealed opens anything as a sealed record: what was not sealed with the key is shown as damaged and keeps what it
// holds, and its sizes, which limits count with, are those of something.
func FuzzSealed(f *testing.F) {
	aead, err := newAEAD(bytes.Repeat([]byte{7}, 32), "another key")
	if err != nil {
		f.Fatal(err)
	}
	s := &sealed{aead: aead, index: []byte("index")}
	whole, err := s.sealRecord(&Record{ID: "1", Lane: "l", Key: "k", Request: Request{Method: "POST", Target: "/x", Body: []byte("body")}})
	if err != nil {
		f.Fatal(err)
	}
	whole.Sealed[20]++
	f.Add(whole.Sealed, "text", []byte("\x02{}body"))
	f.Add(whole.Sealed[:sealedHead], "", []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add(bytes.Repeat([]byte{0xff}, 40), "AAAA", []byte(nil))
	f.Add([]byte(nil), "AAAA", []byte(nil))
	f.Fuzz(func(t *testing.T, content []byte, text string, plain []byte) {
		r := s.open(Record{ID: "1", Sealed: content, Last: &Attempt{Err: text}, Result: &Result{Resource: text, Body: plain}})
		if r.State != Damaged || !bytes.Equal(r.Sealed, content) {
			t.Fatalf("%x became %+v", content, r)
		}
		if r.Size() < 0 || r.BodySize() < 0 {
			t.Fatalf("%x: sizes %d and %d", content, r.Size(), r.BodySize())
		}
		var x secret
		if body, err := splitBody(plain, &x); err == nil {
			again, err := joinBody(x, body)
			if err != nil {
				t.Fatal(err)
			}
			var y secret
			if body2, err := splitBody(again, &y); err != nil || !bytes.Equal(body, body2) {
				t.Fatalf("%q: %q, %v", plain, body2, err)
			}
		}
	})
}
