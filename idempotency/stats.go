package idempotency

import "time"

// Stats are the figures of S16. Ages are zero when there is no such record.
type Stats struct {
	Records   int64 // all records, expired ones included; an estimate where Estimated
	Bytes     int64 // size of the records; on a database, of table and indexes
	Estimated bool

	Processing int64
	Uncertain  int64 // unknown results that wait for reconciliation: raise an alarm
	Lapsed     int64 // processing, and the lease has ended: raise an alarm when they are old

	OldestProcessing time.Duration // age of the oldest processing record
	OldestUncertain  time.Duration
	OldestHeld       time.Duration // age, since it was finished, of the oldest result still valid

	Backlog    int64         // expired records the sweep has not deleted yet
	BacklogAge time.Duration // how long the oldest of them has been expired

	Counters Counters
}

// Counters count since this engine value was made; they only grow. Another process counts its own.
type Counters struct {
	New             uint64 // claims of new operations
	TakenOver       uint64
	Replays         uint64
	InProgress      uint64 // key collisions: a repeat met a running operation; one that waits asks more than once
	Mismatches      uint64 // a key came with another request
	Uncertain       uint64 // claims refused because the result is unknown
	ResultGone      uint64
	Completed       uint64
	Failed          uint64
	Released        uint64
	MarkedUncertain uint64 // records that became uncertain, by a worker or by a lapsed lease
	Reconciled      uint64
	LateCompletions uint64 // finished after the lease had ended, by the rightful owner
	OwnershipLost   uint64 // steps refused because another claim owns the operation
	Swept           uint64
	SweptBytes      uint64
}
