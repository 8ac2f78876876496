package outbox

import (
	"time"
)

// Record is one operation as an engine keeps it: what was accepted, frozen, and where it stands.
//
// Everything down to Request is fixed when the record is added and never changes afterwards, except
// Generation and WireKey through Settlement.NextGeneration. The rest is the small mutable part.
type Record struct {
	// ID names the operation; the caller chooses it before saving, so that adding it again after an
	// unknown commit finds the first one.
	ID string
	// Seq is the order of acceptance within the engine: given by Add, rising, never reused.
	Seq uint64
	// Connection is the identity the operation is scoped to (F4). Nothing is sent under another one.
	Connection string
	// Lane is what must stay in order within the connection; never empty.
	Lane string
	// Kind names the call ("orders.accept"), so that a later process knows how to judge its answer.
	Kind string
	// Resource is the id or reference the operation is about, used to read it back.
	Resource string
	// Key is the logical idempotency key; empty on methods that Flavoso does not protect (F2).
	Key string
	// KeyDerived says that the SDK derived Key from the operation, rather than the caller giving one.
	KeyDerived bool
	// Generation counts how often the logical key was used for a new operation, from 1.
	Generation int
	// WireKey is what is sent: Key, or Key~2, Key~3, … for later generations. See [WireKey].
	WireKey string
	// Fingerprint is the hash of the content (method, target, JSON-equal body); equal fingerprints are
	// the same wish, even when a newer encoder would write other bytes.
	Fingerprint []byte
	// RepeatSafe says that doing it twice is the same as doing it once (F13–F15).
	RepeatSafe bool
	// StopLaneOnReject blocks the rest of the lane when this operation is rejected.
	StopLaneOnReject bool
	// Tag is the caller's own reference.
	Tag string
	// Created is when the operation was accepted, by the wall clock.
	Created time.Time
	// Expires is when an operation that was never sent becomes pointless; zero = never.
	Expires time.Time
	// Request is what is sent, byte for byte, on every attempt.
	Request Request
	// Sealed holds what [Seal] encrypted; nil in records that are not sealed. A record that still has it
	// was read without the key: its other fields are stand-ins and must not be sent.
	Sealed []byte

	State State
	// Due is the earliest moment of the next attempt.
	Due time.Time
	// Attempts counts claims, from 0; delays are computed from it, also after a restart.
	Attempts int
	// Claim is who is working on it now; the zero value = nobody.
	Claim Claim
	// Exposure is the mark 'may have been sent'; nil = provably never sent. Committed before the first
	// byte can leave.
	Exposure *Exposure
	// Suspect says that the record comes from a restored, cloned or salvaged outbox: it counts as sent
	// since its creation, and what is not repeat-safe is read back before anything is sent.
	Suspect bool
	// Last is the latest attempt as data; nil before the first one ended.
	Last *Attempt
	// Result is what is known of the outcome; nil while there is nothing.
	Result *Result
	// Revision counts outcomes (finished or parked, then resolved …), from 0 = none yet.
	Revision int
	// Acked is the latest revision that the application has taken over.
	Acked int
	// OutcomeSeq orders outcomes by when they became known within the engine; 0 = none yet.
	OutcomeSeq uint64
	// Finished is when the record last became final or parked; zero before.
	Finished time.Time
	// SupersededBy is the ID of the write that replaced this one.
	SupersededBy string
}

// Request is the frozen request: what it says is sent on every attempt, byte for byte. It holds no
// credentials; they are stamped at send time.
type Request struct {
	Method      string
	Target      string // path and query as they appear on the request line, relative to the base URL's path
	ContentType string // empty = no Content-Type header
	Accept      string
	Body        []byte // nil = no body
}

// Claim is the right to work on a record until its result is settled.
type Claim struct {
	Token string    // unique per claim; empty = not claimed
	At    time.Time // when it was claimed
	Until time.Time // end of the lease in engines shared by several processes; zero = as long as the engine is open
}

// Exposure says since when an operation may have reached Flavoso, on every clock that was known.
type Exposure struct {
	Claim  string        // token of the claim that set the mark; only it may remove the mark again
	At     time.Time     // the wall clock
	Server time.Time     // Flavoso's clock as known then; zero = not known
	Boot   string        // the machine's boot id; empty = not known
	Uptime time.Duration // the monotonic clock since that boot
}

// Attempt is one try as data: what an operator or a caller needs to see of it, free of secrets and bodies.
type Attempt struct {
	N          int       // which attempt, from 1; 0 = made before the attempts were counted anew
	Start, End time.Time // wall clock
	Status     int       // HTTP status; 0 = no answer
	Code       string    // the API's error code, when there was one
	RequestID  string    // X-Request-Id of the answer
	Err        string    // why there was no usable answer, in words; holds neither tokens nor bodies
	NeverSent  bool      // provably never reached a peer
	RetryAfter time.Duration
	// Unanswered is the number of the latest attempt, up to this one, after which a request of the operation may still
	// have been under way: it got no answer, or heard that another one runs. 0 = there was none.
	Unanswered int `json:",omitempty"`
	// Verdict is what the attempt meant, for whoever watches attempts: "success", "retry", "broken" …; "" =
	// no request was made. It is not kept with the record.
	Verdict string `json:"-"`
}

// Result is the outcome of an operation as far as it is known.
type Result struct {
	Status    int               // HTTP status of the deciding answer; 0 when it was not an answer that decided
	Code      string            // the API's error code
	Clean     bool              // a rejection that no earlier attempt can have caused
	Reason    string            // machine-readable cause for states that no answer explains ("expired", "lane_stopped", "window_passed", …)
	Message   string            // for people; no secrets, no bodies
	RequestID string            // of the deciding answer
	Header    map[string]string // Content-Type, Location and ETag of the deciding answer
	Body      []byte            // its body, or the fresher one read after it
	Truncated bool              // the body was not kept (disk full, over the limit)
	Replayed  bool              // the deciding answer carried Idempotent-Replayed: true (F6)
	ByOther   bool              // the wish was fulfilled by another sender's request; no own one can have done it
	Stale     bool              // the body is a replay of the past; reading the present failed
	Resource  string            // id of the resource in the answer
	Note      string            // an operator's or reconciler's note
	At        time.Time         // when it became known
}

// Clone returns a deep copy.
func (r *Record) Clone() *Record {
	c := *r
	c.Fingerprint = cloneBytes(r.Fingerprint)
	c.Sealed = cloneBytes(r.Sealed)
	c.Request.Body = cloneBytes(r.Request.Body)
	if r.Exposure != nil {
		e := *r.Exposure
		c.Exposure = &e
	}
	if r.Last != nil {
		a := *r.Last
		c.Last = &a
	}
	c.Result = r.Result.Clone()
	return &c
}

// Clone returns a deep copy; nil stays nil.
func (r *Result) Clone() *Result {
	if r == nil {
		return nil
	}
	c := *r
	c.Body = cloneBytes(r.Body)
	if r.Header != nil {
		c.Header = make(map[string]string, len(r.Header))
		for k, v := range r.Header {
			c.Header[k] = v
		}
	}
	return &c
}

func cloneBytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// Claimed reports whether somebody works on the record now.
func (r *Record) Claimed() bool { return r.Claim.Token != "" }

// Tombstone is what stays known of a key after its record is gone, so that a late repeat of the same
// wish does not become a second operation.
type Tombstone struct {
	Connection  string
	Key         string
	ID          string // the latest operation under the key
	Generation  int
	Fingerprint []byte
	State       State
	Code        string // the API's error code of a rejection
	Clean       bool   // a rejection that no earlier attempt can have caused
	RepeatSafe  bool
	Resource    string
	Until       time.Time // kept at least until then
}
