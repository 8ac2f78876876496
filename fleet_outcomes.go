package flavoso

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

const (
	// takeOverAfter is how long an outcome stays with the process that learned it before another hands it
	// over, and takeOverEvery how often such outcomes are looked for, at most half as long again.
	takeOverAfter = time.Minute
	takeOverEvery = 20 * time.Second
	// afterOther is the pause while the outcome before ours is another process's to hand over.
	afterOther = time.Second
	// laneTurn is how many outcomes of a lane are handed over in a row before other lanes have their turn.
	laneTurn = 8
	// mostLanes bounds how many lanes with outcomes of other processes are taken up at once.
	mostLanes = 10_000
)

// fleetOutcomes hands outcomes to OnOutcome lane by lane, each in the order in which its outcomes became known: those
// of a fleet, many lanes at the same time, and those of a client that shares its storage with other processes.
type fleetOutcomes struct {
	core       *core
	connection string // whose outcomes; "" = of all connections
	parallel   int    // lanes at the same time

	mu      sync.Mutex
	lanes   map[laneName]*fleetLane
	next    laneHeap // those that nobody works on
	working int
	signal  chan struct{} // there may be something to begin
	ended   chan struct{} // something ended; for drain
	jobs    sync.WaitGroup
}

type laneName struct{ connection, lane string }

// fleetLane is a lane that has outcomes to hand over, or may have.
type fleetLane struct {
	laneName
	ours  map[string]struct{} // operations whose outcomes this process learned
	again time.Time           // when to work on it
	count int                 // failures in a row
	index int                 // in the heap; -1 = somebody works on it
	noted bool                // something became known while it was worked on
}

type laneHeap []*fleetLane

func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Less(i, j int) bool { return h[i].again.Before(h[j].again) }
func (h laneHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *laneHeap) Push(x any) {
	l := x.(*fleetLane)
	l.index = len(*h)
	*h = append(*h, l)
}
func (h *laneHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = slices.Delete(*h, len(*h)-1, len(*h))
	last.index = -1
	return last
}

func newFleetOutcomes(c *core, connection string, parallel int) *fleetOutcomes {
	return &fleetOutcomes{core: c, connection: connection, parallel: parallel, lanes: map[laneName]*fleetLane{}, signal: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
}

// note implements delivery.
func (d *fleetOutcomes) note(rec *outbox.Record) {
	if rec == nil {
		return // takeOver finds it
	}
	d.mu.Lock()
	d.addLocked(rec, true, d.core.cfg.now())
	d.mu.Unlock()
	tell(d.signal)
}

// addLocked notes that a lane has an outcome, to be looked at then; one that waits already is looked at in its turn.
func (d *fleetOutcomes) addLocked(rec *outbox.Record, ours bool, at time.Time) {
	name := laneName{rec.Connection, rec.Lane}
	l := d.lanes[name]
	if l == nil {
		l = &fleetLane{laneName: name, ours: map[string]struct{}{}, again: at}
		d.lanes[name] = l
		heap.Push(&d.next, l)
	}
	if ours {
		l.ours[rec.ID] = struct{}{}
		l.noted = true
		if l.index >= 0 && l.count == 0 && at.Before(l.again) { // it waited for another's outcome
			l.again = at
			heap.Fix(&d.next, l.index)
		}
	}
}

// run implements delivery.
func (d *fleetOutcomes) run() {
	defer d.jobs.Wait()
	ctx := d.core.ctx
	search := time.NewTimer(0)
	defer search.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-search.C:
			d.takeOver(ctx)
			search.Reset(takeOverEvery + rand.N(takeOverEvery/2))
		case <-due.C:
		case <-d.signal:
		case <-ctx.Done():
			return
		}
		if next := d.begin(ctx); !next.IsZero() {
			due.Reset(max(next.Sub(d.core.cfg.now()), 0))
		}
	}
}

// begin starts work on the lanes that are due, as many as may run, and returns when the next one is.
func (d *fleetOutcomes) begin(ctx context.Context) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.next) > 0 && d.working < d.parallel {
		if at := d.next[0].again; at.After(d.core.cfg.now()) {
			return at
		}
		l := heap.Pop(&d.next).(*fleetLane)
		d.working++
		d.jobs.Go(func() { d.work(ctx, l) })
	}
	return time.Time{} // whoever ends calls again
}

// work hands over a lane's outcomes until there are none, one has to wait, or it is the turn of others.
func (d *fleetOutcomes) work(ctx context.Context, l *fleetLane) {
	wait, done := time.Duration(0), false
	for n := 0; n < laneTurn && !done && wait == 0 && ctx.Err() == nil; n++ {
		d.mu.Lock()
		l.noted = false
		d.mu.Unlock()
		wait, done = d.first(ctx, l)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.working--
	if done && !l.noted {
		delete(d.lanes, l.laneName)
	} else {
		l.again = d.core.cfg.now().Add(wait)
		heap.Push(&d.next, l)
	}
	tell(d.signal)
	tell(d.ended)
}

// first hands over a lane's first outcome. It returns how long to wait before the next one, and whether the
// lane has none.
func (d *fleetOutcomes) first(ctx context.Context, l *fleetLane) (wait time.Duration, none bool) {
	page, err := d.core.engine.List(ctx, outbox.Query{Connection: l.connection, Lane: l.lane,
		ByOutcome: true, Unacked: true, Bodies: true, Limit: 1})
	switch {
	case err != nil:
		d.unread(ctx, err)
		return d.failed(l), false
	case len(page.Records) == 0:
		return 0, true
	}
	rec := &page.Records[0]
	d.mu.Lock()
	_, ours := l.ours[rec.ID]
	d.mu.Unlock()
	if !ours && d.core.cfg.now().Sub(rec.Finished) < takeOverAfter && outbox.Shared(d.core.engine) {
		return afterOther, false
	}
	err = d.core.client(rec.Connection).handOver(ctx, outcomeOf(rec, true))
	if err != nil && ctx.Err() != nil {
		return 0, false // it is handed over again, by this process or another
	}
	if err == nil { // also while the fleet closes: what was taken over is not handed over again
		err = d.core.engine.Ack(context.WithoutCancel(ctx), rec.ID, rec.Revision)
	}
	if err == nil || errors.Is(err, outbox.ErrNotFound) {
		d.mu.Lock()
		delete(l.ours, rec.ID)
		l.count = 0
		d.mu.Unlock()
		return 0, false
	}
	wait = d.failed(l)
	d.core.cfg.Logger.Warn("flavoso.outcome_not_taken", "operation", rec.ID, "kind", rec.Kind, "tries", l.count, "error", err)
	return wait, false
}

// failed returns the pause after one more failure.
func (d *fleetOutcomes) failed(l *fleetLane) time.Duration {
	wait := d.core.cfg.delay(l.count)
	l.count++
	return wait
}

func (d *fleetOutcomes) unread(ctx context.Context, err error) {
	if ctx.Err() == nil {
		d.core.cfg.Logger.Warn("flavoso.outcomes_unread", "error", err)
	}
}

// takeOver takes up lanes with outcomes that nobody has handed over for a while.
func (d *fleetOutcomes) takeOver(ctx context.Context) {
	q := outbox.Query{Connection: d.connection, ByOutcome: true, Unacked: true, Limit: 500}
	for {
		page, err := d.core.engine.List(ctx, q)
		if err != nil {
			d.unread(ctx, err)
			return
		}
		now := d.core.cfg.now()
		d.mu.Lock()
		for i := range page.Records {
			rec := &page.Records[i]
			at := now
			if outbox.Shared(d.core.engine) {
				at = rec.Finished.Add(takeOverAfter)
			}
			if at.Sub(now) < 2*takeOverEvery { // before the next look
				d.addLocked(rec, false, at)
			}
		}
		full := len(d.lanes) >= mostLanes
		d.mu.Unlock()
		if q.After = page.Next; page.Next == "" || full {
			return
		}
	}
}

// drain implements delivery: it waits until no lane of this process's own is due or worked on.
func (d *fleetOutcomes) drain(ctx context.Context) error {
	for {
		d.mu.Lock()
		idle := d.working == 0 && (len(d.next) == 0 || d.next[0].again.After(d.core.cfg.now()))
		d.mu.Unlock()
		if idle {
			return nil
		}
		select {
		case <-d.ended:
		case <-ctx.Done():
			return dispatch.ContextError(ctx)
		}
	}
}
