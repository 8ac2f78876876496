package idempotency

// Operations makes operations visible while they run (S9, S10).
type Operations struct{}
