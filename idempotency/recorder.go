package idempotency

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// errLateWrite answers writes that come after the handler has returned, for example from a goroutine it left behind.
var errLateWrite = fmt.Errorf("idempotency: the handler has returned: %w", http.ErrHandlerTimeout)

// recorder is the ResponseWriter a protected handler sees. It keeps the answer until the result is saved.
//
// It implements neither http.Flusher nor http.Hijacker nor Unwrap: bytes sent before the result is saved
// could not be taken back. http.ResponseController's deadlines do work; Flush and Hijack return
// http.ErrNotSupported.
type recorder struct {
	w       http.ResponseWriter // nil = not connected: nothing can be sent before the end
	outer   http.Header         // what stood in w before the handler ran
	limit   int64               // of buf when connected
	x       *execution          // asked once, with mu held, when the limit is passed: may the answer be streamed?
	dropped []string            // canonical names that are not stored

	mu      sync.Mutex
	header  http.Header
	status  int // 0 = header not written yet
	sent    http.Header
	buf     []byte
	mode    recorderMode
	done    bool
	tooLate bool // the client may get no answer of ours any more
}

type recorderMode int

const (
	buffering  recorderMode = iota
	streaming               // too large to be stored: the rest goes straight to the client
	discarding              // too large, and the effect could not be made durable: nothing may be sent
)

// init prepares a recorder for one run.
func (r *recorder) init(w http.ResponseWriter, x *execution) {
	outer := w.Header()
	r.w, r.x, r.limit, r.dropped = w, x, x.m.opts.MaxResult, x.m.dropped
	if len(outer) == 0 {
		r.header = make(http.Header)
	} else {
		r.outer, r.header = outer.Clone(), outer.Clone()
	}
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("idempotency: invalid WriteHeader code %v", status)) // as net/http does
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if status < 200 && status != http.StatusSwitchingProtocols {
		r.informational(status)
		return
	}
	r.writeHeader(status)
}

// informational passes a 1xx answer to the first client at once. It is no part of the result.
func (r *recorder) informational(status int) {
	if r.w == nil || r.done || r.status != 0 {
		return
	}
	replaceHeader(r.w.Header(), r.header)
	r.w.WriteHeader(status)
	replaceHeader(r.w.Header(), r.outer)
}

func (r *recorder) writeHeader(status int) {
	if r.done || r.status != 0 {
		return
	}
	r.status = status
	r.sent = r.header.Clone()
}

func (r *recorder) Write(p []byte) (int, error) { return write(r, p) }

// WriteString implements io.StringWriter.
func (r *recorder) WriteString(s string) (int, error) { return write(r, s) }

func write[T []byte | string](r *recorder, p T) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return 0, errLateWrite
	}
	if r.status == 0 {
		r.writeHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if !bodyAllowed(r.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if len(r.buf) == 0 && r.mode == buffering {
		r.sniff([]byte(p))
	}
	if r.mode == buffering && r.w != nil && int64(len(r.buf)+len(p)) > r.limit {
		r.overflow()
	}
	switch r.mode {
	case streaming:
		// A client that is gone must not stop the handler: the effect matters, not the answer.
		_, _ = r.w.Write([]byte(p))
	case buffering:
		r.buf = append(r.buf, p...)
	}
	return len(p), nil
}

// sniff fixes the content type as net/http would, so that it does not depend on how a replay is written.
func (r *recorder) sniff(first []byte) {
	if _, set := r.sent["Content-Type"]; set || r.sent.Get("Content-Encoding") != "" {
		return
	}
	if r.sent == nil {
		r.sent = make(http.Header)
	}
	r.sent.Set("Content-Type", http.DetectContentType(first))
}

func (r *recorder) overflow() {
	if !r.x.spill() {
		r.mode, r.buf = discarding, nil
		return
	}
	r.mode, r.tooLate = streaming, true
	replaceHeader(r.w.Header(), r.sent)
	r.w.WriteHeader(r.status)
	_, _ = r.w.Write(r.buf)
	r.buf = nil
}

// SetReadDeadline serves http.ResponseController.
func (r *recorder) SetReadDeadline(t time.Time) error {
	return r.control(func(c *http.ResponseController) error { return c.SetReadDeadline(t) })
}

// SetWriteDeadline serves http.ResponseController.
func (r *recorder) SetWriteDeadline(t time.Time) error {
	return r.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(t) })
}

// EnableFullDuplex serves http.ResponseController. The body has been read already, so it is always true.
func (r *recorder) EnableFullDuplex() error { return nil }

func (r *recorder) control(f func(*http.ResponseController) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w == nil || r.done {
		return http.ErrNotSupported
	}
	return f(http.NewResponseController(r.w))
}

// close ends the recording; later writes fail.
func (r *recorder) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done && r.status == 0 {
		r.writeHeader(http.StatusOK) // as net/http: a handler that writes nothing has answered 200
	}
	r.done = true
}

// answer is what the first client gets; stored is what is saved of it. Only after close.
func (r *recorder) answer() (answer, stored Result) {
	answer = Result{Status: r.status, Header: r.sent, Body: r.buf}
	if cl := answer.Header.Get("Content-Length"); cl != "" && cl != strconv.Itoa(len(r.buf)) && r.mode == buffering && bodyAllowed(r.status) {
		answer.Header.Del("Content-Length") // it would cut or hang the answer
	}
	stored = Result{Status: r.status, Header: r.sent, Body: r.buf}
	for name := range r.sent {
		if !r.keeps(name) {
			stored.Header = make(http.Header, len(r.sent))
			break
		}
	}
	if len(stored.Header) != len(r.sent) {
		for name, values := range r.sent {
			if r.keeps(name) {
				stored.Header[name] = values
			}
		}
	}
	if r.mode != buffering || int64(len(r.buf)) > r.limit {
		stored.Body, stored.Omitted = nil, true
	}
	return answer, stored
}

// keeps reports whether a header belongs to the result.
func (r *recorder) keeps(name string) bool {
	if slices.Contains(r.dropped, name) || strings.HasPrefix(name, http.TrailerPrefix) {
		return false
	}
	before, ok := r.outer[name]
	return !ok || !slices.Equal(before, r.sent[name]) // else an outer handler set it, and will set its own on the replay
}

// replaceHeader makes dst equal to src.
func replaceHeader(dst, src http.Header) {
	clear(dst)
	copyHeader(dst, src)
}

// copyHeader sets all of src in dst. The lists are copied, so that nobody who changes an answer's header
// changes what is stored.
func copyHeader(dst, src http.Header) {
	n := 0
	for _, vs := range src {
		n += len(vs)
	}
	all := make([]string, 0, n)
	for k, vs := range src {
		from := len(all)
		all = append(all, vs...)
		dst[k] = all[from:len(all):len(all)]
	}
}
