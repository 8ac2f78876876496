package flavoso

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// outcomes hands outcomes to Config.OnOutcome, one at a time, in the order in which they became known,
// which is each lane's order; where processes share the storage fleetOutcomes does. A lane whose outcome the application does not take waits; the others go on.
type outcomes struct {
	client *Client
	signal chan struct{}
	drains chan chan struct{} // each asks for one more delivery of all that is open, and is closed after it
	failed map[string]failure // by lane
	after  string             // everything up to here was handed over, or is in a lane that waits
	whole  time.Time          // when the outcomes were last looked through from the beginning
}

// failure is what is remembered of an outcome that was not taken.
type failure struct {
	again time.Time
	count int
}

// wholePass is how often all open outcomes are looked through rather than the new ones only, whatever an engine
// may have shown late.
const wholePass = time.Minute

func newOutcomes(c *Client) *outcomes {
	return &outcomes{client: c, signal: make(chan struct{}, 1), drains: make(chan chan struct{}), failed: map[string]failure{}}
}

// note says that there may be an outcome to deliver.
func (d *outcomes) note(*outbox.Record) { tell(d.signal) }

func (d *outcomes) drain(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case d.drains <- done:
	case <-ctx.Done():
		return dispatch.ContextError(ctx)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return dispatch.ContextError(ctx)
	}
}

func (d *outcomes) run() {
	ctx := d.client.ctx
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var drained chan struct{}
		select {
		case <-timer.C:
		case <-d.signal:
		case drained = <-d.drains:
		case <-ctx.Done():
			return
		}
		next, err := d.deliver(ctx)
		if ctx.Err() != nil {
			return
		}
		if drained != nil {
			close(drained)
		}
		if err != nil {
			d.client.cfg.Logger.Warn("flavoso.outcomes_unread", "error", err)
			next = d.client.cfg.now().Add(time.Second)
		}
		if !next.IsZero() {
			timer.Reset(max(next.Sub(d.client.cfg.now()), 0))
		}
	}
}

// deliver hands over everything that is open now, and returns when to look again.
func (d *outcomes) deliver(ctx context.Context) (time.Time, error) {
	now := d.client.cfg.now()
	for lane, f := range d.failed {
		if f.again.After(now) {
			continue
		}
		if _, err := d.pass(ctx, outbox.Query{Lane: lane}, lane); err != nil || ctx.Err() != nil {
			return time.Time{}, err
		}
		if now := d.failed[lane]; now == f || now.count == 0 { // everything of the lane was taken, or is gone
			delete(d.failed, lane)
		}
	}
	if now.Sub(d.whole) >= wholePass || now.Before(d.whole) {
		d.whole, d.after = now, ""
	}
	after, err := d.pass(ctx, outbox.Query{After: d.after}, "")
	if err != nil || ctx.Err() != nil {
		return time.Time{}, err
	}
	d.after = after
	next := d.whole.Add(wholePass)
	for _, f := range d.failed {
		if f.again.Before(next) {
			next = f.again
		}
	}
	return next, nil
}

// pass hands over the open outcomes that q selects, less those of lanes that wait, except retried. It
// returns how far it came.
func (d *outcomes) pass(ctx context.Context, q outbox.Query, retried string) (string, error) {
	q.Connection, q.ByOutcome, q.Unacked, q.Bodies, q.Limit = d.client.cfg.Connection, true, true, true, 50
	for {
		page, err := d.client.engine.List(ctx, q)
		if err != nil {
			return q.After, err
		}
		for i := range page.Records {
			rec := &page.Records[i]
			if _, waits := d.failed[rec.Lane]; waits && rec.Lane != retried {
				continue
			}
			taken := d.hand(ctx, rec)
			if ctx.Err() != nil || !taken && rec.Lane == retried {
				return q.After, nil
			}
		}
		if page.Next == "" {
			if n := len(page.Records); n > 0 {
				q.After = strconv.FormatUint(page.Records[n-1].OutcomeSeq, 10)
			}
			return q.After, nil
		}
		q.After = page.Next
	}
}

// hand gives one outcome to the application and reports whether it was taken.
func (d *outcomes) hand(ctx context.Context, rec *outbox.Record) bool {
	err := d.client.handOver(ctx, outcomeOf(rec, true))
	if err != nil && ctx.Err() != nil {
		return false // it is delivered again after the next Open
	}
	if err == nil { // also while the client closes: what was taken over is not handed over again
		err = d.client.engine.Ack(context.WithoutCancel(ctx), rec.ID, rec.Revision)
	}
	if err == nil || errors.Is(err, outbox.ErrNotFound) {
		if _, ok := d.failed[rec.Lane]; ok {
			d.failed[rec.Lane] = failure{}
		}
		return true
	}
	f := d.failed[rec.Lane]
	f.again = d.client.cfg.now().Add(d.client.cfg.delay(f.count))
	f.count++
	d.failed[rec.Lane] = f
	d.client.cfg.Logger.Warn("flavoso.outcome_not_taken", "operation", rec.ID, "kind", rec.Kind, "tries", f.count, "error", err)
	return false
}

// handOver calls Config.OnOutcome in a goroutine of its own, so that Close, which may be called inside it,
// need not wait for it.
func (c *Client) handOver(ctx context.Context, o Outcome) error {
	done := make(chan error, 1)
	go func() {
		finished := false
		defer func() {
			if !finished { // a panic, or runtime.Goexit
				done <- fmt.Errorf("the call of Config.OnOutcome panicked: %v", recover())
			}
		}()
		err := c.cfg.OnOutcome(ctx, c, o)
		finished = true
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	default:
		return ctx.Err()
	}
}
