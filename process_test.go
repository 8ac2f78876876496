package flavoso

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

// buildTill builds the test till, with build tags.
func buildTill(t *testing.T, tags string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "till")
	out, err := exec.Command("go", "build", "-tags", tags, "-o", path, "./internal/testtill").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// process is a running test till.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startProcess(t *testing.T, binary string, srv *mockserver.Server, outboxPath string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"-base-url", srv.BaseURL(), "-token", srv.Token(store),
		"-connection", store, "-outbox", outboxPath}, args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	p := &process{t: t, cmd: cmd, lines: bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	return p
}

// expect waits for a line that begins with want.
func (p *process) expect(want string) string {
	p.t.Helper()
	for p.lines.Scan() {
		if line := p.lines.Text(); strings.HasPrefix(line, want) {
			return line
		} else if strings.HasPrefix(line, "error") {
			p.t.Fatalf("till: %s", line)
		}
	}
	p.t.Fatalf("the till ended before it said %q", want)
	return ""
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		_ = p.cmd.Wait()         // the kill is its error
	}
}

// TestKilledTill: a real process, a real file, a real SIGKILL while the answer is outstanding.
func TestKilledTill(t *testing.T) {
	binary := buildTill(t, "")
	srv := mockserver.Start(t)
	path := filepath.Join(t.TempDir(), "pos.outbox")
	id := srv.AddOrder(store, mockserver.Order{})
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))

	first := startProcess(t, binary, srv, path, "-patient", "-accept", id)
	require.Eventually(t, func() bool { return len(srv.Effects()) == 1 }, 30*time.Second, 5*time.Millisecond)
	first.kill()

	second := startProcess(t, binary, srv, path, "-flush", "-accept", id)
	require.Equal(t, "accepted confirmed", second.expect("accepted"))
	requireOneOperation(t, srv, "orders.accept", 2)
}

// TestRestartWithAnotherEncoder: the bytes are frozen with the operation. An update whose encoder orders
// fields differently must not change what goes on the wire under the old key (F7).
func TestRestartWithAnotherEncoder(t *testing.T) {
	srv := mockserver.Start(t)
	path := filepath.Join(t.TempDir(), "pos.outbox")
	starts := time.Now().Add(72 * time.Hour).UTC().Format(time.RFC3339)
	srv.Inject(mockserver.DropResponse().On("POST", "/bookings").Times(1))
	book := []string{"-book", "2026-11-30-17", "-starts", starts}

	first := startProcess(t, buildTill(t, ""), srv, path, append([]string{"-patient"}, book...)...)
	require.Eventually(t, func() bool { return len(srv.Effects()) == 1 }, 30*time.Second, 5*time.Millisecond)
	first.kill()

	updated := buildTill(t, "encoder2")
	second := startProcess(t, updated, srv, path, append([]string{"-flush"}, book...)...)
	second.expect("booked")
	second.kill()
	requireOneOperation(t, srv, "bookings.create", 1)

	// That the updated till really encodes otherwise shows in a booking of its own.
	third := startProcess(t, updated, srv, path, "-book", "2026-11-30-18", "-starts", starts)
	third.expect("booked")
	sent := posts(srv)
	old, other := string(sent[0].Body), string(sent[len(sent)-1].Body)
	require.NotEqual(t, strings.Index(old, `"party_size"`), strings.Index(other, `"party_size"`))
}

// TestManyOperationsSurviveAKill: a backlog enqueued while nothing can be sent, and a kill in the middle.
func TestManyOperationsSurviveAKill(t *testing.T) {
	binary := buildTill(t, "")
	srv := mockserver.Start(t)
	path := filepath.Join(t.TempDir(), "pos.outbox")
	var ids []string
	for range 20 {
		ids = append(ids, srv.AddOrder(store, mockserver.Order{}))
	}
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Ratio(0.3).Optional())

	first := startProcess(t, binary, srv, path, "-patient", "-enqueue", strings.Join(ids, ","), "-hold")
	first.expect("enqueued")
	first.kill()

	second := startProcess(t, binary, srv, path, "-flush")
	second.expect("flushed")
	accepts := map[string]int{}
	for _, e := range srv.Effects() {
		accepts[e.Resource]++
	}
	for _, id := range ids {
		require.Equal(t, 1, accepts[id], id)
	}
}

func TestSecondProcessIsToldWhoHoldsTheOutbox(t *testing.T) {
	srv := mockserver.Start(t)
	path := filepath.Join(t.TempDir(), "pos.outbox")
	holder := startProcess(t, buildTill(t, ""), srv, path, "-hold")
	holder.expect("open")

	began := time.Now()
	_, err := Open(Config{Connection: store, Token: StaticToken("t"), OutboxPath: path, BaseURL: srv.BaseURL()})
	require.ErrorIs(t, err, ErrOutboxLocked)
	var locked *outbox.LockedError
	require.True(t, errors.As(err, &locked))
	require.Equal(t, holder.cmd.Process.Pid, locked.PID)
	require.Contains(t, err.Error(), fmt.Sprint(locked.PID))
	require.Less(t, time.Since(began), 10*time.Second, "it does not wait for the holder to end")
	require.ErrorIs(t, err, ErrNotSaved)
}
