package flavoso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// State is where an operation stands; see the constants.
type State = outbox.State

// The states of an operation. Queued and Sent are waiting; Uncertain, Blocked and Damaged are parked; the
// rest are final.
const (
	StateQueued     = outbox.Queued
	StateSent       = outbox.Sent
	StateSucceeded  = outbox.Succeeded
	StateRejected   = outbox.Rejected
	StateExpired    = outbox.Expired
	StateCanceled   = outbox.Canceled
	StateSuperseded = outbox.Superseded
	StateUncertain  = outbox.Uncertain
	StateBlocked    = outbox.Blocked
	StateDamaged    = outbox.Damaged
	StateAbandoned  = outbox.Abandoned
)

// Outcome is what is known of one operation: what it is, where it stands and, once Flavoso or a decision
// has settled it, how. It survives the process; [Result] turns it into what [Call.Do] would have returned.
//
// State alone does not say what to do: an accept that succeeded may have found an order that the guest has
// cancelled, and only Result's error tells. Printed or logged it shows no body; its Body and Message may hold guests'
// data.
type Outcome struct {
	ID         string // the operation
	Connection string
	Kind       string // which call, e.g. "orders.accept"
	Key        Key    // the wire key; "" on PUT, PATCH and DELETE (F2)
	Lane       string
	Tag        string // the app's own reference
	Resource   string // id or reference of what it is about
	State      State
	Revision   int // counts outcomes of this operation; 0 = none yet

	Created   time.Time // when it was accepted
	FirstSent time.Time // since when it may have been sent; zero = provably never
	Next      time.Time // earliest moment of the next attempt while it waits
	Finished  time.Time // when it last became final or parked; zero = not yet
	Attempts  int
	Last      *Attempt // the latest attempt; nil before the first one ended

	Status       int    // HTTP status of the deciding answer; 0 when no answer decided
	Code         string // the API's error code
	Message      string // for people
	Reason       string // machine-readable cause where no answer explains the state, e.g. "read_back", "window_passed"
	RequestID    string // of the deciding answer
	Body         []byte // the resource or error as answered, or read back since; may hold guests' data
	Truncated    bool   // Body is only the beginning of what was answered
	Replayed     bool   // the deciding answer was a replay (F6)
	ByOther      bool   // another sender fulfilled the wish, and no attempt of this operation can have
	Stale        bool   // Body is a replay of the past, and reading the present failed
	Note         string // who decided and why, where a person or Config.Reconcile did
	Durable      bool   // false while the verdict could not be saved yet
	SupersededBy string // the newer operation's id

	request  []byte // what was asked for, where the record was read with its bodies
	bodiless bool   // the record was read without its bodies
}

// outcomeOf gives a record its public form.
func outcomeOf(rec *outbox.Record, durable bool) Outcome {
	o := Outcome{
		ID: rec.ID, Connection: rec.Connection, Kind: rec.Kind, Key: Key(rec.WireKey), Lane: rec.Lane, Tag: rec.Tag, Resource: rec.Resource,
		State: rec.State, Revision: rec.Revision,
		Created: rec.Created, Next: rec.Due, Finished: rec.Finished, Attempts: rec.Attempts, Last: rec.Last,
		Durable: durable, SupersededBy: rec.SupersededBy, request: rec.Request.Body,
	}
	if rec.Exposure != nil {
		o.FirstSent = rec.Exposure.At
	}
	if r := rec.Result; r != nil {
		o.Status, o.Code, o.Message, o.Reason, o.RequestID = r.Status, r.Code, r.Message, r.Reason, r.RequestID
		o.Truncated = r.Truncated
		o.Body, o.Replayed, o.ByOther, o.Stale, o.Note = r.Body, r.Replayed, r.ByOther, r.Stale, r.Note
	}
	return o
}

// Result returns exactly what [Call.Do] would have returned for the outcome: the value, or an error for
// [FateOf]. T must be the call's own type, e.g. Order for Orders.Accept. Of an operation from Operations.List it needs
// the bodies: OperationFilter.Bodies.
func Result[T any](o Outcome) (*T, error) {
	switch o.State {
	case StateSucceeded:
		return decodeOutcome[T](o)
	case StateRejected:
		e := &APIError{Kind: o.Kind, OperationID: o.ID, Key: o.Key, Status: o.Status, Code: o.Code,
			Message: o.Message, RequestID: o.RequestID, Body: o.Body, Attempts: o.Attempts, Replayed: o.Replayed}
		if o.Status != 0 { // else the body is a resource that was read
			e.Param = wire.ReadProblem(o.Body).Param
		}
		return nil, e
	case StateExpired:
		return nil, fmt.Errorf("operation %s: %w", o.ID, ErrExpired)
	case StateCanceled:
		return nil, fmt.Errorf("operation %s: %w", o.ID, ErrOperationCanceled)
	case StateSuperseded:
		return nil, &SupersededError{OperationID: o.ID, By: o.SupersededBy}
	case StateUncertain, StateDamaged:
		reason := o.Reason
		if o.State == StateDamaged {
			reason = "damaged"
		}
		return nil, &UncertainError{OperationID: o.ID, Key: o.Key, Reason: reason, Message: o.Message,
			Attempts: o.Attempts, FirstSent: o.FirstSent, Last: o.Last}
	case StateAbandoned:
		return nil, &AbandonedError{OperationID: o.ID, Key: o.Key,
			// A tombstone does not tell, and what may have been sent must not be called unsent.
			MaybeSent: !o.FirstSent.IsZero() || o.Reason == reasonTombstone, Note: o.Note}
	case StateBlocked:
		return nil, o.pending(ErrBlocked)
	}
	return nil, o.pending(nil)
}

// pending is the error for an outcome that is not known yet.
func (o Outcome) pending(cause error) *PendingError {
	return &PendingError{OperationID: o.ID, Key: o.Key, State: o.State, Attempts: o.Attempts,
		FirstSent: o.FirstSent, NextAttempt: o.Next, Last: o.Last, Err: cause}
}

// decodeOutcome reads a success's body and looks whether it is what was asked for.
func decodeOutcome[T any](o Outcome) (*T, error) {
	v := new(T)
	if len(o.Body) > 0 {
		err := json.Unmarshal(o.Body, v)
		if err == nil && o.Truncated {
			err = errors.New("the answer broke off")
		}
		if err != nil {
			return nil, &DecodeError{Kind: o.Kind, OperationID: o.ID, Status: o.Status, RequestID: o.RequestID, Body: o.Body, Err: err}
		}
	} else if o.Truncated {
		return nil, &DecodeError{Kind: o.Kind, OperationID: o.ID, Status: o.Status, RequestID: o.RequestID,
			Err: errors.New("the answer broke off")}
	} else if o.Reason == reasonTombstone {
		return nil, &DecodeError{Kind: o.Kind, OperationID: o.ID, Err: errors.New("it was done long ago and is no longer kept")}
	} else if o.bodiless && o.Status != 204 {
		return nil, &DecodeError{Kind: o.Kind, OperationID: o.ID, Status: o.Status, RequestID: o.RequestID,
			Err: errors.New("it was listed without its body: set OperationFilter.Bodies, or use Operations.Get")}
	} else if needsBody(o) {
		return nil, &DecodeError{Kind: o.Kind, OperationID: o.ID, Status: o.Status, RequestID: o.RequestID,
			Err: errors.New("the answer had no body")}
	}
	if k, ok := kindNamed(o.Kind); ok && k.unexpected != nil {
		if want, got := k.unexpected(o); want != "" {
			return nil, &UnexpectedStateError{Kind: o.Kind, OperationID: o.ID, Resource: o.Resource,
				Want: want, Got: got, RequestID: o.RequestID, Body: o.Body}
		}
	}
	return v, nil
}

// reasonTombstone marks an outcome of which only the key's tombstone is left.
const reasonTombstone = "tombstone"

// needsBody reports whether a success without a body leaves the caller without an answer. A 204 has none
// by definition, and a call without a method of its own may answer with nothing.
func needsBody(o Outcome) bool {
	k, ok := kindNamed(o.Kind)
	return ok && k.resource && o.Status != 204
}

// Pending is an operation that was handed over: durable, and on its way by itself.
type Pending[T any] struct {
	client *Client
	id     string
	recall recaller // of an operation whose record is gone; else nil
}

// ID names the operation; keep it to take the operation up again with [Attach] after a restart.
func (p *Pending[T]) ID() string { return p.id }

// Attach takes up an operation by its id, also in a later process. T must be the call's own type.
func Attach[T any](c *Client, id string) *Pending[T] { return &Pending[T]{client: c, id: id} }

// Wait waits until the operation is settled and returns what [Call.Do] would have. A context without a
// deadline waits at most Config.MaxWait; then, as when the context ends, the error is a *PendingError and
// the operation goes on. An id that is not in the outbox gives ErrNotFound.
func (p *Pending[T]) Wait(ctx context.Context) (*T, error) {
	if p.recall != nil {
		o, err := p.recall(ctx)
		if err != nil {
			return nil, err
		}
		return Result[T](o)
	}
	o, err := p.client.await(ctx, p.id)
	if err != nil {
		return nil, err
	}
	return Result[T](o)
}
