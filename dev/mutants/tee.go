package mutants

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
)

// tee passes an answer on and keeps a copy. With hold it keeps the answer back. A connection that a fault
// takes over is taken over here too, so that faults work behind a mutant.
type tee struct {
	http.ResponseWriter
	hold     bool
	hijacked bool
	status   int
	header   http.Header
	body     bytes.Buffer
}

func (t *tee) Header() http.Header {
	if !t.hold {
		return t.ResponseWriter.Header()
	}
	if t.header == nil {
		t.header = http.Header{}
	}
	return t.header
}

func (t *tee) WriteHeader(status int) {
	t.status = status
	if !t.hold {
		t.ResponseWriter.WriteHeader(status)
	}
}

func (t *tee) Write(p []byte) (int, error) {
	t.body.Write(p)
	if t.hold {
		return len(p), nil
	}
	return t.ResponseWriter.Write(p)
}

// Hijack takes the connection over.
func (t *tee) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h, ok := t.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("mutants: the connection cannot be taken over")
	}
	t.hijacked = true
	return h.Hijack()
}

func (t *tee) copy() *recorded {
	a := &recorded{header: t.Header().Clone(), status: t.status}
	a.body.Write(t.body.Bytes())
	return a
}

func sum(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:6]
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
