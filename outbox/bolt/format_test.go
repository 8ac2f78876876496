package bolt_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// One golden file per format stays in testdata for ever. A new format adds one:
//
//	go test ./outbox/bolt -run Golden -golden
var golden = flag.Bool("golden", false, "write the golden file of the present format")

const formatNow = 2

func goldenPath(format int) string { return fmt.Sprintf("testdata/format-%d.outbox", format) }

// writeGolden makes an outbox that uses every field and every state.
func writeGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	e := open(t, path, bolt.Options{})
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	put := func(id, lane string, change func(*outbox.Addition)) {
		a := addition(id)
		a.Now, a.Record.Lane, a.Record.Tag, a.Record.Request.Accept = at, lane, "tag "+id, "application/json"
		if change != nil {
			change(&a)
		}
		_, err := e.Add(ctx, a)
		require.NoError(t, err)
	}
	put("queued", "queued", func(a *outbox.Addition) { a.Record.Kind = "future.kind" })
	put("sent", "sent", nil)
	put("succeeded", "succeeded", nil)
	put("rejected", "rejected", func(a *outbox.Addition) { a.Record.StopLaneOnReject, a.Record.KeyDerived = true, false })
	put("blocked", "rejected", nil)
	put("uncertain", "uncertain", func(a *outbox.Addition) { a.Record.RepeatSafe = false })
	put("expired", "expired", func(a *outbox.Addition) { a.Record.Expires = at.Add(time.Second) })
	put("canceled", "canceled", nil)
	put("abandoned", "abandoned", nil)
	put("superseded", "superseded", func(a *outbox.Addition) { a.Record.Key, a.Record.Request.Body = "", nil })
	put("superseder", "superseded", func(a *outbox.Addition) {
		a.Record.Key, a.Record.Request.Body, a.Supersede = "", []byte{}, true
		a.Record.Request.Target = "/orders/superseded/accept"
	})
	put("purged", "purged", nil)
	now := at.Add(time.Minute)
	claimed, err := e.Claim(ctx, outbox.ClaimRequest{
		Mark:  outbox.Mark{Now: now, Server: now.Add(time.Second), Boot: "boot-1", Uptime: time.Hour},
		Limit: 6, First: []string{"sent", "succeeded", "rejected", "uncertain", "expired", "purged"},
	})
	require.NoError(t, err)
	require.Len(t, claimed, 6)
	for _, r := range claimed {
		if r.State == outbox.Expired {
			continue
		}
		s := outbox.Settlement{
			ID: r.ID, Claim: r.Claim.Token, Now: now, To: outbox.State(r.ID), Due: now.Add(time.Hour), LaneNotBefore: now.Add(time.Second),
			Last: &outbox.Attempt{N: 1, Start: at, End: now, Status: 409, Code: "conflict", RequestID: "req_0123456789abcdef01234567", Err: "text", NeverSent: false, RetryAfter: time.Second},
			Result: &outbox.Result{Status: 409, Code: "conflict", Clean: true, Reason: "reason", Message: "message", RequestID: "req_0123456789abcdef01234567",
				Header: map[string]string{"Etag": `"1"`}, Body: []byte(`{"object":"order"}`), Truncated: true, Replayed: true, ByOther: true, Stale: true, Resource: "resource", Note: "note", At: now},
		}
		if r.ID == "purged" {
			s.To = outbox.Succeeded
		}
		out, err := e.Settle(ctx, s)
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
	}
	for id, action := range map[string]outbox.Action{"canceled": outbox.Cancel, "abandoned": outbox.ResolveAbandon} {
		_, err := e.Set(ctx, outbox.Change{ID: id, Action: action, Now: now, Result: &outbox.Result{Note: "by hand"}})
		require.NoError(t, err)
	}
	require.NoError(t, e.Ack(ctx, "purged", 1))
	_, err = e.Purge(ctx, outbox.PurgeRequest{Now: now, Before: now.Add(time.Second), Limit: 1})
	require.NoError(t, err)
	require.NoError(t, e.SaveState(ctx, "store-1", "cursor", []byte("value")))
	list := goldenRecords(t, e)
	require.NoError(t, e.Close())
	require.NoError(t, os.MkdirAll("testdata", 0o755))
	for _, suffix := range []string{"", ".mark"} {
		b, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(goldenPath(formatNow)+suffix, b, 0o644))
	}
	require.NoError(t, os.WriteFile(goldenPath(formatNow)+".json", list, 0o644))
}

func goldenRecords(t *testing.T, e outbox.Engine) []byte {
	p, err := e.List(ctx, outbox.Query{Bodies: true})
	require.NoError(t, err)
	b, err := json.MarshalIndent(p.Records, "", " ")
	require.NoError(t, err)
	return append(b, '\n')
}

// withoutClaims leaves out the claims, which end with the engine that gave them.
func withoutClaims(t *testing.T, records []byte) string {
	var all []outbox.Record
	require.NoError(t, json.Unmarshal(records, &all))
	for i := range all {
		all[i].Claim = outbox.Claim{}
	}
	b, err := json.Marshal(all)
	require.NoError(t, err)
	return string(b)
}

func TestGoldenFilesOfEveryFormatAreRead(t *testing.T) {
	if *golden {
		writeGolden(t)
	}
	for format := 1; format <= formatNow; format++ {
		t.Run(fmt.Sprintf("format %d", format), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pos.outbox")
			for _, suffix := range []string{"", ".mark"} {
				b, err := os.ReadFile(goldenPath(format) + suffix)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path+suffix, b, 0o600))
			}
			e := open(t, path, bolt.Options{})
			require.Empty(t, e.Reports())
			want, err := os.ReadFile(goldenPath(format) + ".json")
			require.NoError(t, err)
			require.Equal(t, string(want), string(goldenRecords(t, e)))
			c, err := e.Counts(ctx, "")
			require.NoError(t, err)
			require.Equal(t, map[outbox.State]int{
				outbox.Queued: 2, outbox.Sent: 1, outbox.Succeeded: 1, outbox.Rejected: 1, outbox.Blocked: 1, outbox.Uncertain: 1,
				outbox.Expired: 1, outbox.Canceled: 1, outbox.Abandoned: 1, outbox.Superseded: 1,
			}, c.States)
			require.Equal(t, 2, c.HeldLanes)
			v, err := e.LoadState(ctx, "store-1", "cursor")
			require.NoError(t, err)
			require.Equal(t, "value", string(v))
			again := addition("again")
			again.Record.Key, again.Record.Fingerprint = "accept-purged", []byte("content of purged")
			out, err := e.Add(ctx, again)
			require.NoError(t, err)
			require.Equal(t, outbox.FoundTombstone, out.Decision)

			r, err := e.Get(ctx, "queued")
			require.NoError(t, err)
			require.Equal(t, "future.kind", r.Kind, "a kind that this release does not know is kept and shown")
			claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now.Add(24 * time.Hour)}, Limit: 10})
			require.NoError(t, err)
			require.Len(t, claimed, 3)

			// It goes on in its format, and a fresh copy has the present one.
			for _, copied := range []bool{false, true} {
				if copied {
					require.NoError(t, e.Compact(ctx))
				}
				add(t, e, fmt.Sprintf("more-%v", copied))
				before := goldenRecords(t, e)
				require.NoError(t, e.Close())
				v, err := bolt.Verify(ctx, path, bolt.VerifyOptions{})
				require.NoError(t, err)
				require.Empty(t, v.Problems)
				e = open(t, path, bolt.Options{})
				require.Empty(t, e.Reports())
				require.JSONEq(t, withoutClaims(t, before), withoutClaims(t, goldenRecords(t, e)))
			}
		})
	}
}

// putFormat changes what a closed outbox's file says of its format.
func putFormat(t *testing.T, path string, value []byte) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("format"), value) }))
	require.NoError(t, db.Close())
}

func TestANewerFormatIsRefusedAndLeftAlone(t *testing.T) {
	for name, value := range map[string][]byte{
		"a newer file":             bolt.FormatValue(formatNow+1, 1),
		"a newer layout of values": bolt.FormatValue(formatNow+1, 2),
	} {
		for _, damaged := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, damaged %v", name, damaged), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "pos.outbox")
				e := open(t, path, bolt.Options{})
				add(t, e, "a")
				require.NoError(t, e.Close())
				putFormat(t, path, value)
				if damaged {
					// To this release everything newer looks damaged; it must not try to repair it.
					f, err := os.OpenFile(path, os.O_RDWR, 0)
					require.NoError(t, err)
					_, err = f.WriteAt(make([]byte, 4096), 4096)
					require.NoError(t, err)
					require.NoError(t, f.Close())
				}
				before, err := os.ReadFile(path)
				require.NoError(t, err)
				for _, o := range []bolt.Options{{}, {StartFresh: true}} {
					_, err = bolt.Open(path, o)
					require.ErrorIs(t, err, outbox.ErrNewerFormat)
				}
				after, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, before, after)
				require.NoFileExists(t, path+".damaged-1")
			})
		}
	}
}
