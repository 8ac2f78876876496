package flavoso

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// Call is one logical operation: a write that was decided on, with its key and its exact bytes (F11).
// Both are fixed when it is made; later changes to the params it was made from do not matter. Making a
// Call saves and sends nothing.
//
// Do and Enqueue on the same Call, once or often, from one goroutine or many, are the same operation. The
// With methods return a copy, which is an operation of its own unless its key says otherwise.
type Call[T any] struct {
	client *Client
	err    error // what is wrong with it; nothing is saved or sent then

	record    outbox.Record // the frozen part
	after     outbox.AfterSuccess
	expiry    time.Duration
	supersede bool
}

// draft is what a resource's method says of a call.
type draft struct {
	kind       string
	method     string
	target     string
	body       any // nil = none
	key        Key // "" = none
	derived    bool
	lane       string
	resource   string
	repeatSafe bool
	after      outbox.AfterSuccess
	err        error // found while the draft was made
}

// newCall freezes a draft.
func newCall[T any](c *Client, d draft) *Call[T] {
	call := &Call[T]{client: c, err: d.err, after: d.after}
	if call.err == nil {
		call.err = call.freeze(d)
	}
	return call
}

func (c *Call[T]) freeze(d draft) error {
	req := outbox.Request{Method: d.method, Target: d.target, Accept: "application/json"}
	if err := checkTarget(d.target); err != nil {
		return err
	}
	if d.body != nil {
		body, err := encodeBody(d.body)
		if err != nil {
			return &ParamError{Field: "body", Rule: "must encode as JSON: " + err.Error()}
		}
		req.Body, req.ContentType = body, "application/json"
	}
	if limit := c.client.cfg.Limits.Body; limit > 0 && len(req.Body) > limit {
		return &ParamError{Field: "body", Rule: fmt.Sprintf("must be at most %d bytes, is %d", limit, len(req.Body))}
	}
	if d.key != "" {
		if err := d.key.Validate(); err != nil {
			return err
		}
	}
	c.record = outbox.Record{
		ID:         newID(),
		Connection: c.client.cfg.Connection,
		Lane:       d.lane,
		Kind:       d.kind,
		Resource:   d.resource,
		Key:        string(d.key),
		KeyDerived: d.derived,
		RepeatSafe: d.repeatSafe,
		Request:    req,
	}
	c.record.Fingerprint = fingerprint(req)
	return nil
}

// checkTarget refuses paths that cannot be sent byte for byte, those with an empty segment (an id was left
// out), and those that servers and proxies resolve to another path (D3).
func checkTarget(target string) error {
	if err := wire.CheckTarget(target); err != nil {
		return &ParamError{Field: "path", Rule: err.Error()}
	}
	path, _, _ := strings.Cut(target, "?")
	if strings.Contains(path, "//") {
		return &ParamError{Field: "path", Rule: "must have no empty segment: is an id missing?"}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return &ParamError{Field: "path", Rule: "must have no segment that is . or ..: Path escapes them"}
		}
	}
	return nil
}

// newID names an operation: a UUID that sorts by time. The random source cannot fail: Go ends the program
// rather than return an error.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// fingerprint identifies what a request asks for: its method, its target and its body up to JSON's
// freedoms, so that a newer encoder's other bytes are the same wish. Numbers are compared as written: as
// floats, large ones that differ would be equal.
func fingerprint(r outbox.Request) []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte("1"), []byte(r.Method), []byte(r.Target), canonical(r.Body)} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return h.Sum(nil)
}

// clone copies the call as an operation of its own.
func (c *Call[T]) clone() *Call[T] {
	d := *c
	d.record.ID = newID()
	return &d
}

// Key returns the logical idempotency key; "" on PUT, PATCH and DELETE, where Flavoso ignores it (F2).
// The key on the wire may be a later generation of it: Outcome.Key.
func (c *Call[T]) Key() Key { return Key(c.record.Key) }

// WithKey returns a copy with another key (F3). The same key with the same content is the same
// operation, also in a later process.
func (c *Call[T]) WithKey(k Key) *Call[T] {
	d := c.clone()
	switch {
	case d.err != nil:
	case c.record.Request.Method != "POST":
		d.err = &ParamError{Field: "Idempotency-Key", Rule: "counts on POST only (F2)"}
	default:
		d.err = k.Validate()
		d.record.Key, d.record.KeyDerived = string(k), false
	}
	return d
}

// WithLane returns a copy in another lane: operations of one lane are sent one at a time, in the order
// they were saved.
func (c *Call[T]) WithLane(lane string) *Call[T] {
	d := c.clone()
	switch {
	case d.err != nil:
	case lane == "":
		d.err = &ParamError{Field: "lane", Rule: "must not be empty"}
	default:
		d.err = validateText("lane", lane)
	}
	d.record.Lane = lane
	return d
}

// WithExpiry returns a copy that is pointless after this long, counted from saving. It ends only what was
// provably never sent ([ErrExpired]); what may have been sent is taken to its end.
//
// The time that passed counts, not what a wall clock shows: a till that starts in 1970 and is set to today ends
// nothing early and keeps nothing for longer. That holds within one boot of the machine, also over restarts of the
// process. Over boots the wall clock is believed; where it cannot be right (it shows less than when the
// operation was saved, or that was before 2026), the time counts anew from the restart.
func (c *Call[T]) WithExpiry(after time.Duration) *Call[T] {
	d := c.clone()
	if d.err == nil && after <= 0 {
		d.err = &ParamError{Field: "expiry", Rule: "must be positive"}
	}
	d.expiry = after
	return d
}

// WithTag returns a copy with the app's own reference, e.g. a ticket number. It is kept and listed, not sent.
func (c *Call[T]) WithTag(tag string) *Call[T] {
	d := c.clone()
	if d.err == nil {
		d.err = validateText("tag", tag)
	}
	d.record.Tag = tag
	return d
}

// StopLaneOnReject returns a copy whose rejection blocks the rest of its lane until somebody resumes it.
func (c *Call[T]) StopLaneOnReject() *Call[T] {
	d := c.clone()
	d.record.StopLaneOnReject = true
	return d
}

// WithSupersede returns a copy that replaces the lane's last operation when that is the same call, still
// queued and never tried. PUT only: a PUT says everything its predecessor said.
func (c *Call[T]) WithSupersede() *Call[T] {
	d := c.clone()
	if d.err == nil && c.record.Request.Method != "PUT" {
		d.err = &ParamError{Field: "supersede", Rule: "is for PUT only"}
	}
	d.supersede = true
	return d
}

// WithRepeatSafe returns a copy of which the caller knows that doing it twice is the same as once. It is
// for NewCall on POST, the SDK knows of the others: such a call is sent again even after Flavoso has
// forgotten its key.
func (c *Call[T]) WithRepeatSafe() *Call[T] {
	d := c.clone()
	if d.err == nil && (c.record.Kind != kindCall || c.record.Request.Method != "POST") {
		d.err = &ParamError{Field: "repeat_safe", Rule: "is for NewCall on POST only"}
	}
	d.record.RepeatSafe = true
	return d
}

// Do saves the operation, sends it and waits for its outcome. The value is nil exactly when the error is
// not; [FateOf] says what the error means.
//
// The context is looked at before anything is saved; from then on the operation goes on by itself,
// whatever becomes of the context. A context without a deadline waits at most Config.MaxWait. When the
// wait ends first, the error is a *PendingError.
func (c *Call[T]) Do(ctx context.Context) (*T, error) {
	o, recall, err := c.submit(ctx, nil, true)
	if err == nil && recall != nil {
		o, err = recall(ctx)
	}
	if err != nil {
		return nil, err
	}
	if o.State.Waiting() {
		if o, err = c.client.await(ctx, o.ID); err != nil {
			return nil, err
		}
	}
	return Result[T](o)
}

// Enqueue saves the operation and returns: it is durable, and on its way by itself.
func (c *Call[T]) Enqueue(ctx context.Context) (*Pending[T], error) {
	return c.enqueue(ctx, nil)
}

// EnqueueTx saves the operation in the app's own database transaction, with an outbox that can join it:
// both commit or neither does. With any other outbox it fails with [outbox.ErrTxUnsupported]. Wait for the Pending
// after the commit: until then, and after a rollback, the operation is not in the outbox (ErrNotFound).
func (c *Call[T]) EnqueueTx(ctx context.Context, tx outbox.Tx) (*Pending[T], error) {
	if tx == nil {
		return nil, &ParamError{Field: "tx", Rule: "must not be nil"}
	}
	return c.enqueue(ctx, tx)
}

func (c *Call[T]) enqueue(ctx context.Context, tx outbox.Tx) (*Pending[T], error) {
	o, recall, err := c.submit(ctx, tx, false)
	if err != nil {
		return nil, err
	}
	return &Pending[T]{client: c.client, id: o.ID, recall: recall}, nil
}

// Outcome returns what is known of the operation; false = it was never saved, or is gone.
func (c *Call[T]) Outcome() (Outcome, bool) {
	if c.err != nil {
		return Outcome{}, false
	}
	rep, err := c.client.recordOfCall(c.record.ID, c.record.Key)
	if err != nil {
		return Outcome{}, false
	}
	return outcomeOf(&rep.Record, rep.Durable), true
}

// recaller finds out what became of an operation of which only a tombstone is left.
type recaller func(context.Context) (Outcome, error)

// submit saves the operation or finds the one that stands for it already; where only a tombstone of that
// is left, recall is set and Outcome holds its id alone.
func (c *Call[T]) submit(ctx context.Context, tx outbox.Tx, urgent bool) (o Outcome, recall recaller, err error) {
	if c.err != nil {
		return Outcome{}, nil, c.err
	}
	if ctx.Err() != nil {
		return c.notNow(dispatch.ContextError(ctx))
	}
	now := c.client.cfg.now()
	rec := c.record
	rec.Created = now
	if c.expiry > 0 {
		rec.Expires = now.Add(c.expiry)
	}
	added, err := c.client.add(ctx, outbox.Addition{
		Record: rec, Now: now, AfterSuccess: c.after, Supersede: c.supersede, Limits: c.client.cfg.Limits, Tx: tx,
	}, urgent)
	var unknown *outbox.SaveError
	switch {
	case errors.As(err, &unknown):
		return Outcome{}, nil, &SaveError{OperationID: rec.ID, Key: Key(rec.Key), Err: unknown.Err}
	case err != nil:
		return Outcome{}, nil, notSaved(err)
	}
	switch added.Decision {
	case outbox.FoundOtherUse:
		return Outcome{}, nil, &KeyReusedError{Kind: rec.Kind, Resource: rec.Resource, Key: Key(rec.Key),
			OperationID: added.Record.ID, State: added.Record.State}
	case outbox.FoundTombstone:
		return Outcome{ID: added.Tombstone.ID}, func(ctx context.Context) (Outcome, error) {
			return c.client.recall(ctx, rec, added)
		}, nil
	}
	return outcomeOf(&added.Record, true), nil, nil
}

// notNow answers a call whose context had ended before anything was saved. The same wish may have been saved
// earlier, and then what is known of it is the truth, not that nothing was sent.
func (c *Call[T]) notNow(cause error) (Outcome, recaller, error) {
	rep, err := c.client.recordOfCall(c.record.ID, c.record.Key)
	if err == nil && rep.Record.ID != c.record.ID {
		known := rep.Record.Tombstone()
		if outbox.Decide(&known, &outbox.Addition{Record: c.record, AfterSuccess: c.after}).Decision != outbox.FoundOperation {
			err = ErrNotFound
		}
	}
	if err != nil {
		return Outcome{}, nil, &NotSavedError{Err: cause}
	}
	o := outcomeOf(&rep.Record, rep.Durable)
	if o.State.Waiting() {
		return Outcome{}, nil, o.pending(cause)
	}
	return o, nil, nil
}

// NewCall makes a call of an endpoint that has no method here yet. path is relative to the base URL, e.g.
// Path("orders", id, "print"); body is encoded as JSON, nil sends none; T is what the answer decodes into.
//
// A POST gets a random key ([NewKey]); use WithKey with a derived one when the same wish may be decided
// on twice. Its lane is the path, without its query. Nothing reads it back: should its outcome still be
// unknown when Flavoso forgets the key (F5), it becomes uncertain, unless WithRepeatSafe says that repeating
// is right.
func NewCall[T any](c *Client, method, path string, body any) *Call[T] {
	resource, _, _ := strings.Cut(path, "?") // a query may hold guests' data
	d := draft{kind: kindCall, method: method, target: path, body: body, lane: "call:" + resource, resource: resource}
	switch method {
	case "POST":
		d.key = NewKey()
	case "PUT", "PATCH", "DELETE":
		d.repeatSafe = true
	default:
		d.err = &ParamError{Field: "method", Rule: "must be POST, PUT, PATCH or DELETE; use Get to read"}
	}
	return newCall[T](c, d)
}

// canonical gives equal JSON values equal bytes: sorted keys, no white space. What is not JSON stays as
// it is.
func canonical(body []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return body
	}
	out, err := json.Marshal(v)
	if err != nil {
		return body
	}
	return out
}
