package bolt_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
	"github.com/flavoso/flavoso-go/outbox/outboxtest"
)

var (
	ctx = context.Background()
	now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func addition(id string) outbox.Addition {
	return outbox.Addition{Now: now, Record: outbox.Record{
		ID: id, Connection: "store-1", Lane: "order:" + id, Kind: "orders.accept", Resource: id, Key: "accept-" + id,
		KeyDerived: true, Fingerprint: []byte("content of " + id), RepeatSafe: true,
		Request: outbox.Request{Method: "POST", Target: "/orders/" + id + "/accept", ContentType: "application/json", Body: []byte(`{"preparation_minutes":20,"id":"` + id + `"}`)},
	}}
}

func add(t testing.TB, e outbox.Engine, id string) outbox.Added {
	t.Helper()
	out, err := e.Add(ctx, addition(id))
	require.NoError(t, err)
	return out
}

func states(t testing.TB, e outbox.Engine) map[outbox.State]int {
	t.Helper()
	c, err := e.Counts(ctx, "")
	require.NoError(t, err)
	return c.States
}

// onDisk opens a new outbox on a disk that can be made to fail.
func onDisk(t testing.TB) (*bolt.Engine, *bolttest.Disk, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pos.outbox")
	e, d := openOn(t, path)
	return e, d, path
}

func openOn(t testing.TB, path string) (*bolt.Engine, *bolttest.Disk) {
	t.Helper()
	d := bolttest.NewDisk()
	var o bolt.Options
	d.Attach(&o)
	return open(t, path, o), d
}

func open(t testing.TB, path string, o bolt.Options) *bolt.Engine {
	t.Helper()
	e, err := bolt.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func stat(t testing.TB, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info
}

var commitOps = []struct {
	name  string
	op    bolttest.Op
	every int

	closeFirst bool // as on systems that do not replace an open file
}{
	{"writing the meta page", bolttest.WriteMeta, 5, false},
	{"the sync of the data pages", bolttest.SyncData, 5, false},
	{"the sync of the meta page", bolttest.SyncMeta, 5, true},
	{"writing a data page", bolttest.WriteData, 97, true},
}

// The whole contract holds on a disk on which writes and syncs fail again and again.
func TestTheContractHoldsOnAFailingDisk(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	require.NoError(t, checks.Value.Set("4")) // of many steps each, four times over
	defer func() { _ = checks.Value.Set(before) }()
	for _, c := range commitOps {
		t.Run(c.name, func(t *testing.T) {
			outboxtest.Run(t, func(t testing.TB) outboxtest.Storage {
				path := filepath.Join(fastDir(t), "pos.outbox")
				return outboxtest.Storage{
					Open: func() (outbox.Engine, error) {
						d := bolttest.NewDisk()
						var o bolt.Options
						d.Attach(&o)
						d.FailEvery(c.op, c.every)
						if c.closeFirst {
							bolt.CloseFirst(&o)
						}
						return bolt.Open(path, o)
					},
					Reopens: true,
				}
			})
		})
	}
}

func TestAfterAFailedSyncTheEngineGoesOnFromAFreshCopy(t *testing.T) {
	for _, c := range commitOps {
		t.Run(c.name, func(t *testing.T) {
			e, d, path := onDisk(t)
			add(t, e, "a")
			before := stat(t, path)
			d.Fail(c.op, 1)
			require.Equal(t, outbox.AddedNew, add(t, e, "b").Decision, "the copy tells whether the commit was in it, so the answer is definite")
			require.False(t, os.SameFile(before, stat(t, path)), "the file whose sync failed is not written to again")
			require.Equal(t, outbox.FoundOperation, add(t, e, "b").Decision)
			add(t, e, "c")
			require.NoError(t, e.Close())
			e, _ = openOn(t, path)
			require.Equal(t, map[outbox.State]int{outbox.Queued: 3}, states(t, e))
			require.Empty(t, e.Reports())
		})
	}
}

func TestWhenTheCopyFailsTooNothingIsSavedUntilItSucceeds(t *testing.T) {
	for _, c := range commitOps {
		t.Run(c.name, func(t *testing.T) {
			e, d, path := onDisk(t)
			add(t, e, "a")
			d.Fail(c.op, 1)
			d.FailAt(bolt.PointCopyWritten, 2, syscall.EIO)

			_, err := e.Add(ctx, addition("b"))
			var unknown *outbox.SaveError
			require.ErrorAs(t, err, &unknown)
			require.Equal(t, "b", unknown.ID)
			require.ErrorIs(t, err, syscall.EIO)

			_, err = e.Add(ctx, addition("c"))
			require.ErrorIs(t, err, outbox.ErrFault)
			require.False(t, errors.As(err, &unknown), "c was never tried: it is not saved, and that is certain")

			// The disk is well again: the next step goes on without a reopen and settles what was unknown.
			require.Equal(t, outbox.AddedNew, add(t, e, "c").Decision)
			add(t, e, "b")
			require.Equal(t, map[outbox.State]int{outbox.Queued: 3}, states(t, e))
			require.NoError(t, e.Close())
			e, _ = openOn(t, path)
			require.Equal(t, map[outbox.State]int{outbox.Queued: 3}, states(t, e))
		})
	}
}

func TestTheCopyThatCannotBeOpenedIsOpenedLater(t *testing.T) {
	e, d, _ := onDisk(t)
	add(t, e, "a")
	d.Fail(bolttest.SyncData, 1)
	d.FailAt(bolt.PointCopyDone, 1, syscall.EMFILE)
	_, err := e.Add(ctx, addition("b"))
	var unknown *outbox.SaveError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, outbox.AddedNew, add(t, e, "b").Decision)
	require.Equal(t, map[outbox.State]int{outbox.Queued: 2}, states(t, e))
}

func TestClaimsSurviveAFailedSync(t *testing.T) {
	e, d, _ := onDisk(t)
	add(t, e, "a")
	d.Fail(bolttest.SyncMeta, 1)
	claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 5})
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	again, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 5})
	require.NoError(t, err)
	require.Empty(t, again, "it is claimed")
	d.Fail(bolttest.SyncData, 1)
	out, err := e.Settle(ctx, outbox.Settlement{ID: "a", Claim: claimed[0].Claim.Token, Now: now, To: outbox.Succeeded})
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
}

func TestAFileReplacedUnderneathStopsTheEngine(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { require.NoError(t, os.Rename(path, path+".elsewhere")) },
		"replaced": func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+".copy", b, 0o600))
			require.NoError(t, os.Rename(path, path+".elsewhere"))
			require.NoError(t, os.Rename(path+".copy", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, path := onDisk(t)
			add(t, e, "a")
			replace(t, path)
			_, err := e.Add(ctx, addition("b"))
			require.ErrorIs(t, err, outbox.ErrFault)
			require.ErrorContains(t, err, "removed or replaced")
			require.NoError(t, os.Rename(path+".elsewhere", path))
			add(t, e, "b")
		})
	}
}

func TestWavesShareTheirSyncs(t *testing.T) {
	e, d, _ := onDisk(t)
	before := d.Syncs()
	add(t, e, "first")
	require.Equal(t, 2, d.Syncs()-before, "a lone step: one sync for the data, one for the meta page")

	a := addition("second")
	a.Claim = &outbox.Mark{Now: now}
	before = d.Syncs()
	out, err := e.Add(ctx, a)
	require.NoError(t, err)
	require.True(t, out.Record.Claimed())
	require.Equal(t, 2, d.Syncs()-before, "save and exposure are one commit")

	// While the writer is held in a commit everything that arrives waits for the next one.
	hold, held := make(chan struct{}), make(chan struct{})
	var once bool
	d.At(bolt.PointCommitBegin, func() {
		if !once {
			once = true
			close(held)
			<-hold
		}
	})
	const producers = 64
	done := make(chan error, producers+1)
	go func() { _, err := e.Add(ctx, addition("holder")); done <- err }()
	<-held
	before = d.Syncs()
	for i := range producers {
		go func() { _, err := e.Add(ctx, addition("p"+strconv.Itoa(i))); done <- err }()
	}
	require.Eventually(t, func() bool { return e.Queued() == producers }, 10*time.Second, time.Millisecond)
	close(hold)
	for range producers + 1 {
		require.NoError(t, <-done)
	}
	require.Equal(t, 4, d.Syncs()-before, "the one that was held, and one commit for all others")
}
