package pgoutbox

import (
	"context"

	"github.com/flavoso/flavoso-go/outbox"
)

// Set implements outbox.Engine.
func (e *Engine) Set(ctx context.Context, q outbox.Change) (out outbox.Record, err error) {
	if err := e.enter(ctx); err != nil {
		return out, err
	}
	defer e.leave()
	whole := q.ID == "" && q.Lane != ""
	if whole && q.Action != outbox.ResolveSendAgain {
		return out, outbox.ErrState
	}
	var c *changes
	var first *stored
	var refused error
	err = e.run(ctx, task{what: "set", id: q.ID}, func(ctx context.Context, st *step) error {
		c, first, refused = newChanges(st), nil, nil
		calls := c.load([]string{q.ID})
		if whole {
			calls = c.whole(q.Connection, q.Lane)
		}
		if err := st.begin(ctx, calls...); err != nil {
			return err
		}
		if whole {
			first, refused = c.resume(&q)
		} else {
			first, refused = c.set(&q)
		}
		if refused != nil {
			return nil
		}
		return c.write(ctx)
	}, func(ctx context.Context, st *step) (bool, error) { return c.committed(ctx, st) })
	if err == nil {
		err = refused
	}
	if first != nil {
		out = c.done(&first.Record)
	}
	if err == nil {
		e.tell()
	}
	return out, err
}

func (c *changes) set(q *outbox.Change) (*stored, error) {
	r := c.records[q.ID]
	if r == nil {
		return nil, outbox.ErrNotFound
	}
	return r, c.change(r, q.Now, func() error {
		if r.lapsed {
			r.Claim = outbox.Claim{} // nobody works on it any more
		}
		err := r.ApplyChange(q)
		if err == nil {
			c.holdBack(r, q.Hold(&r.Record))
		}
		return err
	})
}

// resume lets a lane's blocked records wait again and returns the first.
func (c *changes) resume(q *outbox.Change) (first *stored, err error) {
	l := c.lanes[laneName{q.Connection, q.Lane}]
	if l == nil {
		return nil, outbox.ErrNotFound
	}
	for _, r := range append([]*stored(nil), l.recs...) {
		if r.State != outbox.Blocked {
			continue
		}
		if err := c.change(r, q.Now, func() error { return r.ApplyChange(q) }); err == nil && first == nil {
			first = r
		}
	}
	if first == nil {
		return nil, outbox.ErrNotFound
	}
	return first, nil
}

// Ack implements outbox.Engine.
func (e *Engine) Ack(ctx context.Context, id string, revision int) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.leave()
	found := false
	err := e.run(ctx, task{what: "ack", id: id}, func(ctx context.Context, st *step) error {
		c := newChanges(st)
		if err := st.begin(ctx, call{sql: e.sql.byID, args: []any{encAll([]string{id})}, row: c.addRecord}); err != nil {
			return err
		}
		clear(c.lanes) // they stay as they are
		r := c.records[id]
		if found = r != nil; !found {
			return nil
		}
		if acked := r.Acked; true {
			was := *r
			r.ApplyAck(revision)
			if r.Acked == acked {
				return nil
			}
			c.touch(r, was)
		}
		return c.write(ctx)
	}, nil)
	if err == nil && !found {
		return outbox.ErrNotFound
	}
	return err
}
