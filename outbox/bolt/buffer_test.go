package bolt

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// Whatever is in the index and in the changes over it, tables and cursors show what a sorted map would.
func TestTablesShowTheIndexWithTheChangesOverIt(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		db, err := bbolt.Open(filepath.Join(dir, "index.db"), 0o600, &bbolt.Options{NoSync: true})
		require.NoError(t, err)
		defer func() { _ = db.Close() }()
		key := rapid.Custom(func(t *rapid.T) []byte {
			return append([]byte{byte(rapid.IntRange('a', 'c').Draw(t, "kind"))}, byte(rapid.IntRange(0, 12).Draw(t, "key")))
		})
		err = db.Update(func(tx *bbolt.Tx) error {
			_ = tx.DeleteBucket([]byte("index"))
			b, err := tx.CreateBucket([]byte("index"))
			require.NoError(t, err)
			want := map[string][]byte{}
			for _, k := range rapid.SliceOfN(key, 0, 20).Draw(t, "in the index") {
				require.NoError(t, b.Put(k, []byte("old")))
				want[string(k)] = []byte("old")
			}
			tables := map[byte]table{}
			over := &buffer{changes: &changes{}}
			for _, letter := range []byte("abc") {
				tables[letter] = table{&source{b: b}, letter, over}
			}
			for range rapid.IntRange(0, 25).Draw(t, "changes") {
				k := key.Draw(t, "change")
				if rapid.Bool().Draw(t, "delete") {
					require.NoError(t, tables[k[0]].delete(k[1:], 7))
					delete(want, string(k))
				} else {
					v := []byte(rapid.StringMatching("[a-z]{1,4}").Draw(t, "value"))
					require.NoError(t, tables[k[0]].put(k[1:], v, 7))
					want[string(k)] = v
				}
			}
			for letter, table := range tables {
				var keys []string
				for k := range want {
					if k[0] == letter {
						keys = append(keys, k)
					}
				}
				slices.Sort(keys)
				for i := range byte(14) {
					require.Equal(t, want[string([]byte{letter, i})], table.get([]byte{i}))
					at, _ := slices.BinarySearch(keys, string([]byte{letter, i}))
					k, v := table.cursor().before([]byte{i})
					if at == 0 {
						require.Nil(t, k)
					} else {
						require.Equal(t, keys[at-1][1:], string(k))
						require.Equal(t, want[keys[at-1]], v)
					}
					c := table.cursor()
					k, v = c.seek([]byte{i})
					for _, key := range keys[at:] {
						require.Equal(t, key[1:], string(k))
						require.Equal(t, want[key], v)
						k, v = c.next()
					}
					require.Nil(t, k)
				}
			}
			// What is written and read back is the same.
			if v := over.changes.encode(seqKey(7), 7); v != nil {
				var again changes
				require.NoError(t, decodeChanges(seqKey(7), v, func(k, v []byte) { again.set(clone(k), clone(v), 7) }))
				require.Equal(t, over.changes.list, again.list)
				require.Error(t, decodeChanges(seqKey(8), v, func(_, _ []byte) {}), "it belongs to its commit")
			}
			return nil
		})
		require.NoError(t, err)
	})
}

// The write buffer is emptied when it is full, and nothing is different before and after.
func TestTheWriteBufferStaysSmall(t *testing.T) {
	e, err := Open(filepath.Join(t.TempDir(), "pos.outbox"), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	most, flushed := 0, 0
	for i := range 1500 {
		require.NoError(t, e.SaveState(t.Context(), "store-1", string(rune('a'+i%26))+string(rune('a'+i/26)), bytes.Repeat([]byte("x"), 200)))
		size := e.file.kept.Load().changes.size
		if size < most {
			flushed++
			most = 0
		}
		most = max(most, size)
		require.LessOrEqual(t, size, bufferBytes)
		v, err := e.LoadState(t.Context(), "store-1", "aa")
		require.NoError(t, err)
		require.Len(t, v, 200)
	}
	require.Greater(t, flushed, 3)
	// Without what memory has of it, the file says the same.
	e.file.kept.Store(nil)
	for i := range 1500 {
		v, err := e.LoadState(t.Context(), "store-1", string(rune('a'+i%26))+string(rune('a'+i/26)))
		require.NoError(t, err)
		require.Len(t, v, 200)
	}
}
