package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// binary is the command, built once.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv("FLAVOSO_TEST_TILL") != "" {
		if err := runTill(); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "flavoso-binary")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "flavoso")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Printf("building the command: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// result is what a command line came to.
type result struct {
	status      int
	out, errOut string
}

// flavosoAs runs the built command with variables of its own in its environment.
func flavosoAs(t *testing.T, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", args, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// command runs the built command and requires its exit status.
func command(t *testing.T, status int, args ...string) result {
	t.Helper()
	r := flavosoAs(t, nil, args...)
	require.Equal(t, status, r.status, "flavoso %s\n%s%s", strings.Join(args, " "), r.out, r.errOut)
	return r
}

// operations reads what --json printed.
func operations(t *testing.T, text string) map[string]inspect.Operation {
	t.Helper()
	out := map[string]inspect.Operation{}
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var o inspect.Operation
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err, text)
		out[o.ID] = o
	}
}

const (
	store = "store-42"
	guest = "Grace Hopper"
)

// shop is a restaurant at the mock server with the outbox of its till.
type shop struct {
	t    *testing.T
	srv  *mockserver.Server
	path string
	keys [][]byte
	ids  map[string]string // operations by what the test calls them
}

func newShop(t *testing.T, keys ...[]byte) *shop {
	t.Helper()
	srv := mockserver.Start(t)
	return &shop{t: t, srv: srv, path: filepath.Join(t.TempDir(), "pos.outbox"), keys: keys, ids: map[string]string{}}
}

// nowhere is an address that nobody listens on: what is sent there provably reaches nobody.
const nowhere = "http://127.0.0.1:1/v1"

func (s *shop) open() *flavoso.Client { return s.openAt(s.srv.BaseURL()) }

func (s *shop) openAt(url string) *flavoso.Client {
	s.t.Helper()
	c, err := flavoso.Open(flavoso.Config{Connection: store, Token: flavoso.StaticToken(s.srv.Token(store)), BaseURL: url,
		OutboxPath: s.path, OutboxKeys: s.keys, Retry: flavoso.ExponentialJitter{Cap: 200 * time.Millisecond}})
	require.NoError(s.t, err)
	return c
}

func (s *shop) close(c *flavoso.Client) { require.NoError(s.t, c.Close()) }

// bookRaw makes a booking by a call that the SDK knows nothing of, so that only a person can tell what came
// of it.
func (s *shop) bookRaw(c *flavoso.Client, name string) {
	s.t.Helper()
	body := map[string]any{"external_id": name, "starts_at": time.Now().Add(100 * time.Hour).UTC().Format(time.RFC3339), "party_size": 2,
		"customer": map[string]any{"name": guest}}
	p, err := flavoso.NewCall[json.RawMessage](c, "POST", "/bookings", body).WithKey(flavoso.Key("raw-" + name)).WithLane("raw:" + name).
		WithTag(name).Enqueue(s.t.Context())
	require.NoError(s.t, err)
	s.ids[name] = p.ID()
}

// book enqueues a booking.
func (s *shop) book(c *flavoso.Client, name string) {
	s.t.Helper()
	p, err := c.Bookings.Create(name, flavoso.BookingParams{StartsAt: time.Now().Add(100 * time.Hour), PartySize: 2,
		Customer: flavoso.BookingCustomer{Name: guest}}).WithTag(name).Enqueue(s.t.Context())
	require.NoError(s.t, err)
	s.ids[name] = p.ID()
}

// become waits until an operation is in a state.
func (s *shop) become(c *flavoso.Client, name string, want outbox.State) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		o, err := c.Operations.Get(s.t.Context(), s.ids[name])
		return err == nil && o.State == want
	}, 20*time.Second, 10*time.Millisecond, "%s is to be %s", name, want)
}

// fill makes an outbox with operations in many states: "accepted" succeeded, "refused" was rejected and
// stopped its lane with "behind" in it, "made" and "lost" are uncertain (and the first was done), "first" and
// "second" were never sent.
func (s *shop) fill() {
	t := s.t
	t.Helper()
	c := s.open()
	order := s.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(1000 * time.Hour)})
	p, err := c.Orders.Accept(order, flavoso.AcceptParams{PreparationMinutes: 20}).Enqueue(t.Context())
	require.NoError(t, err)
	s.ids["accepted"], s.ids["order"] = p.ID(), order
	require.NoError(t, c.Flush(t.Context()))

	gone := s.srv.AddOrder(store, mockserver.Order{})
	require.NoError(t, s.srv.CancelOrder(store, gone))
	s.srv.Inject(mockserver.Delay(200*time.Millisecond).On("POST", "/orders/{id}/reject").Times(1))
	head, err := c.Orders.Reject(gone, flavoso.RejectParams{Reason: flavoso.ReasonTooBusy}).StopLaneOnReject().Enqueue(t.Context())
	require.NoError(t, err)
	behind, err := c.Orders.SetStatus(gone, flavoso.StatusParams{Status: flavoso.OrderPreparing}).Enqueue(t.Context())
	require.NoError(t, err)
	s.ids["refused"], s.ids["behind"] = head.ID(), behind.ID()
	s.become(c, "behind", flavoso.StateBlocked)

	for _, x := range []struct {
		name  string
		fault mockserver.Fault
	}{{"made", mockserver.DropResponse()}, {"lost", mockserver.Reset()}} {
		s.srv.Inject(x.fault.On("POST", "/bookings").Times(1))
		s.srv.Inject(mockserver.Status(409).Code("conflict").On("POST", "/bookings").Times(1))
		s.bookRaw(c, x.name)
		s.become(c, x.name, flavoso.StateUncertain)
	}
	s.close(c)
	c = s.openAt(nowhere)
	s.book(c, "first")
	s.book(c, "second")
	require.Eventually(t, func() bool { return !c.Status().OfflineSince.IsZero() }, 20*time.Second, 10*time.Millisecond)
	s.become(c, "first", flavoso.StateQueued)
	s.become(c, "second", flavoso.StateQueued)
	s.close(c)
}

// drain lets a real till work off what waits.
func (s *shop) drain() {
	s.t.Helper()
	c := s.open()
	defer s.close(c)
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(s.t, c.Flush(ctx))
}

// effects returns how often the server did something to a resource or a booking's reference.
func (s *shop) effects(kind, resource string) (n int) {
	for _, e := range s.srv.Effects() {
		if e.Kind == kind && (e.Resource == resource || e.Reference == resource) {
			n++
		}
	}
	return n
}

// child is a till in a process of its own.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	url string // of its inspection, when it offers that
}

// start runs a till in a process of its own; options are any of offline, listen, changes, bodies.
func (s *shop) start(options ...string) *child {
	s.t.Helper()
	return s.startAt(s.path, options...)
}

// startAt runs it on an outbox at another place.
func (s *shop) startAt(path string, options ...string) *child {
	s.t.Helper()
	cmd := exec.Command(os.Args[0])
	url := s.srv.BaseURL()
	if slices.Contains(options, "offline") {
		url = nowhere
	}
	cmd.Env = append(os.Environ(), "FLAVOSO_TEST_TILL="+strings.Join(append(options, "run"), ","), "TILL_OUTBOX="+path,
		"TILL_URL="+url, "TILL_TOKEN="+s.srv.Token(store))
	out, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	in, err := cmd.StdinPipe()
	require.NoError(s.t, err)
	cmd.Stderr = os.Stderr
	require.NoError(s.t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(s.t, err)
	address, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "ready ")
	require.True(s.t, ok, line)
	c := &child{s.t, cmd, in, address}
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return c
}

// stop ends the till.
func (c *child) stop() {
	c.t.Helper()
	require.NoError(c.t, c.in.Close())
	require.NoError(c.t, c.cmd.Wait())
}

// kill ends it as a power cut does.
func (c *child) kill() {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(syscall.SIGKILL))
	_ = c.cmd.Wait()
}

// runTill is the till of a child process: it has the outbox open until its input ends.
func runTill() error {
	c, err := flavoso.Open(flavoso.Config{Connection: store, Token: flavoso.StaticToken(os.Getenv("TILL_TOKEN")),
		BaseURL: os.Getenv("TILL_URL"), OutboxPath: os.Getenv("TILL_OUTBOX")})
	if err != nil {
		return err
	}
	options := strings.Split(os.Getenv("FLAVOSO_TEST_TILL"), ",")
	var opts []flavoso.InspectOption
	listen, url := false, ""
	for _, o := range options {
		switch o {
		case "listen":
			listen = true
		case "changes":
			opts = append(opts, flavoso.InspectChanges())
		case "bodies":
			opts = append(opts, flavoso.InspectBodies())
		}
	}
	if listen {
		in, err := flavoso.ListenInspect(c, opts...)
		if err != nil {
			return errors.Join(err, c.Close())
		}
		defer func() { _ = in.Close() }()
		url = in.URL()
	}
	fmt.Println("ready", url)
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, c.Close())
}

// openEngine opens an outbox file without a client.
func openEngine(t *testing.T, path string) *bolt.Engine {
	t.Helper()
	e, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	return e
}

// add saves an operation whose ID and connection have the same name.
func add(t *testing.T, e outbox.Engine, name, lane string) {
	t.Helper()
	_, err := e.Add(t.Context(), outbox.Addition{Now: time.Now(), Record: outbox.Record{ID: name, Connection: name, Lane: lane, Kind: "call",
		Key: "key-" + name, Fingerprint: []byte(name), Request: outbox.Request{Method: "POST", Target: "/x", Body: []byte(`{"name":"` + guest + `"}`)}}})
	require.NoError(t, err)
}

// readAddress reads what a till has left beside its outbox.
func readAddress(t *testing.T, path string) (a inspect.Address) {
	t.Helper()
	b, err := os.ReadFile(path + inspect.AddressSuffix)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &a))
	return a
}
