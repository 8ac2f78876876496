package flavoso

import (
	"context"
	"fmt"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// outcomes hands outcomes to Config.OnOutcome, one at a time, in the order in which they became known,
// which is each lane's order. A lane whose outcome the application does not take waits; the others go on.
type outcomes struct {
	client *Client
	signal chan struct{}
	failed map[string]failure // by lane
}

// failure is what is remembered of an outcome that was not taken.
type failure struct {
	again time.Time
	count int
}

func newOutcomes(c *Client) *outcomes {
	return &outcomes{client: c, signal: make(chan struct{}, 1), failed: map[string]failure{}}
}

// wake says that there may be an outcome to deliver.
func (d *outcomes) wake() {
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// run delivers until the client closes.
func (d *outcomes) run() {
	ctx := d.client.ctx
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-d.signal:
		case <-ctx.Done():
			return
		}
		next, err := d.deliver(ctx)
		if ctx.Err() != nil {
			return
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

// deliver hands over everything that is open now, and returns when to try again what was not taken; zero
// = nothing is left.
func (d *outcomes) deliver(ctx context.Context) (time.Time, error) {
	q := outbox.Query{Connection: d.client.cfg.Connection, ByOutcome: true, Unacked: true, Bodies: true, Limit: 50}
	var next time.Time
	waiting := map[string]bool{} // lanes that are passed over in this round
	for {
		page, err := d.client.engine.List(ctx, q)
		if err != nil {
			return time.Time{}, err
		}
		for i := range page.Records {
			rec := &page.Records[i]
			if waiting[rec.Lane] {
				continue
			}
			again := d.failed[rec.Lane].again
			if !again.After(d.client.cfg.now()) {
				if again = d.hand(ctx, rec); ctx.Err() != nil {
					return time.Time{}, nil
				}
			}
			if !again.IsZero() {
				waiting[rec.Lane] = true
				if next.IsZero() || again.Before(next) {
					next = again
				}
			}
		}
		if page.Next == "" {
			return next, nil
		}
		q.After = page.Next
	}
}

// hand gives one outcome to the application and returns when to try again; zero = it was taken.
func (d *outcomes) hand(ctx context.Context, rec *outbox.Record) time.Time {
	err := d.call(ctx, outcomeOf(rec, true))
	if ctx.Err() != nil {
		return time.Time{} // it is delivered again after the next Open
	}
	if err == nil {
		err = d.client.engine.Ack(ctx, rec.ID, rec.Revision)
	}
	if err == nil {
		delete(d.failed, rec.Lane)
		return time.Time{}
	}
	f := d.failed[rec.Lane]
	f.again = d.client.cfg.now().Add(d.client.cfg.Retry.Delay(f.count))
	f.count++
	d.failed[rec.Lane] = f
	d.client.cfg.Logger.Warn("flavoso.outcome_not_taken", "operation", rec.ID, "kind", rec.Kind, "tries", f.count, "error", err)
	return f.again
}

// call runs the application's function in a goroutine of its own, so that Close, which may be called
// inside it, need not wait for it.
func (d *outcomes) call(ctx context.Context, o Outcome) error {
	done := make(chan error, 1)
	go func() {
		finished := false
		defer func() {
			if !finished { // a panic, or runtime.Goexit
				done <- fmt.Errorf("the call of Config.OnOutcome panicked: %v", recover())
			}
		}()
		err := d.client.cfg.OnOutcome(ctx, d.client, o)
		finished = true
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
