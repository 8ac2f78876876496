package idempotency

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"time"
)

const snapshotVersion = 1

type snapshot struct {
	Version    int              `json:"version"`
	Generation int64            `json:"generation"`
	Records    []snapshotRecord `json:"records"`
}

type snapshotRecord struct {
	Record    Record        `json:"record"`
	Owner     Owner         `json:"owner"`
	Retention time.Duration `json:"retention_ns"`
	HoldFrom  HoldFrom      `json:"hold_from,omitempty"`
	Policy    LeasePolicy   `json:"policy,omitempty"`
	Result    []byte        `json:"result,omitempty"`
}

// Snapshot returns all records, running claims included, in a versioned form for Restore. Steps that
// run meanwhile may or may not be in it. It holds stored answers: treat it as confidential.
func (m *Memory) Snapshot() ([]byte, error) {
	snap := snapshot{Version: snapshotVersion}
	var err error
	m.each(func(r *memoryRecord, _ time.Time) {
		sr := snapshotRecord{Record: r.Record, Owner: r.owner, Retention: r.retention, HoldFrom: r.holdFrom, Policy: r.policy}
		if r.State.Finished() {
			b, e := r.result.MarshalBinary()
			if e != nil {
				err = e
			}
			sr.Result = b
		}
		snap.Records = append(snap.Records, sr)
	})
	if err != nil {
		return nil, fmt.Errorf("idempotency: snapshot: %w", err)
	}
	snap.Generation = m.generation.Load() // read last: not below any record's
	return json.Marshal(snap)
}

// Restore replaces all records by those of a snapshot. On an error nothing is changed. Claims made after
// the snapshot lose their records (ErrOwnershipLost); claims in it live on until their leases end.
func (m *Memory) Restore(data []byte) error {
	var snap snapshot
	if err := json.Unmarshal(data, &snap); err != nil {
		return fmt.Errorf("idempotency: restore: %w", err)
	}
	if snap.Version != snapshotVersion {
		return fmt.Errorf("idempotency: restore: snapshot version %d, this release reads %d", snap.Version, snapshotVersion)
	}
	records := make([]*memoryRecord, 0, len(snap.Records))
	for i, sr := range snap.Records {
		r := &memoryRecord{Record: sr.Record, id: sr.Record.Scope.ID(), owner: sr.Owner, retention: sr.Retention,
			holdFrom: sr.HoldFrom, policy: sr.Policy, heapIndex: -1}
		if r.State.Finished() {
			if err := r.result.UnmarshalBinary(sr.Result); err != nil {
				return fmt.Errorf("idempotency: restore: record %d: %w", i, err)
			}
		}
		r.size = recordOverhead + int64(len(r.Scope.Tenant)+len(r.Scope.Operation)+len(r.Scope.Key)) + r.Size
		records = append(records, r)
	}
	// All shards are locked, so that no step sees half of the old and half of the new.
	for i := range m.shards {
		m.shards[i].mu.Lock()
		defer m.shards[i].mu.Unlock()
		m.shards[i].records = make(map[ID]*memoryRecord)
		m.shards[i].expiry = nil
	}
	m.records.Store(0)
	m.bytes.Store(0)
	for _, r := range records {
		s := m.shard(r.id)
		s.records[r.id] = r
		if r.State.Finished() {
			heap.Push(&s.expiry, r)
		}
		m.records.Add(1)
		m.bytes.Add(r.size)
	}
	// The counter never goes back: a claim made after the snapshot must not share its generation with a later one.
	m.generation.Store(max(m.generation.Load(), snap.Generation))
	return nil
}
