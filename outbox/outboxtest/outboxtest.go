// Package outboxtest is the suite that every outbox engine passes. [Run] proves the contract of
// [outbox.Engine]: one test per rule, and a random walk that compares the engine with a plain model
// after every step and every reopen.
package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// Storage is fresh storage for one test.
type Storage struct {
	// Open opens an engine on the storage. The suite closes it, and opens the storage again later where
	// Reopens is set, and expects to find what was saved. The engine opened before is closed then.
	Open func() (outbox.Engine, error)
	// Reopens says that the storage survives its engine.
	Reopens bool
	// Shared says that claims outlive the engine that made them, until their lease ends.
	Shared bool
}

// Run runs the suite. fresh makes empty storage, and is called many times.
func Run(t *testing.T, fresh func(t testing.TB) Storage) {
	for _, c := range slices.Concat(addingCases, claimingCases, decidingCases, keepingCases, readingCases, lateCases) {
		t.Run(c.name, func(t *testing.T) {
			s := fresh(t)
			c.run(t, newBench(t, s))
		})
	}
	t.Run("every step and reopen equals the model", func(t *testing.T) { runModel(t, fresh) })
}

// rule is a rule of the contract, with its test.
type rule struct {
	name string
	run  func(*testing.T, *bench)
}

// bench is an engine under test with the helpers that the cases share.
type bench struct {
	testing.TB
	storage Storage
	outbox.Engine
	now time.Time
}

func newBench(t testing.TB, s Storage) *bench {
	t.Helper()
	b := &bench{TB: t, storage: s, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	b.open()
	t.Cleanup(func() {
		if err := b.Engine.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

func (b *bench) open() {
	b.Helper()
	e, err := b.storage.Open()
	if err != nil {
		b.Fatalf("open: %v", err)
	}
	b.Engine = e
}

// reopen closes the engine and opens its storage again; false = the storage does not survive.
func (b *bench) reopen() bool {
	b.Helper()
	if !b.storage.Reopens {
		return false
	}
	if err := b.Engine.Close(); err != nil {
		b.Fatalf("Close: %v", err)
	}
	b.open()
	return true
}

var ctx = context.Background()

func (b *bench) ok(err error, what string, args ...any) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v", fmt.Sprintf(what, args...), err)
	}
}

func (b *bench) is(err, want error, what string, args ...any) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Fatalf("%s: error %v, want %v", fmt.Sprintf(what, args...), err, want)
	}
}

func (b *bench) want(got, want any, what string, args ...any) {
	b.Helper()
	if !reflect.DeepEqual(got, want) {
		b.Fatalf("%s:\n got %+v\nwant %+v", fmt.Sprintf(what, args...), got, want)
	}
}

// rec returns a record to add.
func rec(id, lane string, opts ...func(*outbox.Addition)) outbox.Addition {
	a := outbox.Addition{Record: outbox.Record{
		ID: id, Connection: "store-1", Lane: lane, Kind: "orders.accept", Resource: id,
		Key: "key-" + id, KeyDerived: true, Fingerprint: []byte("content of " + id), RepeatSafe: true,
		Request: outbox.Request{
			Method: "POST", Target: "/orders/" + id + "/accept", ContentType: "application/json",
			Accept: "application/json", Body: []byte(`{"id":"` + id + `"}`),
		},
	}}
	for _, o := range opts {
		o(&a)
	}
	return a
}

func (b *bench) add(a outbox.Addition) outbox.Added {
	b.Helper()
	a.Now = b.now
	out, err := b.Add(ctx, a)
	b.ok(err, "Add %s", a.Record.ID)
	return out
}

func (b *bench) mark() outbox.Mark {
	return outbox.Mark{Now: b.now, Server: b.now.Add(time.Second), Boot: "boot", Uptime: time.Hour, Lease: time.Minute}
}

func (b *bench) claim(limit int, firstIDs ...string) []outbox.Record {
	b.Helper()
	out, err := b.Claim(ctx, outbox.ClaimRequest{Mark: b.mark(), Limit: limit, First: firstIDs})
	b.ok(err, "Claim")
	return out
}

// claimIDs claims and returns the IDs in order.
func (b *bench) claimIDs(limit int, firstIDs ...string) []string {
	b.Helper()
	return idsOf(b.claim(limit, firstIDs...))
}

// idsOf returns the IDs of records, in their order.
func idsOf(recs []outbox.Record) []string {
	ids := []string{}
	for _, r := range recs {
		ids = append(ids, r.ID)
	}
	return ids
}

func (b *bench) get(id string) outbox.Record {
	b.Helper()
	r, err := b.Get(ctx, id)
	b.ok(err, "Get %s", id)
	return r
}

// settle ends the claim that the record has now.
func (b *bench) settle(id string, to outbox.State, opts ...func(*outbox.Settlement)) outbox.Settled {
	b.Helper()
	s := outbox.Settlement{ID: id, Claim: b.get(id).Claim.Token, Now: b.now, To: to}
	if !to.Waiting() {
		s.Result = &outbox.Result{Status: 200, Body: []byte("{}")}
	}
	for _, o := range opts {
		o(&s)
	}
	out, err := b.Settle(ctx, s)
	b.ok(err, "Settle %s", id)
	b.ok(out[0].Err, "Settle %s", id)
	return out[0]
}

func (b *bench) set(id string, action outbox.Action) (outbox.Record, error) {
	return b.Set(ctx, outbox.Change{ID: id, Action: action, Now: b.now})
}

func (b *bench) counts() outbox.Counts {
	b.Helper()
	c, err := b.Counts(ctx, "")
	b.ok(err, "Counts")
	return c
}

func (b *bench) signaled() bool {
	select {
	case <-b.Changed():
		return true
	default:
		return false
	}
}

func neverSent(s *outbox.Settlement) { s.NeverSent = true }

// listIDs reads every page of a query.
func listIDs(b *bench, q outbox.Query) []string {
	b.Helper()
	ids := []string{}
	for {
		p, err := b.List(ctx, q)
		b.ok(err, "List")
		ids = append(ids, idsOf(p.Records)...)
		if p.Next == "" {
			return ids
		}
		q.After = p.Next
	}
}
