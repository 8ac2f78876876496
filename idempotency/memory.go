package idempotency

import (
	"bytes"
	"container/heap"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Memory is an Engine that keeps its records in this process. They do not survive it, so it is right for
// tests, mock servers and services whose effects do not survive it either. Expired records leave while others are
// claimed; it needs no goroutine and no Close.
type Memory struct {
	now        func() time.Time
	maxRecords int64
	maxBytes   int64

	generation atomic.Int64 // one counter for all: generations rise even across released and expired records
	records    atomic.Int64
	bytes      atomic.Int64
	counters   LiveCounters
	shards     [memoryShards]memoryShard
}

const (
	memoryShards = 64
	// recordOverhead is about what a record occupies besides its strings and its result.
	recordOverhead = 512
)

type memoryShard struct {
	mu      sync.Mutex
	records map[ID]*memoryRecord
	expiry  expiryHeap // finished records, the next to expire first
}

type memoryRecord struct {
	Record
	id        ID
	owner     Owner
	retention time.Duration
	holdFrom  HoldFrom
	policy    LeasePolicy
	result    Result
	size      int64
	heapIndex int // -1 = not in the heap
}

// MemoryOption configures NewMemory.
type MemoryOption func(*Memory)

// WithClock replaces time.Now. Leases and retention follow it. It is called while locks are held: it must not
// call the engine.
func WithClock(now func() time.Time) MemoryOption { return func(m *Memory) { m.now = now } }

// WithMaxRecords bounds the number of records; further new claims get ErrFull until records expire. Default 1 000 000.
func WithMaxRecords(n int) MemoryOption { return func(m *Memory) { m.maxRecords = int64(n) } }

// WithMaxBytes bounds the size of all records; further new claims get ErrFull. Results of claims already
// accepted are stored all the same. Default 512 MiB.
func WithMaxBytes(n int64) MemoryOption { return func(m *Memory) { m.maxBytes = n } }

// NewMemory makes an empty engine.
func NewMemory(opts ...MemoryOption) *Memory {
	m := &Memory{now: time.Now, maxRecords: 1_000_000, maxBytes: 512 << 20}
	for _, o := range opts {
		o(m)
	}
	for i := range m.shards {
		m.shards[i].records = make(map[ID]*memoryRecord)
	}
	return m
}

var _ Engine = (*Memory)(nil)

func (m *Memory) shard(id ID) *memoryShard { return &m.shards[int(id[0])%memoryShards] }

// Claim implements Engine.
func (m *Memory) Claim(ctx context.Context, req ClaimRequest) (ClaimResult, error) {
	if err := req.Validate(); err != nil {
		return ClaimResult{}, err
	}
	if err := ctx.Err(); err != nil {
		return ClaimResult{}, err
	}
	id := req.Scope.ID()
	res, err := m.claim(id, req)
	if err == ErrFull { // what has expired in other shards makes room
		if rep, _ := m.Sweep(ctx, int(m.maxRecords)); rep.Deleted > 0 {
			res, err = m.claim(id, req)
		}
	}
	if err == nil {
		m.counters.Decision(res.Decision)
	}
	return res, err
}

func (m *Memory) claim(id ID, req ClaimRequest) (ClaimResult, error) {
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now()
	m.expire(s, now, 2) // two leave for one that comes: the engine shrinks under load
	r := s.records[id]
	if r != nil && r.expired(now) {
		m.remove(s, r)
		r = nil
	}
	if r == nil {
		if m.records.Load() >= m.maxRecords || m.bytes.Load() >= m.maxBytes {
			return ClaimResult{}, ErrFull
		}
		r = &memoryRecord{id: id, heapIndex: -1}
		r.Scope, r.CreatedAt = req.Scope, now
		r.size = recordOverhead + int64(len(req.Scope.Tenant)+len(req.Scope.Operation)+len(req.Scope.Key))
		s.records[id] = r
		m.records.Add(1)
		m.bytes.Add(r.size)
		return m.own(r, req, now, New), nil
	}
	lapsed := r.State == Processing && !now.Before(r.LeaseUntil)
	if r.Fingerprint != req.Fingerprint && !(lapsed && !r.Effect && r.policy == FreeKey) {
		return ClaimResult{Decision: Mismatch, Record: r.Record}, nil
	}
	switch {
	case r.State.Finished() && r.result.Omitted:
		return ClaimResult{Decision: ResultGone, Record: r.Record}, nil
	case r.State.Finished():
		return ClaimResult{Decision: Replay, Record: r.Record, Result: r.result}, nil
	case r.State == Uncertain:
		return ClaimResult{Decision: Uncertain, Record: r.Record}, nil
	case !lapsed:
		return ClaimResult{Decision: InProgress, Record: r.Record}, nil
	case r.Effect || r.policy == Uncertain:
		r.State, r.Note = Uncertain, LapsedNote
		m.counters.MarkedUncertain.Add(1)
		return ClaimResult{Decision: Uncertain, Record: r.Record}, nil
	}
	return m.own(r, req, now, TakenOver), nil
}

// LapsedNote is the note of a record that became uncertain because its lease ended.
const LapsedNote = "the lease ended without a result"

func (m *Memory) own(r *memoryRecord, req ClaimRequest, now time.Time, d Decision) ClaimResult {
	r.State, r.Fingerprint, r.Effect = Processing, req.Fingerprint, false
	r.Generation = m.generation.Add(1)
	r.LeaseUntil = now.Add(req.Lease)
	r.owner, r.retention, r.holdFrom, r.policy = NewOwner(), req.Retention, req.HoldFrom, req.OnLeaseLost
	if req.HoldFrom == FromReceipt {
		r.ExpiresAt = now.Add(req.Retention)
	}
	return ClaimResult{Decision: d, Record: r.Record,
		Claim: Claim{Scope: req.Scope, Owner: r.owner, Generation: r.Generation, LeaseUntil: r.LeaseUntil}}
}

// owned returns the record if c owns it. The shard is locked.
func (m *Memory) owned(s *memoryShard, c Claim, id ID) (*memoryRecord, error) {
	r := s.records[id]
	if r == nil || c.Owner == (Owner{}) || r.owner != c.Owner || r.Generation != c.Generation {
		m.counters.OwnershipLost.Add(1)
		return nil, ErrOwnershipLost
	}
	return r, nil
}

// change runs f on the record that c owns and has not finished.
func (m *Memory) change(ctx context.Context, c Claim, f func(s *memoryShard, r *memoryRecord, now time.Time)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id := c.Scope.ID()
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := m.owned(s, c, id)
	if err != nil {
		return err
	}
	if r.State.Finished() {
		return ErrFinished
	}
	f(s, r, m.now())
	return nil
}

// Complete implements Engine.
func (m *Memory) Complete(ctx context.Context, c Claim, res Result) error {
	return m.finish(ctx, c, res, Completed)
}

// Fail implements Engine.
func (m *Memory) Fail(ctx context.Context, c Claim, res Result) error {
	return m.finish(ctx, c, res, Failed)
}

func (m *Memory) finish(ctx context.Context, c Claim, res Result, to State) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id := c.Scope.ID()
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := m.owned(s, c, id)
	if err != nil {
		return err
	}
	switch {
	case r.State == to:
		return nil
	case r.State.Finished():
		return ErrFinished
	}
	now := m.now()
	m.counters.Finished(to, !now.Before(r.LeaseUntil))
	m.store(s, r, res, to, now)
	return nil
}

func (m *Memory) store(s *memoryShard, r *memoryRecord, res Result, to State, now time.Time) {
	r.result = res.Clone()
	r.State, r.Status, r.Size, r.Note, r.FinishedAt = to, res.Status, r.result.Size(), "", now
	r.size += r.Size
	m.bytes.Add(r.Size)
	if r.holdFrom != FromReceipt {
		r.ExpiresAt = now.Add(r.retention)
	}
	heap.Push(&s.expiry, r)
}

// Release implements Engine.
func (m *Memory) Release(ctx context.Context, c Claim) error {
	return m.change(ctx, c, func(s *memoryShard, r *memoryRecord, _ time.Time) {
		m.remove(s, r)
		m.counters.Released.Add(1)
	})
}

// Extend implements Engine.
func (m *Memory) Extend(ctx context.Context, c Claim, lease time.Duration) (until time.Time, err error) {
	err = m.change(ctx, c, func(_ *memoryShard, r *memoryRecord, now time.Time) {
		r.LeaseUntil = now.Add(lease)
		until = r.LeaseUntil
	})
	return until, err
}

// MarkEffect implements Engine.
func (m *Memory) MarkEffect(ctx context.Context, c Claim) error {
	return m.change(ctx, c, func(_ *memoryShard, r *memoryRecord, _ time.Time) { r.Effect = true })
}

// MarkUncertain implements Engine.
func (m *Memory) MarkUncertain(ctx context.Context, c Claim, note string) error {
	return m.change(ctx, c, func(_ *memoryShard, r *memoryRecord, _ time.Time) {
		if r.State != Uncertain {
			m.counters.MarkedUncertain.Add(1)
		}
		r.State, r.Note = Uncertain, note
	})
}

// Reconcile implements Engine.
func (m *Memory) Reconcile(ctx context.Context, id ID, generation int64, rc Reconciliation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now()
	r := s.records[id]
	if r == nil || r.expired(now) {
		return ErrNotFound
	}
	open := r.State == Uncertain || r.State == Processing && !now.Before(r.LeaseUntil)
	if r.Generation != generation || !open {
		return ErrState
	}
	if rc.Retention > 0 {
		r.retention = rc.Retention
	}
	switch rc.Verdict {
	case Happened:
		m.store(s, r, rc.Result, Completed, now)
	case Refused:
		m.store(s, r, rc.Result, Failed, now)
	case DidNotHappen:
		m.remove(s, r)
	default:
		return ErrState
	}
	r.owner = Owner{}
	m.counters.Reconciled.Add(1)
	return nil
}

// Get implements Engine. The result is shared with the engine and must not be changed.
func (m *Memory) Get(ctx context.Context, id ID) (Record, Result, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, Result{}, err
	}
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[id]
	if r == nil || r.expired(m.now()) {
		return Record{}, Result{}, ErrNotFound
	}
	return r.Record, r.result, nil
}

// List implements Engine. It reads every record: meant for tests and operators.
func (m *Memory) List(ctx context.Context, f Filter) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type item struct {
		id  ID
		rec Record
	}
	var found []item
	m.each(func(r *memoryRecord, now time.Time) {
		if r.expired(now) || f.Tenant != "" && f.Tenant != r.Scope.Tenant ||
			len(f.States) > 0 && !slices.Contains(f.States, r.State) || bytes.Compare(r.id[:], f.After[:]) <= 0 {
			return
		}
		found = append(found, item{r.id, r.Record})
	})
	slices.SortFunc(found, func(a, b item) int { return bytes.Compare(a.id[:], b.id[:]) })
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	out := make([]Record, 0, min(limit, len(found)))
	for _, it := range found[:min(limit, len(found))] {
		out = append(out, it.rec)
	}
	return out, nil
}

// each calls f for every record, one shard locked at a time.
func (m *Memory) each(f func(r *memoryRecord, now time.Time)) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		now := m.now()
		for _, r := range s.records {
			f(r, now)
		}
		s.mu.Unlock()
	}
}

// Sweep implements Engine. The engine also sweeps by itself, a little with every claim.
func (m *Memory) Sweep(ctx context.Context, limit int) (SweepReport, error) {
	var rep SweepReport
	for i := range m.shards {
		if err := ctx.Err(); err != nil {
			return rep, err
		}
		s := &m.shards[i]
		s.mu.Lock()
		now := m.now()
		n, size := m.expire(s, now, limit-rep.Deleted)
		rep.Deleted += n
		rep.Bytes += size
		rep.More = rep.More || len(s.expiry) > 0 && s.expiry[0].expired(now)
		s.mu.Unlock()
	}
	return rep, nil
}

// expire removes up to most expired records of a locked shard.
func (m *Memory) expire(s *memoryShard, now time.Time, most int) (n int, size int64) {
	for n < most && len(s.expiry) > 0 && s.expiry[0].expired(now) {
		r := s.expiry[0]
		n, size = n+1, size+r.size
		m.remove(s, r)
	}
	if n > 0 {
		m.counters.Sweep(n, size)
	}
	return n, size
}

func (m *Memory) remove(s *memoryShard, r *memoryRecord) {
	delete(s.records, r.id)
	if r.heapIndex >= 0 {
		heap.Remove(&s.expiry, r.heapIndex)
	}
	m.records.Add(-1)
	m.bytes.Add(-r.size)
}

// Stats implements Engine. It reads every record.
func (m *Memory) Stats(ctx context.Context) (Stats, error) {
	if err := ctx.Err(); err != nil {
		return Stats{}, err
	}
	st := Stats{Records: m.records.Load(), Bytes: m.bytes.Load(), Counters: m.counters.Load()}
	m.each(func(r *memoryRecord, now time.Time) {
		switch {
		case r.expired(now):
			st.Backlog++
			st.BacklogAge = max(st.BacklogAge, now.Sub(r.ExpiresAt))
		case r.State == Processing:
			st.Processing++
			st.OldestProcessing = max(st.OldestProcessing, now.Sub(r.CreatedAt))
			if !now.Before(r.LeaseUntil) {
				st.Lapsed++
			}
		case r.State == Uncertain:
			st.Uncertain++
			st.OldestUncertain = max(st.OldestUncertain, now.Sub(r.CreatedAt))
		default:
			st.OldestHeld = max(st.OldestHeld, now.Sub(r.FinishedAt))
		}
	})
	return st, nil
}

// expired reports whether a record counts as absent: at the end of the retention it does (D13).
func (r *memoryRecord) expired(now time.Time) bool {
	return r.State.Finished() && !now.Before(r.ExpiresAt)
}

// expiryHeap implements heap.Interface.
type expiryHeap []*memoryRecord

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].ExpiresAt.Before(h[j].ExpiresAt) }
func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *expiryHeap) Push(x any) {
	r := x.(*memoryRecord)
	r.heapIndex = len(*h)
	*h = append(*h, r)
}

func (h *expiryHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	r.heapIndex = -1
	return r
}
