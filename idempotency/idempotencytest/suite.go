// Package idempotencytest is the suite that every idempotency.Engine passes: the failure windows W1 to W9 and
// the promises of the Engine interface, against the engine alone and behind the middleware.
//
//	func TestEngine(t *testing.T) {
//		idempotencytest.Run(t, func(t *testing.T) idempotencytest.Fixture { … })
//	}
//
// It uses the standard library's testing package only.
package idempotencytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// Fixture is one engine under test over storage of its own.
type Fixture struct {
	Engine idempotency.Engine

	// Advance moves the engine's time forward by d. An engine that follows a database's clock may move
	// its records back instead.
	Advance func(d time.Duration)

	// Open returns another handle on the same records, as another process would have it, whose own clock is
	// off by skew. An engine that never asks the process's clock ignores skew. nil = one handle only.
	Open func(skew time.Duration) idempotency.Engine

	// Takeovers is how many takeovers the fencing race makes. 0 = 10 000, or 1 000 under -short.
	Takeovers int
}

// Factory makes a fresh fixture. It cleans up by t.Cleanup.
type Factory func(t *testing.T) Fixture

// Run runs the whole suite. Under -short the races are smaller.
func Run(t *testing.T, factory Factory) {
	for _, c := range []struct {
		name string
		f    func(*testing.T, Fixture)
	}{
		{"W1 concurrent claims: exactly one is new", w1},
		{"W2 another request is refused in every state", w2},
		{"W3 a completed result is replayed byte by byte", w3},
		{"W4 a crashed owner is taken over when its lease ends", w4},
		{"W5 a late completion by the rightful owner is stored", w5},
		{"W6 a stale owner changes nothing", w6},
		{"W7 an effect mark makes a lost lease uncertain", w7},
		{"W7 the lease policy Uncertain parks without a mark", w7Policy},
		{"W7 reconciliation settles an uncertain record", w7Reconcile},
		{"W8 an expired key runs anew", w8},
		{"W9 the stored result depends on nothing else", w9},
		{"scopes do not meet", scopes},
		{"release frees the key", release},
		{"FreeKey accepts another request after the lease", freeKey},
		{"a heartbeat keeps the lease", heartbeat},
		{"an omitted body is gone, not run again", omitted},
		{"finishing twice changes nothing", finishTwice},
		{"retention from receipt", fromReceipt},
		{"sweep deletes expired results only", sweep},
		{"stats tell S16", stats},
		{"list pages in the order of IDs", list},
		{"a senseless request is refused", senseless},
		{"an ended context changes nothing", endedContext},
		{"takeover races are fenced", fencing},
		{"racing completions: one wins", racingCompletions},
		{"skewed handles stay fenced", skew},
	} {
		t.Run(c.name, func(t *testing.T) { c.f(t, factory(t)) })
	}
	runHTTP(t, factory)
}

const (
	lease     = 2 * time.Minute
	retention = 24 * time.Hour
)

var counter atomic.Int64

// request makes a claim request with a key of its own.
func request() idempotency.ClaimRequest {
	return idempotency.ClaimRequest{
		Scope:       idempotency.Scope{Tenant: "tenant-a", Operation: "POST /orders", Key: fmt.Sprintf("key-%d", counter.Add(1))},
		Fingerprint: idempotency.NewFingerprint(200, []byte("payload")),
		Lease:       lease, Retention: retention,
	}
}

func other(r idempotency.ClaimRequest) idempotency.ClaimRequest {
	r.Fingerprint = idempotency.NewFingerprint(200, []byte("another payload"))
	return r
}

// result has everything that storage could mangle.
func result() idempotency.Result {
	body := make([]byte, 0, 300)
	for i := range 256 {
		body = append(body, byte(i))
	}
	body = append(body, `{"b":1,"a":1, "a":2}`+"\xff\xfe"...)
	return idempotency.Result{Status: 201, Body: body, Header: http.Header{
		"Content-Type":        {"application/json"},
		"Location":            {"/orders/1"},
		"Content-Disposition": {`attachment; filename="a,b.txt"`},
		"X-List":              {"one, two", "three", ""},
		"X-Empty":             {},
	}}
}

// must claims and insists on a decision.
func must(t *testing.T, e idempotency.Engine, req idempotency.ClaimRequest, want idempotency.Decision) idempotency.ClaimResult {
	t.Helper()
	res, err := e.Claim(context.Background(), req)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	if res.Decision != want {
		t.Fatalf("Claim: %s, want %s (record %+v)", res.Decision, want, res.Record)
	}
	if res.Record.Scope != req.Scope {
		t.Fatalf("Claim: record of %+v, want %+v", res.Record.Scope, req.Scope)
	}
	if want == idempotency.New || want == idempotency.TakenOver {
		if res.Claim.Scope != req.Scope || res.Claim.Owner == (idempotency.Owner{}) || res.Claim.Generation <= 0 {
			t.Fatalf("Claim: incomplete claim %+v", res.Claim)
		}
	}
	return res
}

func ok(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: error %v, want %v", what, err, want)
	}
}

func wantResult(t *testing.T, got, want idempotency.Result) {
	t.Helper()
	if got.Status != want.Status || !bytes.Equal(got.Body, want.Body) || got.Omitted != want.Omitted ||
		len(got.Header) != len(want.Header) {
		t.Fatalf("result %+v, want %+v", got, want)
	}
	for k, v := range want.Header {
		if len(v) != len(got.Header[k]) || len(v) > 0 && !reflect.DeepEqual(got.Header[k], v) {
			t.Fatalf("header %s: %q, want %q", k, got.Header[k], v)
		}
	}
}

func wantState(t *testing.T, e idempotency.Engine, s idempotency.Scope, want idempotency.State) idempotency.Record {
	t.Helper()
	rec, _, err := e.Get(context.Background(), s.ID())
	ok(t, "Get", err)
	if rec.State != want {
		t.Fatalf("state %s, want %s", rec.State, want)
	}
	return rec
}
