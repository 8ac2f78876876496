package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// mount makes a small file system of its own in memory; without the right to, the test is skipped by name.
func mount(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			_ = unix.Unmount(dir, unix.MNT_DETACH)
			t.Errorf("something is still open on the file system: %v", err)
		}
	})
	return dir
}

func TestAFullDiskRefusesWhatIsNewAndFinishesWhatIsThere(t *testing.T) {
	dir := mount(t, "3m")
	path := filepath.Join(dir, "pos.outbox")
	e, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()

	accepted := 0
	for {
		a := addition(fmt.Sprintf("op-%d", accepted))
		a.Record.Request.Body = make([]byte, 3000)
		if _, err = e.Add(ctx, a); err != nil {
			break
		}
		accepted++
	}
	require.ErrorIs(t, err, outbox.ErrFull)
	var full *outbox.FullError
	require.ErrorAs(t, err, &full)
	require.Equal(t, "disk", full.Limit)
	require.ErrorContains(t, err, "disk full")
	require.ErrorIs(t, err, unix.ENOSPC)
	require.Greater(t, accepted, 100)
	require.Equal(t, map[outbox.State]int{outbox.Queued: accepted}, states(t, e), "intact")

	// Everything that was accepted can be sent and finished, although the disk is full.
	finished := 0
	for finished < accepted {
		claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 8})
		require.NoError(t, err)
		require.NotEmpty(t, claimed)
		var ss []outbox.Settlement
		for _, r := range claimed {
			ss = append(ss, outbox.Settlement{ID: r.ID, Claim: r.Claim.Token, Now: now, To: outbox.Succeeded, Result: &outbox.Result{Status: 200, Body: make([]byte, 2000)}})
		}
		out, err := e.Settle(ctx, ss...)
		require.NoError(t, err)
		for _, s := range out {
			require.NoError(t, s.Err)
		}
		finished += len(out)
	}
	require.Equal(t, map[outbox.State]int{outbox.Succeeded: accepted}, states(t, e))
	p, err := e.List(ctx, outbox.Query{Limit: 1000, Bodies: true})
	require.NoError(t, err)
	thin := 0
	for _, r := range p.Records {
		require.Equal(t, r.Result.Truncated, r.Result.Body == nil, "a body that was not kept is marked")
		if r.Result.Truncated {
			thin++
		}
	}
	t.Logf("%d operations, %d results without their body", accepted, thin)

	// Finished work makes room: the next Add succeeds without a reopen.
	for {
		n, err := e.Purge(ctx, outbox.PurgeRequest{Now: now, Before: now.Add(time.Hour), Unacked: true, Limit: 50})
		require.NoError(t, err)
		if n == 0 {
			break
		}
	}
	add(t, e, "after")
	require.Equal(t, map[outbox.State]int{outbox.Queued: 1}, states(t, e))
	require.NoError(t, e.Close())
	again, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	require.Empty(t, again.Reports())
	require.Equal(t, map[outbox.State]int{outbox.Queued: 1}, states(t, again))
	require.NoError(t, again.Close())
}

func TestADiskFullFromTheStartIsSaid(t *testing.T) {
	dir := mount(t, "1m")
	require.NoError(t, writeUntilFull(filepath.Join(dir, "other")))
	_, err := bolt.Open(filepath.Join(dir, "pos.outbox"), bolt.Options{})
	require.ErrorIs(t, err, outbox.ErrFull)
	require.NoFileExists(t, filepath.Join(dir, "pos.outbox"), "no half-made outbox is left")
	require.NoError(t, os.Remove(filepath.Join(dir, "other")))
	e, err := bolt.Open(filepath.Join(dir, "pos.outbox"), bolt.Options{})
	require.NoError(t, err)
	add(t, e, "a")
	require.NoError(t, e.Close())
}

func writeUntilFull(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for {
		if _, err := f.Write(make([]byte, 512)); err != nil {
			if errors.Is(err, unix.ENOSPC) {
				return nil
			}
			return err
		}
	}
}

func TestAReadOnlyFileSystemIsSaid(t *testing.T) {
	dir := mount(t, "4m")
	path := filepath.Join(dir, "pos.outbox")
	e, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	add(t, e, "a")
	require.NoError(t, e.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err = bolt.Open(path, bolt.Options{})
	require.ErrorIs(t, err, outbox.ErrReadOnly)
	require.ErrorIs(t, err, unix.EROFS)
	v, err := bolt.Verify(ctx, path, bolt.VerifyOptions{})
	require.NoError(t, err, "a backup on a medium that nobody can write to")
	require.Empty(t, v.Problems)
	require.Equal(t, 1, v.Unfinished)
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	e, err = bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	require.Equal(t, map[outbox.State]int{outbox.Queued: 1}, states(t, e))
	require.NoError(t, e.Close())
}

// asNobody runs fn without the rights of root, on a thread that is thrown away afterwards.
func asNobody(t *testing.T, fn func() error) error {
	t.Helper()
	if os.Getuid() != 0 {
		return fn()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(unix.SYS_SETFSUID, 65534, 0, 0); errno != 0 {
			done <- errno
			return
		}
		done <- fn()
	}()
	return <-done
}

func TestMissingPermissionIsSaid(t *testing.T) {
	dir, err := os.MkdirTemp("", "outbox")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "pos.outbox")
	err = asNobody(t, func() error { _, err := bolt.Open(path, bolt.Options{}); return err })
	if os.Getuid() == 0 {
		require.ErrorIs(t, err, outbox.ErrReadOnly, "a directory that cannot be written")
		require.ErrorIs(t, err, unix.EACCES)
	}
	e := open(t, path, bolt.Options{})
	add(t, e, "a")
	require.NoError(t, e.Close())
	for _, f := range []string{path, path + ".lock", path + ".mark", path + ".ballast"} {
		info, err := os.Stat(f)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f)
	}
	require.NoError(t, os.Chmod(path+".lock", 0o666))
	require.NoError(t, os.Chmod(path, 0o400))
	require.NoError(t, os.Chmod(dir, 0o777))
	if os.Getuid() == 0 {
		err = asNobody(t, func() error { _, err := bolt.Open(path, bolt.Options{}); return err })
		require.ErrorIs(t, err, outbox.ErrReadOnly, "somebody else's file")
		require.NoError(t, os.Chmod(path+".lock", 0o600))
		require.NoError(t, os.Chmod(path+".mark", 0o644))
		err = asNobody(t, func() error { _, err := bolt.Verify(ctx, path, bolt.VerifyOptions{}); return err })
		require.ErrorIs(t, err, os.ErrPermission, "its till may be running")
		require.NoError(t, os.Chmod(path+".lock", 0o666))
	}
	require.NoError(t, os.Chmod(path, 0o600))
	e = open(t, path, bolt.Options{})
	require.Equal(t, map[outbox.State]int{outbox.Queued: 1}, states(t, e))
}

func TestNetworkFileSystemsAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	for name, kind := range map[string]uint32{"NFS": unix.NFS_SUPER_MAGIC, "SMB": unix.SMB_SUPER_MAGIC, "CIFS": unix.CIFS_SUPER_MAGIC, "9P": unix.V9FS_MAGIC} {
		var o bolt.Options
		bolt.PretendFileSystem(&o, kind)
		_, err := bolt.Open(path, o)
		require.ErrorContains(t, err, "network file system ("+name+")")
		require.NoFileExists(t, path)
		o.AllowNetwork = true
		e, err := bolt.Open(path, o)
		require.NoError(t, err)
		require.NoError(t, e.Close())
		require.NoError(t, os.Remove(path))
	}
	var o bolt.Options
	bolt.PretendFileSystem(&o, unix.EXT4_SUPER_MAGIC)
	require.NoError(t, open(t, path, o).Close())
}
