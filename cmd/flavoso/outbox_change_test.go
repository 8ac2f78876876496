package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

func TestNothingChangesUnlessSomebodyAgrees(t *testing.T) {
	s := newShop(t)
	s.fill()
	before := command(t, 0, "outbox", "export", s.path, "--bodies").out
	for _, args := range [][]string{
		{"retry", s.path, s.ids["first"]},
		{"cancel", s.path, s.ids["first"], s.ids["second"]},
		{"resolve", s.path, s.ids["made"], "--done"},
		{"resolve", s.path, s.ids["behind"], "--send-again"},
		{"resume", s.path, operationOf(t, s, "behind").Lane},
		{"adopt", s.path},
		{"compact", s.path},
	} {
		r := command(t, 5, append([]string{"outbox"}, args...)...)
		require.Contains(t, r.errOut, "This would be done:", "%v", args)
		require.Contains(t, r.errOut, "nothing was changed: repeat it with --yes", "%v", args)
		require.Empty(t, r.out)
		if len(args) > 2 && args[0] != "resume" {
			require.Contains(t, r.errOut, args[2])
		}
	}
	require.Equal(t, before, command(t, 0, "outbox", "export", s.path, "--bodies").out)
}

func TestWhatAStateDoesNotAllowIsExplained(t *testing.T) {
	s := newShop(t)
	s.fill()
	for _, tc := range []struct {
		args string
		want string
	}{
		{"retry made", "only what waits can be retried"},
		{"cancel made", "only what provably was never sent"},
		{"cancel accepted", "only what provably was never sent"},
		{"resolve --done accepted", "it is over"},
		{"resolve --send-again first", "retry makes it due at once"},
		{"cancel first made", "only what provably was never sent"},
	} {
		words := strings.Fields(tc.args)
		args := []string{"outbox", words[0], s.path, "--yes"}
		for _, w := range words[1:] {
			if id := s.ids[w]; id != "" {
				w = id
			}
			args = append(args, w)
		}
		require.Contains(t, command(t, 1, args...).errOut, tc.want, tc.args)
	}
	require.Equal(t, outbox.Queued, operationOf(t, s, "first").State, "all of a command's operations, or none")
	require.Contains(t, command(t, 1, "outbox", "resume", s.path, "order:none", "--yes").errOut, "has no blocked operations")
	require.Contains(t, command(t, 1, "outbox", "cancel", s.path, "none", "--yes").errOut, "there is no operation none")
}

func TestCommandLinesThatMakeNoSense(t *testing.T) {
	s := newShop(t)
	s.close(s.open())
	body := filepath.Join(t.TempDir(), "body.json")
	require.NoError(t, os.WriteFile(body, []byte("{"), 0o600))
	for _, tc := range []struct {
		args string
		want string
	}{
		{"outbox lst", "unknown command"},
		{"outbox list", "which outbox?"},
		{"outbox list a b", "too many arguments"},
		{"outbox list a --bogus", "unknown flag"},
		{"outbox show " + s.path, "the operation's ID is missing"},
		{"outbox resolve " + s.path + " id", "at least one of the flags"},
		{"outbox resolve " + s.path + " id --done --abandon", "none of the others can be"},
		{"outbox resolve " + s.path + " id --abandon --body-file " + body, "--body-file goes with --done"},
		{"outbox resolve " + s.path + " id --done --body-file " + body, "is not JSON"},
		{"outbox resume " + s.path + " a b", "one lane at a time"},
		{"outbox verify --inspect http://127.0.0.1:1", "leave --inspect out"},
		{"outbox list --inspect http://192.0.2.1", "on loopback"},
		{"outbox list --inspect https://127.0.0.1:1", "--inspect takes the URL"},
		{"outbox watch " + s.path + " --interval 0s", "--interval"},
		{"nonsense", "unknown command"},
	} {
		require.Contains(t, command(t, 2, strings.Fields(tc.args)...).errOut, tc.want, tc.args)
	}
	require.Contains(t, command(t, 0, "outbox").out, "Available Commands")
}

// TestDecisionsAreCarriedOutByTheTill decides everything that is parked, lets a real till work off the rest,
// and looks at the server's ledger.
func TestDecisionsAreCarriedOutByTheTill(t *testing.T) {
	s := newShop(t)
	s.fill()
	require.Equal(t, 1, s.effects("bookings.create", "made"))
	require.Equal(t, 0, s.effects("bookings.create", "lost"))
	answer := filepath.Join(t.TempDir(), "answer.json")
	require.NoError(t, os.WriteFile(answer, []byte(`{"id":"seen"}`), 0o600))

	r := command(t, 0, "outbox", "resolve", s.path, s.ids["made"], "--done", "--body-file", answer, "--note", "Kim saw it", "--yes")
	require.Contains(t, r.out, s.ids["made"]+" is succeeded now")
	command(t, 0, "outbox", "resolve", s.path, s.ids["lost"], "--send-again", "--yes")
	command(t, 0, "outbox", "cancel", s.path, s.ids["second"], "--yes")
	command(t, 0, "outbox", "retry", s.path, s.ids["first"], "--yes")
	lane := operationOf(t, s, "behind").Lane
	require.Contains(t, command(t, 0, "outbox", "resume", s.path, lane, "--yes").out, s.ids["behind"]+" is queued now")

	s.drain()
	require.Equal(t, 1, s.effects("bookings.create", "made"), "it was done before, and is not sent again")
	s.srv.AssertExactlyOnce(t, "bookings.create", "lost")
	s.srv.AssertExactlyOnce(t, "bookings.create", "first")
	require.Equal(t, 0, s.effects("bookings.create", "second"))
	s.srv.AssertSameBytes(t, "raw-lost")
	require.Equal(t, outbox.Rejected, operationOf(t, s, "behind").State, "the order is cancelled: Flavoso says so")
	made := operations(t, command(t, 0, "outbox", "show", s.path, s.ids["made"], "--bodies", "--json").out)[s.ids["made"]]
	require.JSONEq(t, `{"id":"seen"}`, string(made.Body))
	require.Equal(t, "Kim saw it", made.Note)
	require.Contains(t, command(t, 0, "outbox", "list", s.path).out, "0 waiting, 0 uncertain, 0 blocked, 0 damaged")
}

// TestSendingAgainWhatWasDoneIsStillOnce: the key protects a wrong decision for as long as Flavoso knows it.
func TestSendingAgainWhatWasDoneIsStillOnce(t *testing.T) {
	s := newShop(t)
	s.fill()
	command(t, 0, "outbox", "resolve", s.path, s.ids["made"], "--send-again", "--yes")
	command(t, 0, "outbox", "resolve", s.path, s.ids["lost"], s.ids["behind"], "--abandon", "--yes")
	s.drain()
	s.srv.AssertExactlyOnce(t, "bookings.create", "made")
	require.Equal(t, 0, s.effects("bookings.create", "lost"))
	require.Equal(t, outbox.Succeeded, operationOf(t, s, "made").State)
	require.Equal(t, outbox.Abandoned, operationOf(t, s, "behind").State)
}

// damage changes every place of an outbox's file where text stands.
func damage(t *testing.T, path, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Positive(t, bytes.Count(b, []byte(text)))
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(b, []byte(text), []byte(strings.ToUpper(text))), 0o600))
}

// TestADamagedOperationIsResolved: it holds its lane until somebody decides, and is never sent.
func TestADamagedOperationIsResolved(t *testing.T) {
	s := newShop(t)
	c := s.openAt(nowhere)
	s.book(c, "broken-booking")
	s.book(c, "whole-booking")
	s.close(c)
	damage(t, s.path, `"external_id":"broken-booking"`)
	before, err := os.ReadFile(s.path)
	require.NoError(t, err)

	r := command(t, 4, "outbox", "verify", s.path)
	require.Contains(t, r.out, "problem:")
	require.Contains(t, r.out, "kept aside")
	r = command(t, 5, "outbox", "list", s.path)
	require.Contains(t, r.errOut, "unreadable")
	require.Contains(t, r.errOut, "Nothing was changed")
	after, err := os.ReadFile(s.path)
	require.NoError(t, err)
	require.Equal(t, before, after, "looking changes nothing")
	require.NoFileExists(t, s.path+".damaged-1")

	r = command(t, 0, "outbox", "list", s.path, "--yes")
	require.Contains(t, r.errOut, s.path+".damaged-1")
	require.FileExists(t, s.path+".damaged-1")
	require.Contains(t, r.out, "1 damaged")
	command(t, 0, "outbox", "verify", s.path)
	id := ""
	for _, o := range operations(t, command(t, 0, "outbox", "list", s.path, "--state", "damaged", "--json").out) {
		id = o.ID
	}
	require.Contains(t, command(t, 0, "outbox", "show", s.path, id).out, "cannot be read whole")
	require.Contains(t, command(t, 1, "outbox", "resolve", s.path, id, "--send-again", "--yes").errOut, "nobody knows its bytes")
	command(t, 0, "outbox", "resolve", s.path, id, "--abandon", "--note", "not at Flavoso; booked anew", "--yes")
	s.drain()
	require.Equal(t, 0, s.effects("bookings.create", "broken-booking"))
	s.srv.AssertExactlyOnce(t, "bookings.create", "whole-booking")
	command(t, 0, "outbox", "verify", s.path)
}

func TestResumeAsksWhichConnection(t *testing.T) {
	s := newShop(t)
	engine := openEngine(t, s.path)
	for _, connection := range []string{"store-1", "store-2"} {
		add(t, engine, connection, "lane")
		_, err := engine.Set(t.Context(), outbox.Change{ID: connection, Action: outbox.Park, To: outbox.Blocked, Now: time.Now()})
		require.NoError(t, err)
	}
	require.NoError(t, engine.Close())
	require.Contains(t, command(t, 2, "outbox", "resume", s.path, "lane", "--yes").errOut, "--connection")
	require.Contains(t, command(t, 0, "outbox", "resume", s.path, "lane", "--yes", "--connection", "store-2").out, "store-2 is queued now")
	require.Contains(t, command(t, 0, "outbox", "list", s.path).out, "1 waiting")
}
