package bench

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/internal/versus"
)

// notebook is bbolt used by hand: one bucket of what is to be sent.
type notebook struct {
	db  *bbolt.DB
	seq atomic.Uint64
}

func openNotebook(tb testing.TB) *notebook {
	db, err := bbolt.Open(filepath.Join(tb.TempDir(), "notebook.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = db.Close() })
	require.NoError(tb, db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("b")); return err }))
	return &notebook{db: db}
}

func (n *notebook) key() []byte { return binary.BigEndian.AppendUint64(nil, n.seq.Add(1)) }

func put(k, v []byte) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error { return tx.Bucket([]byte("b")).Put(k, v) }
}

func remove(k []byte) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error { return tx.Bucket([]byte("b")).Delete(k) }
}

// BenchmarkP3 compares Do, one after the other, with the least that is as durable: a commit, a POST by net/http,
// and a commit that keeps the answer.
func BenchmarkP3(b *testing.B) {
	const ops = 20
	a := newAPI(b)
	client, disk := openClient(b, a, 8)
	bare, n := newHTTPClient(b, 8), openNotebook(b)
	mine, other := ids("do"), ids("bare")
	_, err := accept(client, "first").Do(b.Context())
	require.NoError(b, err)
	m := versus.New(each(b, 1, ops, func(ctx context.Context) error {
		_, err := accept(client, mine()).Do(ctx)
		return err
	}), each(b, 1, ops, func(context.Context) error {
		k := n.key()
		if err := n.db.Update(put(k, recordBytes)); err != nil {
			return err
		}
		body, err := a.post(bare, other())
		if err != nil {
			return err
		}
		return n.db.Update(put(k, append(recordBytes, body...)))
	}))
	syncs, rounds := disk.Syncs(), 0
	for b.Loop() {
		m.Round()
		rounds++
	}
	require.Equal(b, 4*ops*rounds, disk.Syncs()-syncs, "two commits each")
	b.ReportMetric(m.Ratio(0, 1), "x-of-post+2-commits")
	b.ReportMetric(float64(m.Median(0).Microseconds())/ops, "µs/do")
}
