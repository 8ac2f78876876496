package wire

import (
	"net/http"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "5", " 5", "-1", "9223372037", "99999999999999999999", "Mon, 30 Nov 2026 12:00:00 GMT", "Monday, 30-Nov-26 12:00:00 GMT", "Mon Nov 30 12:00:00 2026", "1.5", "soon"} {
		f.Add(seed, int64(0))
	}
	f.Add("Mon, 30 Nov 2026 12:00:00 GMT", int64(-1<<63))
	f.Fuzz(func(t *testing.T, value string, now int64) {
		d, ok := ParseRetryAfter(value, time.Unix(now, 0))
		if d < 0 || !ok && d != 0 {
			t.Fatalf("%q: %v %t", value, d, ok)
		}
	})
}

func FuzzReadProblem(f *testing.F) {
	for _, form := range bodyForms {
		f.Add([]byte(form.body("conflict")))
	}
	f.Add([]byte(`{"error":{"details":[{"param":"a"}]}}`))
	f.Add([]byte("\"\xff\""))
	f.Add([]byte(`{"a":{"b":[}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p := ReadProblem(body)
		_, known := byCode[p.Code]
		if p.Known != known {
			t.Fatalf("known %t: %q", p.Known, p.Code)
		}
		for _, text := range []string{p.Code, p.Message, p.Param} {
			if len(text) > maxProblemText || !utf8.ValidString(text) {
				t.Fatalf("%q", text)
			}
		}
	})
}

func FuzzJudge(f *testing.F) {
	for _, row := range verdictTable {
		for _, form := range bodyForms {
			f.Add(row.status, []byte(form.body(row.code)), testRequestID, "true", "5", !form.cut, true, false)
		}
	}
	f.Add(0, []byte(nil), "", "", "", false, false, true)
	f.Add(999, []byte("{}"), testRequestID, "", "", true, false, false)
	f.Fuzz(func(t *testing.T, status int, body []byte, id, replayed, after string, whole, clean, seen bool) {
		x := Exchange{Status: status, Body: body, Whole: whole, Header: http.Header{
			"X-Request-Id": {id}, "Idempotent-Replayed": {replayed}, "Retry-After": {after}, "Date": {after},
		}}
		v := Judge(x, Facts{SeenRequestID: seen, Clean: clean}, time.Unix(0, 0))
		success := v.Class == Success || v.Class == SuccessCut
		switch {
		case status == 0 && v.Class != Broken:
			t.Fatalf("no answer is %v", v.Class)
		case status != 0 && v.Class == Broken:
			t.Fatalf("%d is broken", status)
		case v.Authored == (v.Class == NotAuthored) && status != 0:
			t.Fatalf("authored %t, %v", v.Authored, v.Class)
		case success != (v.Authored && status >= 200 && status < 300):
			t.Fatalf("%d is %v", status, v.Class)
		case v.Class == Success && !whole:
			t.Fatal("cut success")
		case !v.Authored && (v.Replayed || !v.Date.IsZero()):
			t.Fatal("believed what is not Flavoso's")
		case v.RetryAfter < 0 || v.RetryAfter > MaxRetryAfterAuthored || !v.Authored && v.RetryAfter > MaxRetryAfterOther:
			t.Fatalf("Retry-After %v", v.RetryAfter)
		case seen && v.RequestID == "" && v.Authored:
			t.Fatal("authored without a request id")
		}
	})
}
