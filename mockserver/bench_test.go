package mockserver_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/internal/versus"
	"github.com/flavoso/flavoso-go/mockserver"
)

// BenchmarkP7 compares a POST with a key to the mock server with the least a net/http server can do: read
// the body and answer. The goal is half of the bare server's rate or more.
//
//	go test -run '^$' -bench P7 ./mockserver
func BenchmarkP7(b *testing.B) {
	const clients, posts = 8, 50
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"object":"order"}`)
	}))
	defer bare.Close()
	booking := fmt.Sprintf(`{"external_id":"b-1","party_size":4,"starts_at":%q,"customer":{"name":"Jörg"}}`,
		time.Now().AddDate(0, 0, 1).Format(time.RFC3339))
	for _, op := range []struct {
		name, path, body string
	}{
		{"bookings", "/bookings", booking},
		{"accept", "/orders/%s/accept", `{"preparation_minutes":20}`},
		{"acknowledge", "/orders/%s/acknowledge", `{"external_id":"4711"}`},
	} {
		b.Run(op.name, func(b *testing.B) {
			srv, err := mockserver.New()
			require.NoError(b, err)
			defer srv.Close()
			c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
			defer c.CloseIdleConnections()
			token := srv.Token(store)
			var paths []string
			n := 0
			round := func(base string) func() {
				return func() {
					n++
					var wg sync.WaitGroup
					for client := range clients {
						wg.Go(func() {
							for i := client; i < len(paths); i += clients {
								if err := post(c, base+paths[i], token, fmt.Sprint(n, "-", i), op.body); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
				}
			}
			m := versus.New(round(srv.BaseURL()), round(bare.URL+"/v1"))
			for b.Loop() {
				paths = paths[:0]
				for range clients * posts {
					path := op.path
					if strings.Contains(path, "%s") {
						path = fmt.Sprintf(path, srv.AddOrder(store, mockserver.Order{}))
					}
					paths = append(paths, path)
				}
				m.Round()
			}
			b.ReportMetric(m.Ratio(1, 0), "x-of-bare-rate")
			b.ReportMetric(clients*posts/m.Median(0).Seconds(), "posts/s")
		})
	}
}

func post(c *http.Client, url, token, key, body string) error {
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
