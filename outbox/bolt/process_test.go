package bolt_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

// The test binary is also the child process of these tests: a till that saves, claims and settles until it
// is killed, and says on its output what it knows to be durable.
const (
	childPath  = "FLAVOSO_TEST_OUTBOX"
	childPoint = "FLAVOSO_TEST_POINT"
	childNth   = "FLAVOSO_TEST_NTH"
	childSteps = "FLAVOSO_TEST_STEPS"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if n, err := strconv.Atoi(os.Getenv(childSteps)); err == nil {
			addOnly(path, n)
			return
		}
		child(path, bolt.Point(os.Getenv(childPoint)), os.Getenv(childNth))
		return
	}
	goleak.VerifyTestMain(m)
}

// insist repeats a step whose result is unknown, as an application does.
func insist(step func() error) {
	err := step()
	var unknown *outbox.SaveError
	for i := 0; i < 10 && (errors.As(err, &unknown) || errors.Is(err, outbox.ErrFault)); i++ {
		err = step()
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(3)
	}
}

// addOnly saves n operations, one after the other.
func addOnly(path string, n int) {
	e, err := bolt.Open(path, bolt.Options{})
	for i := 0; i < n && err == nil; i++ {
		_, err = e.Add(ctx, addition(strconv.Itoa(i)))
	}
	if err == nil {
		err = e.Close()
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(3)
	}
}

func child(path string, at bolt.Point, nth string) {
	var o bolt.Options
	d := bolttest.NewDisk()
	d.Attach(&o)
	n := 0
	_, _ = fmt.Sscan(nth, &n)
	if at != "" {
		d.At(at, func() {
			if n--; n < 0 {
				self, _ := os.FindProcess(os.Getpid())
				_ = self.Kill()
				select {}
			}
		})
	}
	e, err := bolt.Open(path, o)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(3)
	}
	fmt.Println("open")
	run := time.Now().UnixNano()
	for i := range 20 {
		a := addition(fmt.Sprintf("%d-%d", run, i))
		a.Record.Lane = fmt.Sprintf("lane-%d", i%3)
		fmt.Println("adding", a.Record.ID)
		insist(func() error { _, err := e.Add(ctx, a); return err })
		fmt.Println("added", a.Record.ID)
		var claimed []outbox.Record
		insist(func() (err error) {
			claimed, err = e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now.Add(time.Hour)}, Limit: 2})
			return err
		})
		for _, r := range claimed {
			fmt.Println("claimed", r.ID)
			if i%2 == 0 {
				fmt.Println("settling", r.ID)
				out, err := e.Settle(ctx, outbox.Settlement{ID: r.ID, Claim: r.Claim.Token, Now: now, To: outbox.Succeeded})
				if err == nil && out[0].Err == nil {
					fmt.Println("settled", r.ID)
				}
			}
		}
		if i%5 == 4 {
			if err := e.Compact(ctx); err != nil && at != "never" { // there syncs fail, and compacting may
				fmt.Println("error", err)
				os.Exit(3)
			}
		}
	}
	fmt.Println("done")
	if at == "" {
		select {} // until it is killed
	}
	_ = e.Close()
}

// startChild starts the child and returns what it said until it ended, or until it said stop.
func startChild(t *testing.T, path string, p bolt.Point, nth int, stop string) (*exec.Cmd, []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path, childPoint+"="+string(p), fmt.Sprintf("%s=%d", childNth, nth))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var said []string
	for s := bufio.NewScanner(out); s.Scan(); {
		said = append(said, s.Text())
		if stop != "" && strings.HasPrefix(s.Text(), stop) {
			break
		}
	}
	return cmd, said
}

// knowledge is what children have said: what must be there, and what may be.
type knowledge struct {
	must, may, sent, over map[string]bool
}

func (k *knowledge) hear(t *testing.T, said []string) {
	for _, line := range said {
		what, id, _ := strings.Cut(line, " ")
		switch what {
		case "adding":
			k.may[id] = true
		case "added":
			k.must[id] = true
		case "claimed":
			k.sent[id] = true
		case "settled":
			k.over[id] = true
		case "error":
			t.Fatalf("the child failed: %s", line)
		}
	}
}

func (k *knowledge) check(t *testing.T, e *bolt.Engine) {
	t.Helper()
	p, err := e.List(ctx, outbox.Query{Limit: 10000, Bodies: true})
	require.NoError(t, err)
	seen := map[string]bool{}
	sum := map[outbox.State]int{}
	for _, r := range p.Records {
		require.NoError(t, r.Check())
		require.True(t, k.may[r.ID], "%s was never added", r.ID)
		require.Equal(t, addition(r.ID).Record.Request, r.Request)
		require.False(t, k.sent[r.ID] && r.Exposure == nil, "%s was handed out for sending, and its mark is gone", r.ID)
		require.False(t, k.over[r.ID] && r.State != outbox.Succeeded, "%s was over", r.ID)
		require.False(t, r.Claimed(), "%s: a dead process has no claims", r.ID)
		seen[r.ID] = true
		sum[r.State]++
	}
	for id := range k.must {
		require.True(t, seen[id], "%s was durable and is gone", id)
	}
	require.Equal(t, sum, states(t, e))
	require.Empty(t, e.Reports(), "a crash is not damage")
}

// A process killed at any named point loses nothing that it was told is durable.
func TestAProcessKilledAtAnyPointLosesNothing(t *testing.T) {
	reached := map[bolt.Point]bool{}
	for _, p := range bolttest.Points() {
		if p == bolt.PointCommitFailed || p == bolt.PointAsideMoved {
			continue // nothing fails here, nothing is damaged; see the tests of these
		}
		t.Run(string(p), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pos.outbox")
			k := &knowledge{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
			for _, nth := range map[bool][]int{true: {0}, false: {0, 6}}[testing.Short()] {
				cmd, said := startChild(t, path, p, nth, "")
				k.hear(t, said)
				err := cmd.Wait()
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					require.NotEqual(t, 3, exit.ExitCode(), "it was killed")
					reached[p] = true
				} else {
					require.NoError(t, err)
				}
				e, err := bolt.Open(path, bolt.Options{})
				require.NoError(t, err)
				k.check(t, e)
				require.NoError(t, e.Close())
				require.NoFileExists(t, path+".new")
			}
			require.True(t, reached[p], "the child never came there")
		})
	}
}

func TestAnotherProcessThatHasItOpenIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	holder, _ := startChild(t, path, "", 0, "done")
	_, err := bolt.Open(path, bolt.Options{})
	require.ErrorIs(t, err, outbox.ErrLocked)
	var locked *outbox.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, holder.Process.Pid, locked.PID)
	require.False(t, locked.Since.IsZero())
	require.ErrorContains(t, err, fmt.Sprint(holder.Process.Pid))

	// The holder is killed: the outbox is free at once, with everything in it.
	require.NoError(t, holder.Process.Kill())
	_ = holder.Wait()
	e := open(t, path, bolt.Options{})
	require.Equal(t, 20, states(t, e)[outbox.Succeeded]+states(t, e)[outbox.Sent]+states(t, e)[outbox.Queued])
}

func TestASecondOpenInTheSameProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	e := open(t, path, bolt.Options{})
	_, err := bolt.Open(path, bolt.Options{LockTimeout: 100 * time.Millisecond})
	var locked *outbox.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, os.Getpid(), locked.PID)
	link := filepath.Join(t.TempDir(), "link.outbox")
	require.NoError(t, os.Symlink(path, link))
	_, err = bolt.Open(link, bolt.Options{LockTimeout: 100 * time.Millisecond})
	require.ErrorIs(t, err, outbox.ErrLocked, "under another name")
	add(t, e, "a")
	require.NoError(t, e.Close())
	require.NoError(t, open(t, path, bolt.Options{}).Close())
}

func TestADirectoryThatIsMissingIsSaid(t *testing.T) {
	_, err := bolt.Open(filepath.Join(t.TempDir(), "missing", "pos.outbox"), bolt.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "its directory must exist")
}

func TestALockThatIsGivenUpMeanwhileIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	first := open(t, path, bolt.Options{})
	opened := make(chan error)
	go func() {
		e, err := bolt.Open(path, bolt.Options{LockTimeout: 30 * time.Second})
		if err == nil {
			err = e.Close()
		}
		opened <- err
	}()
	require.NoError(t, first.Close())
	require.NoError(t, <-opened)
}
