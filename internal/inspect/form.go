package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Operation is an operation in its stable form: names never change their meaning. What may hold guests'
// data (bodies, the query of a target, the message of an answer) is there only where bodies were asked for.
type Operation struct {
	ID           string       `json:"id"`
	Connection   string       `json:"connection"`
	Kind         string       `json:"kind"`
	Lane         string       `json:"lane"`
	State        outbox.State `json:"state"`
	Method       string       `json:"method"`
	Target       string       `json:"target"`
	Attempts     int          `json:"attempts"`
	Created      time.Time    `json:"created"`
	Key          string       `json:"key,omitempty"`
	WireKey      string       `json:"wire_key,omitempty"`
	Tag          string       `json:"tag,omitempty"`
	Resource     string       `json:"resource,omitempty"`
	FirstSent    time.Time    `json:"first_sent,omitzero"`
	Next         time.Time    `json:"next,omitzero"`
	Expires      time.Time    `json:"expires,omitzero"`
	Finished     time.Time    `json:"finished,omitzero"`
	Status       int          `json:"status,omitempty"`
	Code         string       `json:"code,omitempty"`
	Reason       string       `json:"reason,omitempty"`
	RequestID    string       `json:"request_id,omitempty"`
	Note         string       `json:"note,omitempty"`
	SupersededBy string       `json:"superseded_by,omitempty"`
	Replayed     bool         `json:"replayed,omitempty"`
	ByOther      bool         `json:"by_other,omitempty"`
	Suspect      bool         `json:"suspect,omitempty"`
	Acked        bool         `json:"acked,omitempty"`
	LastAttempt  *Attempt     `json:"last_attempt,omitempty"`
	Message      string       `json:"message,omitempty"`
	RequestBody  []byte       `json:"request_body,omitempty"`
	Body         []byte       `json:"body,omitempty"`
}

// Attempt is the latest attempt in its stable form.
type Attempt struct {
	N         int       `json:"n"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Status    int       `json:"status"`
	Code      string    `json:"code"`
	RequestID string    `json:"request_id"`
	Error     string    `json:"error"`
	NeverSent bool      `json:"never_sent"`
}

// Of gives a record its stable form.
func Of(r *outbox.Record, bodies bool) Operation {
	o := Operation{
		ID: r.ID, Connection: r.Connection, Kind: r.Kind, Lane: r.Lane, State: r.State, Method: r.Request.Method,
		Target: r.Request.Target, Attempts: r.Attempts, Created: r.Created, Key: r.Key, WireKey: r.WireKey, Tag: r.Tag,
		Resource: r.Resource, Expires: r.Expires, Finished: r.Finished, SupersededBy: r.SupersededBy,
		Suspect: r.Suspect, Acked: r.Revision > 0 && r.Acked >= r.Revision,
	}
	if r.State.Waiting() {
		o.Next = r.Due
	}
	if r.Exposure != nil {
		o.FirstSent = r.Exposure.At
	}
	if a := r.Last; a != nil {
		o.LastAttempt = &Attempt{N: a.N, Start: a.Start, End: a.End, Status: a.Status, Code: a.Code,
			RequestID: a.RequestID, Error: a.Err, NeverSent: a.NeverSent}
	}
	if x := r.Result; x != nil {
		o.Status, o.Code, o.Reason, o.RequestID, o.Note = x.Status, x.Code, x.Reason, x.RequestID, x.Note
		o.Replayed, o.ByOther = x.Replayed, x.ByOther
		if bodies {
			o.Message, o.Body = x.Message, x.Body
		}
	}
	if bodies {
		o.RequestBody = r.Request.Body
	} else if path, _, has := strings.Cut(o.Target, "?"); has {
		o.Target = path + "?"
	}
	return o
}

// Status is the state of an outbox in its stable form.
type Status struct {
	AsOf      time.Time            `json:"as_of"`
	States    map[outbox.State]int `json:"states"` // operations kept, by state; every state is there
	Bytes     int64                `json:"bytes"`  // of the requests of unfinished operations
	HeldLanes int                  `json:"held_lanes"`
	Unacked   int                  `json:"unacked"`
	Oldest    time.Time            `json:"oldest,omitzero"`   // when the oldest waiting operation was accepted
	Reports   []Report             `json:"reports,omitempty"` // what was found wrong since the running till opened it
	Aside     []string             `json:"aside,omitempty"`   // damaged files that are kept beside it
	Till      *Till                `json:"till,omitempty"`    // of the running till that was asked
}

// Report is an outbox.Report in its stable form.
type Report struct {
	At       time.Time `json:"at"`
	Cause    string    `json:"cause"`
	Aside    string    `json:"aside,omitempty"` // where the damaged file is kept
	Salvaged int       `json:"salvaged"`
	Damaged  int       `json:"damaged"`
	Lost     int       `json:"lost"` // -1 = nobody can tell
	Suspect  int       `json:"suspect"`
}

// ReportsOf gives what an engine has found wrong its stable form.
func ReportsOf(e outbox.Engine) (out []Report) {
	for _, r := range outbox.Reports(e) {
		r.At = r.At.UTC()
		out = append(out, Report(r))
	}
	return out
}

// AsideOf returns the damaged files that are kept beside an outbox file.
func AsideOf(path string) (out []string) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+".damaged-") {
			out = append(out, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return out
}

// Till is what only a running client knows.
type Till struct {
	PID          int       `json:"pid"`
	Version      string    `json:"version"`
	Connection   string    `json:"connection"`
	OfflineSince time.Time `json:"offline_since,omitzero"`
	PausedUntil  time.Time `json:"paused_until,omitzero"`
	AuthRequired bool      `json:"auth_required"`
	Changes      bool      `json:"changes"` // it lets operations be changed
	Bodies       bool      `json:"bodies"`  // it shows bodies
}

// StatusOf gives an outbox's totals their stable form.
func StatusOf(c outbox.Counts, now time.Time) Status {
	s := Status{AsOf: now.UTC(), States: map[outbox.State]int{}, Bytes: c.Bytes, HeldLanes: c.HeldLanes, Unacked: c.Unacked, Oldest: c.Oldest}
	for _, state := range outbox.States() {
		s.States[state] = c.States[state]
	}
	return s
}

// Waiting returns the number of operations that are on their way.
func (s *Status) Waiting() int { return s.States[outbox.Queued] + s.States[outbox.Sent] }

// Parked returns the number of operations that wait for a decision.
func (s *Status) Parked() int {
	return s.States[outbox.Uncertain] + s.States[outbox.Blocked] + s.States[outbox.Damaged]
}

// Page is a part of a list.
type Page struct {
	Data []Operation `json:"data"`
	Next string      `json:"next,omitempty"` // ask again with after=Next; empty = the end was reached
}

// Error says why a request was refused.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// The codes of errors.
const (
	CodeForbidden = "forbidden" // not from this machine, from a web page, or without the token
	CodeReadOnly  = "read_only" // the till does not let operations be changed
	CodeNoBodies  = "no_bodies" // the till does not show bodies
	CodeInvalid   = "invalid"   // the question makes no sense
	CodeNotFound  = "not_found" // no such operation
	CodeState     = "state"     // the operation is not in a state that allows it
	CodeClosed    = "closed"    // the till is closing
	CodeUnknown   = "unknown"   // the change may have been saved or not: look, or ask again
	CodeFailed    = "failed"    // the storage failed
)
