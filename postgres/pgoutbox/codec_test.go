package pgoutbox

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flavoso/flavoso-go/outbox"
)

// FuzzText: PostgreSQL can keep what enc writes, dec reads it back, and reads anything else without an error.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "Jörg", "a\x00b", `\`, `\x4`, `\x4g`, "\xff\xfe", `\\x41`, "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		kept := enc(s)
		if !utf8.ValidString(kept) || strings.Contains(kept, "\x00") {
			t.Fatalf("%q cannot be kept", kept)
		}
		if back := dec(kept); back != s {
			t.Fatalf("%q came back as %q", s, back)
		}
		dec(s)
	})
}

// FuzzDetail: what a row's detail is read as is what it is written as again.
func FuzzDetail(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `[]`, `{"exposure":null,"last":{"n":2,"error":"a\\x00b"},"result":{"header":{"Retry-After":"1","retry-after":"2"}}}`,
		`{"exposure":{"claim":"c","at":"2026-11-30T12:00:00.123456Z","server":"0001-01-01T00:00:00Z","uptime_ns":-1}}`, `{"result":{"header":{}}}`,
		`{"last":{"start":"9999-12-31T23:59:59+23:59"}}`,
	} {
		f.Add([]byte(s), []byte("body"))
	}
	f.Fuzz(func(t *testing.T, kept, body []byte) {
		var r, again outbox.Record
		if decodeDetail(kept, body, &r) != nil {
			return
		}
		written, err := encodeDetail(&r)
		if err != nil {
			return // a time that RFC 3339 cannot write
		}
		if written == nil {
			if r.Exposure != nil || r.Last != nil || r.Result != nil {
				t.Fatalf("%q: nothing is written of %+v", kept, r)
			}
			return
		}
		if err := decodeDetail([]byte(*written), body, &again); err != nil || !reflect.DeepEqual(inUTC(r), inUTC(again)) {
			t.Fatalf("%q: %+v, then %s: %+v (%v)", kept, r, *written, again, err)
		}
	})
}

// inUTC makes equal moments equal values.
func inUTC(r outbox.Record) outbox.Record {
	if r.Exposure != nil {
		r.Exposure.At, r.Exposure.Server = r.Exposure.At.UTC(), r.Exposure.Server.UTC()
	}
	if r.Last != nil {
		r.Last.Start, r.Last.End = r.Last.Start.UTC(), r.Last.End.UTC()
	}
	if r.Result != nil {
		r.Result.At = r.Result.At.UTC()
	}
	return r
}
