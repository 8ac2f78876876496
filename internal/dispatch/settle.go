package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// settle saves what came of an attempt. A verdict that cannot be saved is kept in memory, with its lane
// held by the claim, and saved as soon as the storage allows; the operation is never sent again meanwhile.
func (d *Dispatcher) settle(ctx context.Context, rec outbox.Record, s outbox.Settlement) {
	for n := 0; ; n++ {
		// Not the dispatcher's context: what is known is saved even while it closes.
		settled, err := d.engine.Settle(context.Background(), s)
		if err == nil {
			d.settled(ctx, rec, s, settled[0])
			return
		}
		d.log.Error("flavoso.verdict_not_saved", "operation", rec.ID, "state", s.To, "error", err)
		if s.To.Final() || s.To.Parked() {
			known := *rec.Clone()
			known.State, known.Result, known.Last = s.To, s.Result, s.Last
			d.waiters.keepUnsaved(known)
			if n == 0 {
				d.cfg.Observer.outcome(&known, false)
			}
		}
		if errors.Is(err, outbox.ErrClosed) {
			return
		}
		select {
		case <-time.After(d.cfg.Delay(n)):
		case <-d.ctx.Done():
			return
		}
	}
}

// settled tells those who wait.
func (d *Dispatcher) settled(ctx context.Context, rec outbox.Record, asked outbox.Settlement, s outbox.Settled) {
	d.waiters.dropUnsaved(rec.ID)
	if s.Err != nil && !errors.Is(s.Err, outbox.ErrClaimLost) {
		d.log.Error("flavoso.settle_failed", "operation", rec.ID, "error", s.Err)
	}
	// A claim that is gone was either settled by a step whose result stayed unknown, or taken over: the
	// record as it is now tells, in both cases.
	if s.Err == nil {
		d.log.Debug("flavoso.settled", "operation", rec.ID, "kind", rec.Kind, "state", s.Record.State,
			"attempts", s.Record.Attempts)
	}
	if s.Err == nil {
		rec = s.Record
	}
	d.cfg.Observer.attemptEnd(ctx, &rec, asked.Last)
	if rec.State.Final() || rec.State.Parked() {
		d.cfg.Observer.outcome(&rec, true)
	}
	d.waiters.wake(rec.ID)
	if s.Blocked > 0 {
		d.waiters.wakeAll()
	}
}
