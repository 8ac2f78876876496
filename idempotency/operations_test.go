package idempotency_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
)

// longRunning is a service whose operations can be polled.
func longRunning(t *testing.T, after time.Duration, handler http.HandlerFunc) (http.Handler, *idempotency.Operations, idempotency.Engine) {
	t.Helper()
	eng := idempotency.NewMemory()
	who := func(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }
	ops, err := idempotency.NewOperations(eng, idempotency.OperationsConfig{Prefix: "/operations/", Tenant: who, After: after})
	require.NoError(t, err)
	mw, err := idempotency.NewMiddleware(eng, idempotency.Options{Tenant: who, OnDuplicate: idempotency.OperationResource(ops)})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/operations/", ops)
	mux.Handle("/exports", mw(handler))
	return mux, ops, eng
}

func ask(h http.Handler, method, target, tenant string) *httptest.ResponseRecorder {
	r := newRequest(method, target, "k", "{}")
	r.Header.Set("X-Tenant", tenant)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOperationResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h, ops, _ := longRunning(t, 2*time.Second, func(w http.ResponseWriter, r *http.Request) {
			runs++
			time.Sleep(10 * time.Second)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(201)
			_, _ = io.WriteString(w, `{"export":"<1>"}`)
		})
		start := time.Now()
		first := ask(h, "POST", "/exports", "a")
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Equal(t, 202, first.Code)
		location := first.Header().Get("Location")
		require.True(t, strings.HasPrefix(location, "/operations/"), location)
		require.Equal(t, "1", first.Header().Get("Retry-After"))
		require.NotContains(t, location, "k", "the key does not show")
		for range 3 {
			again := ask(h, "POST", "/exports", "a")
			require.Equal(t, 202, again.Code)
			require.Equal(t, location, again.Header().Get("Location"), "the same id for every repeat (S10)")
		}
		poll := ask(h, "GET", location, "a")
		require.Equal(t, 200, poll.Code)
		require.Contains(t, poll.Body.String(), `"state":"processing"`)
		require.Equal(t, "1", poll.Header().Get("Retry-After"))
		require.Equal(t, 404, ask(h, "GET", location, "b").Code, "another tenant's operation does not exist")
		require.Equal(t, 500, ask(h, "GET", location, "").Code)
		require.Equal(t, 404, ask(h, "GET", "/operations/abc", "a").Code)
		require.Equal(t, 405, ask(h, "DELETE", location, "a").Code)

		time.Sleep(10 * time.Second)
		poll = ask(h, "GET", location, "a")
		var view struct {
			Object, ID, State string
			Answer            struct {
				Status int
				Body   json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal(poll.Body.Bytes(), &view))
		require.Equal(t, "completed", view.State)
		require.Equal(t, 201, view.Answer.Status)
		require.Equal(t, `{"export":"<1>"}`, string(view.Answer.Body))
		require.Empty(t, poll.Header().Get("Retry-After"))
		replay := ask(h, "POST", "/exports", "a")
		require.Equal(t, 201, replay.Code)
		require.Equal(t, "true", replay.Header().Get("Idempotent-Replayed"))
		require.Equal(t, 1, runs)
		require.NoError(t, ops.Shutdown(t.Context()))
		require.NoError(t, ops.Shutdown(t.Context()))
	})
}

func TestOperationThatIsQuickIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, _ := longRunning(t, 2*time.Second, func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(make([]byte, 2<<20)) // larger than what is stored
		})
		first := ask(h, "POST", "/exports", "a")
		require.Equal(t, 200, first.Code)
		require.Len(t, first.Body.Bytes(), 2<<20)
		require.Equal(t, 409, ask(h, "POST", "/exports", "a").Code)
	})
}

func TestOperationWhoseHandlerPanicsInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ops, _ := longRunning(t, time.Second, func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, idempotency.MarkEffect(r.Context()))
			time.Sleep(10 * time.Second)
			panic("boom")
		})
		first := ask(h, "POST", "/exports", "a")
		require.Equal(t, 202, first.Code)
		require.NoError(t, ops.Shutdown(t.Context()))
		require.Contains(t, ask(h, "GET", first.Header().Get("Location"), "a").Body.String(), `"state":"uncertain"`)
		require.Equal(t, 503, ask(h, "POST", "/exports", "a").Code)
	})
}

func TestShutdownEndsHandlersThatTakeTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ops, _ := longRunning(t, time.Second, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			require.ErrorIs(t, context.Cause(r.Context()), idempotency.ErrShutdown)
			w.WriteHeader(503)
			idempotency.SetOutcome(r.Context(), idempotency.NoEffect)
		})
		first := ask(h, "POST", "/exports", "a")
		require.Equal(t, 202, first.Code)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, ops.Shutdown(ctx), context.DeadlineExceeded)
		require.Equal(t, 404, ask(h, "GET", first.Header().Get("Location"), "a").Code)
	})
}

func TestOperationsConfigIsChecked(t *testing.T) {
	_, err := idempotency.NewOperations(nil, idempotency.OperationsConfig{})
	require.ErrorContains(t, err, "engine")
	_, err = idempotency.NewOperations(idempotency.NewMemory(), idempotency.OperationsConfig{})
	require.ErrorContains(t, err, "Tenant")
	_, err = idempotency.NewOperations(idempotency.NewMemory(), idempotency.OperationsConfig{Tenant: tenant, Prefix: "/x"})
	require.ErrorContains(t, err, "Prefix")
}
