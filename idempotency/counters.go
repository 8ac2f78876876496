package idempotency

import "sync/atomic"

// counters are the live form of Counters.
type counters struct {
	fresh, takenOver, replays, inProgress, mismatches, uncertain, resultGone atomic.Uint64
	completed, failed, released, markedUncertain, reconciled                 atomic.Uint64
	lateCompletions, ownershipLost, swept, sweptBytes                        atomic.Uint64
}

func (c *counters) decision(d Decision) {
	switch d {
	case New:
		c.fresh.Add(1)
	case TakenOver:
		c.takenOver.Add(1)
	case Replay:
		c.replays.Add(1)
	case InProgress:
		c.inProgress.Add(1)
	case Mismatch:
		c.mismatches.Add(1)
	case Uncertain:
		c.uncertain.Add(1)
	case ResultGone:
		c.resultGone.Add(1)
	}
}

func (c *counters) snapshot() Counters {
	return Counters{
		New: c.fresh.Load(), TakenOver: c.takenOver.Load(), Replays: c.replays.Load(), InProgress: c.inProgress.Load(),
		Mismatches: c.mismatches.Load(), Uncertain: c.uncertain.Load(), ResultGone: c.resultGone.Load(),
		Completed: c.completed.Load(), Failed: c.failed.Load(), Released: c.released.Load(),
		MarkedUncertain: c.markedUncertain.Load(), Reconciled: c.reconciled.Load(),
		LateCompletions: c.lateCompletions.Load(), OwnershipLost: c.ownershipLost.Load(),
		Swept: c.swept.Load(), SweptBytes: c.sweptBytes.Load(),
	}
}
