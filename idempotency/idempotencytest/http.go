package idempotencytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// runHTTP runs the windows again where users meet them: over HTTP, through the middleware.
func runHTTP(t *testing.T, factory Factory) {
	t.Run("http W1 concurrent requests run once", func(t *testing.T) { httpConcurrent(t, factory(t)) })
	t.Run("http W5 the client leaves, the repeat replays", func(t *testing.T) { httpClientGone(t, factory(t)) })
	t.Run("http a failing engine never leads to a second effect", func(t *testing.T) { httpFaults(t, factory) })
}

// answer is what a client saw. replayed is the value of the replay header.
type answer struct {
	status   int
	body     string
	replayed string
}

// post sends one request with a key. It may be called from any goroutine.
func post(ctx context.Context, url, key, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set(idempotency.HeaderKey, key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(b), resp.Header.Get(idempotency.HeaderReplayed)}, err
}

func serve(t *testing.T, e idempotency.Engine, opts idempotency.Options, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	opts.Tenant = func(*http.Request) (string, error) { return "tenant-a", nil }
	mw, err := idempotency.NewMiddleware(e, opts)
	ok(t, "NewMiddleware", err)
	srv := httptest.NewServer(mw(h))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		srv.Close()
	})
	return srv
}

func httpConcurrent(t *testing.T, f Fixture) {
	var runs atomic.Int32
	srv := serve(t, f.Engine, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "run %d", runs.Add(1))
	})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			a, err := post(context.Background(), srv.URL, "key", "{}")
			switch {
			case err != nil:
				t.Errorf("POST: %v", err)
			case a.status == http.StatusConflict && strings.Contains(a.body, string(idempotency.ProblemInProgress)):
			case a.status != http.StatusCreated || a.body != "run 1":
				t.Errorf("answer %+v", a)
			}
		})
	}
	wg.Wait()
	if n := runs.Load(); n != 1 {
		t.Fatalf("the handler ran %d times", n)
	}
}

func httpClientGone(t *testing.T, f Fixture) {
	started, finish := make(chan struct{}), make(chan struct{})
	srv := serve(t, f.Engine, idempotency.Options{}, func(w http.ResponseWriter, r *http.Request) {
		close(started) // a second run would panic
		<-finish
		if err := r.Context().Err(); err != nil {
			t.Errorf("the client's leaving ended the handler's context: %v", err)
		}
		io.WriteString(w, "done")
	})
	ctx, leave := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() {
		_, err := post(ctx, srv.URL, "key", "{}")
		gone <- err
	}()
	<-started
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("first request: %v", err)
	}
	a, err := post(context.Background(), srv.URL, "key", "{}")
	if err != nil || a.status != http.StatusConflict {
		t.Fatalf("while it runs: %+v, %v", a, err)
	}
	close(finish)
	poll(t, func() bool {
		a, err = post(context.Background(), srv.URL, "key", "{}")
		return err != nil || a.status != http.StatusConflict
	})
	if err != nil || a != (answer{200, "done", "true"}) {
		t.Fatalf("the repeat got %+v, %v", a, err)
	}
}

// poll repeats f until it is true.
func poll(t *testing.T, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatal("condition not reached within 20 s")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

var errStorage = errors.New("idempotencytest: scripted storage error")

// httpFaults lets every engine call fail, before and after its commit, once and always, under handlers of
// every kind. Whatever happens: at most one effect, and no two different results.
func httpFaults(t *testing.T, factory Factory) {
	type kind struct {
		name   string
		calls  []Method // the methods it uses
		status int
		mark   bool
		say    idempotency.Outcome
		beats  bool
	}
	for _, k := range []kind{
		{name: "success", calls: []Method{Claim, Complete}, status: 201},
		{name: "refusal", calls: []Method{Claim, Fail}, status: 422},
		{name: "no effect", calls: []Method{Claim, Release}, status: 503, say: idempotency.NoEffect},
		{name: "marked success", calls: []Method{Claim, MarkEffect, Complete}, status: 201, mark: true},
		{name: "unknown", calls: []Method{MarkUncertain}, status: 202, mark: true, say: idempotency.Unknown},
		{name: "slow success", calls: []Method{Extend}, status: 201, beats: true},
	} {
		for _, m := range k.calls {
			for _, times := range []int{1, -1} {
				for _, after := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, %s fails %d times, after commit %v", k.name, m, times, after), func(t *testing.T) {
						f := factory(t)
						faults := NewFaults(f.Engine)
						var effects atomic.Int32
						opts := idempotency.Options{SaveTimeout: 150 * time.Millisecond}
						if k.beats {
							opts.Lease, opts.Heartbeat = 30*time.Second, 5*time.Millisecond
						}
						srv := serve(t, faults.Engine(), opts, func(w http.ResponseWriter, r *http.Request) {
							if k.mark {
								if err := idempotency.MarkEffect(r.Context()); err != nil {
									idempotency.SetOutcome(r.Context(), idempotency.NoEffect)
									w.WriteHeader(http.StatusServiceUnavailable)
									return
								}
							}
							if k.beats {
								if err := faults.Await(r.Context(), Extend, 3); err != nil {
									t.Errorf("heartbeats stopped: %v, %v", err, context.Cause(r.Context()))
								}
							}
							if k.say != idempotency.NoEffect && k.status < 400 {
								effects.Add(1)
							}
							idempotency.SetOutcome(r.Context(), k.say)
							w.WriteHeader(k.status)
							io.WriteString(w, "the answer")
						})
						faults.Arm(m, errStorage, times, after)
						var good []answer
						try := func() answer {
							a, err := post(context.Background(), srv.URL, "key", "{}")
							ok(t, "POST", err)
							if a.status == k.status && a.status != http.StatusServiceUnavailable {
								a.replayed = ""
								good = append(good, a)
							}
							return a
						}
						try()
						try()
						faults.Heal()
						try()
						f.Advance(lease)
						last := try()
						if n := effects.Load(); n > 1 {
							t.Fatalf("%d effects", n)
						}
						for _, a := range good {
							if a != good[0] {
								t.Fatalf("two results: %+v and %+v", good[0], a)
							}
						}
						if bytes.Contains([]byte(last.body), []byte(idempotency.ProblemInProgress)) {
							t.Fatalf("the key is still blocked after the lease: %+v", last)
						}
					})
				}
			}
		}
	}
}
