package idempotencytest

import (
	"context"
	"sync"
	"time"

	"github.com/flavoso/flavoso-go/idempotency"
)

// Method names a method of idempotency.Engine for Faults.
type Method string

// The methods that Faults can make fail.
const (
	Claim         Method = "Claim"
	Complete      Method = "Complete"
	Fail          Method = "Fail"
	Release       Method = "Release"
	Extend        Method = "Extend"
	MarkEffect    Method = "MarkEffect"
	MarkUncertain Method = "MarkUncertain"
)

// Faults makes an engine's calls fail. Safe for concurrent use.
type Faults struct {
	engine idempotency.Engine

	mu     sync.Mutex
	rules  map[Method]*rule
	calls  map[Method]int
	called chan struct{} // closed and replaced at every call
}

type rule struct {
	err   error
	times int // left; negative = always
	after bool
}

// NewFaults is about the calls of e made through its Engine. Without Arm nothing fails.
func NewFaults(e idempotency.Engine) *Faults {
	return &Faults{engine: e, rules: map[Method]*rule{}, calls: map[Method]int{}, called: make(chan struct{})}
}

// Engine returns the engine whose calls can fail.
func (f *Faults) Engine() idempotency.Engine { return faulty{f.engine, f} }

// Arm makes the next calls of a method return err; negative times means always. With after the step happens
// first: the engine has committed and only its answer is lost.
func (f *Faults) Arm(m Method, err error, times int, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules[m] = &rule{err: err, times: times, after: after}
}

// Heal removes all faults.
func (f *Faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.rules)
}

// Await returns when a method has been called n times in all, or ctx ends.
func (f *Faults) Await(ctx context.Context, m Method, n int) error {
	for {
		f.mu.Lock()
		have, called := f.calls[m], f.called
		f.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-called:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *Faults) do(m Method, step func() error) error {
	f.mu.Lock()
	var now rule
	if r := f.rules[m]; r != nil && r.times != 0 {
		now = *r
		r.times--
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls[m]++
		close(f.called)
		f.called = make(chan struct{})
	}()
	if now.err == nil {
		return step()
	}
	if now.after {
		_ = step()
	}
	return now.err
}

// faulty is the engine of Faults. The methods it does not name never fail.
type faulty struct {
	idempotency.Engine
	f *Faults
}

func (e faulty) Claim(ctx context.Context, req idempotency.ClaimRequest) (res idempotency.ClaimResult, err error) {
	err = e.f.do(Claim, func() (err error) {
		res, err = e.Engine.Claim(ctx, req)
		return err
	})
	if err != nil {
		return idempotency.ClaimResult{}, err
	}
	return res, nil
}

func (e faulty) Complete(ctx context.Context, c idempotency.Claim, r idempotency.Result) error {
	return e.f.do(Complete, func() error { return e.Engine.Complete(ctx, c, r) })
}

func (e faulty) Fail(ctx context.Context, c idempotency.Claim, r idempotency.Result) error {
	return e.f.do(Fail, func() error { return e.Engine.Fail(ctx, c, r) })
}

func (e faulty) Release(ctx context.Context, c idempotency.Claim) error {
	return e.f.do(Release, func() error { return e.Engine.Release(ctx, c) })
}

func (e faulty) Extend(ctx context.Context, c idempotency.Claim, lease time.Duration) (until time.Time, err error) {
	err = e.f.do(Extend, func() (err error) {
		until, err = e.Engine.Extend(ctx, c, lease)
		return err
	})
	return until, err
}

func (e faulty) MarkEffect(ctx context.Context, c idempotency.Claim) error {
	return e.f.do(MarkEffect, func() error { return e.Engine.MarkEffect(ctx, c) })
}

func (e faulty) MarkUncertain(ctx context.Context, c idempotency.Claim, note string) error {
	return e.f.do(MarkUncertain, func() error { return e.Engine.MarkUncertain(ctx, c, note) })
}
