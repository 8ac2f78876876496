package pgtest

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// KillChild runs the test binary again with env, waits until it says that it is ready, and kills it with
// SIGKILL.
func KillChild(t testing.TB, env ...string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if ready := strings.TrimSpace(line); err != nil || ready != "ready" {
		t.Errorf("the child says %q, %v", ready, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // says "signal: killed"
	if t.Failed() {
		t.FailNow()
	}
}
