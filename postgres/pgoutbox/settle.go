package pgoutbox

import (
	"context"
	"errors"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// errOthers says that other steps have written since, so that nobody can tell what became of a lost one.
var errOthers = errors.New("other steps have changed the records since")

// errStop asks for a step of its own: a rejection that stops its lane.
var errStop = errors.New("stops its lane")

// settling is a call of Settle.
type settling struct {
	ss  []outbox.Settlement
	out []outbox.Settled
	err error
}

func (x *settling) bytes() (n int) {
	for i := range x.ss {
		if r := x.ss[i].Result; r != nil {
			n += len(r.Body)
		}
	}
	return n
}

// Settle implements outbox.Engine. Calls that come at the same time share a step.
func (e *Engine) Settle(ctx context.Context, ss ...outbox.Settlement) ([]outbox.Settled, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	if len(ss) == 0 {
		return nil, nil
	}
	x := &settling{ss: ss}
	if err := e.settles.do(ctx, &e.tasks, x, e.settleCalls); err != nil {
		return nil, err
	}
	return x.out, x.err
}

// settleCalls settles what several calls ask for, in one step if it can.
func (e *Engine) settleCalls(all []*settling) {
	ctx := context.Background()
	var ss []outbox.Settlement
	for _, x := range all {
		ss = append(ss, x.ss...)
	}
	out, err := e.settle(ctx, ss)
	for _, x := range all {
		switch {
		case err == nil:
			x.out, out = out[:len(x.ss):len(x.ss)], out[len(x.ss):]
		case errors.Is(err, errStop):
			x.out, x.err = e.settleCall(ctx, x.ss)
		default:
			x.err = err
		}
	}
	e.tell()
}

// settleCall settles what one call asks for.
func (e *Engine) settleCall(ctx context.Context, ss []outbox.Settlement) ([]outbox.Settled, error) {
	out, err := e.settle(ctx, ss)
	if !errors.Is(err, errStop) {
		return out, err
	}
	// A rejection that stops its lane waits for the lane's other records; it must hold nothing else meanwhile.
	out = nil
	for i := range ss {
		one, err := e.settleAlone(ctx, &ss[i])
		var unknown *outbox.SaveError
		switch {
		case err != nil && i > 0 && !errors.As(err, &unknown):
			return nil, &outbox.SaveError{Err: err} // those before are saved
		case err != nil:
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func settleID(ss []outbox.Settlement) string {
	if len(ss) == 1 {
		return ss[0].ID
	}
	return ""
}

// settle settles all of them in one step; errStop = one stops its lane, and nothing was done.
func (e *Engine) settle(ctx context.Context, ss []outbox.Settlement) (out []outbox.Settled, err error) {
	ids := make([]string, len(ss))
	for i := range ss {
		ids[i] = ss[i].ID
	}
	var c *changes
	stop := false
	err = e.run(ctx, task{what: "settle", id: settleID(ss)}, func(ctx context.Context, st *step) error {
		c = newChanges(st)
		if err := st.begin(ctx, c.load(ids)...); err != nil {
			return err
		}
		out = make([]outbox.Settled, len(ss))
		for i := range ss {
			r := c.settleOne(&ss[i], &out[i])
			if stop = r != nil && r.StopLaneOnReject && out[i].Err == nil && r.State == outbox.Rejected; stop {
				return nil
			}
		}
		return c.write(ctx)
	}, func(ctx context.Context, st *step) (bool, error) { return c.committed(ctx, st) })
	switch {
	case err != nil:
		return nil, err
	case stop:
		return nil, errStop
	}
	for i := range out {
		if c.records[ss[i].ID] != nil {
			out[i].Record = c.done(&out[i].Record)
		}
	}
	return out, nil
}

// settleOne applies a settlement; nil = there is no such record.
func (c *changes) settleOne(s *outbox.Settlement, out *outbox.Settled) *stored {
	r := c.records[s.ID]
	if r == nil {
		out.Err = outbox.ErrNotFound
		return nil
	}
	out.Err = c.change(r, s.Now, func() error {
		if r.lapsed && r.Claim.Token != s.Claim {
			r.Claim = outbox.Claim{} // nobody works on it any more
		}
		err := r.ApplySettlement(s)
		if err == nil {
			c.holdBack(r, s.Hold())
		}
		return err
	})
	out.Record = *r.Clone()
	return r
}

// settleAlone settles one, with its whole lane at hand.
func (e *Engine) settleAlone(ctx context.Context, s *outbox.Settlement) (out outbox.Settled, err error) {
	var at laneName
	err = e.read(ctx, call{sql: e.sql.get, args: []any{enc(s.ID)}, row: func(scan scanner) error {
		r, err := scanWhole(scan, 0)
		if err == nil {
			at = laneName{r.Connection, r.Lane}
		}
		return err
	}})
	if err != nil {
		return out, wrap("settle", err)
	}
	if at == (laneName{}) {
		return outbox.Settled{Err: outbox.ErrNotFound}, nil
	}
	var c *changes
	err = e.run(ctx, task{what: "settle", id: s.ID}, func(ctx context.Context, st *step) error {
		c, out = newChanges(st), outbox.Settled{}
		if err := st.begin(ctx, append(c.whole(at.connection, at.lane), c.load([]string{s.ID})...)...); err != nil {
			return err
		}
		r := c.settleOne(s, &out)
		if r != nil && out.Err == nil && r.State == outbox.Rejected && r.StopLaneOnReject {
			c.stopLane(r, s.Now, &out)
		}
		return c.write(ctx)
	}, func(ctx context.Context, st *step) (bool, error) { return c.committed(ctx, st) })
	if err == nil && out.Record.ID != "" {
		out.Record = c.done(&out.Record)
	}
	return out, err
}

// stopLane blocks what stands behind a rejected record.
func (c *changes) stopLane(rejected *stored, now time.Time, out *outbox.Settled) {
	for _, b := range append([]*stored(nil), c.lane(rejected).recs...) {
		err := c.change(b, now, func() error {
			if !b.ApplyLaneStop(now) {
				return outbox.ErrState // it stays as it is
			}
			return nil
		})
		if err == nil {
			out.Blocked++
		}
	}
}
