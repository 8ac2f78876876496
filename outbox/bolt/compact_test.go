package bolt_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// fill adds n records with bodies of some size, many in one commit.
func fill(t testing.TB, e *bolt.Engine, from, n, size int) {
	t.Helper()
	body := bytes.Repeat([]byte("x"), size)
	const producers = 128
	errs := make(chan error, producers)
	for p := range producers {
		go func() {
			var err error
			for i := from + p; i < from+n && err == nil; i += producers {
				a := addition(fmt.Sprintf("op-%07d", i))
				a.Record.Lane = fmt.Sprintf("lane-%d", i%1000)
				a.Record.Request.Body = body
				_, err = e.Add(ctx, a)
			}
			errs <- err
		}()
	}
	for range producers {
		require.NoError(t, <-errs)
	}
}

// drain finishes, acknowledges and purges everything.
func drain(t testing.TB, e *bolt.Engine) {
	t.Helper()
	for {
		claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 1000})
		require.NoError(t, err)
		if len(claimed) == 0 {
			break
		}
		ss := make([]outbox.Settlement, len(claimed))
		for i, r := range claimed {
			ss[i] = outbox.Settlement{ID: r.ID, Claim: r.Claim.Token, Now: now, To: outbox.Succeeded}
		}
		_, err = e.Settle(ctx, ss...)
		require.NoError(t, err)
	}
	for {
		n, err := e.Purge(ctx, outbox.PurgeRequest{Now: now, Before: now.Add(time.Hour), Unacked: true})
		require.NoError(t, err)
		if n == 0 {
			break
		}
	}
	// Tombstones go when their time is over.
	for e.HasTombstones() {
		_, err := e.Purge(ctx, outbox.PurgeRequest{Now: now.Add(1000 * 24 * time.Hour), Before: now})
		require.NoError(t, err)
	}
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

func TestADrainedFileGetsSmallAgainByItself(t *testing.T) {
	path := filepath.Join(fastDir(t), "pos.outbox")
	e := open(t, path, bolt.Options{})
	fill(t, e, 0, 10_000, 2000)
	full := size(t, path)
	require.Greater(t, full, int64(20<<20))
	drain(t, e)
	for i := range 70 { // the engine looks every 64 commits
		add(t, e, fmt.Sprintf("after-%d", i))
	}
	// Where in the drain it looks is chance: a file that got small half-way is left alone then.
	require.Eventually(t, func() bool { return size(t, path) < bolt.CompactFrom }, 20*time.Second, time.Millisecond, "from %d bytes", full)
	require.Equal(t, map[outbox.State]int{outbox.Queued: 70}, states(t, e))
	require.NoError(t, e.Close())
	e = open(t, path, bolt.Options{})
	require.Empty(t, e.Reports())
	require.Equal(t, map[outbox.State]int{outbox.Queued: 70}, states(t, e))
}

// A failure at any step of compacting leaves a whole file in use, and the next step works.
func TestCompactingMayFailAtEveryStep(t *testing.T) {
	for _, p := range []bolt.Point{bolt.PointCopyBegin, bolt.PointCopyWritten, bolt.PointCopySynced, bolt.PointCopyRenamed, bolt.PointCopyDone} {
		t.Run(string(p), func(t *testing.T) {
			e, d, path := onDisk(t)
			add(t, e, "a")
			claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 1})
			require.NoError(t, err)
			d.FailAt(p, 1, syscall.EIO)
			require.ErrorIs(t, e.Compact(ctx), syscall.EIO)
			add(t, e, "b")
			out, err := e.Settle(ctx, outbox.Settlement{ID: "a", Claim: claimed[0].Claim.Token, Now: now, To: outbox.Succeeded})
			require.NoError(t, err)
			require.NoError(t, out[0].Err, "its claim is still good")
			require.NoError(t, e.Compact(ctx))
			require.NoError(t, e.Close())
			e, _ = openOn(t, path)
			require.Equal(t, map[outbox.State]int{outbox.Queued: 1, outbox.Succeeded: 1}, states(t, e))
			require.Empty(t, e.Reports())
			require.NoFileExists(t, path+".new")
		})
	}
}

func TestRestartsDoNotGrowTheFile(t *testing.T) {
	path := filepath.Join(fastDir(t), "pos.outbox")
	e := open(t, path, bolt.Options{})
	add(t, e, "a")
	require.NoError(t, e.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	for range 300 {
		e, err := bolt.Open(path, bolt.Options{})
		require.NoError(t, err)
		require.NoError(t, e.Close())
	}
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after, "opening and closing writes nothing to the file")
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	var names []string
	for _, f := range left {
		names = append(names, f.Name())
	}
	require.ElementsMatch(t, []string{"pos.outbox", "pos.outbox.lock", "pos.outbox.mark", "pos.outbox.ballast"}, names)
}

// A copy takes the place of the file, not of the link that leads to it.
func TestASymbolicLinkStandsForItsFile(t *testing.T) {
	data, etc := t.TempDir(), t.TempDir()
	file, link := filepath.Join(data, "pos.outbox"), filepath.Join(etc, "pos.outbox")
	require.NoError(t, os.Symlink(filepath.Join(etc, "next"), link))
	require.NoError(t, os.Symlink(file, filepath.Join(etc, "next")))
	e := open(t, link, bolt.Options{}) // makes the file that the link leads to
	require.FileExists(t, file)
	add(t, e, "a")
	before := stat(t, file)
	require.NoError(t, e.Compact(ctx))
	require.False(t, os.SameFile(before, stat(t, file)))
	add(t, e, "b")
	_, err := bolt.Open(file, bolt.Options{})
	require.ErrorIs(t, err, outbox.ErrLocked, "it is the same outbox")
	require.NoError(t, e.Close())
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	require.Equal(t, map[outbox.State]int{outbox.Queued: 2}, states(t, open(t, file, bolt.Options{})))

	require.NoError(t, os.Symlink("circle", filepath.Join(etc, "circle")))
	_, err = bolt.Open(filepath.Join(etc, "circle"), bolt.Options{})
	require.ErrorContains(t, err, "symbolic links")
}
