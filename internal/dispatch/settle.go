package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// settle saves what came of an attempt. A verdict that cannot be saved is kept in memory, with its lane
// held by the claim, and saved as soon as the storage allows; the operation is never sent again meanwhile.
func (d *Dispatcher) settle(ctx context.Context, rec outbox.Record, s outbox.Settlement) {
	kept := false
	for n := 0; ; n++ {
		// Not the dispatcher's context: what is known is saved even while it closes.
		settled, err := d.engine.Settle(context.Background(), s)
		if err == nil {
			d.settled(ctx, rec, s, settled[0], kept)
			return
		}
		d.log.Error("flavoso.verdict_not_saved", "operation", rec.ID, "state", s.To, "error", err)
		if s.To.Final() || s.To.Parked() {
			known := *rec.Clone()
			known.State, known.Result, known.Last = s.To, s.Result, s.Last
			kept = true
			if d.waiters.keepUnsaved(known) {
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

// settled tells those who wait. kept says that the verdict was kept in memory until now.
func (d *Dispatcher) settled(ctx context.Context, rec outbox.Record, asked outbox.Settlement, s outbox.Settled, kept bool) {
	lost := errors.Is(s.Err, outbox.ErrClaimLost)
	switch {
	case s.Err == nil:
		rec = s.Record
		if d.log.Enabled(ctx, slog.LevelDebug) {
			d.log.Debug("flavoso.settled", "operation", rec.ID, "kind", rec.Kind, "state", rec.State, "attempts", rec.Attempts)
		}
	case lost:
		// Either an earlier try to save this saved it, although its result stayed unknown, or the claim
		// was taken over. The record as it is now tells, in both cases.
		if s.Record.ID != "" {
			rec = s.Record
		}
	default:
		d.log.Error("flavoso.settle_failed", "operation", rec.ID, "error", s.Err)
	}
	told := false
	if !lost || !rec.State.Waiting() || !d.worksOn(rec.ID, asked.Claim) { // or a later claim goes on to save it
		told = !d.waiters.dropUnsaved(rec.ID) && kept // a later claim has saved it
	}
	d.cfg.Observer.attemptEnd(ctx, &rec, asked.Last)
	if rec.State.Waiting() {
		d.expiries.add(&rec)
	} else if d.forget(rec.ID); !told {
		d.cfg.Observer.outcome(&rec, true)
	}
	d.waiters.wake(rec.ID)
	if s.Blocked > 0 {
		d.waiters.wakeAll()
		d.blocked(ctx, &rec)
	}
}

// worksOn reports whether an operation is claimed here by another claim than the one that token names.
func (d *Dispatcher) worksOn(id, token string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	other, working := d.working[id]
	return working && other != token
}

// blocked tells of the operations that a rejection has blocked with the rest of its lane.
func (d *Dispatcher) blocked(ctx context.Context, rejected *outbox.Record) {
	if d.cfg.Observer.Outcome == nil {
		return
	}
	q := outbox.Query{Connection: rejected.Connection, Lane: rejected.Lane, States: []outbox.State{outbox.Blocked}}
	for {
		page, err := d.engine.List(context.WithoutCancel(ctx), q)
		if err != nil {
			d.log.Warn("flavoso.blocked_unread", "operation", rejected.ID, "error", err)
			return
		}
		for i := range page.Records {
			rec := &page.Records[i]
			if rec.Finished.Equal(rejected.Finished) && rec.Result != nil && rec.Result.Reason == outbox.ReasonLaneStopped {
				d.cfg.Observer.outcome(rec, true)
			}
		}
		if q.After = page.Next; page.Next == "" {
			return
		}
	}
}
