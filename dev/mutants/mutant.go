package mutants

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/flavoso/flavoso-go/mockserver"
)

// Mutant is a server with one thing wrong.
type Mutant struct {
	Name   string
	Breaks string // the clause
	// Switches makes it wrong by a setting no real reading of the contract has.
	Switches func(*mockserver.Switches)
	// Wrap makes it wrong by standing in front of a right server.
	Wrap func(right http.Handler) http.Handler
}

// isAPI reports whether the request is one to break; the admin API stays right.
func isAPI(r *http.Request) bool { return !strings.Contains(r.URL.Path, "/_mock/") }

// keyed reports whether a POST carries one key.
func keyed(r *http.Request) bool {
	return isAPI(r) && r.Method == http.MethodPost && len(r.Header["Idempotency-Key"]) == 1
}

// api wraps a handler that breaks API requests only.
func api(broken func(right http.Handler, w http.ResponseWriter, r *http.Request)) func(http.Handler) http.Handler {
	return func(right http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isAPI(r) {
				broken(right, w, r)
			} else {
				right.ServeHTTP(w, r)
			}
		})
	}
}

// readBody takes the body and puts it back.
func readBody(r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	setBody(r, body)
	return body
}

func setBody(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
}

// recorded is an answer that was caught on its way out.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// catch lets the right server answer and keeps the answer back; nil when a fault took the connection.
func catch(right http.Handler, w http.ResponseWriter, r *http.Request) *recorded {
	t := &tee{ResponseWriter: w, hold: true}
	right.ServeHTTP(t, r)
	if t.hijacked {
		return nil
	}
	return t.copy()
}

// replace changes the text of the body.
func (a *recorded) replace(from, to string) {
	text := strings.ReplaceAll(a.body.String(), from, to)
	a.body.Reset()
	a.body.WriteString(text)
}

func (a *recorded) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // the client may have left
}

// cache keeps what a wrong server remembers by itself.
type cache struct {
	mu sync.Mutex
	m  map[string]*recorded
}

func (c *cache) get(key string) *recorded {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[key]
}

func (c *cache) put(key string, a *recorded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]*recorded{}
	}
	c.m[key] = a
}

// id is a request's key within its connection, as far as the token shows it.
func id(r *http.Request) string {
	return r.Header.Get("Authorization") + " " + r.Header.Get("Idempotency-Key")
}
