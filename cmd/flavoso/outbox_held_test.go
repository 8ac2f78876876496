package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
)

// TestARunningTillIsNamed: without an endpoint of its own nobody else can look into its file.
func TestARunningTillIsNamed(t *testing.T) {
	s := newShop(t)
	s.fill()
	till := s.start("offline")
	pid := fmt.Sprint(till.cmd.Process.Pid)
	for _, args := range []string{"list", "status", "export", "watch", "verify", "adopt --yes", "compact --yes"} {
		words := strings.Fields(args)
		r := command(t, 3, append([]string{"outbox", words[0], s.path}, words[1:]...)...)
		require.Contains(t, r.errOut, "in use by process "+pid, args)
		require.Empty(t, r.out)
	}
	hint := command(t, 3, "outbox", "list", s.path).errOut
	require.Contains(t, hint, "flavoso.ListenInspect")
	require.Contains(t, hint, "--inspect URL")
	require.Contains(t, command(t, 3, "outbox", "verify", s.path).errOut, "verify works on the file itself: stop the till first")
	till.stop()
	command(t, 0, "outbox", "list", s.path)
}

// TestARunningTillIsAsked: what is shown is what the file would show, and nothing changes unless the till
// lets it.
func TestARunningTillIsAsked(t *testing.T) {
	s := newShop(t)
	s.fill()
	fromFile := command(t, 0, "outbox", "export", s.path, "--state", "parked,final").out
	till := s.start("offline", "listen")
	require.Equal(t, fromFile, command(t, 0, "outbox", "export", s.path, "--state", "parked,final").out)
	require.Len(t, operations(t, command(t, 0, "outbox", "list", s.path, "--json", "--all", "--limit", "3").out), 3)
	r := command(t, 0, "outbox", "status", s.path)
	require.Contains(t, r.out, "asked the running till")
	require.Contains(t, r.out, "2 uncertain")
	require.Contains(t, command(t, 0, "outbox", "show", s.path, s.ids["made"]).out, "refused_after_unknown_attempt")
	require.Contains(t, command(t, 1, "outbox", "show", s.path, s.ids["made"], "--bodies").errOut, "flavoso.InspectBodies")
	require.Contains(t, command(t, 1, "outbox", "show", s.path, "none").errOut, "no such operation")
	require.Contains(t, command(t, 1, "outbox", "resolve", s.path, s.ids["made"], "--done", "--yes").errOut, "flavoso.InspectChanges")
	command(t, 5, "outbox", "resolve", s.path, s.ids["made"], "--done")
	for _, words := range []string{"verify", "adopt", "compact"} {
		require.Contains(t, command(t, 3, "outbox", words, s.path, "--yes").errOut, "stop the till first. It answers at "+till.url, words)
	}

	// By its URL, as an application with a server of its own is asked.
	byURL := flavosoAs(t, []string{"FLAVOSO_INSPECT_TOKEN=" + readAddress(t, s.path).Token}, "outbox", "export", "--inspect", till.url, "--state", "parked,final")
	require.Equal(t, result{0, fromFile, ""}, byURL)
	r = command(t, 1, "outbox", "list", "--inspect", till.url)
	require.Contains(t, r.errOut, "token is missing or wrong")
	require.Contains(t, r.errOut, "FLAVOSO_INSPECT_TOKEN is not set")
	till.stop()
	require.NoFileExists(t, s.path+".inspect")
	require.Equal(t, fromFile, command(t, 0, "outbox", "export", s.path, "--state", "parked,final").out)
}

// TestARunningTillTellsWhatWasSalvaged: what was recovered and what not, and where the damaged file lies; after its next
// start only the file is left to tell.
func TestARunningTillTellsWhatWasSalvaged(t *testing.T) {
	s := newShop(t)
	c := s.openAt(nowhere)
	s.book(c, "broken-booking")
	s.book(c, "whole-booking")
	s.close(c)
	require.NotContains(t, command(t, 0, "outbox", "status", s.path).out, "aside")
	damage(t, s.path, `"external_id":"broken-booking"`)
	aside := s.path + ".damaged-1"

	till := s.start("offline", "listen")
	r := command(t, 0, "outbox", "status", s.path)
	require.Contains(t, r.out, "1 operation read whole, 1 count as sent from now on, 1 are damaged; the damaged file is kept as "+aside)
	require.NotContains(t, r.out, "kept aside since", "it is said once")
	var st inspect.Status
	require.NoError(t, json.Unmarshal([]byte(command(t, 0, "outbox", "status", s.path, "--json").out), &st))
	require.Len(t, st.Reports, 1)
	require.Equal(t, inspect.Report{At: st.Reports[0].At, Cause: st.Reports[0].Cause, Aside: aside, Salvaged: 1, Damaged: 1, Suspect: 1}, st.Reports[0])
	require.WithinDuration(t, time.Now(), st.Reports[0].At, time.Minute)
	require.Equal(t, []string{aside}, st.Aside)
	till.stop()

	till = s.start("offline", "listen")
	require.Contains(t, command(t, 0, "outbox", "status", s.path).out, "kept aside since a damage: "+aside)
	till.stop()
	r = command(t, 0, "outbox", "status", s.path)
	require.NotContains(t, r.out, "read whole")
	require.Contains(t, r.out, "kept aside since a damage: "+aside)
}

// TestARunningTillCarriesOutDecisions while it runs: nobody restarts it.
func TestARunningTillCarriesOutDecisions(t *testing.T) {
	s := newShop(t)
	s.fill()
	till := s.start("listen", "changes")
	command(t, 0, "outbox", "watch", s.path, "--until-drained", "--interval", "50ms")
	command(t, 0, "outbox", "resolve", s.path, s.ids["lost"], "--send-again", "--yes")
	command(t, 0, "outbox", "resolve", s.path, s.ids["made"], "--done", "--note", "seen", "--yes")
	command(t, 0, "outbox", "resume", s.path, operationOf(t, s, "behind").Lane, "--yes")
	r := command(t, 0, "outbox", "watch", s.path, "--until-drained", "--interval", "50ms", "--json")
	require.Contains(t, r.out, `"uncertain":0`)
	require.Equal(t, outbox.Succeeded, operationOf(t, s, "lost").State)
	require.Equal(t, "seen", operationOf(t, s, "made").Note)
	till.stop()
	for _, name := range []string{"made", "lost", "first", "second"} {
		s.srv.AssertExactlyOnce(t, "bookings.create", name)
	}
}

// TestWhatAKilledTillLeftBehindIsNotAsked: its port may be another program's by now.
func TestWhatAKilledTillLeftBehindIsNotAsked(t *testing.T) {
	s := newShop(t)
	s.fill()
	till := s.start("offline", "listen")
	till.kill()
	require.FileExists(t, s.path+".inspect")
	command(t, 0, "outbox", "list", s.path)
	silent := s.start("offline")
	require.Contains(t, command(t, 3, "outbox", "list", s.path).errOut, "is not of that process")
	silent.stop()

	till = s.start("offline", "listen")
	address, err := os.ReadFile(s.path + ".inspect")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.path+".inspect", regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAll(address, []byte("127.0.0.1:1")), 0o600))
	require.Contains(t, command(t, 3, "outbox", "list", s.path).errOut, "does not answer")
	require.NoError(t, os.WriteFile(s.path+".inspect", []byte("?"), 0o600))
	command(t, 3, "outbox", "list", s.path)
	till.stop()
}
