package bolt_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// The benchmarks compare the engine with bare bbolt on the same disk, in the same run, and report ratios:
//
//	go test -run '^$' -bench . ./outbox/bolt
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

func (s *bare) update() error { return s.db.Update(s.put) }

// alternate times two things in turn, so that a disk that gets slower slows both, and returns the median
// of each.
func alternate(rounds int, one, two func(round int)) (t1, t2 time.Duration) {
	var ones, twos []time.Duration
	for i := range rounds {
		start := time.Now()
		one(i)
		ones = append(ones, time.Since(start))
		start = time.Now()
		two(i)
		twos = append(twos, time.Since(start))
	}
	slices.Sort(ones)
	slices.Sort(twos)
	return ones[len(ones)/2], twos[len(twos)/2]
}

// P1: one producer.
func BenchmarkEnqueueOneProducer(b *testing.B) {
	s := openBare(b)
	e, d := openOn(b, filepath.Join(b.TempDir(), "pos.outbox"))
	n := 0
	add(b, e, "first")
	before := d.Syncs()
	b.ResetTimer()
	mine, bbolts := alternate(b.N, func(int) {
		n++
		_, err := e.Add(ctx, benchAddition(fmt.Sprintf("op-%07d", n)))
		require.NoError(b, err)
	}, func(int) { require.NoError(b, s.update()) })
	require.Equal(b, 2*b.N, d.Syncs()-before, "two syncs each")
	b.ReportMetric(float64(mine)/float64(bbolts), "x-of-bare-bbolt")
	b.ReportMetric(float64(mine.Nanoseconds()), "ns/add")
}

// P2: 64 producers, against serial commits and against bbolt's own batches.
func BenchmarkEnqueue64Producers(b *testing.B) {
	const producers = 64
	e, d := openOn(b, filepath.Join(b.TempDir(), "pos.outbox"))
	s := openBare(b)
	add(b, e, "first")
	before := d.Syncs()
	all := func(n int, fn func(i int) error) time.Duration {
		var wg sync.WaitGroup
		start := time.Now()
		for p := range producers {
			wg.Go(func() {
				for i := p; i < n; i += producers {
					if err := fn(i); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	n := max(b.N, 20*producers)
	b.ResetTimer()
	mine := all(n, func(i int) error {
		_, err := e.Add(ctx, benchAddition(fmt.Sprintf("op-%07d", i)))
		return err
	})
	b.StopTimer()
	syncs := d.Syncs() - before
	require.Less(b, syncs, n/4, "far less than two syncs each")
	serial := time.Duration(0)
	start := time.Now()
	for range n / 20 {
		require.NoError(b, s.update())
	}
	serial = time.Since(start) * 20
	batch := all(n, func(int) error { return s.db.Batch(s.put) })
	b.ReportMetric(float64(serial)/float64(mine), "x-serial-bbolt")
	b.ReportMetric(float64(batch)/float64(mine), "x-bbolt-batch")
	b.ReportMetric(float64(syncs)/float64(n), "syncs/add")
	b.ReportMetric(float64(n)/mine.Seconds(), "adds/s")
}

// backlog makes (once for all benchmarks) an outbox with many waiting operations and returns a copy of it.
func backlog(b *testing.B, n int) string {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("flavoso-outbox-bench-%d", n))
	require.NoError(b, os.MkdirAll(dir, 0o700))
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "pos.outbox")
	e, err := bolt.Open(path, bolt.Options{})
	require.NoError(b, err)
	fill(b, e, 0, n, benchBody)
	require.NoError(b, e.Close())
	return path
}

// benchBacklog is a million waiting operations, as promised; fewer with -short.
func benchBacklog() int {
	if testing.Short() {
		return 50_000
	}
	return 1_000_000
}

// P5: from nothing open to the first operation claimed, with a big backlog.
func BenchmarkOpenWithBacklog(b *testing.B) {
	path := backlog(b, benchBacklog())
	var total, worst time.Duration
	var memory int64
	for b.Loop() {
		b.StopTimer()
		dropCache(b, path)
		runtime.GC()
		before := privateMemory(b)
		b.StartTimer()
		start := time.Now()
		e, err := bolt.Open(path, bolt.Options{})
		require.NoError(b, err)
		claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 1})
		took := time.Since(start)
		b.StopTimer()
		require.NoError(b, err)
		require.Len(b, claimed, 1)
		memory = max(memory, privateMemory(b)-before)
		require.NoError(b, e.Close())
		total += took
		worst = max(worst, took)
		b.StartTimer()
	}
	require.Less(b, memory, int64(30<<20), "private memory does not grow with the backlog")
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms-to-first-claim")
	b.ReportMetric(float64(worst.Milliseconds()), "ms-worst")
	b.ReportMetric(float64(memory)/(1<<20), "MiB-private")
}

// P6: what a commit costs and how big the file is after a big backlog is gone.
func BenchmarkAfterADrain(b *testing.B) {
	path := backlog(b, benchBacklog())
	e := open(b, path, bolt.Options{})
	b.Logf("%d MiB with the backlog", size(b, path)>>20)
	start := time.Now()
	drain(b, e)
	b.Logf("drained in %s", time.Since(start).Round(time.Second))
	for i := range 70 {
		add(b, e, fmt.Sprintf("after-%d", i))
	}
	require.Eventually(b, func() bool { return size(b, path) <= 32<<20 }, time.Minute, time.Millisecond)
	after := size(b, path)
	fresh := open(b, filepath.Join(b.TempDir(), "fresh.outbox"), bolt.Options{})
	n := 0
	b.ResetTimer()
	old, new := alternate(max(b.N, 200), func(i int) {
		n++
		_, err := e.Add(ctx, benchAddition(fmt.Sprintf("new-%07d", n)))
		require.NoError(b, err)
	}, func(int) {
		_, err := fresh.Add(ctx, benchAddition(fmt.Sprintf("new-%07d", n)))
		require.NoError(b, err)
	})
	b.ReportMetric(float64(old)/float64(new), "x-of-fresh-file")
	b.ReportMetric(float64(after)/(1<<20), "MiB-file")
}
