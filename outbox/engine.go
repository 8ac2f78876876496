package outbox

import (
	"context"
	"time"
)

// Engine keeps operations durably. Every method is one atomic step: when it returns nil the step is on
// stable storage; when it returns an error other than a [*SaveError] nothing happened. Steps that change
// a record compare and set on its state and claim token, so that a late caller changes nothing.
//
// All methods may be called from many goroutines. An engine runs no code of its caller inside a
// transaction and never hands out memory it keeps using. A context is looked at before the step is
// handed over; from then on the method waits for the definite answer.
//
// The rules of the state machine are not the engine's: [Decide] and the methods of [Record] in
// transition.go hold them, and every engine calls the same ones. [outboxtest.Run] proves an engine.
type Engine interface {
	// Add saves a new operation, or finds the one that already stands for it. Dedupe, choice of the
	// generation, superseding, the limits and, when asked, the first claim with its exposure mark are
	// ONE durable step.
	Add(ctx context.Context, a Addition) (Added, error)

	// Claim takes due lane heads for sending, marks their exposure and counts the attempt. A lane has at
	// most one claimed record; a lane whose head is parked has none. Heads come in the order they fell
	// due. A due head that was never sent and whose Expires has passed becomes expired in the same step
	// and is returned too, in that state and unclaimed. A lane that is held back (LaneNotBefore) gives
	// nothing before the hold has ended at Now, whatever DueBy and First ask for; see [MaxHold].
	Claim(ctx context.Context, c ClaimRequest) ([]Record, error)

	// Settle records what came of claims: rescheduled, final or parked. Each settlement stands alone: one
	// that finds its claim gone gets ErrClaimLost in its place of the answer and the others are saved.
	// Only that Flavoso has done it is taken as evidence without a claim: To Succeeded ends a record that is
	// waiting or uncertain and that nobody works on. The error is for the step as a whole.
	Settle(ctx context.Context, s ...Settlement) ([]Settled, error)

	// Set makes an operator's or the owner's change to a record that is not claimed: cancel, retry now,
	// resolve, resume. ErrState when the record is not in a state that allows it.
	Set(ctx context.Context, c Change) (Record, error)

	// Get returns one record whole, or ErrNotFound.
	Get(ctx context.Context, id string) (Record, error)

	// List returns a page of records, by acceptance or by outcome.
	List(ctx context.Context, q Query) (Page, error)

	// Counts returns the totals of one connection, or of all with "". They are kept, never scanned for.
	Counts(ctx context.Context, connection string) (Counts, error)

	// NextDue returns when the next unclaimed lane head of the scope falls due; false = there is none.
	NextDue(ctx context.Context, s Scope) (time.Time, bool, error)

	// Ack notes that the application has taken over revision of an outcome. Older ones are included; a
	// newer one stays open. Acknowledging twice is the same as once.
	Ack(ctx context.Context, id string, revision int) error

	// Purge deletes up to Limit finished records and outlived tombstones, and says how many records.
	Purge(ctx context.Context, p PurgeRequest) (int, error)

	// LoadState returns a named value of a connection, nil when there is none; SaveState keeps it
	// (nil deletes). Clock anchors, Retry-After deadlines and cursors live here.
	LoadState(ctx context.Context, connection, name string) ([]byte, error)
	SaveState(ctx context.Context, connection, name string, value []byte) error

	// Changed returns a channel that receives after something was added, settled or set, also by another
	// process where the engine is shared. It is a hint for the engine's one dispatcher: every call returns
	// the same channel, signals merge, and one may be spurious.
	Changed() <-chan struct{}

	// Close waits for steps under way and releases everything. Later calls return ErrClosed. Idempotent.
	Close() error
}

// Shared reports whether several processes may have the engine's storage open at once. Its claims then end
// by themselves with their lease ([Mark]), and what others do shows up without being told. An engine says
// so with a method Shared() bool; one without it has its storage to itself.
func Shared(e Engine) bool {
	s, ok := e.(interface{ Shared() bool })
	return ok && s.Shared()
}

// Addition is what Add is asked to save.
type Addition struct {
	// Record holds the frozen part. The engine fills Seq, Generation and WireKey, the state, and Due with
	// Now when it is zero.
	Record Record
	// Now is the caller's wall clock. An engine shared by several machines may use its own instead.
	Now time.Time
	// AfterSuccess says what a new operation under a key that already succeeded is.
	AfterSuccess AfterSuccess
	// Supersede replaces the lane's last record when that is queued, was never claimed and has the same
	// kind, method and target.
	Supersede bool
	// Claim asks for the first claim in the same step. It is granted when the record is its lane's head
	// (Added.Record.Claimed tells); otherwise the record is saved all the same.
	Claim *Mark
	// Limits bound what may be added; never what is already accepted.
	Limits Limits
	// Tx joins the caller's own database transaction; nil = a step of its own. An engine that cannot
	// join it returns ErrTxUnsupported.
	Tx Tx
}

// Tx is a database transaction of the application that an engine can join. The engine's package makes it.
type Tx interface{ OutboxTx() }

// AfterSuccess is the policy for a key whose operation succeeded.
type AfterSuccess int

const (
	// ReuseOutcome returns the existing outcome: the operation happens once for ever.
	ReuseOutcome AfterSuccess = iota
	// NextGeneration starts a new operation under the key's next generation: a state may be set again.
	NextGeneration
)

// Limits bound an engine's content at Add; zero = no limit.
type Limits struct {
	Operations int   // waiting and parked operations per connection
	Bytes      int64 // bytes of their requests per connection
	Body       int   // bytes of one request body
}

// Decision says what Add found.
type Decision int

const (
	AddedNew       Decision = iota // a new operation was saved
	FoundOperation                 // the wish is already saved; Record is the existing operation, whatever its state
	FoundTombstone                 // the wish was fulfilled or refused before and only its tombstone is left
	FoundOtherUse                  // the key stands for other content; nothing was saved; Record names it
)

// Added is Add's answer.
type Added struct {
	Decision   Decision
	Record     Record    // new or existing; of a FoundTombstone only the fields the tombstone knows
	Tombstone  Tombstone // set for FoundTombstone
	Superseded string    // ID of the record that was replaced
}

// Scope selects connections: those listed (nil = all) less those in Except.
type Scope struct {
	Connections []string
	Except      []string
}

// Mark is the exposure a claim sets when it finds none; the engine adds the claim's token.
type Mark struct {
	Now    time.Time     // the wall clock
	Server time.Time     // Flavoso's clock as far as known
	Boot   string        // see Exposure
	Uptime time.Duration // see Exposure
	Lease  time.Duration // for engines shared by several processes; others ignore it
}

// ClaimRequest asks for work.
type ClaimRequest struct {
	Scope
	Mark
	Limit int // at most so many records, one per lane; 0 = none
	// PerConnection bounds how many records of one connection a claim takes, those of First included, so that
	// a busy connection leaves places to others; 0 = no bound.
	PerConnection int
	// DueBy takes heads that fall due until then ahead of their time; zero = Now. Somebody knows that
	// waiting has become pointless. It does not shorten a lane's hold.
	DueBy time.Time
	First []string // IDs to take before all others, in this order, when they are claimable lane heads
	// KeepExpired takes due heads whose Expires has passed like others: the caller has a better clock than Now to
	// judge that by. Engines that are Shared may ignore it.
	KeepExpired bool
}

// Expires reports whether the claim ends a due head rather than giving it out.
func (c *ClaimRequest) Expires(r *Record) bool { return !c.KeepExpired && r.PastExpiry(c.Now) }

// Full reports whether a claim that has taken n records of a connection takes no more of it.
func (c *ClaimRequest) Full(n int) bool { return c.PerConnection > 0 && n >= c.PerConnection }

// Until returns the moment up to which heads are due.
func (c *ClaimRequest) Until() time.Time {
	if c.DueBy.After(c.Now) {
		return wall(c.DueBy)
	}
	return wall(c.Now)
}

// Settlement is what came of one claim.
type Settlement struct {
	ID    string
	Claim string // the claim's token
	Now   time.Time

	// To is Queued to go on waiting (the record becomes queued or sent, as its mark says), a final state
	// or a parked one.
	To State
	// Due is when a waiting record is tried next.
	Due time.Time
	// NeverSent says that this claim's exchange provably reached no peer: the mark is removed if this
	// very claim set it.
	NeverSent bool
	// NextGeneration moves the operation to the next wire key of its logical key, same bytes, unmarked.
	NextGeneration bool
	// LaneNotBefore holds back the lane's next record when this one ends; zero = it is due at once. Nothing
	// shortens the hold; see [MaxHold].
	LaneNotBefore time.Time
	Last          *Attempt
	Result        *Result // of a waiting record: evidence so far
}

// Settled answers one Settlement.
type Settled struct {
	Record  Record
	Blocked int   // records of the lane that were blocked by StopLaneOnReject
	Err     error // ErrClaimLost, ErrNotFound
}

// Action is a kind of change made from outside the sending loop.
type Action string

const (
	// Cancel withdraws what was provably never sent and is not claimed.
	Cancel Action = "cancel"
	// RetryNow makes a waiting record due at once, or when its lane's hold ends.
	RetryNow Action = "retry_now"
	// ResolveDone makes a waiting or parked record succeeded, with Result.
	ResolveDone Action = "resolve_done"
	// ResolveSendAgain makes a parked record waiting again, with the same key and the same bytes. Of an
	// uncertain one the exposure starts anew: whoever decides it vouches that repeating is right.
	ResolveSendAgain Action = "resolve_send_again"
	// ResolveAbandon gives a waiting or parked record up.
	ResolveAbandon Action = "resolve_abandon"
	// Expire ends what was provably never sent and whose Expires has passed.
	Expire Action = "expire"
	// Park makes an unclaimed waiting record uncertain or blocked (Change.To), with Result as the reason.
	Park Action = "park"
)

// Change is what Set is asked to do, to one record or, with ID empty and Lane given, to a whole lane
// (only ResolveSendAgain of blocked records: resuming the lane).
type Change struct {
	ID         string
	Connection string // with Lane
	Lane       string
	Action     Action
	To         State // for Park
	Result     *Result
	Now        time.Time
	// LaneNotBefore holds back the lane's next record as [Settlement.LaneNotBefore] does, when the change
	// ends or parks what may have been sent: a late request of it must not overtake the next.
	LaneNotBefore time.Time
	// Overdue says that Expire is right although Now is before the record's Expires: the caller has a better clock.
	Overdue bool
}

// Query selects records for List. It is answered page by page; what an engine has to look at for a page, beyond
// the records in it, depends on the selection:
//
//   - nothing, for no selection, for Connection where the storage has one, for ByOutcome with and without Unacked, for
//     a Lane with States that are unfinished, and for States that are all waiting.
//   - nothing either for States that no record is in, as totals are kept.
//   - the unfinished records, or those with an outcome if they are fewer, for States that are parked.
//   - the finished records for States that are final.
//   - all records for everything else: Kind, Tag, Key without Newest, a Lane's finished records, and the
//     Connection where the storage has several.
type Query struct {
	Connection string  // empty = all
	States     []State // nil = all
	Lane       string
	Kind       string
	Tag        string
	Key        string // the logical key
	// Newest restricts Key, with Connection and without ByOutcome, to the newest record made with it. An engine may
	// leave it aside: of all with the key that record is the last.
	Newest bool
	// ByOutcome orders by when outcomes became known, and leaves out what has none; otherwise records
	// come in the order they were accepted.
	ByOutcome bool
	// Unacked leaves out outcomes that the application has taken over.
	Unacked bool
	// ExpiringBefore leaves out all but queued records that expire before then; zero = all.
	ExpiringBefore time.Time
	// After continues behind a page's Next.
	After string
	Limit int // at most so many; 0 = 100
	// Bodies includes request and result bodies.
	Bodies bool
}

// Page is a part of a list.
type Page struct {
	Records []Record
	Next    string // pass as Query.After; empty = the end was reached
}

// Counts are the totals of a connection or of all.
type Counts struct {
	States    map[State]int // records kept, by state
	Bytes     int64         // request bytes of waiting and parked records
	HeldLanes int           // lanes whose head is parked
	Unacked   int           // outcomes the application has not taken over
	Oldest    time.Time     // when the oldest waiting record was accepted; zero = none waits
	LastSeq   uint64        // the highest Seq given so far, over all connections
}

// Waiting returns the number of records that are queued or sent.
func (c Counts) Waiting() int { return c.States[Queued] + c.States[Sent] }

// Total returns the number of records kept, over all states.
func (c Counts) Total() int {
	n := 0
	for _, v := range c.States {
		n += v
	}
	return n
}

// PurgeRequest says what Purge may delete. Tombstones that are outlived go whatever it selects.
type PurgeRequest struct {
	// Connection restricts it to the records of one connection; empty = all.
	Connection string

	Now    time.Time
	Before time.Time // only records that finished before
	// Unacked includes outcomes that were never acknowledged, for applications that take no outcomes;
	// rejected, uncertain, blocked and damaged ones are never purged unseen all the same.
	Unacked bool
	Limit   int // at most so many; 0 = 1000
}
