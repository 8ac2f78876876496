package mockserver_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/mockserver"
)

// BenchmarkP7 compares a POST with a key to the mock server with the least a net/http server can do: read
// the body and answer. The goal is half of the bare server's rate or more. Run both in one go:
//
//	go test -run '^$' -bench P7 ./mockserver
func BenchmarkP7(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, `{"object":"order"}`)
		}))
		defer srv.Close()
		post(b, srv.URL+"/v1/bookings", "")
	})
	b.Run("mock", func(b *testing.B) {
		srv, err := mockserver.New()
		if err != nil {
			b.Fatal(err)
		}
		defer srv.Close()
		post(b, srv.BaseURL()+"/bookings", srv.Token(store))
	})
}

func post(b *testing.B, url, token string) {
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer c.CloseIdleConnections()
	body := fmt.Sprintf(`{"external_id":"b-1","party_size":4,"starts_at":%q,"customer":{"name":"Jörg"}}`, time.Now().AddDate(0, 0, 1).Format(time.RFC3339))
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := int(n.Add(1))
			req, err := http.NewRequest("POST", url, strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", fmt.Sprintf("bench-%d", i))
			resp, err := c.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode >= 300 {
				b.Errorf("status %d", resp.StatusCode)
				return
			}
		}
	})
}
