package mockserver_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flavoso/flavoso-go/mockserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const store = "store-42"

// client speaks to a server as a till does, with raw HTTP.
type client struct {
	t     *testing.T
	srv   *mockserver.Server
	http  *http.Client
	token string
}

func newClient(t *testing.T, srv *mockserver.Server) *client {
	return &client{t, srv, &http.Client{Transport: srv.Transport()}, srv.Token(store)}
}

func start(t *testing.T, opts ...mockserver.Option) (*mockserver.Server, *client) {
	srv := mockserver.Start(t, append([]mockserver.Option{mockserver.InMemory()}, opts...)...)
	return srv, newClient(t, srv)
}

// answer is what came back; err is set when no answer came.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

func (a answer) replayed() bool { return a.header.Get("Idempotent-Replayed") == "true" }

func (a answer) field(name string) any {
	var m map[string]any
	if json.Unmarshal([]byte(a.body), &m) != nil {
		return nil
	}
	return m[name]
}

func (a answer) code() string {
	m, _ := a.field("error").(map[string]any)
	s, _ := m["code"].(string)
	return s
}

// do sends a request. Header lines are "Name: value"; a body makes it JSON.
func (c *client) do(method, path, body string, header ...string) answer {
	c.t.Helper()
	base := c.srv.BaseURL()
	if path == "/_mock" || strings.HasPrefix(path, "/_mock/") {
		base = strings.TrimSuffix(base, "/v1")
	}
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	require.NoError(c.t, err)
	req.GetBody = nil // net/http must not repeat a POST by itself
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header[http.CanonicalHeaderKey(name)] = append(req.Header[http.CanonicalHeaderKey(name)], value)
	}
	if len(req.Header["Authorization"]) == 0 {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != "" && len(req.Header["Content-Type"]) == 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.send(req)
}

func (c *client) send(req *http.Request) answer {
	if v, ok := req.Header["Idempotency-Key"]; ok { // see GetBody: net/http looks at the canonical name
		delete(req.Header, "Idempotency-Key")
		req.Header["idempotency-key"] = v
	}
	sent, header := []byte(nil), req.Header.Clone()
	if req.Body != nil && exchanges != "" {
		sent, _ = io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	a := answer{resp.StatusCode, resp.Header, string(b), err}
	if exchanges != "" && err == nil {
		c.note(req, header, sent, a)
	}
	return a
}

// exchanges is a file to which the tests write what they sent and got, for the check against the OpenAPI
// document in dev/openapi.
var (
	exchanges   = os.Getenv("FLAVOSO_EXCHANGES")
	exchangesMu sync.Mutex
)

func (c *client) note(req *http.Request, header http.Header, sent []byte, a answer) {
	line, err := json.Marshal(map[string]any{
		"Test": c.t.Name(), "Method": req.Method, "Path": strings.TrimPrefix(req.URL.RequestURI(), "/v1"), "Header": header,
		"Body": sent, "Status": a.status, "AnswerHeader": a.header, "Answer": []byte(a.body),
	})
	require.NoError(c.t, err)
	exchangesMu.Lock()
	defer exchangesMu.Unlock()
	f, err := os.OpenFile(exchanges, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(c.t, err)
	_, err = f.Write(append(line, '\n'))
	require.NoError(c.t, err)
	require.NoError(c.t, f.Close())
}

func (c *client) post(path, body, key string) answer {
	c.t.Helper()
	if key == "" {
		return c.do("POST", path, body)
	}
	return c.do("POST", path, body, "Idempotency-Key: "+key)
}

func (c *client) get(path string) answer { c.t.Helper(); return c.do("GET", path, "") }

func (c *client) booking(ref string) string {
	at := c.srv.Clock().Now().AddDate(0, 0, 3).Format("2006-01-02T15:04:05Z")
	return fmt.Sprintf(`{"external_id":%q,"party_size":4,"starts_at":%q,"customer":{"name":"Jörg"}}`, ref, at)
}

// recorder is a TB that keeps what it is told.
type recorder struct {
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...) }
func (r *recorder) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

// overTCP is a transport that trusts the server's certificate and goes over the network.
func overTCP(srv *mockserver.Server) *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: srv.CertPool()}}
}

func mockOrder() mockserver.Order { return mockserver.Order{} }

func urlValues(pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q.Encode()
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}
