package bolt

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/flavoso/flavoso-go/outbox"
)

// Everything that is read from the disk may hold any bytes. The seeds run with the other tests:
//
//	go test -fuzz FuzzPages ./outbox/bolt

func goldenBytes(f *testing.F, format int) []byte {
	b, err := os.ReadFile(fmt.Sprintf("testdata/format-%d.outbox", format))
	if err != nil {
		f.Fatal(err)
	}
	return b
}

func FuzzPages(f *testing.F) {
	f.Add(goldenBytes(f, 1), 0, byte(0))
	b := goldenBytes(f, 2)
	f.Add(b, 0, byte(0))
	f.Add(b, 8, byte(1))
	f.Add(b[:8192], 4096, byte(0xff))
	f.Add([]byte{}, 0, byte(0))
	f.Add(make([]byte, 70000), 3, byte(7))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, at int, v byte) {
		if at >= 0 && at < len(b) {
			b[at] ^= v
		}
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		p, err := openPages(file)
		if err != nil {
			t.Fatal(err)
		}
		_ = p.checkFormat()
		c, clean := collect(p)
		if clean && !c.hasHeader {
			t.Fatal("whole, and without a header")
		}
		for _, m := range p.metas {
			p.accounted(m)
		}
	})
}

// FuzzValues gives the decoders payloads that passed their checksum and are wrong all the same.
func FuzzValues(f *testing.F) {
	key := seqKey(7)
	r := entry{Record: outbox.Record{
		ID: "id", Seq: 7, State: outbox.Sent, Claim: outbox.Claim{Token: "t"}, Exposure: &outbox.Exposure{Claim: "t"},
		Last: &outbox.Attempt{N: 1}, Result: &outbox.Result{Header: map[string]string{"a": "b"}, Body: []byte{}},
	}}
	tomb := r.Tombstone()
	h := header{id: "id", commits: 1}
	var c counts
	written := changes{}
	written.set([]byte("i-id"), []byte("value"), 7)
	written.set([]byte("n-id"), nil, 7)
	for _, v := range [][]byte{
		encodeRequest(key, &r.Record), encodeProgress(key, &r), encodeTombstone(key, &tomb), h.encode(), c.encode(key), written.encode(key, 7), {}, {1, 2, 3},
	} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		for _, letter := range []byte{tagRequest, tagProgress, tagKey, tagHeader, tagCounts, tagID, tagOutcome, tagState, tagBuffer} {
			e := newFrame(letter, len(v))
			if len(v) > 2 {
				e.raw(v[2:])
			}
			framed := e.finishFrame(key)
			var r entry
			_ = decodeRequest(key, framed, &r.Record)
			err := decodeProgress(key, framed, &r)
			line, token, cerr := decodeClaim(key, framed)
			if err == nil && (cerr != nil || line != r.line || string(token) != r.Claim.Token) {
				t.Fatalf("claim %q of line %d is read as %q of %d, %v", r.Claim.Token, r.line, token, line, cerr)
			}
			_, _ = decodeHeader(framed)
			_, _ = decodeCounts(key, framed)
			_, _, _, _ = outcomeOf(key, framed)
			_, _ = seqOf(letter, key, framed)
			_ = checkFormatValue(framed)
			if log := (changeLog{}); log.add(key, framed) {
				c := newCollection(&pageFile{})
				c.changes = log.all()
				c.takeChanges()
			}
			c := newCollection(&pageFile{})
			c.take(key, framed)
			c.take(v, framed)
		}
		if s, rest, ok := cutText(v); ok {
			again, left, ok := cutText(append(appendText(nil, s), rest...))
			if !ok || again != s || string(left) != string(rest) {
				t.Fatalf("%q, %q became %q, %q", s, rest, again, left)
			}
		}
	})
}

func FuzzMark(f *testing.F) {
	f.Add(mark{id: "ABC", commits: 12}.encode())
	f.Add([]byte("flavoso outbox mark 1\nid \ncommits x\n"))
	f.Add([]byte{})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(dir, "mark")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readMark(path)
		if err != nil {
			return
		}
		if err := os.WriteFile(path, m.encode(), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := readMark(path); err != nil || again != m {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
