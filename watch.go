package flavoso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/flavoso/flavoso-go/internal/dispatch"
)

// Defaults of WatchParams.
const (
	DefaultWatchInterval     = 5 * time.Second
	DefaultWatchIdleInterval = 30 * time.Second
)

// watchOverlap is how far each poll looks back behind what was seen last. It covers changes that become
// visible later than their updated_at says; what comes again is told apart by its version.
const watchOverlap = time.Minute

// watchSkew is how far Flavoso's Date header may be ahead of its updated_at. Once nothing has happened for
// so long, polls need not return what came last again and again.
const watchSkew = 10 * time.Minute

// watchStep is the least the cursor moves, so that polls without news save nothing.
const watchStep = watchOverlap / 4

// WatchParams say what is watched.
type WatchParams struct {
	// Name is what the cursor is kept under in the outbox, e.g. "kitchen"; required. Every name has seen
	// its own orders; two watches with the same name at once are refused.
	Name string
	// Since is where the first watch of this name begins: with orders that changed later. Zero = with all
	// that Flavoso lists. It does not count once there is a cursor.
	Since time.Time
	// Status restricts the watch to orders in one of these; nil = all. An order that leaves them is not
	// reported, and statuses added later count from now on.
	Status []OrderStatus
	// Interval is the time between two polls while orders come or change; default 5 s.
	Interval time.Duration
	// IdleInterval is what the time between two polls grows to while nothing happens or Flavoso cannot be
	// reached; default 30 s, and Interval at least.
	IdleInterval time.Duration
}

func (p *WatchParams) resolve() error {
	if err := validateReference("name", p.Name); err != nil {
		return err
	}
	if p.Interval < 0 || p.IdleInterval < 0 {
		return &ParamError{Field: "interval", Rule: "must not be negative; 0 = the default"}
	}
	if p.Interval == 0 {
		p.Interval = DefaultWatchInterval
	}
	if p.IdleInterval == 0 {
		p.IdleInterval = DefaultWatchIdleInterval
	}
	p.IdleInterval = max(p.IdleInterval, p.Interval)
	_, err := ListOrdersParams{Status: p.Status, UpdatedAfter: p.Since}.query("")
	return err
}

// Watch calls handle for every order that comes or changes, one at a time, until ctx ends (it returns the
// context's error) or the client closes (ErrStopped). It polls (A4, A5); Flavoso being unreachable, or
// refusing the token, does not end it.
//
// What is certain:
//
//   - Nothing is missed. For every change of an order handle is called with that version of the order or a
//     later one, whatever happens in between: orders that come while pages are read, equal times, an
//     outage, a restart. (Two changes between two polls are one call.) The certainty ends where a change
//     shows up more than a minute later than its updated_at says.
//   - Nothing comes twice. A version that handle took (it returned nil) does not come again, in this
//     process or in a later one that has the outbox: the cursor is saved after every call. Only the one
//     order whose handle was running when the process died or the client closed comes again.
//   - An error of handle, or a panic, means: this order again later, as it is then, with the delays of
//     Config.Retry. Other orders go on meanwhile. Which orders are owed outlives a restart, too.
//
// Orders come in the order Flavoso lists them; the versions of one order never go back. The calls of this
// app change orders, too, and come as changes. To read is not to acknowledge: say Acknowledge when an
// order is in the POS, and Accept when the kitchen makes it.
//
// handle's context ends with ctx and when the client closes. Do and Enqueue inside it are allowed. Watch
// polls at Interval while things happen and slows down to IdleInterval while nothing does; Wake makes it poll at
// once. It sends nothing while Flavoso asks to wait (Retry-After).
func (s *OrdersService) Watch(ctx context.Context, p WatchParams, handle func(context.Context, *Order) error) error {
	if err := p.resolve(); err != nil {
		return err
	}
	if handle == nil {
		return &ParamError{Field: "handle", Rule: "must be given"}
	}
	id := watchID{s.client.cfg.Connection, p.Name}
	w := &watch{client: s.client, params: p, handle: handle, woken: make(chan struct{}, 1)}
	if _, twice := s.client.watches.LoadOrStore(id, w); twice {
		return &ParamError{Field: "name", Rule: fmt.Sprintf("%q is being watched already", p.Name)}
	}
	defer s.client.watches.Delete(id)
	if s.client.ctx.Err() != nil {
		return ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.client.ctx, func() { cancel(ErrStopped) })()
	if err := w.load(ctx); err != nil {
		return err
	}
	return w.run(ctx)
}

// watchID names a watch.
type watchID struct{ connection, name string }

// watch is one Watch under way; all of it runs in the caller's goroutine.
type watch struct {
	client *Client
	params WatchParams
	handle func(context.Context, *Order) error
	woken  chan struct{} // Wake was called

	cursor watchCursor
	owed   map[string]*owedOrder // orders that handle did not take, by id
	sweep  *sweep                // the poll under way; nil = none
	idle   int                   // polls in a row without news
	failed int                   // reads in a row that failed
}

// owedOrder is an order that handle did not take.
type owedOrder struct {
	key   orderKey // the latest state seen
	tries int
	again time.Time
}

// sweep is one poll: all pages of the orders that changed since the cursor.
type sweep struct {
	began time.Time
	date  time.Time // Flavoso's clock at the first page; zero = it did not say
	page  string    // cursor of the next page
	high  time.Time // the latest change seen, by Flavoso's clock
	news  bool
}

func (w *watch) run(ctx context.Context) error {
	poll := time.Now()
	for {
		next := poll
		for _, o := range w.owed {
			if o.again.Before(next) {
				next = o.again
			}
		}
		if until := w.client.dispatcher.Health(w.client.cfg.Connection).PausedUntil; until.After(w.client.cfg.now()) {
			if wait := until.Sub(w.client.cfg.now()); time.Until(next) < wait {
				next = time.Now().Add(wait)
			}
		}
		woken, err := w.wait(ctx, time.Until(next))
		switch {
		case err != nil:
			return err
		case woken:
			w.failed, poll = 0, time.Now()
			continue // Flavoso may have asked to wait
		}
		w.payOwed(ctx)
		if ctx.Err() == nil && !time.Now().Before(poll) {
			poll = time.Now().Add(w.poll(ctx))
		}
	}
}

// wait waits, unless ctx ends or Wake is called.
func (w *watch) wait(ctx context.Context, d time.Duration) (woken bool, err error) {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.woken:
			woken = true
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return false, dispatch.ContextError(ctx)
	}
	return woken, nil
}

// wakeWatches has the watches of a connection poll now; of all with "".
func (c *core) wakeWatches(connection string) {
	c.watches.Range(func(id, w any) bool {
		if connection == "" || id.(watchID).connection == connection {
			tell(w.(*watch).woken)
		}
		return true
	})
}

// poll reads page by page until the sweep is complete or a read fails, and returns how long to wait then.
func (w *watch) poll(ctx context.Context) time.Duration {
	if w.sweep == nil {
		w.sweep = &sweep{began: time.Now()}
	}
	for ctx.Err() == nil {
		page, date, err := w.read(ctx, w.sweep.page)
		if err != nil {
			return w.readFailed(ctx, err)
		}
		w.failed = 0
		if w.sweep.page == "" {
			w.sweep.date = date
		}
		for _, raw := range page.Data {
			if ctx.Err() != nil {
				return 0
			}
			w.see(ctx, raw)
		}
		next := page.next()
		if next == "" || next == w.sweep.page {
			return w.swept(date)
		}
		w.sweep.page = next
	}
	return 0
}

// read makes one request. Its repeats are the poll's own: a watch has no hurry.
func (w *watch) read(ctx context.Context, cursor string) (page *rawPage, date time.Time, err error) {
	q, err := w.query(cursor)
	if err != nil {
		return nil, time.Time{}, err
	}
	var resp Response
	page, err = Get[rawPage](ctx, w.client, Path("orders"), q, ResponseInto(&resp), once)
	date, _ = http.ParseTime(resp.Header.Get("Date")) // zero = Flavoso did not say
	return page, date, err
}

// once makes a read try only once.
func once(o *readOptions) { o.attempts = 1 }

func (w *watch) query(cursor string) (url.Values, error) {
	return ListOrdersParams{Status: w.params.Status, UpdatedAfter: w.cursor.From, PageSize: maxPageSize}.query(cursor)
}

// readFailed returns how long to wait after a read that failed.
func (w *watch) readFailed(ctx context.Context, err error) time.Duration {
	var read *ReadError
	wait := time.Duration(0)
	if errors.As(err, &read) && read.Last != nil {
		wait = read.Last.RetryAfter
	}
	var api *APIError
	if errors.As(err, &api) && api.Status/100 == 4 && w.sweep.page != "" {
		w.sweep = nil // the page's cursor may have been outlived: from the first page again
	}
	if ctx.Err() == nil {
		w.client.cfg.Logger.Warn("flavoso.watch_unread", "watch", w.params.Name, "error", err)
	}
	grown := w.params.Interval << min(w.failed, 20)
	if grown <= 0 || grown > w.params.IdleInterval {
		grown = w.params.IdleInterval
	}
	w.failed++
	return wait + jittered(grown)
}

// see takes one entry of a page.
func (w *watch) see(ctx context.Context, raw json.RawMessage) {
	key, err := keyOf(raw)
	if key.ID == "" {
		w.client.cfg.Logger.Error("flavoso.watch_unreadable", "watch", w.params.Name, "error", err)
		return
	}
	if key.UpdatedAt.After(w.sweep.high) {
		w.sweep.high = key.UpdatedAt
	}
	if o := w.owed[key.ID]; o != nil {
		if key.Version > o.key.Version {
			o.key, w.cursor.changed = key, true
		}
		return
	}
	if w.cursor.took(key) {
		return
	}
	w.sweep.news = true
	w.offer(ctx, key, raw)
}

// keyOf reads which state of which order an entry is. With an error the id may be known all the same.
func keyOf(raw json.RawMessage) (orderKey, error) {
	var key orderKey
	err := json.Unmarshal(raw, &key)
	if err == nil && key.ID == "" {
		err = errors.New("an order without an id")
	}
	if err != nil {
		var id struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(raw, &id) // the id alone may be readable
		return orderKey{ID: id.ID}, err
	}
	return key, nil
}

// offer hands an order to handle and notes what came of it.
func (w *watch) offer(ctx context.Context, key orderKey, raw json.RawMessage) {
	order := new(Order)
	err := json.Unmarshal(raw, order)
	if err == nil {
		err = w.call(ctx, order)
	}
	_, owed := w.owed[key.ID]
	switch {
	case err == nil && owed:
		delete(w.owed, key.ID)
		w.cursor.take(key)
		w.save(ctx)
	case err == nil:
		w.cursor.take(key)
		w.saveTaken(ctx)
	case ctx.Err() != nil:
		// It was interrupted rather than refused, and comes again with the next watch.
	default:
		w.owe(ctx, key, err)
	}
}

// call runs handle; a panic is an error.
func (w *watch) call(ctx context.Context, order *Order) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the handler panicked: %v", v)
		}
	}()
	return w.handle(ctx, order)
}

// owe notes that an order is to be tried again.
func (w *watch) owe(ctx context.Context, key orderKey, err error) {
	o := w.owed[key.ID]
	if o == nil {
		o = &owedOrder{key: key}
		w.owed[key.ID] = o
		w.save(ctx)
	}
	o.again = time.Now().Add(w.client.cfg.delay(o.tries))
	o.tries++
	w.client.cfg.Logger.Warn("flavoso.watch_not_taken", "watch", w.params.Name, "order", key.ID, "tries", o.tries, "error", err)
}

// payOwed tries again what is due, each order as it is now.
func (w *watch) payOwed(ctx context.Context) {
	for _, id := range slices.Sorted(maps.Keys(w.owed)) {
		o := w.owed[id]
		if ctx.Err() != nil {
			return
		}
		if o.again.After(time.Now()) {
			continue
		}
		if w.cursor.took(o.key) {
			w.forget(ctx, id) // it was taken just before an earlier process ended
			continue
		}
		raw, err := Get[json.RawMessage](ctx, w.client, Path("orders", id), nil, once)
		if errors.Is(err, ErrNotFound) {
			w.forget(ctx, id) // it is gone: there is nothing left to handle
			continue
		}
		key := o.key
		if err == nil {
			key, err = keyOf(*raw)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			w.owe(ctx, o.key, err)
		case key.ID != id || key.Version < o.key.Version:
			w.owe(ctx, o.key, errors.New("a read shows an older state than before"))
		default:
			w.offer(ctx, key, *raw)
		}
	}
}

// forget strikes an order off those owed.
func (w *watch) forget(ctx context.Context, id string) {
	delete(w.owed, id)
	w.save(ctx)
}

// swept ends a complete sweep: the cursor moves on, and the wait until the next one is returned.
func (w *watch) swept(date time.Time) time.Duration {
	took := time.Since(w.sweep.began)
	high := w.sweep.high
	// A time in the future, by Flavoso's own clock, would hide what comes until then.
	if limit := date.Add(time.Second); !date.IsZero() && high.After(limit) {
		high = limit
	}
	// An order on a page that was read already may have changed while the others were read. It changed
	// after the sweep began, so looking back as long as the sweep took finds it.
	from := w.cursor.From
	if !high.IsZero() {
		from = high.Add(-took - watchOverlap)
	}
	if date := w.sweep.date; len(w.cursor.Taken) > 0 && !date.IsZero() && date.Add(-watchSkew).After(from) {
		from = date.Add(-watchSkew)
	}
	if from.Sub(w.cursor.From) >= watchStep {
		w.cursor.moveTo(from)
	}
	news := w.sweep.news
	w.sweep = nil
	if w.cursor.changed {
		w.save(context.Background())
	}
	if news {
		w.idle = 0
		return jittered(w.params.Interval)
	}
	w.idle++
	slow := w.params.Interval
	for range min(w.idle, 60) {
		if slow += slow / 2; slow >= w.params.IdleInterval {
			return jittered(w.params.IdleInterval)
		}
	}
	return jittered(slow)
}

// jittered spreads tills that were switched on together: d, less up to a tenth.
func jittered(d time.Duration) time.Duration { return d - rand.N(d/10+1) }
