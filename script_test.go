package flavoso

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// answer is what a scripted server says: exactly these bytes, with or without Flavoso's signature.
type answer struct {
	status int
	body   string
	media  string // "" = application/json
	cut    bool   // more was announced than is sent
	noID   bool   // no X-Request-Id
	header http.Header
}

// script is a real HTTP server over in-memory connections that answers writes with one answer after the
// other, the last one for ever, and reads with get.
type script struct {
	mu     sync.Mutex
	writes []answer
	get    answer
	token  string // the token it accepts; "" = any
	seen   []string
	tokens []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.tokens = append(s.tokens, token)
	a, n := s.get, len(s.seen)
	if r.Method != "GET" {
		a = s.writes[0]
		if len(s.writes) > 1 {
			s.writes = s.writes[1:]
		}
	}
	if s.token != "" && token != s.token {
		a = refusal(401, "unauthorized")
	}
	s.mu.Unlock()
	if a.media == "" {
		a.media = "application/json"
	}
	h := w.Header()
	for name, values := range a.header {
		h[name] = values
	}
	h.Set("Content-Type", a.media)
	if !a.noID {
		h.Set("X-Request-Id", fmt.Sprintf("req_%024x", n))
	}
	if a.cut {
		h.Set("Content-Length", strconv.Itoa(len(a.body)+100))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write([]byte(a.body)) // a client that left is no trouble of the server's
	if a.cut {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// count returns how many requests of a method came.
func (s *script) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.seen {
		if strings.HasPrefix(r, method+" ") {
			n++
		}
	}
	return n
}

func (s *script) then(a ...answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = a
}

// pipes is a listener whose connections stay in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var (
	done    = answer{status: 200, body: `{"object":"thing","id":"1"}`}
	inStore = answer{status: 200, body: `{"object":"store","id":"s"}`}
)

func refusal(status int, code string) answer {
	return answer{status: status, body: fmt.Sprintf(`{"error":{"code":%q,"message":"no"}}`, code)}
}

// newScripted opens a client on a script.
func newScripted(t *testing.T, s *script, change func(*Config)) *Client {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: s}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	tr := &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		close(l.done)
		require.NoError(t, srv.Close())
		<-served
	})
	cfg := Config{Connection: store, Token: StaticToken("token"), Outbox: outbox.NewMemory(),
		BaseURL: "http://127.0.0.1:1/v1", Transport: tr, uptime: bootClock()}
	if change != nil {
		change(&cfg)
	}
	c, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
