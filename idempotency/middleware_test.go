package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/idempotency/idempotencytest"
)

// service is a protected handler and what happened to it.
type service struct {
	t      *testing.T
	eng    idempotency.Engine
	faults *idempotencytest.Faults
	h      http.Handler

	mu     sync.Mutex
	runs   int
	events []idempotency.Event
	log    bytes.Buffer
}

func tenant(*http.Request) (string, error) { return "t", nil }

// newService protects handler; opts.Tenant has a default. The engine's clock is time.Now: inside a
// synctest bubble the bubble's.
func newService(t *testing.T, opts idempotency.Options, handler http.HandlerFunc) *service {
	t.Helper()
	s := &service{t: t, eng: idempotency.NewMemory()}
	s.faults = idempotencytest.NewFaults(s.eng)
	if opts.Tenant == nil {
		opts.Tenant = tenant
	}
	opts.Observe = func(e idempotency.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}
	opts.Logger = slog.New(slog.NewTextHandler(&syncWriter{s: s}, nil))
	mw, err := idempotency.NewMiddleware(s.faults.Engine(), opts)
	require.NoError(t, err)
	s.h = mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.runs++
		s.mu.Unlock()
		handler(w, r)
	}))
	return s
}

type syncWriter struct{ s *service }

func (w *syncWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.log.Write(p)
}

func (s *service) ran() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

func (s *service) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func (s *service) seen(kind idempotency.EventKind) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func newRequest(method, target, key, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

func (s *service) post(key, body string) *httptest.ResponseRecorder {
	return s.do(newRequest("POST", "/orders", key, body))
}

func (s *service) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w
}

func (s *service) state(key string) idempotency.State {
	s.t.Helper()
	rec, _, err := s.eng.Get(context.Background(), idempotency.Scope{Tenant: "t", Operation: "POST /orders", Key: key}.ID())
	if errors.Is(err, idempotency.ErrNotFound) {
		return ""
	}
	require.NoError(s.t, err)
	return rec.State
}

func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, code idempotency.ProblemCode) {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Contains(t, w.Body.String(), `"code":"`+string(code)+`"`)
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	require.Empty(t, w.Header().Get("Idempotent-Replayed"))
}

func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestFirstAnswerAndReplayAreTheSame(t *testing.T) {
	s := newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Location", "/orders/1")
		w.Header()["X-List"] = []string{"a, b", "c"}
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("X-Request-Id", "req_1")
		w.WriteHeader(201)
		_, _ = w.Write(body)
	})
	first := s.post("k", `{"b":1,"a":1, "a":2}`)
	require.Equal(t, 201, first.Code)
	require.Equal(t, "session=1", first.Header().Get("Set-Cookie"))
	require.NotContains(t, first.Header(), "Idempotent-Replayed")
	for range 2 {
		again := s.post("k", `{"b":1,"a":1, "a":2}`)
		require.Equal(t, 201, again.Code)
		require.Equal(t, first.Body.Bytes(), again.Body.Bytes())
		require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
		want := first.Header().Clone()
		want.Del("Set-Cookie")
		want.Del("X-Request-Id")
		want.Set("Idempotent-Replayed", "true")
		require.Equal(t, want, again.Header())
	}
	require.Equal(t, 1, s.ran())
}

func TestKeyForms(t *testing.T) {
	for _, c := range []struct {
		name string
		keys []string
		ok   bool
	}{
		{"one character", []string{"a"}, true},
		{"255 characters", []string{strings.Repeat("k", 255)}, true},
		{"space, comma and quotes are part of the key", []string{`"a, b" c`}, true},
		{"tilde and exclamation mark, the ends of printable ASCII", []string{"!~"}, true},
		{"empty", []string{""}, false},
		{"256 characters", []string{strings.Repeat("k", 256)}, false},
		{"not ASCII", []string{"caf\u00e9"}, false},
		{"latin-1 byte", []string{"caf\xe9"}, false},
		{"tab", []string{"a\tb"}, false},
		{"delete", []string{"a\x7f"}, false},
		{"two field lines", []string{"a", "b"}, false},
		{"the same field line twice", []string{"a", "a"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, idempotency.Options{}, answering(200, "ok"))
			r := newRequest("POST", "/orders", "", "{}")
			r.Header["Idempotency-Key"] = c.keys
			w := s.do(r)
			if c.ok {
				require.Equal(t, 200, w.Code)
				require.Equal(t, idempotency.State("completed"), s.state(c.keys[0]))
				return
			}
			wantProblem(t, w, 400, idempotency.ProblemKeyInvalid)
			require.Zero(t, s.ran())
			st, err := s.eng.Stats(t.Context())
			require.NoError(t, err)
			require.Zero(t, st.Records, "a malformed key reserves nothing")
			require.Zero(t, st.Counters, "and is refused before any look-up")
		})
	}
}

func TestKeysAreCaseSensitiveAndOpaque(t *testing.T) {
	s := newService(t, idempotency.Options{}, answering(200, "ok"))
	for _, key := range []string{"abc", "ABC", "a b c", "a,b"} {
		require.Empty(t, s.post(key, "").Header().Get("Idempotent-Replayed"))
	}
	require.Equal(t, 4, s.ran())
	require.NotContains(t, s.logged(), "abc")
}

func TestOnlyConfiguredMethodsAreProtected(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"} {
		for _, key := range []string{"", "k", strings.Repeat("x", 300)} {
			s := newService(t, idempotency.Options{RequireKey: true}, answering(200, ""))
			for range 2 {
				require.Equal(t, 200, s.do(newRequest(method, "/orders", key, "")).Code)
			}
			require.Equal(t, 2, s.ran(), "%s with key %q", method, key)
		}
	}
	s := newService(t, idempotency.Options{Methods: []string{"PATCH"}}, answering(200, ""))
	for range 2 {
		s.do(newRequest("PATCH", "/orders", "k", ""))
	}
	require.Equal(t, 1, s.ran())
}

func TestWithoutKey(t *testing.T) {
	s := newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, protected := idempotency.ClaimFrom(r.Context())
		require.False(t, protected)
		require.NoError(t, idempotency.MarkEffect(r.Context()))
		idempotency.SetOutcome(r.Context(), idempotency.Committed)
	})
	s.post("", "{}")
	s.post("", "{}")
	require.Equal(t, 2, s.ran(), "runs unprotected by default (D7)")
	require.Equal(t, 2, s.seen(idempotency.EventPassed))
	s = newService(t, idempotency.Options{RequireKey: true}, answering(200, ""))
	wantProblem(t, s.post("", "{}"), 400, idempotency.ProblemKeyMissing)
	require.Zero(t, s.ran())
}

func TestTenantIsRequired(t *testing.T) {
	_, err := idempotency.NewMiddleware(idempotency.NewMemory(), idempotency.Options{})
	require.ErrorContains(t, err, "Tenant")
	for name, f := range map[string]func(*http.Request) (string, error){
		"empty": func(*http.Request) (string, error) { return "", nil },
		"error": func(*http.Request) (string, error) { return "ignored", errors.New("no session") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, idempotency.Options{Tenant: f}, answering(200, ""))
			wantProblem(t, s.post("k", "{}"), 500, idempotency.ProblemTenantMissing)
			require.Zero(t, s.ran())
			require.Contains(t, s.logged(), "idempotency.no_tenant")
		})
	}
}

func TestTenantsAndRoutesDoNotMeet(t *testing.T) {
	s := newService(t, idempotency.Options{Tenant: func(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }},
		func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Header.Get("X-Tenant")+r.URL.Path)
		})
	for _, tenant := range []string{"a", "b"} {
		for _, path := range []string{"/applications", "/projects"} {
			r := newRequest("POST", path, "k", "{}")
			r.Header.Set("X-Tenant", tenant)
			require.Equal(t, tenant+path, s.do(r).Body.String())
		}
	}
	require.Equal(t, 4, s.ran())
}

func TestConstantOperationComparesThePath(t *testing.T) {
	s := newService(t, idempotency.Options{Operation: idempotency.ConstantOperation("")}, answering(200, "ok"))
	require.Equal(t, 200, s.do(newRequest("POST", "/a", "k", "{}")).Code)
	for _, target := range []string{"/b", "/a/", "/%61", "/a?x=1"} {
		wantProblem(t, s.do(newRequest("POST", target, "k", "{}")), 422, idempotency.ProblemMismatch)
	}
	require.Equal(t, 1, s.ran())
}

func TestBodyLimit(t *testing.T) {
	s := newService(t, idempotency.Options{MaxBody: 10}, answering(200, ""))
	require.Equal(t, 200, s.post("exact", "0123456789").Code)
	wantProblem(t, s.post("over", "0123456789x"), 413, idempotency.ProblemBodyTooLarge)
	r := newRequest("POST", "/orders", "chunked", "0123456789x")
	r.ContentLength = -1
	wantProblem(t, s.do(r), 413, idempotency.ProblemBodyTooLarge)
	require.Equal(t, 1, s.ran())
	require.Empty(t, s.state("over"))
}

func TestBrokenBodyClaimsNothing(t *testing.T) {
	s := newService(t, idempotency.Options{}, answering(200, ""))
	r := newRequest("POST", "/orders", "k", "")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), errReader{}))
	wantProblem(t, s.do(r), 400, idempotency.ProblemBodyIncomplete)
	require.Zero(t, s.ran())
	require.Empty(t, s.state("k"))
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestEngineDownMeansTheHandlerDoesNotRun(t *testing.T) {
	s := newService(t, idempotency.Options{}, answering(200, ""))
	s.faults.Arm(idempotencytest.Claim, errors.New("down"), -1, false)
	w := s.post("k", "{}")
	wantProblem(t, w, 503, idempotency.ProblemUnavailable)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.NotContains(t, w.Body.String(), "down")
	require.Contains(t, s.logged(), "down")
	require.Zero(t, s.ran())
	require.Equal(t, 1, s.seen(idempotency.EventEngineError))
	require.Equal(t, 200, s.post("", "{}").Code, "a request without key does not need the engine")
}

func TestFailOpenIsChosenPerRequestAndCounted(t *testing.T) {
	s := newService(t, idempotency.Options{FailOpen: func(r *http.Request) bool { return r.URL.Path == "/likes" }},
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	s.faults.Arm(idempotencytest.Claim, errors.New("down"), -1, false)
	require.Equal(t, "body", s.do(newRequest("POST", "/likes", "k", "body")).Body.String())
	wantProblem(t, s.post("k", "{}"), 503, idempotency.ProblemUnavailable)
	require.Equal(t, 1, s.ran())
	require.Equal(t, 1, s.seen(idempotency.EventFailedOpen))
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	_, err := idempotency.NewMiddleware(nil, idempotency.Options{Tenant: tenant})
	require.ErrorContains(t, err, "engine")
	for name, spoil := range map[string]func(*idempotency.Options){
		"Retention":   func(o *idempotency.Options) { o.Retention = -1 },
		"Lease":       func(o *idempotency.Options) { o.Lease = -1 },
		"Heartbeat":   func(o *idempotency.Options) { o.Heartbeat = time.Hour },
		"MaxBody":     func(o *idempotency.Options) { o.MaxBody = -1 },
		"OnLeaseLost": func(o *idempotency.Options) { o.OnLeaseLost = "whatever" },
		"HoldFrom":    func(o *idempotency.Options) { o.HoldFrom = "whenever" },
	} {
		opts := idempotency.Options{Tenant: tenant}
		spoil(&opts)
		_, err := idempotency.NewMiddleware(idempotency.NewMemory(), opts)
		require.ErrorContains(t, err, name)
	}
}

// Four outcomes and what the handler did not say, against answer and policy: what is stored, and what a
// repeat with the same bytes gets.
func TestOutcomes(t *testing.T) {
	const none = idempotency.Unspecified
	for _, c := range []struct {
		name   string
		say    idempotency.Outcome
		mark   bool
		status int
		hold   idempotency.HoldFunc
		state  idempotency.State
		first  int // what the first client gets
	}{
		{"success is stored", none, false, 201, nil, idempotency.Completed, 201},
		{"a validation error is stored by default", none, false, 422, nil, idempotency.Failed, 422},
		{"HoldAll stores 5xx", none, false, 500, nil, idempotency.Failed, 500},
		{"HoldExcept5xx frees the key", none, false, 500, idempotency.HoldExcept5xx, "", 500},
		{"HoldExcept5xx stores 4xx", none, false, 404, idempotency.HoldExcept5xx, idempotency.Failed, 404},
		{"an own policy sees the body", none, false, 409, func(status int, _ http.Header, body []byte) bool {
			return !(status == 409 && bytes.Contains(body, []byte("answer")))
		}, "", 409},
		{"NoEffect frees the key under HoldAll", idempotency.NoEffect, false, 503, nil, "", 503},
		{"NoEffect frees the key after a mark", idempotency.NoEffect, true, 502, nil, "", 502},
		{"Rejected stores a refusal whatever Hold says", idempotency.Rejected, false, 503, idempotency.HoldExcept5xx, idempotency.Failed, 503},
		{"Committed stores a success whatever Hold says", idempotency.Committed, true, 500, idempotency.HoldExcept5xx, idempotency.Completed, 500},
		{"Unknown is uncertain and keeps its answer", idempotency.Unknown, true, 202, nil, idempotency.Uncertain, 202},
		{"marked success is stored", none, true, 201, nil, idempotency.Completed, 201},
		{"marked refusal is stored", none, true, 402, nil, idempotency.Failed, 402},
		{"marked 5xx is uncertain whatever Hold says", none, true, 500, idempotency.HoldExcept5xx, idempotency.Uncertain, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, idempotency.Options{Hold: c.hold}, func(w http.ResponseWriter, r *http.Request) {
				if c.mark {
					require.NoError(t, idempotency.MarkEffect(r.Context()))
				}
				idempotency.SetOutcome(r.Context(), c.say)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, "the answer")
			})
			first := s.post("k", "{}")
			require.Equal(t, c.first, first.Code)
			require.Equal(t, c.state, s.state("k"))
			again := s.post("k", "{}")
			switch c.state {
			case "":
				require.Equal(t, 2, s.ran())
				require.Equal(t, c.status, again.Code)
				require.Equal(t, c.status, s.post("k", "corrected body").Code, "the key is free for any body (D19)")
			case idempotency.Uncertain:
				require.Equal(t, 1, s.ran())
				wantProblem(t, again, 503, idempotency.ProblemResultUnknown)
				require.Equal(t, 1, s.seen(idempotency.EventUncertain))
			default:
				require.Equal(t, 1, s.ran())
				require.Equal(t, c.status, again.Code)
				require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
				wantProblem(t, s.post("k", "corrected body"), 422, idempotency.ProblemMismatch)
			}
		})
	}
}

func TestValidationBeforeExecutionDoesNotUseUpTheKey(t *testing.T) {
	s := newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) != "right" {
			idempotency.SetOutcome(r.Context(), idempotency.NoEffect)
			w.WriteHeader(400)
		}
	})
	require.Equal(t, 400, s.post("k", "wrong").Code)
	require.Equal(t, 200, s.post("k", "right").Code)
	require.Equal(t, "true", s.post("k", "right").Header().Get("Idempotent-Replayed"))
}

func TestMismatchWinsOverInProgress(t *testing.T) {
	var s *service
	s = newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		same := s.post("k", "{}")
		wantProblem(t, same, 409, idempotency.ProblemInProgress)
		require.Equal(t, "1", same.Header().Get("Retry-After"))
		other := s.post("k", "{ }")
		wantProblem(t, other, 422, idempotency.ProblemMismatch)
		require.Empty(t, other.Header().Get("Retry-After"))
	})
	require.Equal(t, 200, s.post("k", "{}").Code)
	require.Equal(t, 1, s.ran())
}

func TestRetryAfterCanBeSwitchedOff(t *testing.T) {
	var s *service
	s = newService(t, idempotency.Options{RetryAfter: -1}, func(http.ResponseWriter, *http.Request) {
		require.Empty(t, s.post("k", "").Header().Values("Retry-After"))
	})
	s.post("k", "")
}

func TestOwnProblemAnswers(t *testing.T) {
	s := newService(t, idempotency.Options{WriteProblem: func(w http.ResponseWriter, _ *http.Request, p idempotency.Problem) {
		p.SetHeaders(w.Header())
		w.Header().Set("X-Request-Id", "req_1")
		w.WriteHeader(p.Status)
		_, _ = io.WriteString(w, strconv.Quote(string(p.Code)))
	}}, answering(200, ""))
	s.post("k", "a")
	w := s.post("k", "b")
	require.Equal(t, 422, w.Code)
	require.Equal(t, `"idempotency_key_reused"`, w.Body.String())
	require.Equal(t, "req_1", w.Header().Get("X-Request-Id"))
}

func TestErrorFromFingerprintClaimsNothing(t *testing.T) {
	mediaType := errors.New("unsupported media type")
	s := newService(t, idempotency.Options{
		Fingerprint: func(*http.Request, []byte) (idempotency.Fingerprint, error) {
			return idempotency.Fingerprint{}, mediaType
		},
		WriteProblem: func(w http.ResponseWriter, r *http.Request, p idempotency.Problem) {
			if errors.Is(p.Err, mediaType) {
				p.Status = http.StatusUnsupportedMediaType
			}
			idempotency.WriteProblem(w, r, p)
		},
	}, answering(200, ""))
	require.Equal(t, 415, s.post("k", "{}").Code)
	require.Empty(t, s.state("k"))
}

func TestCanonicalJSONAcceptsAnotherSpelling(t *testing.T) {
	s := newService(t, idempotency.Options{Fingerprint: idempotency.CanonicalJSON}, answering(201, "x"))
	require.Equal(t, 201, s.post("k", `{"a":1.0,"b":["x"]}`).Code)
	require.Equal(t, "true", s.post("k", "{ \"b\": [\"\\u0078\"], \"a\": 1 }").Header().Get("Idempotent-Replayed"))
	wantProblem(t, s.post("k", `{"a":2,"b":["x"]}`), 422, idempotency.ProblemMismatch)
	wantProblem(t, s.post("other", `{"a":`), 400, idempotency.ProblemFingerprint)
	require.Equal(t, 1, s.ran())
}

func TestContentTypeIsComparedOnlyIfAsked(t *testing.T) {
	send := func(s *service, contentType string) int {
		r := newRequest("POST", "/orders", "k", "{}")
		r.Header.Set("Content-Type", contentType)
		return s.do(r).Code
	}
	s := newService(t, idempotency.Options{}, answering(201, ""))
	require.Equal(t, 201, send(s, "application/json"))
	require.Equal(t, 201, send(s, "text/plain"), "RawBytes leaves headers out (D4)")
	s = newService(t, idempotency.Options{Fingerprint: func(r *http.Request, body []byte) (idempotency.Fingerprint, error) {
		return idempotency.NewFingerprint(16, []byte(r.Method), []byte(idempotency.Target(r)), []byte(r.Header.Get("Content-Type")), body), nil
	}}, answering(201, ""))
	require.Equal(t, 201, send(s, "application/json"))
	require.Equal(t, 422, send(s, "text/plain"))
}

func TestMultipartWithANewBoundaryIsAnotherRequest(t *testing.T) {
	s := newService(t, idempotency.Options{}, answering(201, ""))
	part := "--%s\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--%s--\r\n"
	require.Equal(t, 201, s.post("k", strings.ReplaceAll(part, "%s", "one")).Code)
	wantProblem(t, s.post("k", strings.ReplaceAll(part, "%s", "two")), 422, idempotency.ProblemMismatch)
	require.Equal(t, "true", s.post("k", strings.ReplaceAll(part, "%s", "one")).Header().Get("Idempotent-Replayed"))
}

func TestReplayDoesNotNeedTheResource(t *testing.T) {
	orders := map[string]string{"1": "pizza"}
	s := newService(t, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, orders["1"])
	})
	require.Equal(t, "pizza", s.post("k", "{}").Body.String())
	delete(orders, "1")
	r := newRequest("POST", "/orders", "k", "{}")
	r.Header.Set("Accept", "text/plain") // content negotiation does not touch a replay either
	require.Equal(t, "pizza", s.do(r).Body.String())
}

func TestRetentionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, idempotency.Options{}, answering(201, ""))
		s.post("k", "{}")
		time.Sleep(24*time.Hour - time.Nanosecond)
		require.Equal(t, "true", s.post("k", "{}").Header().Get("Idempotent-Replayed"))
		time.Sleep(time.Nanosecond)
		require.Empty(t, s.post("k", "{}").Header().Get("Idempotent-Replayed"))
		require.Equal(t, 2, s.ran())
	})
}
