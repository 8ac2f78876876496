package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares JSON output with a file, after what differs each time was replaced by its kind.
func golden(t *testing.T, name, text string) {
	t.Helper()
	for _, r := range []struct{ pattern, with string }{
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "<uuid>"},
		{`req_[0-9a-f]{24}`, "req_<hex>"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "<time>"},
		{`"attempts":[1-9]\d*`, `"attempts":<n>`},
		{`"n":\d+`, `"n":<n>`},
		{`127\.0\.0\.1:\d+`, "<address>"},
		{`"error":"[^"]+"`, `"error":"<text>"`},
		{`"size":\d+`, `"size":<n>`},
		{`"bytes":[1-9]\d*`, `"bytes":<n>`},
		{`"pid":\d+`, `"pid":<n>`},
		{`"outbox_format":\d+`, `"outbox_format":<n>`},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	file := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

func TestListShowsWhatIsNotOver(t *testing.T) {
	s := newShop(t)
	s.fill()
	r := command(t, 0, "outbox", "list", s.path)
	require.Empty(t, r.errOut)
	for _, name := range []string{"behind", "made", "lost", "first", "second"} {
		require.Contains(t, r.out, s.ids[name])
	}
	for _, name := range []string{"accepted", "refused"} {
		require.NotContains(t, r.out, s.ids[name])
	}
	for _, text := range []string{"ID", "STATE", "409 conflict", "lane_stopped", "2 waiting", "2 uncertain, 1 blocked, 0 damaged, 3 lanes held"} {
		require.Contains(t, r.out, text)
	}
	r = command(t, 0, "outbox", "list", s.path, "--all")
	require.Contains(t, r.out, s.ids["accepted"])
	require.Contains(t, r.out, "409 conflict")

	for _, tc := range []struct {
		flags string
		want  string
	}{
		{"--state uncertain", "made lost"},
		{"--state parked", "behind made lost"},
		{"--state final", "accepted refused"},
		{"--state queued --state rejected", "refused first second"},
		{"--tag made", "made"},
		{"--lane raw:lost", "lost"},
		{"--kind orders.accept --all", "accepted"},
		{"--key raw-made", "made"},
		{"--connection store-43", ""},
		{"--state waiting --limit 1", "first"},
		{"--unacked --state uncertain", "made lost"},
	} {
		got := operations(t, command(t, 0, append([]string{"outbox", "list", s.path, "--json"}, strings.Fields(tc.flags)...)...).out)
		var want []string
		for _, name := range strings.Fields(tc.want) {
			want = append(want, s.ids[name])
		}
		require.Len(t, got, len(want), tc.flags)
		for _, id := range want {
			require.Contains(t, got, id, tc.flags)
		}
	}
	require.Contains(t, command(t, 0, "outbox", "list", s.path, "--limit", "1").out, "--limit 0 shows all")
	require.Contains(t, command(t, 2, "outbox", "list", s.path, "--state", "lost").errOut, `no state "lost"`)
}

func TestJSONStaysAsItIs(t *testing.T) {
	s := newShop(t)
	s.fill()
	golden(t, "list", command(t, 0, "outbox", "list", s.path, "--all", "--json").out)
	golden(t, "show", command(t, 0, "outbox", "show", s.path, s.ids["refused"], s.ids["first"], "--json").out)
	golden(t, "status", command(t, 0, "outbox", "status", s.path, "--json").out)
	golden(t, "watch", command(t, 0, "outbox", "watch", s.path, "--json", "--connection", "store-43", "--until-drained").out)
	golden(t, "verify", strings.ReplaceAll(command(t, 0, "outbox", "verify", s.path, "--json").out, s.path, "pos.outbox"))
	require.Equal(t, command(t, 0, "outbox", "list", s.path, "--all", "--json").out, command(t, 0, "outbox", "export", s.path).out,
		"export has the same form")
	golden(t, "resolve", command(t, 0, "outbox", "resolve", s.path, s.ids["made"], "--done", "--note", "seen", "--yes", "--json").out)
	golden(t, "compact", strings.ReplaceAll(regexp.MustCompile(`:\d+`).ReplaceAllString(
		command(t, 0, "outbox", "compact", s.path, "--yes", "--json").out, ":<n>"), s.path, "pos.outbox"))
	golden(t, "adopt", strings.ReplaceAll(command(t, 0, "outbox", "adopt", s.path, "--yes", "--json").out, s.path, "pos.outbox"))
	golden(t, "version", regexp.MustCompile(`"(version|commit|sdk|go|platform)":"[^"]*"|,"modified":true`).ReplaceAllString(
		command(t, 0, "version", "--json").out, `"$1":"<text>"`))
}

func TestShowExplainsEachState(t *testing.T) {
	s := newShop(t)
	s.fill()
	for name, texts := range map[string][]string{
		"first":   {"provably never", "it can be cancelled", "bookings.create", "tag", "left out; --bodies shows them"},
		"made":    {"uncertain", "refused_after_unknown_attempt", "resolve --done", "last attempt", "POST /bookings", "raw-made"},
		"behind":  {"blocked", "lane_stopped", "resume"},
		"refused": {"rejected", "409 conflict", "decided by", "req_"},
	} {
		r := command(t, 0, "outbox", "show", s.path, s.ids[name])
		for _, text := range texts {
			require.Contains(t, r.out, text, name)
		}
	}
	r := command(t, 0, "outbox", "show", s.path, s.ids["made"], s.ids["lost"], "--bodies")
	require.Equal(t, 2, strings.Count(r.out, guest))
	require.Contains(t, command(t, 1, "outbox", "show", s.path, "none").errOut, "there is no operation none in this outbox")
}

// TestNoGuestAppearsUnlessAskedFor searches everything that is printed.
func TestNoGuestAppearsUnlessAskedFor(t *testing.T) {
	s := newShop(t)
	s.fill()
	order, _ := s.srv.Order(store, s.ids["order"])
	require.NotEmpty(t, order.Customer.Name)
	secrets := []string{guest, order.Customer.Name, s.srv.Token(store), "party_size", "cGFydHlfc2l6"} // the last: in base64
	search := func(args ...string) {
		t.Helper()
		r := flavosoAs(t, nil, args...)
		require.Contains(t, []int{0, 5}, r.status, r.errOut)
		for _, secret := range secrets {
			require.NotContains(t, r.out+r.errOut, secret, "%v", args)
		}
	}
	everything := func(more ...string) {
		t.Helper()
		for _, format := range [][]string{nil, {"--json"}} {
			more := append(append([]string{}, more...), format...)
			search(append([]string{"outbox", "list", s.path, "--all"}, more...)...)
			search(append([]string{"outbox", "export", s.path}, more...)...)
			search(append([]string{"outbox", "status", s.path}, more...)...)
			for name, id := range s.ids {
				if name != "order" {
					search(append([]string{"outbox", "show", s.path, id}, more...)...)
				}
			}
			search(append([]string{"outbox", "cancel", s.path, s.ids["first"]}, more...)...)
			search(append([]string{"outbox", "resolve", s.path, s.ids["made"], "--done"}, more...)...)
			search(append([]string{"outbox", "resume", s.path, operationOf(t, s, "behind").Lane}, more...)...)
		}
	}
	everything()
	search("outbox", "verify", s.path)
	search("outbox", "resolve", s.path, s.ids["lost"], "--abandon", "--yes")
	asked := command(t, 0, "outbox", "list", s.path, "--all", "--bodies", "--json").out
	got := operations(t, asked)
	require.Contains(t, string(got[s.ids["first"]].RequestBody), guest)
	require.Contains(t, string(got[s.ids["accepted"]].Body), order.Customer.Name)

	till := s.start("offline", "listen", "changes", "bodies")
	everything()
	require.Contains(t, command(t, 0, "outbox", "show", s.path, s.ids["accepted"], "--bodies").out, order.Customer.Name)
	till.stop()
}

// operationOf shows one operation.
func operationOf(t *testing.T, s *shop, name string) inspect.Operation {
	t.Helper()
	return operations(t, command(t, 0, "outbox", "show", s.path, s.ids[name], "--json").out)[s.ids[name]]
}

func TestTextFromOutsideDoesNotReachTheTerminal(t *testing.T) {
	require.Equal(t, `lane\x1b[2J\u202ex`, clean("lane\x1b[2J\u202ex"))
	require.Equal(t, "Größe", clean("Größe"))
	var all []string
	for _, state := range outbox.States() {
		all = append(all, advice[state])
	}
	require.NotContains(t, strings.Join(all[:2], ""), "resolve", "what goes on by itself needs no decision")
}
