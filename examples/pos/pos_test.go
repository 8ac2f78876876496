package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// terminal is what a program has printed, for tests to wait on.
type terminal struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newTerminal() *terminal { return &terminal{changed: make(chan struct{}, 1)} }

func (o *terminal) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.text.Write(b)
}

func (o *terminal) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// expect waits until all of these have been printed.
func (o *terminal) expect(t *testing.T, all ...string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		missing := ""
		for _, s := range all {
			if !strings.Contains(o.String(), s) {
				missing = s
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-o.changed:
		case <-deadline:
			t.Fatalf("it never printed %q, but\n%s", missing, o)
		}
	}
}

func TestTheScriptedEveningEndsWithALedgerThatAgrees(t *testing.T) {
	out := newTerminal()
	code := run(t.Context(), []string{"-script"}, strings.NewReader(""), out)
	require.Zero(t, code, out)
	for _, line := range []string{"offline since", "waiting 6", "ticket 4: orders.status: done", "ramen: menu.availability: done", "The ledger agrees"} {
		assert.Contains(t, out.String(), line)
	}
	assert.NotContains(t, out.String(), "NOBODY KNOWS")
}

func TestTheTillAtTheKeyboard(t *testing.T) {
	keys, typed := io.Pipe()
	out := newTerminal()
	ended := make(chan int, 1)
	go func() { ended <- run(t.Context(), []string{"-pace", "0", "-dir", t.TempDir()}, keys, out) }()
	press := func(lines string) {
		_, err := io.WriteString(typed, lines)
		require.NoError(t, err)
	}
	press("o\n")
	out.expect(t, "[pending]")
	press("a 1\n")
	out.expect(t, "ticket 1: orders.accept: done", "ticket 1: orders.acknowledge: done", "waiting 0")
	press("n\nr 1\ns ramen\n")
	out.expect(t, "The network cable is pulled.", "offline since", "waiting 2")
	press("n\n")
	out.expect(t, "ticket 1: orders.status: done", "ramen: menu.availability: done")
	press("o\n")
	out.expect(t, "ticket 2: ")
	press("x 2\nl\n?\na 7\nz\nb ramen\n\n")
	out.expect(t, "ticket 2: orders.reject: done", `there is no ticket "7"`, `no command "z"`)
	press("a 2\n")
	out.expect(t, "ticket 2: orders.accept: the order is rejected. DO NOT COOK IT.")
	press("q\n")
	require.Zero(t, <-ended)
	require.NoError(t, typed.Close())
}

func TestWrongFlagsAndAnEndedInput(t *testing.T) {
	assert.Equal(t, 2, run(t.Context(), []string{"-nonsense"}, strings.NewReader(""), io.Discard))
	assert.Equal(t, 0, run(t.Context(), nil, strings.NewReader(""), io.Discard))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, 0, run(ctx, []string{"-pace", "0"}, strings.NewReader(""), io.Discard))
	assert.Equal(t, 1, run(t.Context(), []string{"-dir", "/dev/null/x"}, strings.NewReader(""), io.Discard))
}

func TestTheLedgerIsReallyCompared(t *testing.T) {
	effects := []mockserver.Effect{{Kind: "orders.accept", Resource: "1"}, {Kind: "orders.accept", Resource: "1"}, {Kind: "orders.cancel", Resource: "2"}}
	err := compare(map[string]int{"orders.accept 1": 1, "orders.accept 3": 1}, effects)
	require.Error(t, err)
	for _, part := range []string{"accept 1: 2 times", "accept 3: 0 times", "cancel 2: 1 times, and nobody"} {
		assert.Contains(t, err.Error(), part)
	}
	assert.NoError(t, compare(map[string]int{"orders.cancel 2": 1}, effects[2:]))
}

func TestStatusLine(t *testing.T) {
	now := time.Date(2026, 11, 30, 18, 0, 0, 0, time.Local)
	s := &screen{now: func() time.Time { return now }}
	assert.Equal(t, "── waiting 0 · online · uncertain 0", s.statusLine(flavoso.Status{}))
	assert.Equal(t, "── waiting 3 · oldest 1m30s · offline since 17:58:30, paused until 18:01:00, NEW TOKEN NEEDED · uncertain 1",
		s.statusLine(flavoso.Status{Waiting: 3, Uncertain: 1, Oldest: now.Add(-90 * time.Second), OfflineSince: now.Add(-90 * time.Second),
			PausedUntil: now.Add(time.Minute), AuthRequired: true}))
	assert.Equal(t, "── the outbox cannot be read · online", s.statusLine(flavoso.Status{Unread: true}))
}

func TestTonight(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	assert.Equal(t, "2026-11-30T22:00:00+01:00", tonight(time.Date(2026, 11, 30, 21, 59, 59, 0, zone)).Format(time.RFC3339))
	assert.Equal(t, "2026-12-01T22:00:00+01:00", tonight(time.Date(2026, 11, 30, 22, 0, 0, 0, zone)).Format(time.RFC3339))
	assert.Equal(t, "2026-03-29T22:00:00+02:00", tonight(time.Date(2026, 3, 28, 23, 0, 0, 0, zone)).Format(time.RFC3339))
}
