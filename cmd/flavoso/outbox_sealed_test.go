package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/outbox"
)

// keyFile writes a key file.
func keyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestASealedOutboxIsOpenedWithItsKeyOnly(t *testing.T) {
	key, other := bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{8}, 32)
	s := newShop(t, key)
	s.fill()
	for _, args := range [][]string{{"list", s.path}, {"export", s.path}, {"show", s.path, s.ids["made"]}, {"resolve", s.path, s.ids["made"], "--done", "--yes"}} {
		r := command(t, 6, append([]string{"outbox"}, args...)...)
		require.Contains(t, r.errOut, "--key-file")
		require.Empty(t, r.out)
		r = command(t, 6, append([]string{"outbox", "--key-file", keyFile(t, hex.EncodeToString(other))}, args...)...)
		require.Contains(t, r.errOut, "no key of")
		require.Empty(t, r.out)
	}
	for name, text := range map[string]string{
		"hex":             hex.EncodeToString(key) + "\n",
		"base64":          "# the till's\n\n" + base64.StdEncoding.EncodeToString(key) + "\r\n",
		"base64 for URLs": base64.RawURLEncoding.EncodeToString(key),
		"raw":             string(key),
		"several":         hex.EncodeToString(other) + "\n" + hex.EncodeToString(key) + "\n",
	} {
		r := command(t, 0, "outbox", "list", s.path, "--key-file", keyFile(t, text))
		require.Contains(t, r.out, "raw:made", name)
		require.NotContains(t, r.out, guest, name)
	}
	good := keyFile(t, hex.EncodeToString(key))
	require.Contains(t, command(t, 0, "outbox", "show", s.path, s.ids["made"], "--key-file", good, "--bodies").out, guest)
	require.Contains(t, command(t, 0, "outbox", "verify", s.path, "--key-file", good).out, "nothing is wrong")
	require.Contains(t, command(t, 0, "outbox", "verify", s.path).out, "nothing is wrong", "checksums need no key")
	command(t, 0, "outbox", "compact", s.path, "--yes", "--key-file", good)

	command(t, 0, "outbox", "resolve", s.path, s.ids["lost"], "--send-again", "--key-file", good, "--yes")
	command(t, 0, "outbox", "resolve", s.path, s.ids["made"], "--done", "--note", guest+" is here", "--key-file", good, "--yes")
	s.drain() // with the first key: the tool has not rotated it
	s.srv.AssertExactlyOnce(t, "bookings.create", "lost")
	s.srv.AssertExactlyOnce(t, "bookings.create", "made")
	file, err := os.ReadFile(s.path)
	require.NoError(t, err)
	require.NotContains(t, string(file), guest, "what was decided is sealed, too")

	for text, want := range map[string]string{"": "holds no key", "x": "line 1 is not a key", hex.EncodeToString(key[:31]): "line 1 is not a key"} {
		require.Contains(t, command(t, 1, "outbox", "list", s.path, "--key-file", keyFile(t, text)).errOut, want)
	}
	require.Contains(t, command(t, 1, "outbox", "list", s.path, "--key-file", s.path+".none").errOut, "no such file")
}

func TestTheToolNeverSealsAnOutbox(t *testing.T) {
	s := newShop(t)
	s.close(s.open())
	key := keyFile(t, hex.EncodeToString(bytes.Repeat([]byte{7}, 32)))
	require.Contains(t, command(t, 1, "outbox", "list", s.path, "--key-file", key).errOut, "is not sealed")
	s.close(s.open())
}

// TestATillRotatesItsKey: afterwards the old key opens nothing.
func TestATillRotatesItsKey(t *testing.T) {
	before, after := bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{8}, 32)
	s := newShop(t, before)
	s.fill()
	s.keys = [][]byte{after, before}
	s.close(s.openAt(nowhere))
	command(t, 6, "outbox", "list", s.path, "--key-file", keyFile(t, hex.EncodeToString(before)))
	command(t, 0, "outbox", "list", s.path, "--key-file", keyFile(t, hex.EncodeToString(after)))
	_, err := flavoso.Open(flavoso.Config{Connection: store, Token: flavoso.StaticToken("t"), OutboxPath: s.path, OutboxKeys: [][]byte{before}})
	require.ErrorIs(t, err, outbox.ErrSealed)
}

// TestVerifyFindsWhatAKeyDoesNotOpen: a record that was put in beside the seal passes its checksum.
func TestVerifyFindsWhatAKeyDoesNotOpen(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	s := newShop(t, key)
	s.close(s.openAt(nowhere))
	engine := openEngine(t, s.path)
	add(t, engine, "foreign", "lane")
	require.NoError(t, engine.Close())
	good := keyFile(t, hex.EncodeToString(key))
	require.Contains(t, command(t, 0, "outbox", "verify", s.path).out, "nothing is wrong")
	r := command(t, 4, "outbox", "verify", s.path, "--key-file", good)
	require.Contains(t, r.out, "operation foreign")
}
