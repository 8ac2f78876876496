package conformance_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/mockserver/conformance"
)

// answers is a transport on which every request gets the same answer.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return a(r), nil
}

// FuzzCheck checks a server that gives the same answer to everything: each clause has a result, and such a server does
// not conform.
func FuzzCheck(f *testing.F) {
	f.Add(200, "req_1", []byte(`{"id":"1","status":"confirmed","object":"order"}`), true)
	f.Add(201, "req_1", []byte(`{"data":[{"id":"1","external_id":"x"},null],"has_more":true}`), false)
	f.Add(409, "", []byte(`{"error":{"code":"idempotency_in_progress","message":"wait"}}`), false)
	f.Add(404, "x", []byte(`{"errors":[{}]}`), true)
	f.Add(599, "", []byte("<html>"), true)
	f.Add(302, "", []byte(nil), true)
	f.Fuzz(func(t *testing.T, status int, requestID string, body []byte, control bool) {
		if status < 200 || status > 599 {
			return
		}
		target := conformance.Target{
			BaseURL: "http://flavoso.test/v1", Token: "one", SecondToken: "two",
			Transport: answers(func(r *http.Request) *http.Response {
				return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
					Header: http.Header{"X-Request-Id": {requestID}, "Content-Type": {"application/json"}, "Date": {"Mon, 30 Nov 2026 12:00:00 GMT"}, "Idempotent-Replayed": {"true"}},
					Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
			}),
		}
		if control {
			target.Control = &conformance.Control{
				Advance:  func(context.Context, time.Duration) error { return nil },
				NewOrder: func(context.Context) (string, error) { return "1", nil },
				NewToken: func(context.Context) (string, error) { return "three", nil },
				Arm:      func(context.Context, conformance.Trouble) error { return nil },
			}
		}
		results, err := conformance.Check(t.Context(), target)
		if err != nil {
			return // it cannot be checked at all
		}
		failed := 0
		for _, r := range results {
			if r.Status == conformance.Fail {
				failed++
			}
		}
		if len(results) != 17 || failed == 0 {
			t.Fatalf("%d results, %d failed: %+v", len(results), failed, results)
		}
	})
}
