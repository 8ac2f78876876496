package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/outboxtest"
)

var ctx = context.Background()

func sealKey(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func TestASealedEngineKeepsTheContract(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		outboxtest.Run(t, func(testing.TB) outboxtest.Storage {
			return outboxtest.Storage{Open: func() (outbox.Engine, error) { return outbox.Seal(outbox.NewMemory(), sealKey(1)) }}
		})
	})
	t.Run("in a file", func(t *testing.T) {
		checks := flag.Lookup("rapid.checks")
		before := checks.Value.String()
		require.NoError(t, checks.Value.Set("20"))
		defer func() { _ = checks.Value.Set(before) }()
		outboxtest.Run(t, func(t testing.TB) outboxtest.Storage {
			path := filepath.Join(t.TempDir(), "pos.outbox")
			return outboxtest.Storage{Open: func() (outbox.Engine, error) { return openSealed(path, sealKey(1)) }, Reopens: true}
		})
	})
}

func openSealed(path string, keys ...[]byte) (outbox.Engine, error) {
	e, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return nil, err
	}
	s, err := outbox.Seal(e, keys...)
	if err != nil {
		_ = e.Close()
	}
	return s, err
}

// guest is what must never be readable in a sealed file.
var guest = []string{
	"Ada Lovelace", "+44 20 7946 0958", "booking-B-1843", "B-1843", "booking:B-1843", "ticket-77", "/bookings", "window seat",
	"no table left", "rebooked by phone", "cursor-after-order-9", "external_id", "application/json", "res-0815",
}

func TestNothingReadableIsInASealedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pos.outbox")
	e, err := openSealed(path, sealKey(1))
	require.NoError(t, err)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := outbox.Addition{Now: now, Record: outbox.Record{
		ID: "01890000", Connection: "store-1", Lane: "booking:B-1843", Kind: "bookings.create", Resource: "B-1843", Key: "booking-B-1843",
		Fingerprint: []byte("B-1843 fingerprint"), Tag: "ticket-77",
		Request: outbox.Request{Method: "POST", Target: "/bookings", ContentType: "application/json", Body: []byte(`{"external_id":"B-1843","customer":{"name":"Ada Lovelace","phone":"+44 20 7946 0958"},"note":"window seat"}`)},
	}}
	_, err = e.Add(ctx, a)
	require.NoError(t, err)
	b := a
	b.Record.ID, b.Record.Key, b.Record.Resource = "01890001", "booking-B-1843x", "B-1843x"
	_, err = e.Add(ctx, b)
	require.NoError(t, err)
	require.NoError(t, e.SaveState(ctx, "store-1", "watch", []byte("cursor-after-order-9")))
	claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, a.Record.Request, claimed[0].Request)
	out, err := e.Settle(ctx, outbox.Settlement{
		ID: "01890000", Claim: claimed[0].Claim.Token, Now: now, To: outbox.Rejected,
		Last: &outbox.Attempt{N: 1, Start: now, End: now, Status: 409, Err: "no table left for Ada Lovelace"},
		Result: &outbox.Result{Status: 409, Code: "conflict", Clean: true, Message: "no table left", Resource: "res-0815",
			Header: map[string]string{"Content-Type": "application/json"}, Body: []byte(`{"error":{"message":"no table left"},"customer":"Ada Lovelace"}`)},
	})
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	require.Equal(t, "no table left for Ada Lovelace", out[0].Record.Last.Err)
	_, err = e.Set(ctx, outbox.Change{ID: "01890001", Action: outbox.ResolveDone, Now: now, Result: &outbox.Result{Note: "rebooked by phone", Body: []byte("Ada Lovelace")}})
	require.NoError(t, err)
	require.NoError(t, e.Ack(ctx, "01890000", 1))
	n, err := e.Purge(ctx, outbox.PurgeRequest{Now: now, Before: now.Add(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, 1, n, "its tombstone stays")
	again := a
	again.Record.ID, again.AfterSuccess = "01890002", outbox.ReuseOutcome
	found, err := e.Add(ctx, again)
	require.NoError(t, err)
	require.Equal(t, outbox.AddedNew, found.Decision, "a clean conflict may be tried again")
	b.Record.ID = "01890003"
	found, err = e.Add(ctx, b)
	require.NoError(t, err)
	require.Equal(t, outbox.FoundOperation, found.Decision)
	require.Equal(t, "B-1843x", found.Record.Resource)
	require.NoError(t, e.Close())

	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		for _, s := range guest {
			require.NotContains(t, strings.ToLower(string(content)), strings.ToLower(s), f.Name())
		}
	}
}

func TestATombstoneOfASealedOutboxIsOpened(t *testing.T) {
	e, err := outbox.Seal(outbox.NewMemory(), sealKey(1))
	require.NoError(t, err)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := outbox.Addition{Now: now, Record: outbox.Record{ID: "a", Connection: "c", Lane: "l", Key: "k", Fingerprint: []byte("f"), Resource: "ref", Request: outbox.Request{Method: "POST", Target: "/x"}}, Claim: &outbox.Mark{Now: now}}
	out, err := e.Add(ctx, a)
	require.NoError(t, err)
	_, err = e.Settle(ctx, outbox.Settlement{ID: "a", Claim: out.Record.Claim.Token, Now: now, To: outbox.Succeeded, Result: &outbox.Result{Resource: "order-1"}})
	require.NoError(t, err)
	_, err = e.Purge(ctx, outbox.PurgeRequest{Now: now, Before: now.Add(1), Unacked: true})
	require.NoError(t, err)
	a.Record.ID = "b"
	out, err = e.Add(ctx, a)
	require.NoError(t, err)
	require.Equal(t, outbox.FoundTombstone, out.Decision)
	require.Equal(t, "order-1", out.Tombstone.Resource)
	require.Equal(t, "k", out.Tombstone.Key)
	require.Equal(t, "order-1", out.Record.Resource)
}

func TestSealingKeysRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	e, err := openSealed(path, sealKey(1))
	require.NoError(t, err)
	a := outbox.Addition{Now: time.Now(), Record: outbox.Record{ID: "a", Connection: "c", Lane: "l", Key: "k", Request: outbox.Request{Method: "POST", Target: "/x", Body: []byte("body")}}}
	_, err = e.Add(ctx, a)
	require.NoError(t, err)
	require.NoError(t, e.Close())
	for _, step := range []struct {
		name string
		keys [][]byte
		err  error
	}{
		{"the new key alone does not fit", [][]byte{sealKey(2)}, outbox.ErrSealed},
		{"the new key first, the old one behind it", [][]byte{sealKey(2), sealKey(1)}, nil},
		{"the new key alone", [][]byte{sealKey(2)}, nil},
		{"the old key does not fit any more", [][]byte{sealKey(1)}, outbox.ErrSealed},
	} {
		e, err := openSealed(path, step.keys...)
		require.ErrorIs(t, err, step.err, step.name)
		if err != nil {
			continue
		}
		r, err := e.Get(ctx, "a")
		require.NoError(t, err, step.name)
		require.Equal(t, "body", string(r.Request.Body), step.name)
		a.Record.ID = "b"
		out, err := e.Add(ctx, a)
		require.NoError(t, err)
		require.Equal(t, outbox.FoundOperation, out.Decision, "%s: the same key is still found", step.name)
		require.NoError(t, e.Close())
	}
}

func TestASealedOutboxIsNotUsedWithoutItsKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	e, err := openSealed(path, sealKey(1))
	require.NoError(t, err)
	require.NoError(t, outbox.RequireUnsealed(ctx, e), "it is opened")
	_, err = e.Add(ctx, outbox.Addition{Now: time.Now(), Record: outbox.Record{ID: "a", Connection: "c", Lane: "l", Key: "k", Request: outbox.Request{Method: "POST", Target: "/x", Body: []byte("body")}}})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	plain, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	require.ErrorIs(t, outbox.RequireUnsealed(ctx, plain), outbox.ErrSealed)
	r, err := plain.Get(ctx, "a")
	require.NoError(t, err)
	require.NotNil(t, r.Sealed)
	require.Empty(t, r.Request.Body, "what stands there cannot be sent by mistake")
	require.NoError(t, plain.Close())
}

func TestSealingStartsWithAnEmptyOutbox(t *testing.T) {
	e := outbox.NewMemory()
	require.NoError(t, outbox.RequireUnsealed(ctx, e))
	_, err := e.Add(ctx, outbox.Addition{Now: time.Now(), Record: outbox.Record{ID: "a", Connection: "c", Lane: "l"}})
	require.NoError(t, err)
	_, err = outbox.Seal(e, sealKey(1))
	require.ErrorIs(t, err, outbox.ErrSealed)
	require.ErrorContains(t, err, "empty outbox")
	_, err = outbox.Seal(outbox.NewMemory())
	require.Error(t, err)
	_, err = outbox.Seal(outbox.NewMemory(), sealKey(1), []byte("short"))
	require.ErrorContains(t, err, "number 2 is 5 bytes")
}

// tampering changes sealed content on its way out of the engine inside.
type tampering struct{ outbox.Engine }

func (e tampering) Claim(ctx context.Context, q outbox.ClaimRequest) ([]outbox.Record, error) {
	out, err := e.Engine.Claim(ctx, q)
	for i := range out {
		if out[i].ID == "bad" {
			out[i].Sealed[len(out[i].Sealed)-1] ^= 1
		}
	}
	return out, err
}

func TestChangedSealedContentIsNeverSent(t *testing.T) {
	inner := outbox.NewMemory()
	e, err := outbox.Seal(tampering{inner}, sealKey(1))
	require.NoError(t, err)
	for _, id := range []string{"bad", "good"} {
		_, err := e.Add(ctx, outbox.Addition{Now: time.Now(), Record: outbox.Record{ID: id, Connection: "c", Lane: id, Request: outbox.Request{Method: "PUT", Target: "/menu", Body: []byte("{}")}}})
		require.NoError(t, err)
	}
	claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: time.Now()}, Limit: 5})
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	require.Equal(t, "good", claimed[0].ID)
	c, err := e.Counts(ctx, "")
	require.NoError(t, err)
	require.Equal(t, 1, c.States[outbox.Damaged], "kept for a decision")
}

// unwilling fails the next settlements.
type unwilling struct {
	tampering
	fail int
}

func (e *unwilling) Settle(ctx context.Context, s ...outbox.Settlement) ([]outbox.Settled, error) {
	if e.fail > 0 {
		e.fail--
		return nil, errors.New("the disk said no")
	}
	return e.tampering.Settle(ctx, s...)
}

func TestAnUnreadableRecordThatCannotBeParkedTakesNoOtherClaimWithIt(t *testing.T) {
	inner := &unwilling{tampering: tampering{outbox.NewMemory()}, fail: 1}
	e, err := outbox.Seal(inner, sealKey(1))
	require.NoError(t, err)
	at := time.Now()
	for _, id := range []string{"one", "bad", "two"} {
		_, err := e.Add(ctx, outbox.Addition{Now: at, Record: outbox.Record{ID: id, Connection: "c", Lane: id}})
		require.NoError(t, err)
	}
	q := outbox.ClaimRequest{Mark: outbox.Mark{Now: at}, Limit: 5}
	claimed, err := e.Claim(ctx, q)
	require.NoError(t, err)
	require.Len(t, claimed, 2, "nobody else would ever work on them")
	claimed, err = e.Claim(ctx, q)
	require.NoError(t, err)
	require.Empty(t, claimed)
	c, err := e.Counts(ctx, "")
	require.NoError(t, err)
	require.Equal(t, 1, c.States[outbox.Damaged], "parked by the next claim")
}

// Whoever prints a configuration prints the engine in it.
func TestASealedEngineIsPrintedWithoutItsKeys(t *testing.T) {
	s, err := outbox.Seal(outbox.NewMemory(), sealKey(1))
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		require.Equal(t, "sealed outbox", fmt.Sprintf(verb, s), verb)
	}
}
