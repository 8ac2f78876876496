// Package conformance checks a server against what Flavoso documents about idempotency: the clauses F1 to
// F17 of the contract, by raw HTTP, against any server — the mock server or a sandbox of Flavoso's own.
//
// It needs only documented behaviour, and it touches only what it made itself: bookings whose reference
// begins with "conformance-", which it cancels at the end, and orders that a test server placed for it.
// Clauses that need more than a connection (moving the server's clock, letting a request crash) are
// skipped, by name, unless the target has a [Control].
//
//	results, err := conformance.Check(ctx, conformance.Target{BaseURL: url, Token: token})
package conformance
