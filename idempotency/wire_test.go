package idempotency_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
)

// live serves h on a real listener and returns a function that posts with a key.
func live(t *testing.T, h http.Handler) (url string, post func(key, body string) (*http.Response, []byte)) {
	t.Helper()
	srv := httptest.NewServer(h)
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		srv.Close()
	})
	return srv.URL, func(key, body string) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequest("POST", srv.URL+"/orders", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", key)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp, b
	}
}

// What a handler writes is what the first client and every repeat get, whatever its form.
func TestHandlerForms(t *testing.T) {
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	for _, c := range []struct {
		name   string
		h      http.HandlerFunc
		status int
		body   string
		header http.Header // must be there, as lists
	}{
		{"returns without writing", func(http.ResponseWriter, *http.Request) {}, 200, "", http.Header{"Content-Length": {"0"}}},
		{"writes only a header", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }, 202, "", nil},
		{"201 with body", answering(201, `{"id":1}`), 201, `{"id":1}`, http.Header{"Content-Length": {"8"}}},
		{"204 has no body", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(204)
			_, err := w.Write([]byte("x"))
			require.ErrorIs(t, err, http.ErrBodyNotAllowed)
		}, 204, "", nil},
		{"writes without WriteHeader", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, 200, "<html>",
			http.Header{"Content-Type": {"text/html; charset=utf-8"}}},
		{"a second WriteHeader counts for nothing", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			w.WriteHeader(500)
		}, 201, "", nil},
		{"headers set after WriteHeader count for nothing", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			w.Header().Set("X-Late", "1")
		}, 200, "", http.Header{"X-Late": nil}},
		{"binary body", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(binary) }, 200, string(binary), nil},
		{"invalid UTF-8 and repeated JSON names", answering(200, "{\"b\":1,\"a\":1, \"a\":2}\xff"), 200, "{\"b\":1,\"a\":1, \"a\":2}\xff", nil},
		{"header lists and commas", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-List"] = []string{"a, b", "c"}
			w.Header().Set("Content-Disposition", `attachment; filename="a,b.txt"`)
		}, 200, "", http.Header{"X-List": {"a, b", "c"}, "Content-Disposition": {`attachment; filename="a,b.txt"`}}},
		{"the handler's own right Content-Length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			_, _ = w.Write([]byte("abc"))
		}, 200, "abc", http.Header{"Content-Length": {"3"}}},
		{"a wrong Content-Length is corrected", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "30")
			_, _ = w.Write([]byte("abc"))
		}, 200, "abc", http.Header{"Content-Length": {"3"}}},
		{"many small writes", func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				_, _ = io.WriteString(w, "0123456789")
			}
		}, 200, strings.Repeat("0123456789", 1000), nil},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Location", "/x"); w.WriteHeader(304) }, 304, "", nil},
		{"http.ServeContent", func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader("content"))
		}, 200, "content", http.Header{"Content-Length": {"7"}, "Accept-Ranges": {"bytes"}}},
		{"http.TimeoutHandler inside", http.TimeoutHandler(answering(201, "in time"), time.Hour, "").ServeHTTP, 201, "in time", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, idempotency.Options{}, c.h)
			_, post := live(t, s.h)
			for attempt, replayed := range []string{"", "true", "true"} {
				resp, body := post("k", "{}")
				require.Equal(t, c.status, resp.StatusCode)
				require.Equal(t, c.body, string(body))
				require.Equal(t, replayed, resp.Header.Get("Idempotent-Replayed"))
				for name, values := range c.header {
					require.Equal(t, values, resp.Header[name], "attempt %d, header %s", attempt, name)
				}
			}
			require.Equal(t, 1, s.ran())
		})
	}
}

func TestAnInvalidStatusPanicsAsInNetHTTP(t *testing.T) {
	s := newService(t, idempotency.Options{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(99) })
	require.Contains(t, s.aborted("k"), "99")
	require.Empty(t, s.state("k"))
}

func TestFlushAndHijackAreRefusedAndDeadlinesWork(t *testing.T) {
	s := newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, flusher := w.(http.Flusher)
		_, hijacker := w.(http.Hijacker)
		_, unwrapper := w.(interface{ Unwrap() http.ResponseWriter })
		require.False(t, flusher || hijacker || unwrapper, "nothing is promised that would send before saving")
		rc := http.NewResponseController(w)
		require.ErrorIs(t, rc.Flush(), http.ErrNotSupported)
		_, _, err := rc.Hijack()
		require.ErrorIs(t, err, http.ErrNotSupported)
		require.NoError(t, rc.SetReadDeadline(time.Now().Add(time.Hour)))
		require.NoError(t, rc.SetWriteDeadline(time.Now().Add(time.Hour)))
		require.NoError(t, rc.EnableFullDuplex())
		_, _ = io.WriteString(w, "ok")
	})
	_, post := live(t, s.h)
	resp, body := post("k", "")
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "ok", string(body))
}

func TestInformationalAnswersReachTheFirstClientOnly(t *testing.T) {
	s := newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(201)
	})
	url, _ := live(t, s.h)
	for _, want := range []int{1, 0} {
		hints := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			require.Equal(t, 103, code)
			require.Equal(t, "</style.css>; rel=preload", h.Get("Link"))
			hints++
			return nil
		}})
		req, err := http.NewRequestWithContext(ctx, "POST", url+"/orders", nil)
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k")
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, 201, resp.StatusCode)
		require.Empty(t, resp.Header.Get("Link"))
		require.Equal(t, want, hints)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestOversizeAnswers(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1000) // 16 000 bytes
	for _, c := range []struct {
		name  string
		limit int64
		gone  bool
	}{
		{"exactly the limit", 16_000, false},
		{"one byte over the limit", 15_999, true},
		{"far over the limit", 10, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, idempotency.Options{MaxResult: c.limit}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Own", "1")
				w.WriteHeader(201)
				for i := 0; i < len(big); i += 100 {
					_, _ = w.Write(big[i : i+100])
				}
			})
			_, post := live(t, s.h)
			resp, body := post("k", "{}")
			require.Equal(t, 201, resp.StatusCode)
			require.Equal(t, "1", resp.Header.Get("X-Own"))
			require.True(t, bytes.Equal(big, body), "the first client gets the whole answer")
			require.Equal(t, idempotency.State("completed"), s.state("k"))
			resp, body = post("k", "{}")
			if c.gone {
				require.Equal(t, 409, resp.StatusCode)
				require.Contains(t, string(body), "result_unavailable")
				require.Equal(t, 1, s.seen(idempotency.EventOversize))
			} else {
				require.True(t, bytes.Equal(big, body))
			}
			require.Equal(t, 1, s.ran())
		})
	}
	t.Run("a 5xx that is not held frees the key", func(t *testing.T) {
		s := newService(t, idempotency.Options{MaxResult: 10, Hold: idempotency.HoldExcept5xx}, answering(500, string(big)))
		require.Equal(t, 500, s.post("k", "{}").Code)
		require.Equal(t, 500, s.post("k", "{}").Code)
		require.Equal(t, 2, s.ran())
	})
	t.Run("held back when the effect cannot be marked", func(t *testing.T) {
		s := newService(t, idempotency.Options{MaxResult: 10, SaveTimeout: 50 * time.Millisecond}, answering(201, string(big)))
		s.faults.Arm("MarkEffect", errors.New("down"), -1, false)
		wantProblem(t, s.post("k", "{}"), 503, idempotency.ProblemResultUnknown)
		wantProblem(t, s.post("k", "{}"), 409, idempotency.ProblemResultGone)
		require.Equal(t, 1, s.ran())
	})
	t.Run("streamed, and then the handler dies: uncertain, not free", func(t *testing.T) {
		s := newService(t, idempotency.Options{MaxResult: 10}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(big)
			panic("boom")
		})
		s.aborted("k")
		wantProblem(t, s.post("k", "{}"), 503, idempotency.ProblemResultUnknown)
		require.Equal(t, 1, s.ran())
	})
}

func TestTheAnswerIsSentOnlyAfterItIsSaved(t *testing.T) {
	eng := idempotency.NewMemory()
	spy := &spyEngine{Engine: eng}
	mw, err := idempotency.NewMiddleware(spy, idempotency.Options{Tenant: tenant})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	spy.onComplete = func() {
		require.Empty(t, w.Body.Bytes())
		require.Empty(t, w.Result().Header)
	}
	mw(answering(201, "done")).ServeHTTP(w, newRequest("POST", "/orders", "k", ""))
	require.True(t, spy.completed)
	require.Equal(t, "done", w.Body.String())
}

type spyEngine struct {
	idempotency.Engine
	onComplete func()
	completed  bool
}

func (s *spyEngine) Complete(ctx context.Context, c idempotency.Claim, r idempotency.Result) error {
	s.onComplete()
	s.completed = true
	return s.Engine.Complete(ctx, c, r)
}

// gzipped is a compression middleware of the usual kind.
func gzipped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gw := &gzipWriter{ResponseWriter: w, z: gzip.NewWriter(w)}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		next.ServeHTTP(gw, r)
		_ = gw.z.Close()
	})
}

type gzipWriter struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (g *gzipWriter) WriteHeader(status int) {
	g.Header().Del("Content-Length")
	g.ResponseWriter.WriteHeader(status)
}

func (g *gzipWriter) Write(p []byte) (int, error) { return g.z.Write(p) }

func TestCompressionInsideAndOutside(t *testing.T) {
	text := strings.Repeat("pizza ", 500)
	plain := answering(201, text)
	for name, wrap := range map[string]func(*service){
		"inside":  func(*service) {},
		"outside": func(s *service) { s.h = gzipped(s.h) },
	} {
		t.Run(name, func(t *testing.T) {
			h := plain
			if name == "inside" {
				h = gzipped(plain).ServeHTTP
			}
			s := newService(t, idempotency.Options{}, h)
			wrap(s)
			_, post := live(t, s.h)
			var first []byte
			for _, replayed := range []string{"", "true"} {
				resp, body := post("k", "{}")
				require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
				require.Equal(t, []string{"Accept-Encoding"}, resp.Header["Vary"])
				require.Equal(t, replayed, resp.Header.Get("Idempotent-Replayed"))
				z, err := gzip.NewReader(bytes.NewReader(body))
				require.NoError(t, err)
				got, err := io.ReadAll(z)
				require.NoError(t, err)
				require.Equal(t, text, string(got))
				if first == nil {
					first = body
				}
				require.Equal(t, first, body)
			}
		})
	}
}

func TestOuterHeadersBelongToTheExchange(t *testing.T) {
	s := newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "outer", w.Header().Get("X-Outer"), "as without the middleware")
		w.Header().Add("Vary", "Accept")
		w.Header().Del("X-Unwanted")
	})
	n := 0
	inner := s.h
	s.h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("X-Exchange", strings.Repeat("i", n))
		w.Header().Set("X-Outer", "outer")
		w.Header().Set("X-Unwanted", "1")
		w.Header().Set("Vary", "Origin")
		inner.ServeHTTP(w, r)
	})
	first := s.post("k", "")
	require.Equal(t, "i", first.Header().Get("X-Exchange"))
	require.Empty(t, first.Header().Get("X-Unwanted"))
	require.Equal(t, []string{"Origin", "Accept"}, first.Header()["Vary"])
	again := s.post("k", "")
	require.Equal(t, "ii", again.Header().Get("X-Exchange"), "an outer handler's header is not the first exchange's")
	require.Equal(t, []string{"Origin", "Accept"}, again.Header()["Vary"])
}

func TestTimeoutHandlerOutside(t *testing.T) {
	release := make(chan struct{})
	s := newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		<-release
		_, _ = io.WriteString(w, "late but done")
	})
	done := make(chan struct{})
	inner := s.h
	s.h = http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		inner.ServeHTTP(w, r)
	}), 20*time.Millisecond, "timeout")
	require.Equal(t, 503, s.post("k", "{}").Code)
	close(release)
	<-done
	s.h = inner
	again := s.post("k", "{}")
	require.Equal(t, "late but done", again.Body.String())
	require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
	require.Equal(t, 1, s.ran())
}

func TestAGoroutineTheHandlerLeftBehindCanWriteNothing(t *testing.T) {
	var w0 http.ResponseWriter
	s := newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w0 = w
		_, _ = io.WriteString(w, "answer")
	})
	s.post("k", "{}")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			w0.WriteHeader(500)
			_, err := w0.Write([]byte("late"))
			if !errors.Is(err, http.ErrHandlerTimeout) {
				t.Errorf("late write: %v", err)
			}
		})
	}
	require.Equal(t, "answer", s.post("k", "{}").Body.String())
	wg.Wait()
	require.ErrorIs(t, http.NewResponseController(w0).SetWriteDeadline(time.Now()), http.ErrNotSupported)
}

// What net/http makes of unusual header lines, on a raw connection.
func TestKeyHeaderOnTheWire(t *testing.T) {
	s := newService(t, idempotency.Options{}, answering(200, "ran"))
	url, _ := live(t, s.h)
	for _, c := range []struct {
		name, lines string
		status      int
	}{
		{"empty value", "Idempotency-Key:\r\n", 400},
		{"blanks only", "Idempotency-Key:    \r\n", 400},
		{"surrounding blanks are not part of it", "Idempotency-Key:   padded \t\r\n", 200},
		{"two field lines", "Idempotency-Key: a\r\nIdempotency-Key: b\r\n", 400},
		{"two field lines in different case", "Idempotency-Key: a\r\nidempotency-key: a\r\n", 400},
		{"one line with a comma", "idempotency-KEY: a, b\r\n", 200},
		{"control character", "Idempotency-Key: a\x01b\r\n", 400},
		{"UTF-8", "Idempotency-Key: caf\xc3\xa9\r\n", 400},
		{"underscore is another header: no key", "Idempotency_Key: \xc3\xa9\r\n", 200},
		{"no key", "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n"+c.lines+"\r\n{}")
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, c.status, resp.StatusCode)
		})
	}
	require.Equal(t, idempotency.State("completed"), s.state("padded"))
	require.Equal(t, idempotency.State("completed"), s.state("a, b"))
}

func TestARequestThatBreaksOffClaimsNothing(t *testing.T) {
	s := newService(t, idempotency.Options{}, answering(200, "ran"))
	refused := make(chan struct{}, 1)
	inner := s.h
	url, post := live(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r)
		refused <- struct{}{}
	}))
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nIdempotency-Key: k\r\n\r\n{")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	<-refused
	require.Empty(t, s.state("k"))
	require.Zero(t, s.ran())
	resp, _ := post("k", "{}")
	require.Equal(t, 200, resp.StatusCode)
}

func TestCORS(t *testing.T) {
	s := newService(t, idempotency.Options{RequireKey: true}, answering(201, ""))
	inner := s.h
	s.h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://till.example")
		w.Header().Set("Access-Control-Expose-Headers", "Location")
		inner.ServeHTTP(w, r)
	})
	preflight := newRequest("OPTIONS", "/orders", "", "")
	preflight.Header.Set("Access-Control-Request-Headers", "idempotency-key")
	require.Equal(t, 201, s.do(preflight).Code, "OPTIONS passes untouched")
	s.post("k", "")
	again := s.post("k", "")
	require.Equal(t, []string{"Location", "Idempotent-Replayed"}, again.Header()["Access-Control-Expose-Headers"])
}

// TestAnOuterLimitIsALimitToo: a body that an outer http.MaxBytesHandler cuts is too large, not broken off.
func TestAnOuterLimitIsALimitToo(t *testing.T) {
	mw, err := idempotency.NewMiddleware(idempotency.NewMemory(), idempotency.Options{Tenant: tenant})
	require.NoError(t, err)
	h := http.MaxBytesHandler(mw(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })), 5)
	for _, length := range []int64{10, -1} { // told beforehand, and chunked
		r := httptest.NewRequest("POST", "/", strings.NewReader("0123456789"))
		r.ContentLength = length
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
		require.Contains(t, w.Body.String(), "body_too_large")
		require.Contains(t, w.Body.String(), "5 bytes")
	}
}
