package flavoso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
)

// OperationsService shows and changes what the outbox holds; reach it as Client.Operations.
type OperationsService struct {
	client *Client
}

// Operation is one operation as it is saved: its outcome so far, and what it asks for.
type Operation struct {
	Outcome
	LogicalKey  Key // the key the operation was made with; Outcome.Key is its current generation
	Generation  int // which use of the logical key this is, from 1
	Method      string
	Target      string    // path and query, relative to the base URL
	RequestBody []byte    // the frozen bytes; only where bodies were asked for. May hold guests' data
	Expires     time.Time // when it becomes pointless unless it was sent by then; zero = never
	RepeatSafe  bool      // doing it twice is the same as once
	Suspect     bool      // from a restored or salvaged outbox: counts as sent since its creation
	Acked       bool      // the application has taken over the latest outcome
}

func operationOf(rec *outbox.Record) Operation {
	return Operation{
		Outcome: outcomeOf(rec, true), LogicalKey: Key(rec.Key), Generation: rec.Generation,
		Method: rec.Request.Method, Target: rec.Request.Target, RequestBody: rec.Request.Body, Expires: rec.Expires,
		RepeatSafe: rec.RepeatSafe, Suspect: rec.Suspect, Acked: rec.Revision > 0 && rec.Acked >= rec.Revision,
	}
}

// OperationFilter selects operations. Zero values do not restrict.
type OperationFilter struct {
	States         []State
	Lane           string // e.g. "order:<id>"
	Kind           string // e.g. "orders.accept"; see docs/api.md
	Tag            string // as given to Call.WithTag
	Key            Key    // the logical key
	AllConnections bool   // also other connections' in the same outbox
	Unacked        bool   // only outcomes that were not taken over yet, in the order they became known
	Bodies         bool   // with request and answer bodies, which Result needs
}

func (f OperationFilter) query(connection string) outbox.Query {
	q := outbox.Query{Connection: connection, States: f.States, Lane: f.Lane, Kind: f.Kind, Tag: f.Tag,
		Key: string(f.Key), ByOutcome: f.Unacked, Unacked: f.Unacked, Bodies: f.Bodies}
	if f.AllConnections {
		q.Connection = ""
	}
	return q
}

// List walks over the operations that f selects, in the order they were accepted. It reads page by page,
// so the outbox may be of any size and may change meanwhile. It ends after the first error. What a page costs
// beyond its own operations says [outbox.Query]: States, a Lane's unfinished operations and Unacked are found by an
// index or few steps, Kind, Tag and Key by looking through all.
func (s *OperationsService) List(ctx context.Context, f OperationFilter) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		for rec, err := range s.records(ctx, f) {
			if err != nil {
				yield(Operation{}, err)
				return
			}
			op := operationOf(rec)
			op.bodiless = !f.Bodies
			if !yield(op, nil) {
				return
			}
		}
	}
}

// records walks over the records that f selects.
func (s *OperationsService) records(ctx context.Context, f OperationFilter) iter.Seq2[*outbox.Record, error] {
	return func(yield func(*outbox.Record, error) bool) {
		for q := f.query(s.client.cfg.Connection); ; {
			page, err := s.client.engine.List(ctx, q)
			if err != nil {
				yield(nil, operationError(err))
				return
			}
			for i := range page.Records {
				if !yield(&page.Records[i], nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.After = page.Next
		}
	}
}

// Get returns one operation, with its bodies; ErrNotFound when there is none.
func (s *OperationsService) Get(ctx context.Context, id string) (Operation, error) {
	rep, err := s.client.look(ctx, id)
	if err != nil {
		return Operation{}, operationError(err)
	}
	o := operationOf(&rep.Record)
	o.Durable = rep.Durable
	return o, nil
}

// ErrState says that an operation is not in a state that allows what was asked.
var ErrState = outbox.ErrState

// Cancel withdraws an operation that provably was never sent. ErrState when it may have been: its outcome
// will tell.
func (s *OperationsService) Cancel(ctx context.Context, id string) error {
	return s.set(ctx, outbox.Change{ID: id, Action: outbox.Cancel})
}

// RetryNow makes a waiting operation due at once.
func (s *OperationsService) RetryNow(ctx context.Context, id string) error {
	return s.set(ctx, outbox.Change{ID: id, Action: outbox.RetryNow})
}

// Ack notes that the application has taken over an operation's latest outcome: it is hidden from
// OperationFilter.Unacked and may be removed after Config.KeepFinished. Config.OnOutcome does it by itself.
func (s *OperationsService) Ack(ctx context.Context, id string) error {
	rep, err := s.client.look(ctx, id)
	if err == nil {
		err = s.client.engine.Ack(ctx, id, rep.Record.Revision)
	}
	return operationError(err)
}

// Decision is what is decided about an operation whose outcome nothing else can tell.
type Decision int

const (
	// Done: it was done. Resolution.Body is its answer, if there is one.
	Done Decision = iota + 1
	// SendAgain: it was not done, or doing it again is right: same key, same bytes.
	SendAgain
	// Abandon: it is given up and not sent again.
	Abandon
)

// Resolution is a decision, by a person or by Config.Reconcile.
type Resolution struct {
	Decision Decision
	Body     json.RawMessage // for Done: what the call would have answered; may be empty
	Note     string          // who decided and why; kept with the operation
}

// Resolve decides an operation: a parked one, or, for Done and Abandon, one that waits. ErrState when it is
// over already or is being sent at this moment.
func (s *OperationsService) Resolve(ctx context.Context, id string, r Resolution) error {
	var action outbox.Action
	switch r.Decision {
	case Done:
		action = outbox.ResolveDone
		if len(r.Body) > 0 && !json.Valid(r.Body) {
			return &ParamError{Field: "body", Rule: "must be JSON"}
		}
	case SendAgain:
		action = outbox.ResolveSendAgain
	case Abandon:
		action = outbox.ResolveAbandon
	default:
		return &ParamError{Field: "decision", Rule: "must be Done, SendAgain or Abandon"}
	}
	rec, err := s.client.engine.Get(ctx, id)
	if err != nil {
		return operationError(err)
	}
	hold := s.client.cfg.attemptTimeout(len(rec.Request.Body))
	return s.set(ctx, inspect.Resolve(&rec, action, r.Body, r.Note, s.client.cfg.now(), hold))
}

// ResumeLane lets a lane go on that was stopped by a rejection (Call.StopLaneOnReject): its blocked
// operations wait again. ErrNotFound when the lane has none.
func (s *OperationsService) ResumeLane(ctx context.Context, lane string) error {
	return s.set(ctx, outbox.Change{Connection: s.client.cfg.Connection, Lane: lane, Action: outbox.ResolveSendAgain})
}

// set makes a change and lets those who wait for it look again.
func (s *OperationsService) set(ctx context.Context, c outbox.Change) error {
	if s.client.closed.Load() {
		return ErrClosed
	}
	if s.client.fleet && c.ID != "" {
		if _, err := s.client.look(ctx, c.ID); err != nil {
			return operationError(err)
		}
	}
	c.Now = s.client.cfg.now()
	rec, err := s.client.engine.Set(ctx, c)
	if errors.Is(err, ErrState) && c.ID != "" {
		return s.stateError(ctx, c.ID, err)
	}
	if err != nil {
		return operationError(err)
	}
	if c.ID == "" {
		s.client.dispatcher.Changed(nil) // several, and it is not known which
	} else {
		s.client.dispatcher.Changed(&rec)
	}
	return nil
}

// stateError says which state an operation is in that does not allow a change.
func (s *OperationsService) stateError(ctx context.Context, id string, err error) error {
	rec, unread := s.client.engine.Get(ctx, id)
	if unread != nil {
		return err
	}
	state := string(rec.State)
	switch {
	case rec.Claimed():
		state += ": an attempt is under way"
	case rec.State == StateSent:
		state += ": it may have reached Flavoso"
	}
	return fmt.Errorf("flavoso: operation %s is %s; nothing was changed: %w", id, state, err)
}

// operationError gives an engine's error its public form.
func operationError(err error) error {
	var unknown *outbox.SaveError
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		return fmt.Errorf("%w: no such operation in this outbox", ErrNotFound)
	case errors.Is(err, outbox.ErrClosed):
		return ErrClosed
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: the change may have been saved or not; look at the operation, or make the change again: %w", ErrUnknown, unknown.Err)
	}
	return err
}

// Export writes the operations that f selects to w, one JSON object a line, for support and audit; their fields
// are listed in docs/operator.md. What may hold guests' data (bodies, the query of a target, an answer's
// message) is left out unless f.Bodies asks for it; tokens are not in the outbox.
func (s *OperationsService) Export(ctx context.Context, w io.Writer, f OperationFilter) error {
	enc := json.NewEncoder(w)
	for rec, err := range s.records(ctx, f) {
		if err != nil {
			return err
		}
		if err := enc.Encode(inspect.Of(rec, f.Bodies)); err != nil {
			return fmt.Errorf("flavoso: writing the export: %w", err)
		}
	}
	return nil
}
