package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// call posts once and prints what a client sees.
func call(h http.Handler, key, body string) {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer := strings.TrimSpace(w.Body.String())
	if w.Header().Get("Content-Type") == "application/problem+json" {
		_, answer, _ = strings.Cut(answer, `"code":"`)
		answer, _, _ = strings.Cut(answer, `"`)
	}
	if w.Header().Get("Idempotent-Replayed") == "true" {
		answer += " (replayed)"
	}
	fmt.Println(w.Code, answer)
}

func caller(*http.Request) (string, error) { return "store-42", nil }

func ExampleNewMiddleware() {
	orders := 0
	create := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d", orders)
	})
	protect, err := idempotency.NewMiddleware(idempotency.NewMemory(), idempotency.Options{Tenant: caller})
	if err != nil {
		log.Fatal(err)
	}
	h := protect(create)
	call(h, "order-1", `{"item":"pizza"}`)
	call(h, "order-1", `{"item":"pizza"}`) // the answer was lost: the client repeats
	call(h, "order-1", `{"item":"pasta"}`) // the same key for something else
	call(h, "order-2", `{"item":"pasta"}`)
	// Output:
	// 201 order 1
	// 201 order 1 (replayed)
	// 422 idempotency_key_reused
	// 201 order 2
}

func ExampleMarkEffect() {
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := idempotency.MarkEffect(r.Context()); err != nil { // durable before the bank is asked
			idempotency.SetOutcome(r.Context(), idempotency.NoEffect)
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		http.Error(w, "the bank did not answer", http.StatusBadGateway)
	})
	eng := idempotency.NewMemory()
	protect, err := idempotency.NewMiddleware(eng, idempotency.Options{Tenant: caller})
	if err != nil {
		log.Fatal(err)
	}
	h := protect(charge)
	call(h, "charge-1", "")
	call(h, "charge-1", "") // never charged again by itself

	// A reconciler asks the bank and settles what it finds.
	ctx := context.Background()
	open, _ := eng.List(ctx, idempotency.Filter{States: []idempotency.State{idempotency.Uncertain}})
	for _, rec := range open {
		_ = eng.Reconcile(ctx, rec.Scope.ID(), rec.Generation, idempotency.Reconciliation{
			Verdict: idempotency.Happened,
			Result:  idempotency.Result{Status: http.StatusCreated, Body: []byte("charged")},
		})
	}
	call(h, "charge-1", "")
	// Output:
	// 503 result_unknown
	// 503 result_unknown
	// 201 charged (replayed)
}

func ExampleSetOutcome() {
	slots := 0
	book := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slots == 0 {
			idempotency.SetOutcome(r.Context(), idempotency.NoEffect) // the same request may succeed later
			http.Error(w, "full", http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	protect, err := idempotency.NewMiddleware(idempotency.NewMemory(), idempotency.Options{Tenant: caller})
	if err != nil {
		log.Fatal(err)
	}
	h := protect(book)
	call(h, "booking-1", "")
	slots = 1
	call(h, "booking-1", "")
	// Output:
	// 409 full
	// 201
}

func ExampleWait() {
	started := make(chan struct{})
	finish := make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-finish
		_, _ = io.WriteString(w, "done")
	})
	protect, err := idempotency.NewMiddleware(idempotency.NewMemory(), idempotency.Options{
		Tenant: caller, OnDuplicate: idempotency.Wait(10 * time.Second),
	})
	if err != nil {
		log.Fatal(err)
	}
	h := protect(slow)
	first := make(chan struct{})
	go func() {
		defer close(first)
		h.ServeHTTP(httptest.NewRecorder(), newRequest("POST", "/orders", "k", ""))
	}()
	<-started
	time.AfterFunc(10*time.Millisecond, func() { close(finish) })
	call(h, "k", "")
	<-first
	// Output: 200 done (replayed)
}

func ExampleOperationResource() {
	eng := idempotency.NewMemory()
	ops, err := idempotency.NewOperations(eng, idempotency.OperationsConfig{Prefix: "/operations/", Tenant: caller, After: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	protect, err := idempotency.NewMiddleware(eng, idempotency.Options{Tenant: caller, OnDuplicate: idempotency.OperationResource(ops)})
	if err != nil {
		log.Fatal(err)
	}
	finish := make(chan struct{})
	h := protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-finish
		_, _ = io.WriteString(w, "exported")
	}))
	call(h, "export-1", "") // poll its Location meanwhile: mux.Handle("/operations/", ops)
	close(finish)
	_ = ops.Shutdown(context.Background())
	call(h, "export-1", "")
	// Output:
	// 202 operation_accepted
	// 200 exported (replayed)
}

func ExampleMemory() {
	ctx := context.Background()
	eng := idempotency.NewMemory()
	req := idempotency.ClaimRequest{
		Scope:       idempotency.Scope{Tenant: "store-42", Operation: "import", Key: "batch-7"},
		Fingerprint: idempotency.NewFingerprint(16, []byte("the batch")),
		Lease:       time.Minute, Retention: 24 * time.Hour,
	}
	first, _ := eng.Claim(ctx, req)
	second, _ := eng.Claim(ctx, req)
	fmt.Println(first.Decision, second.Decision)
	fmt.Println(eng.Complete(ctx, first.Claim, idempotency.Result{Status: 200}))
	third, _ := eng.Claim(ctx, req)
	fmt.Println(third.Decision, third.Result.Status)

	forged := first.Claim
	forged.Generation++
	fmt.Println(errors.Is(eng.Complete(ctx, forged, idempotency.Result{}), idempotency.ErrOwnershipLost))
	// Output:
	// new in_progress
	// <nil>
	// replay 200
	// true
}
