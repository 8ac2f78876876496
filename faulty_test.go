package flavoso

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// faulty is an engine in memory whose methods fail by script.
type faulty struct {
	outbox.Engine
	mu    sync.Mutex
	rules []*rule
}

// rule lets calls of one method fail.
type rule struct {
	method string
	err    error
	times  int                // how many calls; 0 = all until it is removed
	saved  bool               // the step is made all the same, and only its answer is lost
	wait   <-chan struct{}    // the call takes until this is closed
	when   func(arg any) bool // nil = always
	hits   int
}

func newFaulty(rules ...*rule) *faulty { return &faulty{Engine: outbox.NewMemory(), rules: rules} }

func (f *faulty) script(r *rule) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
	return r
}

func (f *faulty) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

func (f *faulty) hits(r *rule) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.hits
}

func (f *faulty) find(method string, arg any) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.method == method && (r.times == 0 || r.hits < r.times) && (r.when == nil || r.when(arg)) {
			r.hits++
			return r
		}
	}
	return nil
}

func try[T any](f *faulty, method string, arg any, call func() (T, error)) (T, error) {
	r := f.find(method, arg)
	if r == nil {
		return call()
	}
	if r.wait != nil {
		<-r.wait
	}
	if r.saved || r.err == nil {
		v, err := call()
		if r.err == nil {
			return v, err
		}
	}
	var none T
	return none, r.err
}

func (f *faulty) Add(ctx context.Context, a outbox.Addition) (outbox.Added, error) {
	return try(f, "Add", a, func() (outbox.Added, error) { return f.Engine.Add(ctx, a) })
}

func (f *faulty) Claim(ctx context.Context, q outbox.ClaimRequest) ([]outbox.Record, error) {
	return try(f, "Claim", q, func() ([]outbox.Record, error) { return f.Engine.Claim(ctx, q) })
}

func (f *faulty) Settle(ctx context.Context, s ...outbox.Settlement) ([]outbox.Settled, error) {
	return try(f, "Settle", s[0], func() ([]outbox.Settled, error) { return f.Engine.Settle(ctx, s...) })
}

func (f *faulty) Set(ctx context.Context, c outbox.Change) (outbox.Record, error) {
	return try(f, "Set", c, func() (outbox.Record, error) { return f.Engine.Set(ctx, c) })
}

func (f *faulty) Get(ctx context.Context, id string) (outbox.Record, error) {
	return try(f, "Get", id, func() (outbox.Record, error) { return f.Engine.Get(ctx, id) })
}

func (f *faulty) List(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	return try(f, "List", q, func() (outbox.Page, error) { return f.Engine.List(ctx, q) })
}

func (f *faulty) Counts(ctx context.Context, c string) (outbox.Counts, error) {
	return try(f, "Counts", c, func() (outbox.Counts, error) { return f.Engine.Counts(ctx, c) })
}

func (f *faulty) NextDue(ctx context.Context, s outbox.Scope) (time.Time, bool, error) {
	ok := false
	at, err := try(f, "NextDue", s, func() (time.Time, error) {
		t, found, err := f.Engine.NextDue(ctx, s)
		ok = found
		return t, err
	})
	return at, ok && err == nil, err
}

func (f *faulty) Ack(ctx context.Context, id string, revision int) error {
	_, err := try(f, "Ack", id, func() (struct{}, error) { return struct{}{}, f.Engine.Ack(ctx, id, revision) })
	return err
}

func (f *faulty) Purge(ctx context.Context, p outbox.PurgeRequest) (int, error) {
	return try(f, "Purge", p, func() (int, error) { return f.Engine.Purge(ctx, p) })
}

func (f *faulty) SaveState(ctx context.Context, c, name string, v []byte) error {
	_, err := try(f, "SaveState", name, func() (struct{}, error) { return struct{}{}, f.Engine.SaveState(ctx, c, name, v) })
	return err
}

var (
	errDisk    = fmt.Errorf("%w: input/output error", outbox.ErrFault)
	errUnknown = &outbox.SaveError{Err: errors.New("fdatasync: input/output error")}
	errFull    = &outbox.FullError{Limit: "disk", Err: errors.New("no space left on device")}
)
