// Package pgidem keeps idempotency records in PostgreSQL (13 or newer).
//
//	pool, err := pgxpool.New(ctx, dsn)
//	err = pgidem.Migrate(ctx, pool)
//	mw, err := idempotency.NewMiddleware(pgidem.New(pool), idempotency.Options{…})
//
// A repeat is one plain SELECT by primary key, a completion one UPDATE; a new key takes one look and one INSERT. A
// replay writes nothing, and never waits for an owner that has not committed yet. Only the database's clock counts, so
// processes whose clocks differ agree. No connection is held while a handler runs.
//
// # Effect and result in one commit (S7)
//
// A handler whose effect is in the same database has two ways. Engine.CompleteTx stores the result in the
// handler's transaction: claim first, then effect and result in one commit. InTx needs no claim at all: lock,
// effect and finished record are ONE transaction, so there is no lease, a crash leaves nothing behind, and the
// key is free at once. Do not use InTx and claims for the same operation: a claim would wait for the
// transaction's end.
//
// # Isolation
//
// The engine's own statements are right at READ COMMITTED and, at the price of repeats, above. In a caller's
// REPEATABLE READ or SERIALIZABLE transaction a lost race shows as SQLSTATE 40001: CompleteTx and InTx return
// idempotency.ErrSerialization; roll back and run the transaction again. It never means that ownership is lost.
//
// # Behind pgbouncer
//
// There is no session state. In transaction mode let pgx use no named prepared statements:
// default_query_exec_mode=exec in the connection string (or cache_describe).
//
// # Upkeep
//
// Call Engine.Sweep from time to time, until its report has no More; several processes may do so at once. Records in
// the states processing and uncertain are never deleted: alarm on Engine.Stats.
package pgidem
