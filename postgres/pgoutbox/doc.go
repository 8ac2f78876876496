// Package pgoutbox keeps an outbox in PostgreSQL (13 or newer), for a fleet of workers: any number of processes add
// operations, and any number send them.
//
//	pool, err := pgxpool.New(ctx, dsn)
//	err = pgoutbox.Migrate(ctx, pool)
//	engine := pgoutbox.New(pool, pgoutbox.Options{})
//
// The rules are those of package outbox (Decide and the methods of Record): statements read and lock, Go decides, and one
// batch writes and commits. outboxtest.Run proves the engine, also behind pgbouncer.
//
// # Tables
//
//	flavoso_outbox_operation  what was accepted, written once; unique by id, and by key for the latest use of it
//	flavoso_outbox_progress   where it stands: state, due, claim, outcome; small, with partial indexes
//	flavoso_outbox_lane       65 536 lane locks: who adds to a lane holds its lock until the commit
//	flavoso_outbox_hold       lanes held back until a time
//	flavoso_outbox_key        tombstones: what stays known of a key when its operation is purged
//	flavoso_outbox_count      totals: the sum of a connection's rows; each step adds a row, and rows are merged
//	flavoso_outbox_state      state blobs of the SDK
//
// Texts are readable; a backslash escapes what PostgreSQL cannot keep. Times are timestamptz, cut to microseconds.
// Migrate is versioned: it refuses tables of a newer release and keeps what is there.
//
// # Lanes
//
// Adding takes the lane's lock first and then a number: within a lane, numbers are in the order of the commits, also
// between transactions of the application that are open at once. Unrelated lanes share a lock by chance, once in 65 536;
// that costs waiting and nothing else.
//
// Workers do not take that lock. The first unfinished record of a lane is its head and stands in the due index; a claim
// locks heads FOR UPDATE SKIP LOCKED, and looks again whether each is the lowest unfinished record of its lane. So a lane
// that is being added to goes on. When the last known record of a lane ends while somebody adds to it, its entry
// stays in the index, and the next claim looks into the lane again.
//
// # Claims
//
// A claim lasts for Mark.Lease (5 minutes if that is zero), counted by the database's clock. After that one worker, and
// one only, takes the record over: it counts as sent, its mark stays, and the new claim cannot remove it. What has no
// key waits for another lease before that, because its request may still be on the way, and a lease is
// longer than an attempt. A result of the earlier worker then gets ErrClaimLost; a verdict of Flavoso is taken as evidence
// when nobody works on the record (see outbox.Engine). A claim whose lease is over hinders neither that nor Set.
//
// Heads go in the order they fell due, over all connections. With ClaimRequest.PerConnection, or connections left out,
// a claim looks at the 512 oldest heads and, if those do not fill it, goes by the index from connection to connection,
// at most 512 of them, on from where the last claim stopped.
//
// # Clocks
//
// Times are kept by the database's clock and handed out by this machine's (Options.Clock). Clocks that agree within a
// second are left alone; another difference is measured in every step, so that machines mean the same moments.
//
// # Transactions of the application
//
// Tx and SQLTx add an operation within the application's transaction: both are committed, or neither. A duplicate is an
// answer and never an error of the transaction: nothing in it can raise a unique violation. Who adds a key that another
// transaction has added waits for its end. Nothing is undone by savepoints, and none is needed.
//
// Above READ COMMITTED a lost race is SQLSTATE 40001, which errors.As finds as a *pgconn.PgError: roll back and run
// the transaction again. In such a transaction a claim in the same step is not granted.
//
// Keep these transactions short: their lanes take nothing else meanwhile. Two transactions that add to the same lanes
// in different order may deadlock, as with any rows; the server ends one of them with 40P01.
//
// # Locking order
//
// Steps of the engine wait for each other only while they hold rows of progress, which they lock by rising number; lane
// locks they only try. Adding waits for one lane lock, holding nothing; several additions in one round trip wait for
// none, at most half a second for a key, and go one by one if that was too long. So no circle is made of the engine's own
// steps. What the server refuses all the same is run again, up to ten times.
//
// # Durability, and what fails
//
// A step is committed with synchronous_commit on, or a stronger setting of the connection's; off is overridden, in the
// application's transaction too. When the connection is lost at the COMMIT, the engine asks the database what became of
// it: the answer is then as if nothing had happened. Only when it cannot ask for 15 s the error is an outbox.SaveError.
// Every other error means that nothing was done; errors of the server are found by errors.As.
//
// Limits and totals count what is committed: concurrent additions may pass a limit by as many as there are. Outcomes are numbered
// just before their commit, so one with a lower number may appear a moment after one with a higher.
//
// # Wake-up
//
// Changed signals at once what this engine does, by LISTEN on a connection of its own what others do, and by polling
// (Options.Poll, 1 s) what falls due and whatever was missed. Steps notify after their commit, at most every 20 ms; only an
// addition in the application's transaction notifies within it, when it is its lane's head. NOTIFY makes commits wait
// for each other: where very many transactions add, switch it off with Options.PollOnly. Behind a proxy that pools
// transactions the engine notices that it cannot listen, and polls.
//
// With pgbouncer in transaction mode let pgx use no named prepared statements: default_query_exec_mode=exec in the
// connection string (or cache_describe).
//
// # Cost
//
// An addition is one round trip, two when something stands in its way, its Limits are set or it is made in the
// application's transaction. Additions that come at the same time share a transaction, and so do results. A claim of many is two
// round trips, like a result of many. Statements ask for their indexes whatever the planner's statistics say; only lists of
// outcomes that were taken over, and lists by tag or kind alone, look at more than they return.
//
// # Upkeep
//
// Call Purge from time to time, until it returns 0; several processes may do so at once. After the database was restored
// from a backup call Adopt before the workers start: nothing in the tables shows what was sent since.
package pgoutbox
