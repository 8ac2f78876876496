package bolt_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

// A power cut may come after any write, in the middle of one, and may lose any of those that no sync had
// reached. Every such file is opened here: what was answered is there, and everything fits together.
func TestAPowerCutBetweenAnyTwoWritesLosesNothing(t *testing.T) {
	path := filepath.Join(fastDir(t), "pos.outbox")
	e, d := openOn(t, path)
	add(t, e, "before")
	base, err := os.ReadFile(path)
	require.NoError(t, err)
	mark, err := os.ReadFile(path + ".mark")
	require.NoError(t, err)

	// What was answered, and how many writes that took.
	type answer struct {
		writes int
		id     string
		state  outbox.State
	}
	var answers []answer
	d.Record()
	answered := func(id string, s outbox.State) { answers = append(answers, answer{len(d.Writes()), id, s}) }
	for i := range 6 {
		id := fmt.Sprintf("op-%d", i)
		a := addition(id)
		a.Record.Request.Body = make([]byte, 1500*i)
		_, err := e.Add(ctx, a)
		require.NoError(t, err)
		answered(id, outbox.Queued)
		claimed, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 1, First: []string{id}})
		require.NoError(t, err)
		require.Equal(t, id, claimed[0].ID)
		answered(id, outbox.Sent)
		_, err = e.Settle(ctx, outbox.Settlement{ID: id, Claim: claimed[0].Claim.Token, Now: now, To: outbox.Succeeded, Result: &outbox.Result{Body: []byte("answer")}})
		require.NoError(t, err)
		answered(id, outbox.Succeeded)
	}
	require.NoError(t, e.Ack(ctx, "op-0", 1))
	_, err = e.Purge(ctx, outbox.PurgeRequest{Now: now, Before: now.Add(time.Hour), Limit: 1})
	require.NoError(t, err)
	purgedAt := len(d.Writes())
	writes := d.Writes()
	require.NoError(t, e.Close())

	rank := map[outbox.State]int{outbox.Queued: 1, outbox.Sent: 2, outbox.Succeeded: 3}
	dir := fastDir(t)
	check := func(what string, done int, torn bool, image []byte) {
		path := filepath.Join(dir, "pos.outbox")
		require.NoError(t, os.WriteFile(path, image, 0o600))
		require.NoError(t, os.WriteFile(path+".mark", mark, 0o600))
		e, err := bolt.Open(path, bolt.Options{})
		require.NoError(t, err, what)
		defer func() { require.NoError(t, e.Close()) }()
		for _, r := range e.Reports() {
			require.True(t, torn && r.Aside == "", "%s: a power cut is not damage: %+v", what, r)
		}
		p, err := e.List(ctx, outbox.Query{Bodies: true})
		require.NoError(t, err, what)
		have := map[string]outbox.Record{}
		sum := map[outbox.State]int{}
		for _, r := range p.Records {
			require.NoError(t, r.Check(), what)
			have[r.ID] = r
			sum[r.State]++
		}
		require.Equal(t, sum, states(t, e), what)
		for _, a := range answers {
			if a.writes > done {
				break
			}
			r, ok := have[a.id]
			if a.id == "op-0" && !ok && done > purgedAt-20 {
				continue
			}
			require.True(t, ok, "%s: %s was answered and is gone", what, a.id)
			require.GreaterOrEqual(t, rank[r.State], rank[a.state], "%s: %s was %s and is %s", what, a.id, a.state, r.State)
		}
	}

	image := append([]byte(nil), base...)
	apply := func(img []byte, w bolttest.Write, n int) []byte {
		if need := max(w.Size, w.At+int64(len(w.Data))); int64(len(img)) < need {
			img = append(img, make([]byte, need-int64(len(img)))...)
		}
		copy(img[w.At:], w.Data[:n])
		return img
	}
	r := rand.New(rand.NewPCG(5, 6))
	synced := append([]byte(nil), base...) // what the last sync has reached
	var open []bolttest.Write              // and what no sync has
	for i, w := range writes {
		check(fmt.Sprintf("after %d of %d writes", i, len(writes)), i, false, image)
		for _, n := range []int{1, 40, len(w.Data) / 2} {
			torn := apply(append([]byte(nil), image...), w, n)
			check(fmt.Sprintf("write %d torn at %d", i, n), i, w.Meta, torn)
		}
		if !w.Meta {
			open = append(open, w)
			// Any of the writes since the last sync may be the ones that arrived.
			some := append([]byte(nil), synced...)
			for _, o := range open {
				if r.IntN(2) == 0 {
					some = apply(some, o, len(o.Data))
				}
			}
			check(fmt.Sprintf("some of the writes before number %d", i), i, false, some)
		}
		image = apply(image, w, len(w.Data))
		if w.Meta {
			synced = append([]byte(nil), image...)
			open = nil
		}
	}
	check("everything", len(writes), false, image)
}
