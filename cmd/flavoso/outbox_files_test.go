package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

func TestVerifyFindsWhatIsWrongAndChangesNothing(t *testing.T) {
	s := newShop(t)
	s.fill()
	whole, err := os.ReadFile(s.path)
	require.NoError(t, err)
	mark, err := os.ReadFile(s.path + ".mark")
	require.NoError(t, err)
	s.drain()
	newer, err := os.ReadFile(s.path + ".mark")
	require.NoError(t, err)
	flipped := bytes.ReplaceAll(whole, []byte("raw:made"), []byte("raw:Made"))
	for _, tc := range []struct {
		name       string
		file, mark []byte
		status     int
		want       string
	}{
		{"whole", whole, mark, 0, "nothing is wrong"},
		{"restored", whole, newer, 4, "it was restored"},
		{"copied without its mark", whole, nil, 4, "no mark beside the file"},
		{"damaged", flipped, mark, 4, "problem"},
		{"cut", whole[:len(whole)/2], mark, 4, "cut short"},
		{"emptied", nil, mark, 4, "operations were saved in it"},
		{"overwritten", []byte("hello"), mark, 4, "nothing else in it can be read"},
	} {
		path := filepath.Join(t.TempDir(), "pos.outbox")
		require.NoError(t, os.WriteFile(path, tc.file, 0o600))
		if tc.mark != nil {
			require.NoError(t, os.WriteFile(path+".mark", tc.mark, 0o600))
		}
		require.Contains(t, command(t, tc.status, "outbox", "verify", path).out, tc.want, tc.name)
		require.Contains(t, command(t, tc.status, "outbox", "verify", path, "--json").out, `"problems":[`, tc.name)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(tc.file, after), tc.name)
	}
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range []string{"verify", "list", "status", "export", "compact --yes", "adopt --yes", "adopt --start-fresh --yes"} {
		words := strings.Fields(args)
		require.Contains(t, command(t, 1, append([]string{"outbox", words[0], none}, words[1:]...)...).errOut, "there is no outbox at", args)
	}
	left, err := filepath.Glob(none + "*")
	require.NoError(t, err)
	require.Empty(t, left, "looking for an outbox makes none")
	require.NoError(t, os.Remove(s.path))
	require.Contains(t, command(t, 4, "outbox", "verify", s.path).out, "the file is missing")
	require.Contains(t, command(t, 1, "outbox", "list", s.path).errOut, "cannot be opened")
}

// TestWhatIsNoOutboxIsSaid: what stands near an outbox, or has nothing to do with one, is called by its name, and
// nothing is left beside it.
func TestWhatIsNoOutboxIsSaid(t *testing.T) {
	s := newShop(t)
	s.fill()
	dir := filepath.Dir(s.path)
	empty, strange := t.TempDir(), filepath.Join(t.TempDir(), "menu.json")
	require.NoError(t, os.WriteFile(strange, []byte(`{"menu":[]}`), 0o600))
	void := filepath.Join(t.TempDir(), "void.outbox")
	require.NoError(t, os.WriteFile(void, nil, 0o600))
	for _, words := range [][]string{{"list"}, {"status"}, {"show", "id"}, {"export"}, {"verify"}, {"adopt", "--yes"}, {"compact", "--yes"}, {"cancel", "id", "--yes"}} {
		says := func(path, want string) {
			t.Helper()
			status := 1
			if words[0] == "verify" && path == strange {
				status = 4
			}
			args := append([]string{"outbox", words[0], path}, words[1:]...)
			r := command(t, status, args...)
			require.Contains(t, r.out+r.errOut, want, args)
		}
		says(dir, dir+" is a directory; the outbox file in it is "+s.path)
		says(empty, "is a directory, and no outbox is in it")
		says(s.path+".mark", "the outbox file is "+s.path)
		says(s.path+".lock", "the outbox file is "+s.path)
		says(strange, "this is no outbox file")
		if words[0] != "verify" && words[0] != "adopt" {
			says(void, "is empty, and nothing was ever saved in it")
		}
	}
	for _, path := range []string{dir, empty, s.path + ".mark", strange} {
		require.NoFileExists(t, path+".lock", "nothing is made beside it")
	}
	denied := explain(s.path, &fs.PathError{Op: "open", Path: s.path, Err: fs.ErrPermission})
	require.ErrorContains(t, denied, "run this as the user that the till runs as")
}

// TestAClonedTillAdoptsItsCopy: what the other one has done meanwhile is not done again.
func TestAClonedTillAdoptsItsCopy(t *testing.T) {
	s := newShop(t)
	s.fill()
	clone := filepath.Join(t.TempDir(), "pos.outbox")
	for _, suffix := range []string{"", ".mark", ".lock", ".ballast"} {
		b, err := os.ReadFile(s.path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(clone+suffix, b, 0o600))
	}
	s.drain() // the first till makes both bookings

	require.Contains(t, command(t, 5, "outbox", "adopt", clone).errOut, "5 unfinished operations count as sent")
	require.NotContains(t, command(t, 0, "outbox", "export", clone).out, `"suspect":true`)
	require.Contains(t, command(t, 0, "outbox", "adopt", clone, "--yes").out, "count as sent from now on")
	require.Contains(t, command(t, 0, "outbox", "show", clone, s.ids["first"]).out, "suspect")
	require.Contains(t, command(t, 1, "outbox", "cancel", clone, s.ids["first"], "--yes").errOut, "provably was never sent")
	s.path = clone
	s.drain()
	for _, name := range []string{"first", "second"} {
		s.srv.AssertExactlyOnce(t, "bookings.create", name)
	}
}

func TestAnEmptyOutboxIsBegunOnlyWhenAskedFor(t *testing.T) {
	s := newShop(t)
	s.fill()
	require.NoError(t, os.WriteFile(s.path, []byte("overwritten by something else"), 0o600))
	require.Contains(t, command(t, 1, "outbox", "adopt", s.path, "--yes").errOut, "--start-fresh")
	require.Contains(t, command(t, 5, "outbox", "adopt", s.path, "--start-fresh").errOut, "an empty outbox is begun")
	command(t, 0, "outbox", "adopt", s.path, "--start-fresh", "--yes")
	aside, err := os.ReadFile(s.path + ".damaged-1")
	require.NoError(t, err)
	require.Contains(t, string(aside), "overwritten by something else")
	require.Contains(t, command(t, 0, "outbox", "list", s.path).out, "0 waiting")
}

func TestCompactMakesTheFileSmaller(t *testing.T) {
	s := newShop(t)
	engine := openEngine(t, s.path)
	for i := range 200 {
		_, err := engine.Add(t.Context(), outbox.Addition{Now: time.Now(), Record: outbox.Record{ID: fmt.Sprint("big-", i), Connection: store,
			Lane: fmt.Sprint(i), Kind: "call", Request: outbox.Request{Method: "PUT", Target: "/x", Body: bytes.Repeat([]byte("x"), 20000)}}})
		require.NoError(t, err)
		_, err = engine.Set(t.Context(), outbox.Change{ID: fmt.Sprint("big-", i), Action: outbox.Cancel, Now: time.Now()})
		require.NoError(t, err)
	}
	n, err := engine.Purge(t.Context(), outbox.PurgeRequest{Now: time.Now(), Before: time.Now().Add(time.Hour), Unacked: true})
	require.NoError(t, err)
	require.Equal(t, 200, n)
	add(t, engine, "kept", "lane")
	require.NoError(t, engine.Close())
	before, err := os.Stat(s.path)
	require.NoError(t, err)
	require.Contains(t, command(t, 0, "outbox", "compact", s.path, "--yes").out, "KiB before")
	after, err := os.Stat(s.path)
	require.NoError(t, err)
	require.Less(t, after.Size(), before.Size()/10)
	require.Contains(t, command(t, 0, "outbox", "list", s.path).out, "kept")
}

func TestExportWritesAWholeFileOrNone(t *testing.T) {
	s := newShop(t)
	s.fill()
	dir := t.TempDir()
	out := filepath.Join(dir, "export.jsonl")
	r := command(t, 0, "outbox", "export", s.path, "-o", out)
	require.Contains(t, r.errOut, "7 operations written to")
	require.Empty(t, r.out)
	info, err := os.Stat(out)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	b, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Len(t, operations(t, string(b)), 7)

	till := s.start("offline")
	command(t, 3, "outbox", "export", s.path, "-o", out)
	after, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, b, after)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing half written is left")
	till.stop()
}

func TestWatchEndsWhenItIsInterrupted(t *testing.T) {
	s := newShop(t)
	s.fill()
	cmd := exec.Command(binary, "outbox", "watch", s.path, "--interval", "200ms")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, 200)
	n, err := out.Read(line)
	require.NoError(t, err)
	require.Contains(t, string(line[:n]), "2 waiting")
	till := s.start("offline", "listen") // it can start while somebody watches
	till.stop()
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_, err = io.Copy(io.Discard, out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
}

// onTerminal runs a command on a terminal, where somebody types input, and returns what it shows.
func onTerminal(t *testing.T, input string, status int, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, args...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	require.NoError(t, err)
	defer func() { _ = tty.Close() }()
	_, err = tty.WriteString(input)
	require.NoError(t, err)
	var shown bytes.Buffer
	_, _ = io.Copy(&shown, tty) // it ends in an error when the other side is closed
	_ = cmd.Wait()
	require.Equal(t, status, cmd.ProcessState.ExitCode(), shown.String())
	return shown.String()
}

func TestAPersonAtATerminalIsAsked(t *testing.T) {
	s := newShop(t)
	s.fill()
	require.Contains(t, onTerminal(t, "n\n", 5, "outbox", "cancel", s.path, s.ids["first"]), "Go on? [y/N]")
	require.Contains(t, onTerminal(t, "\n", 5, "outbox", "cancel", s.path, s.ids["first"]), "nothing was changed")
	require.Equal(t, outbox.Queued, operationOf(t, s, "first").State)
	require.Contains(t, onTerminal(t, "y\n", 0, "outbox", "cancel", s.path, s.ids["first"]), "is canceled now")
	require.Equal(t, outbox.Canceled, operationOf(t, s, "first").State)
}

func TestLongWorkShowsHowFarItIsOnATerminalOnly(t *testing.T) {
	s := newShop(t)
	s.fill()
	require.Contains(t, onTerminal(t, "", 0, "outbox", "verify", s.path), "verifying")
	require.Contains(t, onTerminal(t, "", 0, "outbox", "export", s.path, "-o", filepath.Join(t.TempDir(), "x")), "exporting")
	require.NotContains(t, command(t, 0, "outbox", "verify", s.path).errOut, "verifying")
	require.Empty(t, command(t, 0, "outbox", "export", s.path).errOut)
}

func TestVersionAndCompletion(t *testing.T) {
	r := command(t, 0, "version")
	for _, text := range []string{"flavoso ", "SDK 0.", "go1.", fmt.Sprint("outbox files up to format ", bolt.FormatVersion)} {
		require.Contains(t, r.out, text)
	}
	require.Contains(t, command(t, 0, "--version").out, "flavoso ")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, command(t, 0, "completion", shell).out, "flavoso", shell)
	}
	require.Contains(t, command(t, 0, "__complete", "outbox", "list", "x", "--state", "unc").out, "uncertain")
	require.Contains(t, command(t, 0, "__complete", "outbox", "re").out, "resolve")
}
