package bolt_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/internal/versus"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// The benchmarks compare the engine with bare bbolt on the same disk, in turn in the same run, and report ratios:
//
//	go test -run '^$' -bench 'P1|P2' ./outbox/bolt
//	go test -run '^$' -bench Backlog -benchtime 20x -timeout 1h ./outbox/bolt
//
// What they count (syncs, bytes of memory, file sizes) they also assert.

const benchBody = 1024

func benchAddition(id string) outbox.Addition {
	a := addition(id)
	a.Record.Request.Body = bytes.Repeat([]byte("x"), benchBody)
	return a
}

// bare is bbolt used directly: one bucket, rising keys, the bytes of one operation as value.
type bare struct {
	db  *bbolt.DB
	seq atomic.Uint64
	val []byte
}

func openBare(b *testing.B) *bare {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "bare.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	require.NoError(b, db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("b")); return err }))
	r := addition("op-0000000").Record
	extra := len(r.ID)*3 + len(r.Connection) + len(r.Lane) + len(r.Kind) + len(r.Fingerprint) + len(r.Request.Target) + 60
	return &bare{db: db, val: bytes.Repeat([]byte("x"), benchBody+extra)}
}

func (s *bare) put(tx *bbolt.Tx) error {
	return tx.Bucket([]byte("b")).Put(binary.BigEndian.AppendUint64(nil, s.seq.Add(1)), s.val)
}

// times returns a side of a match that calls fn n times from each of several goroutines.
func times(b *testing.B, producers, n int, fn func() error) func() {
	return func() {
		var wg sync.WaitGroup
		for range producers {
			wg.Go(func() {
				for range n {
					if err := fn(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// adder returns a function that adds operations of its own.
func adder(e *bolt.Engine) func() error {
	var n atomic.Int64
	return func() error {
		_, err := e.Add(ctx, benchAddition(fmt.Sprintf("op-%07d", n.Add(1))))
		return err
	}
}

// P1: one producer.
func BenchmarkP1(b *testing.B) {
	const adds = 20
	s := openBare(b)
	e, d := openOn(b, filepath.Join(b.TempDir(), "pos.outbox"))
	m := versus.New(times(b, 1, adds, adder(e)), times(b, 1, adds, func() error { return s.db.Update(s.put) }))
	before, rounds := d.Syncs(), 0
	for b.Loop() {
		m.Round()
		rounds++
	}
	require.Equal(b, 2*adds*rounds, d.Syncs()-before, "two syncs each")
	b.ReportMetric(m.Ratio(0, 1), "x-of-bare-bbolt")
	b.ReportMetric(float64(m.Median(0).Microseconds())/adds, "µs/add")
}

// P2: 64 producers, against commits one after the other and against bbolt's own batches. The group commit made by
// hand shows what bbolt can do at best: one goroutine that commits what has come together, without what
// makes an outbox.
func BenchmarkP2(b *testing.B) {
	const producers, adds, serial = 64, 20, 64
	e, d := openOn(b, filepath.Join(b.TempDir(), "pos.outbox"))
	one, batch, group := openBare(b), openBare(b), openBare(b)
	m := versus.New(
		times(b, producers, adds, adder(e)),
		times(b, 1, serial, func() error { return one.db.Update(one.put) }),
		times(b, producers, adds, func() error { return batch.db.Batch(batch.put) }),
		times(b, producers, adds, group.together(b)),
	)
	before, rounds := d.Syncs(), 0
	for b.Loop() {
		m.Round()
		rounds++
	}
	n := producers * adds * rounds
	syncs := d.Syncs() - before
	require.Less(b, syncs, n/4, "far less than two syncs each")
	b.ReportMetric(producers*adds/serial*m.Ratio(1, 0), "x-serial-bbolt")
	b.ReportMetric(m.Ratio(2, 0), "x-bbolt-batch")
	b.ReportMetric(m.Ratio(3, 0), "x-hand-made-group-commit")
	b.ReportMetric(float64(syncs)/float64(n), "syncs/add")
	b.ReportMetric(producers*adds/m.Median(0).Seconds(), "adds/s")
}

// together returns a function that puts one value, in a commit shared with everybody who waits.
func (s *bare) together(b *testing.B) func() error {
	queue := make(chan chan error, 1024)
	ended := make(chan struct{})
	b.Cleanup(func() { close(queue); <-ended })
	go func() {
		defer close(ended)
		for first := range queue {
			wave := []chan error{first}
			for more := true; more && len(queue) > 0; {
				var next chan error
				if next, more = <-queue; more {
					wave = append(wave, next)
				}
			}
			err := s.db.Update(func(tx *bbolt.Tx) error {
				for range wave {
					if err := s.put(tx); err != nil {
						return err
					}
				}
				return nil
			})
			for _, done := range wave {
				done <- err
			}
		}
	}()
	return func() error {
		done := make(chan error, 1)
		queue <- done
		return <-done
	}
}

// A million waiting operations, as promised; fewer with -short.
func BenchmarkBacklog(b *testing.B) {
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	path := filepath.Join(b.TempDir(), "pos.outbox")
	e, err := bolt.Open(path, bolt.Options{})
	require.NoError(b, err)
	start := time.Now()
	fill(b, e, 0, n, benchBody)
	require.NoError(b, e.Close())
	b.Logf("%d operations in %s, %d MiB", n, time.Since(start).Round(time.Second), size(b, path)>>20)
	b.Run("P5", func(b *testing.B) { benchOpen(b, path) })
	b.Run("P6", func(b *testing.B) { benchDrained(b, path) })
}

// benchOpen is P5: from nothing open to the first operation claimed, with a big backlog and nothing of it in the
// system's cache.
func benchOpen(b *testing.B, path string) {
	var took []time.Duration
	var memory int64
	for b.Loop() {
		dropCache(b, path)
		runtime.GC()
		before := privateMemory(b)
		start := time.Now()
		e, err := bolt.Open(path, bolt.Options{})
		require.NoError(b, err)
		claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 1})
		took = append(took, time.Since(start))
		require.NoError(b, err)
		require.Len(b, claimed, 1)
		memory = max(memory, privateMemory(b)-before)
		require.NoError(b, e.Close())
	}
	require.Less(b, memory, int64(30<<20), "private memory does not grow with the backlog")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-to-first-claim")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-worst")
	b.ReportMetric(float64(memory)/(1<<20), "MiB-private")
}

// benchDrained is P6: what a commit costs and how big the file is after a big backlog is gone.
func benchDrained(b *testing.B, path string) {
	e := open(b, path, bolt.Options{})
	start := time.Now()
	drain(b, e)
	b.Logf("drained in %s", time.Since(start).Round(time.Second))
	for i := range 70 {
		add(b, e, fmt.Sprintf("after-%d", i))
	}
	require.Eventually(b, func() bool { return size(b, path) <= 32<<20 }, time.Minute, time.Millisecond)
	after := size(b, path)
	fresh := open(b, filepath.Join(b.TempDir(), "fresh.outbox"), bolt.Options{})
	m := versus.New(times(b, 1, 20, adder(e)), times(b, 1, 20, adder(fresh)))
	for b.Loop() {
		m.Round()
	}
	b.ReportMetric(m.Ratio(0, 1), "x-of-fresh-file")
	b.ReportMetric(float64(after)/(1<<20), "MiB-file")
}
