package wire

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testRequestID = "req_0123456789abcdef01234567"

// rawRequest is a request as its bytes arrived.
type rawRequest struct {
	Conn   int    // which connection, from 1
	Line   string // the request line
	Header string // the header block as sent
	Body   string
}

func (r rawRequest) header(name string) []string {
	var values []string
	for line := range strings.SplitSeq(r.Header, "\r\n") {
		if n, v, ok := strings.Cut(line, ":"); ok && strings.EqualFold(n, name) {
			values = append(values, strings.TrimPrefix(v, " "))
		}
	}
	return values
}

// rawServer speaks HTTP/1.1 by hand, so that tests see exactly what was on the wire.
type rawServer struct {
	t        *testing.T
	listener net.Listener
	// answer returns the bytes of the answer to the n-th request (from 1), and whether to close the
	// connection after them.
	answer func(n int, r rawRequest) (answer string, hangUp bool)

	mu       sync.Mutex
	requests []rawRequest
	conns    []net.Conn
	wg       sync.WaitGroup
}

func startRaw(t *testing.T, answer func(n int, r rawRequest) (string, bool)) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &rawServer{t: t, listener: l, answer: answer}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.wg.Add(1)
			go func() {
				defer s.wg.Done()
				defer c.Close()
				s.serve(n, c)
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *rawServer) serve(conn int, c net.Conn) {
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		r := rawRequest{Conn: conn, Line: strings.TrimSuffix(line, "\r\n")}
		var head strings.Builder
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
			head.WriteString(line)
		}
		r.Header = head.String()
		if length := r.header("Content-Length"); len(length) == 1 {
			n, err := strconv.Atoi(length[0])
			if err != nil {
				return
			}
			var body bytes.Buffer
			if _, err := io.CopyN(&body, in, int64(n)); err != nil {
				return
			}
			r.Body = body.String()
		}
		s.mu.Lock()
		s.requests = append(s.requests, r)
		n := len(s.requests)
		s.mu.Unlock()
		answer, hangUp := s.answer(n, r)
		if _, err := io.WriteString(c, answer); err != nil || hangUp {
			return
		}
	}
}

func (s *rawServer) seen() []rawRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]rawRequest(nil), s.requests...)
}

func (s *rawServer) sender(t *testing.T, basePath string) *Sender {
	return senderTo(t, "http://"+s.listener.Addr().String()+basePath)
}

// senderTo returns a sender with a transport of its own.
func senderTo(t *testing.T, base string) *Sender {
	t.Helper()
	u, err := url.Parse(base)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &Sender{Transport: transport, Base: u, UserAgent: "flavoso-go/test"}
}

// reply builds an answer with a length.
func reply(status int, headers map[string]string, body string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\n")
	for name, value := range headers {
		b.WriteString(name + ": " + value + "\r\n")
	}
	b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	return b.String()
}

func authoredReply(status int, body string) string {
	return reply(status, map[string]string{"X-Request-Id": testRequestID, "Content-Type": "application/json"}, body)
}
