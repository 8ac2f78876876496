package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

// answer is an accepted order of about a kilobyte.
var answer = fmt.Sprintf(`{"object":"order","id":"%%s","status":"accepted","display_number":"4711","version":2,"channel":"web","type":"pickup",`+
	`"timing":"asap","items":[%s],"totals":{"total":{"amount":4800,"currency":"EUR"}},"payment":{"method":"online"},"is_test":false}`,
	strings.TrimSuffix(strings.Repeat(`{"id":"i1","name":"Pizza Margherita","quantity":2,"unit_price":{"amount":1200,"currency":"EUR"}},`, 8), ","))

// acceptBody is what Orders.Accept sends.
const acceptBody = `{"preparation_minutes":20}`

// api is a server that does no more than read a request and answer it: what is measured is the client.
type api struct {
	*httptest.Server
	posts atomic.Int64
}

func newAPI(tb testing.TB) *api {
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			a.posts.Add(1)
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Request-Id", "req_0123456789abcdef01234567")
		id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/orders/"), "/")
		_, _ = fmt.Fprintf(w, answer, id)
	}))
	tb.Cleanup(a.Close)
	return a
}

func (a *api) baseURL() string { return a.URL + "/v1" }

// post is the request that the SDK would send, by bare net/http. It returns the answer's body.
func (a *api) post(c *http.Client, id string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodPost, a.baseURL()+"/orders/"+id+"/accept", strings.NewReader(acceptBody))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer token")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "accept-"+id)
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return io.ReadAll(resp.Body)
}

func newHTTPClient(tb testing.TB, connections int) *http.Client {
	t := &http.Transport{MaxIdleConnsPerHost: connections}
	tb.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// openOutbox opens an outbox whose syncs are counted.
func openOutbox(tb testing.TB, path string) (*bolt.Engine, *bolttest.Disk) {
	disk := bolttest.NewDisk()
	var o bolt.Options
	disk.Attach(&o)
	e, err := bolt.Open(path, o)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = e.Close() })
	return e, disk
}

// openClient opens a client on an outbox file of its own.
func openClient(tb testing.TB, a *api, concurrency int) (*flavoso.Client, *bolttest.Disk) {
	e, disk := openOutbox(tb, filepath.Join(tb.TempDir(), "pos.outbox"))
	c, err := flavoso.Open(flavoso.Config{
		Connection: "store-42", Token: flavoso.StaticToken("token"), Outbox: e, BaseURL: a.baseURL(), Concurrency: concurrency,
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	return c, disk
}

// offlineClient opens a client that saves and sends nothing, because it gets no token.
func offlineClient(tb testing.TB, e outbox.Engine) *flavoso.Client {
	c, err := flavoso.Open(flavoso.Config{
		Connection: "store-42", Outbox: e, BaseURL: "http://127.0.0.1:1/v1",
		Token: flavoso.TokenFunc(func(ctx context.Context, _ flavoso.TokenRequest) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}),
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func accept(c *flavoso.Client, id string) *flavoso.Call[flavoso.Order] {
	return c.Orders.Accept(id, flavoso.AcceptParams{PreparationMinutes: 20})
}

// ids returns a function that gives every caller another order.
func ids(prefix string) func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprintf("%s-%07d", prefix, n.Add(1)) }
}

// each returns a side of a match: fn, n times from each of several goroutines.
func each(tb testing.TB, goroutines, n int, fn func(ctx context.Context) error) func() {
	return func() {
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range n {
					if err := fn(context.Background()); err != nil {
						tb.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// recordBytes are as many bytes as the outbox keeps of a request.
var recordBytes = bytes.Repeat([]byte("x"), 300)
