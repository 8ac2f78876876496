package idempotency_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/internal/versus"
)

// sink is a ResponseWriter that costs next to nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

// typical reads a small body and answers a small order.
func typical(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(typicalAnswer)
}

var typicalAnswer = []byte(`{"object":"order","id":"3f0f5a5e-0f5e-4f3a-9d5c-0a4bb0d0a001","status":"confirmed"}`)

const typicalBody = `{"preparation_minutes":20}`

// measured returns three functions that each serve one request: the bare handler, a first execution, and a
// replay.
func measured(tb testing.TB, retention time.Duration) (bare, first, replay func()) {
	mw, err := idempotency.NewMiddleware(idempotency.NewMemory(), idempotency.Options{Tenant: tenant,
		Retention: retention})
	if err != nil {
		tb.Fatal(err)
	}
	protected := mw(http.HandlerFunc(typical))
	serve := func(h http.Handler, key string) {
		r, _ := http.NewRequest("POST", "/orders/1/accept", strings.NewReader(typicalBody))
		r.Header["Idempotency-Key"] = []string{key}
		h.ServeHTTP(&sink{make(http.Header)}, r)
	}
	n := 0
	serve(protected, "replay")
	return func() {
			n++
			serve(http.HandlerFunc(typical), fmt.Sprintf("key-%09d", n))
		}, func() {
			n++
			serve(protected, fmt.Sprintf("key-%09d", n))
		}, func() { serve(protected, "replay") }
}

func BenchmarkMiddleware(b *testing.B) {
	// Records leave as others come, so that the size of the engine stays the same while it is measured.
	bare, first, _ := measured(b, 20*time.Millisecond)
	_, _, replay := measured(b, time.Hour)
	const n = 500
	times := func(f func()) func() {
		return func() {
			for range n {
				f()
			}
		}
	}
	m := versus.New(times(first), times(replay), times(bare))
	for b.Loop() {
		m.Round()
	}
	per := func(side int) float64 { return float64(m.Median(side).Nanoseconds()) / 1000 / n }
	b.ReportMetric(per(0)-per(2), "µs-first-over-bare")
	b.ReportMetric(per(1), "µs/replay")
	b.ReportMetric(per(2), "µs/bare")
}

func BenchmarkMemoryEngine(b *testing.B) {
	eng := idempotency.NewMemory()
	res := idempotency.Result{Status: 201, Body: typicalAnswer}
	req := request("replay")
	c, _ := eng.Claim(b.Context(), req)
	_ = eng.Complete(b.Context(), c.Claim, res)
	b.Run("claim and complete", func(b *testing.B) {
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			r := req
			r.Scope.Key = fmt.Sprintf("key-%d", n)
			c, err := eng.Claim(b.Context(), r)
			if err != nil {
				b.Fatal(err)
			}
			if err := eng.Complete(b.Context(), c.Claim, res); err != nil && c.Decision == idempotency.New {
				b.Fatal(err)
			}
		}
	})
	b.Run("replay", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = eng.Claim(b.Context(), req)
		}
	})
	b.Run("replay, all cores", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = eng.Claim(b.Context(), req)
			}
		})
	})
}
