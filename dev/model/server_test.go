package main

import (
	"context"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// TestKeysAreTheServers runs the idempotency layer that the mock server has, and that servers can use, over
// every state of a key and compares what becomes of a request.
func TestKeysAreTheServers(t *testing.T) {
	sc := scenarioNamed(t, "two tills, two bookings")
	for _, tc := range []struct {
		name string
		key  key
	}{
		{"free", key{}},
		{"running", key{state: processing, alive: true}},
		{"died just now", key{state: processing}},
		{"died within the lease", key{state: processing, age: abortTime - 1}},
		{"died a lease ago", key{state: processing, age: abortTime}},
		{"done", key{state: held}},
		{"refused", key{state: held, refused: true}},
		{"done, a moment before it is forgotten", key{state: held, age: sc.holdTime() - 1}},
		{"done, and forgotten", key{state: held, age: sc.holdTime()}},
	} {
		for content, name := range []string{"the same request", "another request"} {
			t.Run(tc.name+", "+name, func(t *testing.T) {
				if got, want := inModel(&sc, tc.key, content), inEngine(t, &sc, tc.key, content); got != want {
					t.Errorf("%s in the model, %s in the engine", told[got], told[want])
				}
			})
		}
	}
}

// inModel is what a request under the key meets in the model.
func inModel(sc *scenario, k key, content int) (met do) {
	m := &model{scenario: sc, emit: func(_ *state, l label, _ note) { met = l.do }}
	s := &state{}
	s.keys[0][0] = k
	s.requests[0] = request{used: true, op: uint8(content), gen: 1}
	m.arrive(s, 0)
	return met
}

// inEngine is what it meets in a real engine, with Flavoso's options.
func inEngine(t *testing.T, sc *scenario, k key, content int) do {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	e := idempotency.NewMemory(idempotency.WithClock(func() time.Time { return now }))
	claim := func(content int) idempotency.ClaimResult {
		r, err := e.Claim(context.Background(), idempotency.ClaimRequest{
			Scope:       idempotency.Scope{Tenant: "store-42", Operation: "flavoso", Key: "booking-17"},
			Fingerprint: idempotency.NewFingerprint(1, []byte{byte(content)}), Lease: 2 * time.Minute, Retention: 24 * time.Hour,
			HoldFrom: idempotency.FromReceipt, OnLeaseLost: idempotency.FreeKey})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var err error
	if k.state != free {
		first := claim(0)
		switch res := (idempotency.Result{Status: 201}); {
		case k.state == held && k.refused:
			err = e.Fail(context.Background(), first.Claim, idempotency.Result{Status: 422})
		case k.state == held:
			err = e.Complete(context.Background(), first.Claim, res)
		case k.alive:
			now = now.Add(time.Hour)
			_, err = e.Extend(context.Background(), first.Claim, 2*time.Minute)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	step, most := 2*time.Minute/abortTime, uint8(abortTime)
	if k.state == held {
		most = sc.holdTime()
		step = 24 * time.Hour / time.Duration(most)
	}
	now = now.Add(time.Duration(k.age) * step)
	if k.age == most {
		now = now.Add(time.Duration(most)) // what the division left over
	}
	switch r := claim(content); r.Decision {
	case idempotency.New, idempotency.TakenOver:
		return doBegin
	case idempotency.InProgress:
		return doReplyRunning
	case idempotency.Replay:
		return doReplay
	case idempotency.Mismatch:
		return doReplyReused
	default:
		t.Fatalf("decision %v", r.Decision)
		return 0
	}
}

// TestRecordsComeBack: what the model makes real is read back as it was.
func TestRecordsComeBack(t *testing.T) {
	o := &op{kind: booking}
	for _, r := range []record{
		{state: 1, gen: 1},
		{state: 2, gen: 2, attempts: 3, claim: 4, claimAge: 1, exposure: 4, age: 2, last: 3, reused: true, open: 2},
		{state: 2, gen: 1, attempts: 1, exposure: ownerless, age: 3, suspect: true, evidence: true},
		{state: 2, gen: 1, exposure: renewed},
		{state: 3, gen: 1, exposure: ownerless, byOther: true},
		{state: 4, gen: 1, exposure: ownerless, clean: true, conflict: true},
		{state: 4, gen: 1, exposure: ownerless, barred: true},
		{state: 8, gen: 1, attempts: 2, exposure: ownerless, age: 4, because: reasonNumber("window_passed")},
	} {
		if got := abstract(r.real(o)); got != r {
			t.Errorf("%+v came back as %+v", r, got)
		}
	}
}
