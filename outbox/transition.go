package outbox

import "time"

// The state machine. Every engine calls these functions inside its own atomic step, so that an
// operation's fate never depends on where it is kept. They change only the record they are given; seq
// numbers, indexes and counts are the engine's.

// Reasons that the state machine itself writes into Result.Reason.
const (
	ReasonExpired     = "expired"
	ReasonLaneStopped = "lane_stopped"
	ReasonSuperseded  = "superseded"
	ReasonCanceled    = "canceled"
)

// Tombstones are kept this long after the last attempt (see [Record.Tombstone]).
const (
	TombstoneRepeatSafe = 48 * time.Hour
	TombstoneUnsafe     = 400 * 24 * time.Hour
)

// NewRecord returns the record that a new operation starts as: a's frozen part under the generation
// that [Decide] chose, queued, never claimed.
func NewRecord(a *Addition, generation int, seq uint64) *Record {
	in := a.Record.Clone()
	r := &Record{
		ID: in.ID, Seq: seq, Connection: in.Connection, Lane: in.Lane, Kind: in.Kind, Resource: in.Resource,
		Key: in.Key, KeyDerived: in.KeyDerived, Generation: generation, WireKey: WireKey(in.Key, generation),
		Fingerprint: in.Fingerprint, RepeatSafe: in.RepeatSafe, StopLaneOnReject: in.StopLaneOnReject,
		Tag: in.Tag, Created: wall(in.Created), Expires: wall(in.Expires), Request: in.Request, Sealed: in.Sealed,
		State: Queued, Due: wall(in.Due),
	}
	if r.Created.IsZero() {
		r.Created = wall(a.Now)
	}
	if r.Due.IsZero() {
		r.Due = wall(a.Now)
	}
	return r
}

// wall strips the monotonic reading and the location, which no storage keeps.
func wall(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Round(0).UTC()
}

// Unfinished reports whether the record still stands in its lane: waiting or parked.
func (r *Record) Unfinished() bool { return r.State.Waiting() || r.State.Parked() }

// NeverSent reports whether the operation provably never reached Flavoso.
func (r *Record) NeverSent() bool { return r.Exposure == nil && !r.Suspect && r.State != Damaged }

// Unacked reports whether there is an outcome that the application has not taken over.
func (r *Record) Unacked() bool { return r.OutcomeSeq != 0 && r.Acked < r.Revision }

// PastExpiry reports whether the record may be expired at now: its time is over and it was never sent.
func (r *Record) PastExpiry(now time.Time) bool { return r.canExpire() && !now.Before(r.Expires) }

func (r *Record) canExpire() bool {
	return r.State == Queued && r.NeverSent() && !r.Expires.IsZero()
}

// ApplyClaim gives the record to the claim named by token, counts the attempt, and marks the exposure.
// The caller has made sure that the record is an unclaimed waiting lane head.
func (r *Record) ApplyClaim(token string, m Mark) {
	r.Attempts++
	r.Claim = Claim{Token: token, At: wall(m.Now)}
	if m.Lease > 0 {
		r.Claim.Until = wall(m.Now).Add(m.Lease)
	}
	fresh := Exposure{Claim: token, At: wall(m.Now), Server: wall(m.Server), Boot: m.Boot, Uptime: m.Uptime}
	switch {
	case r.Exposure == nil:
		r.Exposure = &fresh
	case r.Exposure.At.IsZero():
		// Sent before, and somebody vouched for repeating it: its window starts now, but no claim
		// can ever prove again that it was never sent.
		fresh.Claim = ""
		r.Exposure = &fresh
	}
	r.State = Sent
}

// ApplySettlement records what came of the claim s names. ErrClaimLost when the claim is no longer the
// record's, ErrState when the proof for s.To is missing; the record is unchanged then.
func (r *Record) ApplySettlement(s *Settlement) error {
	late := r.Claim.Token != s.Claim
	if s.Claim == "" || late && !r.acceptsVerdict(s) {
		return ErrClaimLost
	}
	ownMark := r.Exposure != nil && r.Exposure.Claim == s.Claim
	unmarked := r.Exposure == nil || s.NeverSent && ownMark
	switch s.To {
	case Queued, Sent, Succeeded, Rejected, Uncertain, Blocked, Damaged, Abandoned:
	case Expired, Canceled:
		if !unmarked || r.Suspect {
			return ErrState
		}
	default:
		return ErrState
	}
	r.Claim = Claim{}
	if unmarked {
		r.Exposure = nil
	}
	if s.Last != nil {
		last := *s.Last
		last.Start, last.End, last.Verdict = wall(last.Start), wall(last.End), ""
		r.Last = &last
	}
	if s.Result != nil {
		r.setResult(s.Result)
		// A later claim of the operation may have made the request that is taken for another sender's.
		r.Result.ByOther = r.Result.ByOther && !late
	}
	if !s.To.Waiting() {
		r.finish(s.To, s.Now)
		return nil
	}
	if s.NextGeneration {
		r.Generation++
		r.WireKey = WireKey(r.Key, r.Generation)
		r.Exposure, r.Suspect = nil, false
		r.countAnew()
	}
	r.wait(s.Due, s.Now)
	return nil
}

// acceptsVerdict reports whether s decides the record although its claim is gone: that Flavoso has done it is
// evidence whoever holds the claim, and a record that nobody works on takes it. A refusal is none: a later attempt
// may have been done, and repeating meets the same refusal again.
func (r *Record) acceptsVerdict(s *Settlement) bool {
	return s.To == Succeeded && !r.Claimed() && (r.State.Waiting() || r.State == Uncertain)
}

// ApplyChange makes an operator's or the owner's change. ErrState when the record does not allow it; the
// record is unchanged then.
func (r *Record) ApplyChange(c *Change) error {
	if r.Claimed() {
		return ErrState
	}
	switch c.Action {
	case Cancel:
		if r.State != Queued && r.State != Blocked || !r.NeverSent() {
			return ErrState
		}
		r.decide(Canceled, c, ReasonCanceled)
	case RetryNow:
		if !r.State.Waiting() {
			return ErrState
		}
		r.Due = wall(c.Now)
	case ResolveDone:
		if !r.Unfinished() {
			return ErrState
		}
		r.decide(Succeeded, c, "")
	case ResolveAbandon:
		if !r.Unfinished() {
			return ErrState
		}
		r.decide(Abandoned, c, "")
	case Expire:
		if !r.PastExpiry(c.Now) && !(c.Overdue && r.canExpire()) {
			return ErrState
		}
		r.decide(Expired, c, ReasonExpired)
	case Park:
		if !r.State.Waiting() || c.To != Uncertain && c.To != Blocked {
			return ErrState
		}
		r.decide(c.To, c, "")
	case ResolveSendAgain:
		return r.sendAgain(c)
	default:
		return ErrState
	}
	return nil
}

func (r *Record) sendAgain(c *Change) error {
	switch r.State {
	case Uncertain:
		// It may have been sent: a mark without owner and without time says so, and lets the next
		// claim start the window anew (see ApplyClaim).
		r.Exposure = &Exposure{}
	case Blocked:
	default: // what is damaged is never sent again: nobody knows its bytes
		return ErrState
	}
	r.Suspect, r.Result = false, nil
	r.countAnew()
	if c.Result != nil {
		r.setResult(c.Result)
	}
	r.OutcomeSeq, r.Finished = 0, time.Time{}
	r.wait(c.Now, c.Now)
	return nil
}

// countAnew begins the count of attempts again. The latest one must not be mistaken for one of the new count.
func (r *Record) countAnew() {
	r.Attempts = 0
	if r.Last != nil {
		last := *r.Last
		last.N, last.Unanswered = 0, 0
		r.Last = &last
	}
}

// ApplyExpire ends a record for which PastExpiry holds.
func (r *Record) ApplyExpire(now time.Time) {
	r.decide(Expired, &Change{Now: now}, ReasonExpired)
}

// CanSupersede reports whether next may replace r, the last record of its lane.
func (r *Record) CanSupersede(next *Record) bool {
	return r.State == Queued && r.NeverSent() && r.Attempts == 0 && !r.Claimed() &&
		r.Kind == next.Kind && r.Request.Method == next.Request.Method && r.Request.Target == next.Request.Target
}

// ApplySupersede ends the record because the operation named by id replaces it.
func (r *Record) ApplySupersede(id string, now time.Time) {
	r.SupersededBy = id
	r.decide(Superseded, &Change{Now: now}, ReasonSuperseded)
}

// ApplyLaneStop blocks a waiting record behind a rejected one and reports whether it did.
func (r *Record) ApplyLaneStop(now time.Time) bool {
	if !r.State.Waiting() || r.Claimed() {
		return false
	}
	r.decide(Blocked, &Change{Now: now}, ReasonLaneStopped)
	return true
}

// ApplyDamage parks a record that cannot be read whole.
func (r *Record) ApplyDamage(reason string, now time.Time) {
	r.Claim = Claim{}
	r.decide(Damaged, &Change{Now: now}, reason)
}

// ApplySuspect makes an unfinished record count as sent since its creation, because its storage may not
// show the last it knew.
func (r *Record) ApplySuspect() {
	if !r.Unfinished() {
		return
	}
	r.Suspect = true
	r.Claim = Claim{}
	r.Exposure = &Exposure{At: r.Created}
	if r.State == Queued {
		r.State = Sent
	}
}

// ApplyAck notes that the application has taken over the outcome up to revision.
func (r *Record) ApplyAck(revision int) {
	r.Acked = max(r.Acked, min(revision, r.Revision))
}

// Purgeable reports whether p lets the record go: selected, final, finished long enough ago, and seen. A rejection
// is never purged unseen, and parked records are never purged at all.
func (r *Record) Purgeable(p *PurgeRequest) bool {
	if !r.State.Final() || !r.Finished.Before(p.Before) || p.Connection != "" && p.Connection != r.Connection {
		return false
	}
	return !r.Unacked() || p.Unacked && r.State != Rejected
}

// MaxHold is the longest that a lane is held back; nothing may ask for more. A hold that ends later than that
// shows that the wall clock was set back since, and is ignored.
const MaxHold = 10 * time.Minute

// HeldUntil returns the end of a lane's hold as it counts at now; zero = the lane is not held.
func HeldUntil(now, notBefore time.Time) time.Time {
	if wait := notBefore.Sub(now); wait <= 0 || wait > MaxHold {
		return time.Time{}
	}
	return wall(notBefore)
}

// HeadDue returns when a record that becomes its lane's head at now falls due.
func (r *Record) HeadDue(now, notBefore time.Time) time.Time {
	return latest(r.Due, wall(now), HeldUntil(now, notBefore))
}

// HoldDue keeps the waiting head of a lane from falling due before the lane's hold ends.
func (r *Record) HoldDue(now, notBefore time.Time) {
	if r.State.Waiting() && !r.Claimed() {
		r.Due = latest(r.Due, HeldUntil(now, notBefore))
	}
}

// Hold returns until when the settled record's lane is to be held back; zero = not at all.
func (s *Settlement) Hold() time.Time {
	if s.To.Waiting() {
		return time.Time{}
	}
	return wall(s.LaneNotBefore)
}

// Hold returns until when the lane of r, to which the change was made, is to be held back; zero = not at
// all. What was never sent cannot arrive late.
func (c *Change) Hold(r *Record) time.Time {
	if r.State.Waiting() || r.NeverSent() {
		return time.Time{}
	}
	return wall(c.LaneNotBefore)
}

func latest(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if o.After(t) {
			t = o
		}
	}
	return t
}

// wait makes the record waiting; its mark says in which of the two states.
func (r *Record) wait(due, now time.Time) {
	r.Due = wall(due)
	if r.Due.IsZero() {
		r.Due = wall(now)
	}
	r.State = Sent
	if r.NeverSent() {
		r.State = Queued
	}
}

// decide ends or parks the record for a reason other than an answer.
func (r *Record) decide(to State, c *Change, reason string) {
	if c.Result != nil {
		r.setResult(c.Result)
	} else if reason != "" {
		r.Result = &Result{Reason: reason}
	}
	if r.Result != nil && r.Result.Reason == "" && reason != "" {
		r.Result.Reason = reason
	}
	r.finish(to, c.Now)
}

func (r *Record) setResult(res *Result) {
	r.Result = res.Clone()
	r.Result.At = wall(r.Result.At)
}

func (r *Record) finish(to State, now time.Time) {
	r.State = to
	r.Finished = wall(now)
	r.Revision++
	if r.Result != nil && r.Result.At.IsZero() {
		r.Result.At = r.Finished
	}
}

// Tombstone returns what is to stay known of the record's key. Until counts from the last attempt, or
// from the end when there was none: 48 h, 400 days for what is not repeat-safe.
func (r *Record) Tombstone() Tombstone { return r.TombstoneAt(time.Time{}) }

// TombstoneAt is Tombstone when the record is removed at now. The times in the record may come from a
// clock that was years behind: the tombstone lasts its full time from the removal on at least.
func (r *Record) TombstoneAt(now time.Time) Tombstone {
	t := Tombstone{
		Connection: r.Connection, Key: r.Key, ID: r.ID, Generation: r.Generation,
		Fingerprint: cloneBytes(r.Fingerprint), State: r.State, RepeatSafe: r.RepeatSafe, Resource: r.Resource,
	}
	if r.Result != nil {
		t.Code, t.Clean = r.Result.Code, r.Result.Clean
		if r.Result.Resource != "" {
			t.Resource = r.Result.Resource
		}
	}
	from := latest(r.Finished, wall(now))
	if r.Last != nil {
		from = latest(from, r.Last.End)
	}
	t.Until = from.Add(t.keep())
	return t
}

func (t *Tombstone) keep() time.Duration {
	if t.RepeatSafe {
		return TombstoneRepeatSafe
	}
	return TombstoneUnsafe
}

// Since returns the moment that Until counts from.
func (t *Tombstone) Since() time.Time { return t.Until.Add(-t.keep()) }

// Record returns the fields of an operation that its tombstone still knows.
func (t *Tombstone) Record() Record {
	return Record{
		ID: t.ID, Connection: t.Connection, Key: t.Key, Generation: t.Generation, WireKey: WireKey(t.Key, t.Generation),
		Fingerprint: cloneBytes(t.Fingerprint), State: t.State, RepeatSafe: t.RepeatSafe, Resource: t.Resource,
		Result: &Result{Code: t.Code, Clean: t.Clean, Resource: t.Resource},
	}
}
