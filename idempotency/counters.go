package idempotency

import "sync/atomic"

// LiveCounters are the live form of Counters, for engines. The zero value is ready; safe for concurrent use.
type LiveCounters struct {
	New, TakenOver, Replays, InProgress, Mismatches, Uncertain, ResultGone atomic.Uint64
	Completed, Failed, Released, MarkedUncertain, Reconciled               atomic.Uint64
	LateCompletions, OwnershipLost, Swept, SweptBytes                      atomic.Uint64
}

// Decision counts one decision about a claim.
func (c *LiveCounters) Decision(d Decision) {
	switch d {
	case New:
		c.New.Add(1)
	case TakenOver:
		c.TakenOver.Add(1)
	case Replay:
		c.Replays.Add(1)
	case InProgress:
		c.InProgress.Add(1)
	case Mismatch:
		c.Mismatches.Add(1)
	case Uncertain:
		c.Uncertain.Add(1)
	case ResultGone:
		c.ResultGone.Add(1)
	}
}

// Finished counts one stored result.
func (c *LiveCounters) Finished(s State, late bool) {
	if s == Completed {
		c.Completed.Add(1)
	} else {
		c.Failed.Add(1)
	}
	if late {
		c.LateCompletions.Add(1)
	}
}

// Sweep counts what a sweep deleted.
func (c *LiveCounters) Sweep(records int, bytes int64) {
	c.Swept.Add(uint64(records))
	c.SweptBytes.Add(uint64(bytes))
}

// Load returns the counts. Each is exact; together they may straddle a step.
func (c *LiveCounters) Load() Counters {
	return Counters{
		New: c.New.Load(), TakenOver: c.TakenOver.Load(), Replays: c.Replays.Load(), InProgress: c.InProgress.Load(),
		Mismatches: c.Mismatches.Load(), Uncertain: c.Uncertain.Load(), ResultGone: c.ResultGone.Load(),
		Completed: c.Completed.Load(), Failed: c.Failed.Load(), Released: c.Released.Load(),
		MarkedUncertain: c.MarkedUncertain.Load(), Reconciled: c.Reconciled.Load(),
		LateCompletions: c.LateCompletions.Load(), OwnershipLost: c.OwnershipLost.Load(),
		Swept: c.Swept.Load(), SweptBytes: c.SweptBytes.Load(),
	}
}
