package bolt_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// The same faults from the kernel: every seventh fdatasync of a real process fails with EIO. Needs strace;
// without it, or without the right to trace, the test is skipped by name (bolttest.Disk covers the same).
func TestAProcessWhoseSyncsFailInTheKernelLosesNothing(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command(strace, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("tracing is not allowed: %v: %s", err, out)
	}
	path := filepath.Join(t.TempDir(), "pos.outbox")
	log := filepath.Join(t.TempDir(), "strace")
	cmd := exec.Command(strace, "-f", "-o", log, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=7+7", os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path, childPoint+"=never", childNth+"=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	k := &knowledge{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	k.hear(t, regexp.MustCompile(`[^\n]+`).FindAllString(string(out), -1))
	require.Len(t, k.must, 20, "the child did all its work")
	e, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	k.check(t, e)
	require.NoError(t, e.Close())

	calls, err := os.ReadFile(log)
	require.NoError(t, err)
	injected := bytes.Count(calls, []byte("(INJECTED)"))
	require.Positive(t, injected)
	t.Logf("%d of %d syncs failed", injected, bytes.Count(calls, []byte("fdatasync(")))
}

// What the engine says about its syncs is what the kernel sees: two for a lone step.
func TestTheKernelSeesTwoSyncsForEachStep(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command(strace, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("tracing is not allowed: %v: %s", err, out)
	}
	count := func(steps int) int {
		path := filepath.Join(t.TempDir(), "pos.outbox")
		log := filepath.Join(t.TempDir(), "strace"+strconv.Itoa(steps))
		cmd := exec.Command(strace, "-f", "-o", log, "-e", "trace=fdatasync", os.Args[0])
		cmd.Env = append(os.Environ(), childPath+"="+path, childSteps+"="+strconv.Itoa(steps))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		calls, err := os.ReadFile(log)
		require.NoError(t, err)
		// A call that another thread interrupts is logged in two lines; only the first has the bracket.
		return bytes.Count(calls, []byte("fdatasync("))
	}
	require.Equal(t, 2*15, count(20)-count(5))
}
