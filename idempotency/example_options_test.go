package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// Flavoso's own choices (F4 to F10): the caller's connection is the tenant, the key alone decides within it, the request
// is compared byte by byte, and what is 5xx may be tried again.
func ExampleOptions() {
	protect, err := idempotency.NewMiddleware(idempotency.NewMemory(), idempotency.Options{
		Tenant:      caller,
		Operation:   idempotency.ConstantOperation(""), // the path is compared and not part of the scope
		Fingerprint: idempotency.RawBytes,
		Hold:        idempotency.HoldExcept5xx,
		OnDuplicate: idempotency.FailFast,
		OnLeaseLost: idempotency.Takeover,
		Retention:   24 * time.Hour,
		Lease:       2 * time.Minute,
	})
	if err != nil {
		log.Fatal(err)
	}
	failures := 1
	h := protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failures > 0 {
			failures--
			http.Error(w, "the database is away", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "ordered")
	}))
	call(h, "order-1", `{"item":"pizza"}`)
	call(h, "order-1", `{"item":"pizza"}`)
	call(h, "order-1", `{ "item": "pizza" }`) // other bytes are another request
	// Output:
	// 500 the database is away
	// 200 ordered
	// 422 idempotency_key_reused
}

// For clients that do not keep their bytes: another spelling of the same JSON is the same request.
func ExampleCanonicalJSON() {
	protect, err := idempotency.NewMiddleware(idempotency.NewMemory(), idempotency.Options{Tenant: caller, Fingerprint: idempotency.CanonicalJSON})
	if err != nil {
		log.Fatal(err)
	}
	h := protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ordered") }))
	call(h, "order-1", `{"item":"pizza","size":26}`)
	call(h, "order-1", `{ "size": 26.0, "item": "pizza" }`)
	call(h, "order-1", `{"item":"pizza","size":32}`)
	// Output:
	// 200 ordered
	// 200 ordered (replayed)
	// 422 idempotency_key_reused
}

// A service that the handler asks gets a key, too: the same one for every repeat of the operation (S8).
func ExampleDownstreamKey() {
	asked := map[string]bool{}
	protect, err := idempotency.NewMiddleware(idempotency.NewMemory(), idempotency.Options{Tenant: caller, Hold: idempotency.HoldExcept5xx})
	if err != nil {
		log.Fatal(err)
	}
	h := protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claim, _ := idempotency.ClaimFrom(r.Context())
		asked[idempotency.DownstreamKey(claim, "charge")] = true
		http.Error(w, "the bank is away", http.StatusServiceUnavailable)
	}))
	call(h, "order-1", "")
	call(h, "order-1", "")
	fmt.Println(len(asked), "key for two attempts")
	// Output:
	// 503 the bank is away
	// 503 the bank is away
	// 1 key for two attempts
}

// An operation that must not run again by itself, whoever dies in the middle of it.
func ExampleLeasePolicy() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	eng := idempotency.NewMemory(idempotency.WithClock(func() time.Time { return now }))
	ctx := context.Background()
	req := idempotency.ClaimRequest{
		Scope:       idempotency.Scope{Tenant: "store-42", Operation: "payout", Key: "monday"},
		Fingerprint: idempotency.NewFingerprint(16, []byte("monday's payout")),
		Lease:       time.Minute, Retention: 24 * time.Hour, OnLeaseLost: idempotency.Uncertain,
	}
	first, _ := eng.Claim(ctx, req) // this worker dies
	now = now.Add(2 * time.Minute)
	second, _ := eng.Claim(ctx, req)
	fmt.Println(first.Decision, second.Decision)
	// Output: new uncertain
}

// Reconcile settles what nobody knows, once somebody has looked.
func ExampleReconciliation() {
	eng := idempotency.NewMemory()
	ctx := context.Background()
	req := idempotency.ClaimRequest{
		Scope:       idempotency.Scope{Tenant: "store-42", Operation: "payout", Key: "monday"},
		Fingerprint: idempotency.NewFingerprint(16, []byte("monday's payout")),
		Lease:       time.Minute, Retention: 24 * time.Hour,
	}
	first, _ := eng.Claim(ctx, req)
	_ = eng.MarkUncertain(ctx, first.Claim, "the bank did not answer")
	err := eng.Reconcile(ctx, req.Scope.ID(), first.Claim.Generation, idempotency.Reconciliation{Verdict: idempotency.DidNotHappen})
	fmt.Println(err)
	again, _ := eng.Claim(ctx, req) // the key is free
	fmt.Println(again.Decision)

	// The worker that comes back late owns nothing any more.
	err = eng.Complete(ctx, first.Claim, idempotency.Result{Status: http.StatusOK})
	fmt.Println(errors.Is(err, idempotency.ErrOwnershipLost))
	// Output:
	// <nil>
	// new
	// true
}
