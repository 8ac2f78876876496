package bolt_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

const lostBody = `{"lost":"lost lost lost"}`

// rot changes every place of a closed outbox's file where text stands.
func rot(t *testing.T, path, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Positive(t, bytes.Count(b, []byte(text)))
	b = bytes.ReplaceAll(b, []byte(text), bytes.ToUpper([]byte(text)))
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

func settleWith(t *testing.T, e outbox.Engine, id string, to outbox.State, res outbox.Result) {
	t.Helper()
	claimed := claim(t, e, 1)
	require.Equal(t, id, claimed[0].ID)
	out, err := e.Settle(ctx, outbox.Settlement{ID: id, Claim: claimed[0].Claim.Token, Now: now, To: to, Result: &res})
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
}

func TestAResultWhoseBodyIsLostSaysSo(t *testing.T) {
	for _, to := range []outbox.State{outbox.Succeeded, outbox.Uncertain} {
		t.Run(string(to), func(t *testing.T) {
			path := filepath.Join(fastDir(t), "pos.outbox")
			e := open(t, path, bolt.Options{})
			add(t, e, "a")
			settleWith(t, e, "a", to, outbox.Result{Status: 200, Body: []byte(lostBody)})
			add(t, e, "b")
			settleWith(t, e, "b", outbox.Succeeded, outbox.Result{Status: 200, Body: []byte("{}")})
			add(t, e, "c")
			settleWith(t, e, "c", outbox.Succeeded, outbox.Result{Status: 204})
			require.NoError(t, e.Close())
			rot(t, path, lostBody)
			e = open(t, path, bolt.Options{})
			require.Len(t, e.Reports(), 1)
			for id, lost := range map[string]bool{"a": true, "b": false, "c": false} {
				r, err := e.Get(ctx, id)
				require.NoError(t, err)
				require.Equal(t, lost, r.Result.Truncated, id)
				require.Equal(t, id == "b", r.Result.Body != nil, id)
			}
		})
	}
}

// Two operations stood under one key in the same generation: the first was cleanly refused and is kept, the
// second was done and is purged. After a salvage the key must still stand for the second.
func TestASalvageKeepsTheLaterTombstoneOfAKey(t *testing.T) {
	for name, firstIsLater := range map[string]bool{"the kept one is earlier": false, "the kept one is later": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(fastDir(t), "pos.outbox")
			e := open(t, path, bolt.Options{})
			at := now
			addAt := func(id string) outbox.Added {
				a := addition(id)
				a.Record.Key, a.Record.Fingerprint, a.Now = "key", []byte("content"), at
				out, err := e.Add(ctx, a)
				require.NoError(t, err)
				return out
			}
			run := func(id string, to outbox.State, purge bool) {
				require.Equal(t, outbox.AddedNew, addAt(id).Decision)
				claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: at}, Limit: 1})
				require.NoError(t, err)
				_, err = e.Settle(ctx, outbox.Settlement{ID: id, Claim: claimed[0].Claim.Token, Now: at, To: to,
					Result: &outbox.Result{Status: 409, Code: outbox.CodeConflict, Clean: true}})
				require.NoError(t, err)
				at = at.Add(time.Minute)
				if purge {
					require.NoError(t, e.Ack(ctx, id, 1))
					n, err := e.Purge(ctx, outbox.PurgeRequest{Now: at, Before: at})
					require.NoError(t, err)
					require.Equal(t, 1, n)
					at = at.Add(time.Minute)
				}
			}
			want := outbox.FoundTombstone
			if firstIsLater {
				run("purged", outbox.Rejected, true)
				run("kept", outbox.Succeeded, false)
				want = outbox.FoundOperation
			} else {
				run("kept", outbox.Rejected, false)
				run("purged", outbox.Succeeded, true)
			}
			require.Equal(t, want, addAt("again").Decision)
			damaged := addition("damaged")
			damaged.Record.Request.Body = []byte(lostBody)
			_, err := e.Add(ctx, damaged)
			require.NoError(t, err)
			require.NoError(t, e.Close())
			rot(t, path, lostBody)
			e = open(t, path, bolt.Options{})
			require.Len(t, e.Reports(), 1)
			require.Equal(t, want, addAt("again").Decision)
		})
	}
}
