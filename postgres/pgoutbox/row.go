package pgoutbox

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// stored is a record as the engine works with it: the record and what only this engine needs to know. Its times are
// the caller's (see clock), but for dueAt and lapseAt.
type stored struct {
	outbox.Record
	lock     int32 // the lane's lock
	size     int64
	head     bool
	dueAt    time.Time // its lane's entry in the due index
	dueOrder int64
	lapseAt  time.Time     // when its claim may be taken over
	lease    time.Duration // of a new claim: sets lapseAt
	lapsed   bool
	stamp    int64
}

// ghost reports whether the row is over and stands for a lane that is to be looked at.
func (s *stored) ghost() bool { return !s.Unfinished() && !s.dueAt.IsZero() }

// The columns of both tables. A lane's other records are worked on without what was accepted.
const (
	operationColumns = `o.id, o.lock, o.kind, o.resource, o.key, o.key_derived, o.fingerprint, o.repeat_safe, o.stop_lane, o.tag, o.created,
	o.method, o.target, o.content_type, o.accept, o.size`
	bodyColumns     = `o.body, o.sealed, p.body`
	noBodyColumns   = `NULL::bytea, NULL::bytea, NULL::bytea`
	progressColumns = `p.seq, p.connection, p.lane, p.state, p.head, p.due, p.due_at, p.due_order, p.lapse_at, p.expires, p.generation, p.attempts,
	p.suspect, p.claim, p.claim_at, p.claim_until, p.revision, p.acked, p.outcome, p.finished, p.superseded_by, p.detail::text, p.stamp,
	coalesce(p.lapse_at <= clock_timestamp(), false)`
	wholeColumns = progressColumns + ", " + operationColumns + ", " + bodyColumns
	listColumns  = progressColumns + ", " + operationColumns + ", " + noBodyColumns
)

// scanner reads the columns of one row.
type scanner func(dst ...any) error

// scanWhole reads wholeColumns or listColumns behind the given targets.
func scanWhole(scan scanner, off time.Duration, first ...any) (*stored, error) {
	s := &stored{}
	var created time.Time
	var p progressRow
	var body []byte
	dst := append(first, p.targets(s)...)
	dst = append(dst, &s.ID, &s.lock, &s.Kind, &s.Resource, &s.Key, &s.KeyDerived, &s.Fingerprint, &s.RepeatSafe, &s.StopLaneOnReject, &s.Tag,
		&created, &s.Request.Method, &s.Request.Target, &s.Request.ContentType, &s.Request.Accept, &s.size, &s.Request.Body, &s.Sealed, &body)
	if err := scan(dst...); err != nil {
		return nil, err
	}
	for _, t := range []*string{&s.ID, &s.Kind, &s.Resource, &s.Key, &s.Tag, &s.Request.Method, &s.Request.Target,
		&s.Request.ContentType, &s.Request.Accept} {
		*t = dec(*t)
	}
	s.Created = created.UTC()
	if err := p.fill(s, body); err != nil {
		return nil, err
	}
	s.WireKey = outbox.WireKey(s.Key, s.Generation)
	shift(&s.Record, off)
	return s, nil
}

// scanProgress reads progressColumns and the result's body.
func scanProgress(scan scanner, off time.Duration) (*stored, error) {
	s := &stored{}
	var p progressRow
	var body []byte
	if err := scan(append(p.targets(s), &body)...); err != nil {
		return nil, err
	}
	if err := p.fill(s, body); err != nil {
		return nil, err
	}
	shift(&s.Record, off)
	return s, nil
}

// progressRow is what of progressColumns has another form in a record.
type progressRow struct {
	due                                                    time.Time
	dueAt, lapseAt, expires, claimAt, claimUntil, finished *time.Time
	outcome                                                int64
	detail                                                 []byte
}

func (p *progressRow) targets(s *stored) []any {
	return []any{&s.Seq, &s.Connection, &s.Lane, &s.State, &s.head, &p.due, &p.dueAt, &s.dueOrder, &p.lapseAt, &p.expires, &s.Generation,
		&s.Attempts, &s.Suspect, &s.Claim.Token, &p.claimAt, &p.claimUntil, &s.Revision, &s.Acked, &p.outcome, &p.finished, &s.SupersededBy,
		&p.detail, &s.stamp, &s.lapsed}
}

func (p *progressRow) fill(s *stored, body []byte) error {
	s.Connection, s.Lane, s.SupersededBy, s.Claim.Token = dec(s.Connection), dec(s.Lane), dec(s.SupersededBy), dec(s.Claim.Token)
	if !slices.Contains(outbox.States(), s.State) {
		return fmt.Errorf("pgoutbox: record %d: unknown state %q", s.Seq, s.State)
	}
	s.Due = p.due.UTC()
	s.dueAt, s.lapseAt, s.Expires = utc(p.dueAt), utc(p.lapseAt), utc(p.expires)
	s.Claim.At, s.Claim.Until, s.Finished = utc(p.claimAt), utc(p.claimUntil), utc(p.finished)
	s.OutcomeSeq = uint64(p.outcome)
	if err := decodeDetail(p.detail, body, &s.Record); err != nil {
		return fmt.Errorf("pgoutbox: record %d: %w", s.Seq, err)
	}
	return nil
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// orNull returns a time as a column has it.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// shift moves every time of the record that was read from a wall clock of ours.
func shift(r *outbox.Record, d time.Duration) {
	if d == 0 {
		return
	}
	times := []*time.Time{&r.Created, &r.Expires, &r.Due, &r.Claim.At, &r.Claim.Until, &r.Finished}
	if r.Exposure != nil {
		times = append(times, &r.Exposure.At)
	}
	if r.Last != nil {
		times = append(times, &r.Last.Start, &r.Last.End)
	}
	if r.Result != nil {
		times = append(times, &r.Result.At)
	}
	for _, t := range times {
		if !t.IsZero() {
			*t = t.Add(d)
		}
	}
}

// round cuts the times to what a column keeps.
func round(r *outbox.Record) {
	for _, t := range []*time.Time{&r.Created, &r.Expires, &r.Due, &r.Claim.At, &r.Claim.Until, &r.Finished} {
		*t = t.Truncate(time.Microsecond)
	}
}

// laneLock returns the lock of a lane: unrelated lanes may, rarely, share one.
func laneLock(connection, lane string) int32 {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(connection))))
	_, _ = h.Write([]byte(connection))
	_, _ = h.Write([]byte(lane))
	sum := h.Sum64()
	return int32((sum ^ sum>>32) % lanes)
}
