package flavoso

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// policy tells the dispatcher what the kinds know, and asks Config.Reconcile about what they do not.
type policy struct {
	core  *core
	asked *sync.Map // ids of the operations that Config.Reconcile is thinking about
}

func newPolicy(c *core) policy { return policy{core: c, asked: new(sync.Map)} }

func (p policy) Known(name string) bool {
	_, ok := kindNamed(name)
	return ok
}

func (p policy) CanFind(rec *outbox.Record) bool {
	k, ok := kindNamed(rec.Kind)
	return ok && k.reader != nil || p.Asks(rec)
}

// Asks reports whether the application decides about the operation.
func (p policy) Asks(rec *outbox.Record) bool {
	return p.core.cfg.Reconcile != nil && rec.Kind == kindCall && !rec.RepeatSafe
}

func (p policy) Find(ctx context.Context, rec *outbox.Record, get dispatch.Getter) dispatch.Finding {
	if p.Asks(rec) {
		return p.reconcile(ctx, rec)
	}
	k, _ := kindNamed(rec.Kind)
	body, found, ok := get(ctx, k.reader(rec))
	switch {
	case !ok:
		return dispatch.Finding{Wish: dispatch.Unreadable}
	case !found:
		return dispatch.Finding{Wish: dispatch.Open}
	}
	return k.judge(rec, body)
}

// reconcile asks the application. What it does not answer is asked again later.
func (p policy) reconcile(ctx context.Context, rec *outbox.Record) dispatch.Finding {
	r, err := p.ask(ctx, rec)
	if err != nil {
		p.core.cfg.Logger.Warn("flavoso.reconcile_failed", "operation", rec.ID, "error", err)
		return dispatch.Finding{Wish: dispatch.Unreadable}
	}
	f := dispatch.Finding{Note: r.Note}
	switch r.Decision {
	case Done:
		f.Wish, f.Body = dispatch.Fulfilled, r.Body
	case SendAgain:
		f.Wish = dispatch.Open
	case Abandon:
		f.Wish = dispatch.GivenUp
	default:
		p.core.cfg.Logger.Warn("flavoso.reconcile_failed", "operation", rec.ID, "error", "no decision")
		f.Wish = dispatch.Unreadable
	}
	return f
}

func (p policy) ask(ctx context.Context, rec *outbox.Record) (Resolution, error) {
	type answer struct {
		r   Resolution
		err error
	}
	if _, running := p.asked.LoadOrStore(rec.ID, nil); running {
		return Resolution{}, errors.New("the last call of Config.Reconcile for it has not come back")
	}
	done := make(chan answer, 1)
	// In a goroutine of its own: Close, which may be called inside it, does not wait for it.
	go func() {
		a := answer{err: errors.New("the call of Config.Reconcile ended its goroutine")}
		defer func() {
			if v := recover(); v != nil {
				a.err = fmt.Errorf("the call of Config.Reconcile panicked: %v", v)
			}
			p.asked.Delete(rec.ID)
			done <- a
		}()
		a.r, a.err = p.core.cfg.Reconcile(ctx, p.core.client(rec.Connection), operationOf(rec))
	}()
	select {
	case a := <-done:
		return a.r, a.err
	case <-ctx.Done():
		return Resolution{}, ctx.Err()
	}
}
