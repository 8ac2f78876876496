// Package idempotency is the server's side of 'never done twice': a state machine that lets repeats of a
// request get the first one's result instead of running the operation again, and a net/http middleware on top.
// It knows nothing of a particular API.
//
// The promise (S1): for one authenticated caller, one operation and one key, at most one accepted request runs
// within the retention, and repeats get its stored answer.
//
//	            claim                  Complete, Fail
//	(nothing) ────────▶ processing ─────────────────────▶ completed, failed ──▶ expired
//	    ▲                │   ▲  │                             (replayed)
//	    │     Release    │   │  │ MarkUncertain, or a lost lease
//	    └────────────────┘   │  │ after MarkEffect
//	                takeover │  ▼
//	          (lease ended)──┘ uncertain ──Reconcile──▶ completed, failed, (nothing)
//
// # Records
//
// A record is keyed by tenant, operation and key (S2) and made before the effect, in one atomic step (S3). A
// claim carries a random owner token and a generation that grows with every claim; every later step must
// present both (S11). No clock decides about a completion: the rightful owner's late result counts, and a
// stale owner's never does.
//
// # What a handler sees
//
// It runs on a context that keeps the request's values but not its cancellation: a client that leaves does not
// create an unknown result (D15). The context ends, with a cause, when the lease is lost (ErrOwnershipLost,
// ErrLeaseEnded) or Options.HandlerTimeout is over. Heartbeats keep the lease while the handler runs.
//
// The answer is kept until the result is saved, and only then sent, so what the first client saw is what
// repeats get. Hence a handler cannot flush or hijack; ResponseController's deadlines work. 1xx answers reach the
// first client at once and are not stored. Trailers are not stored. An answer above Options.MaxResult is streamed to the
// first client, after the effect has been marked, and leaves a record without a body: repeats get 409
// result_unavailable and nothing runs again.
//
// # What becomes of the record
//
// In this order: what the handler said (SetOutcome); its effect mark (MarkEffect), after which a 5xx, a panic, a
// time-out or a lost lease mean uncertain; then Options.Hold. A handler that panics or calls runtime.Goexit
// before an effect frees the key; the panic goes on. Not saved in time: the client gets 503 result_unknown and the
// record becomes uncertain.
//
// # Engines
//
// NewMemory keeps records in the process; the module's sibling postgres/pgidem keeps them in PostgreSQL.
// Package idempotencytest is the suite both pass.
package idempotency
