package life

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/dev/torture/account"
	"github.com/flavoso/flavoso-go/dev/torture/plan"
	"github.com/flavoso/flavoso-go/outbox"
)

// work lives as the plan says, until somebody ends it.
func (t *Life) work() error {
	ctx := context.Background()
	var cancel context.CancelFunc = func() {}
	if t.Plan.EndAfter > 0 {
		ctx, cancel = context.WithTimeout(ctx, t.Plan.EndAfter)
	}
	defer cancel()
	var again []wish
	if t.Plan.Calls > 0 {
		unsettled, err := t.unsettled()
		if err != nil {
			return err
		}
		again = unsettled
	}
	var workers sync.WaitGroup
	orders := make(chan plan.Order, len(t.Plan.Orders))
	for _, o := range t.Plan.Orders {
		orders <- o
	}
	close(orders)
	if t.Plan.Menu && t.Plan.Calls > 0 {
		workers.Go(func() { (&worker{life: t, name: "m", rnd: t.rand(1)}).writeMenu(ctx) })
	}
	workers.Go(func() {
		w := &worker{life: t, name: "a", rnd: t.rand(2)}
		for _, v := range again {
			w.submit(ctx, v)
		}
		for _, id := range t.Plan.Shared {
			w.submit(ctx, wish{kind: "orders.accept", name: w.next(), resource: id})
			w.submit(ctx, wish{kind: "orders.acknowledge", name: w.next(), resource: id})
			w.submit(ctx, wish{kind: "bookings.create", name: w.next(), resource: "table-" + id})
		}
	})
	for i := range t.Plan.Workers {
		workers.Go(func() { (&worker{life: t, name: string(rune('p' + i)), rnd: t.rand(uint64(10 + i))}).run(ctx, orders) })
	}
	if t.session.Compact != nil && t.rand(3).IntN(8) == 0 {
		workers.Go(func() {
			if err := t.session.Compact(ctx); err != nil {
				t.Note("compact: " + shorten(err))
			}
		})
	}
	for ctx.Err() == nil {
		select {
		case <-time.After(20 * time.Millisecond):
			for _, c := range t.session.Clients {
				c.Wake() // the network comes back all the time
			}
		case <-ctx.Done():
		}
	}
	if len(t.session.Clients) == 1 && t.rand(4).IntN(2) == 0 {
		end, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = t.session.Clients[0].Shutdown(end) // whatever it had to break off is taken up by the next life
	}
	workers.Wait()
	return nil
}

func (t *Life) rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(t.Plan.Seed, stream)) }

// unsettled finds the wishes with keys of which earlier lives do not know whether they were saved. A till
// asks again: the key makes it the same operation.
func (t *Life) unsettled() ([]wish, error) {
	events, err := t.acc.Tail(16 << 10)
	if err != nil {
		return nil, err
	}
	open := map[string]wish{}
	var order []string
	for _, e := range events {
		switch e.What {
		case account.Began:
			if v, ok := t.repeatable(e); ok {
				open[e.Op] = v
				order = append(order, e.Op)
			}
		case account.Saved, account.RolledBack:
			delete(open, e.Op)
		case account.Returned:
			if e.Fate != flavoso.FateUnknown.String() {
				delete(open, e.Op)
			}
		}
	}
	var out []wish
	for _, name := range order {
		if v, ok := open[name]; ok {
			delete(open, name)
			out = append(out, v)
		}
	}
	return out, nil
}

// worker is somebody at the till.
type worker struct {
	life *Life
	name string
	rnd  *rand.Rand
	made int
}

// run makes the plan's operations.
func (w *worker) run(ctx context.Context, orders <-chan plan.Order) {
	kinds := w.life.Plan.Work
	if len(kinds) == 0 {
		kinds = []string{"ticket", "ticket", "booking", "booking", "call", "expire", "expiring call", "cancel", "big"}
	}
	for n := 0; n < w.life.Plan.Calls && ctx.Err() == nil; n++ {
		if w.rnd.IntN(3) == 0 {
			select {
			case <-time.After(time.Duration(w.rnd.IntN(4000)) * time.Microsecond):
			case <-ctx.Done():
			}
		}
		name, conn := w.next(), w.rnd.IntN(len(w.life.Plan.Connections))
		switch kind := kinds[w.rnd.IntN(len(kinds))]; kind {
		case "ticket":
			o, ok := <-orders
			if !ok {
				w.submit(ctx, wish{kind: "bookings.create", name: name, resource: name, conn: conn})
				continue
			}
			w.ticket(ctx, o, name)
		case "booking":
			w.submit(ctx, wish{kind: "bookings.create", name: name, resource: name, conn: conn})
		case "big":
			w.submit(ctx, wish{kind: "bookings.create", name: name, resource: name, conn: conn, pad: w.rnd.IntN(12000), once: true})
		case "call":
			w.submit(ctx, wish{kind: "call", name: name, resource: name, conn: conn})
		case "expiring call":
			w.submit(ctx, wish{kind: "call", name: name, resource: name, conn: conn, expiry: time.Duration(20+w.rnd.IntN(200)) * time.Millisecond})
		case "expire":
			w.submit(ctx, wish{kind: "bookings.create", name: name, resource: name, conn: conn, expiry: time.Duration(1+w.rnd.IntN(30)) * time.Millisecond, once: true})
		case "cancel":
			w.cancel(ctx, wish{kind: "bookings.create", name: name, resource: name, conn: conn, once: true})
		}
	}
}

// ticket takes an order through its life, in one lane.
func (w *worker) ticket(ctx context.Context, o plan.Order, name string) {
	if w.rnd.IntN(6) == 0 {
		w.submit(ctx, wish{kind: "orders.reject", name: name, resource: o.ID, conn: o.Conn})
		return
	}
	for i, kind := range []string{"orders.accept", "orders.acknowledge", "orders.update", "orders.status", "orders.status"} {
		v := wish{kind: kind, name: w.next(), resource: o.ID, conn: o.Conn}
		if kind == "orders.status" {
			v.status = []flavoso.OrderStatus{flavoso.OrderPreparing, flavoso.OrderReady}[i-3]
		}
		w.submit(ctx, v)
	}
}

// writeMenu writes what has no key: the last one must win.
func (w *worker) writeMenu(ctx context.Context) {
	for n := 0; n < w.life.Plan.Calls && ctx.Err() == nil; n++ {
		name := w.next()
		kinds := w.life.Plan.MenuOf
		if len(kinds) == 0 {
			kinds = []string{"menu.put", "menu.availability", "store.update", "menu.supersede", "menu.put"}
		}
		kind := kinds[w.rnd.IntN(len(kinds))]
		if w.rnd.IntN(2) == 0 { // the lane may be empty by then, or its head between two attempts
			select {
			case <-time.After(time.Duration(w.rnd.IntN(8000)) * time.Microsecond):
			case <-ctx.Done():
			}
		}
		if n == 0 {
			kind = "menu.put"
		}
		w.submit(ctx, wish{kind: kind, name: name, resource: "menu", conn: n % len(w.life.Plan.Connections)})
	}
}

// submit makes a wish, in one of the ways there are, and notes what came back.
func (w *worker) submit(ctx context.Context, v wish) {
	if ctx.Err() != nil {
		return
	}
	t := w.life
	e, o := v.operation(t)
	e.What = account.Began
	t.acc.Write(e)
	t.death.at(plan.BeforeSave)
	if t.session.InTx != nil && w.rnd.IntN(3) == 0 {
		w.inTx(ctx, v, o)
		return
	}
	if w.rnd.IntN(3) > 0 {
		id, err := o.enqueue(ctx)
		if err != nil {
			t.returned(v.name, "", err)
			return
		}
		t.acc.Write(account.Event{What: account.Saved, Op: v.name, ID: id})
		return
	}
	t.returned(v.name, "", o.do(ctx))
}

// inTx saves a wish together with what the application saves itself, or takes both back.
func (w *worker) inTx(ctx context.Context, v wish, o operation) {
	t := w.life
	commit, id := w.rnd.IntN(4) > 0, ""
	var refused error
	err := t.session.InTx(ctx, commit, func(tx outbox.Tx) error {
		id, refused = o.enqueueTx(ctx, tx)
		return refused
	})
	switch {
	case refused != nil || err == nil && !commit:
		t.acc.Write(account.Event{What: account.RolledBack, Op: v.name, ID: id, Error: shorten(refused)})
	case err != nil: // nobody knows whether it was committed
		t.acc.Write(account.Event{What: account.Returned, Op: v.name, ID: id, Fate: flavoso.FateUnknown.String(), Error: shorten(err)})
	default:
		t.acc.Write(account.Event{What: account.Saved, Op: v.name, ID: id})
	}
}

// cancel enqueues a wish and takes it back at once, if that is still possible.
func (w *worker) cancel(ctx context.Context, v wish) {
	t := w.life
	e, o := v.operation(t)
	e.What = account.Began
	t.acc.Write(e)
	id, err := o.enqueue(ctx)
	if err != nil {
		t.returned(v.name, "", err)
		return
	}
	t.acc.Write(account.Event{What: account.Saved, Op: v.name, ID: id})
	select {
	case <-time.After(time.Duration(w.rnd.IntN(12)) * time.Millisecond): // it may have been sent by then
	case <-ctx.Done():
	}
	if t.client(v).Operations.Cancel(ctx, id) == nil {
		t.acc.Write(account.Event{What: account.Canceled, Op: v.name, ID: id})
	}
}

func (t *Life) returned(name, id string, err error) {
	t.acc.Write(account.Event{What: account.Returned, Op: name, ID: id, Fate: flavoso.FateOf(err).String(), Error: shorten(err)})
}
