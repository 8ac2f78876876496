package inspect

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flavoso/flavoso-go/outbox"
)

// TestQueriesComeBackAsTheyWere over the wire.
func TestQueriesComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := outbox.Query{Connection: rapid.String().Draw(t, "connection"), Lane: rapid.String().Draw(t, "lane"), Kind: rapid.String().Draw(t, "kind"),
			Tag: rapid.String().Draw(t, "tag"), Key: rapid.String().Draw(t, "key"), After: rapid.String().Draw(t, "after"),
			Bodies: rapid.Bool().Draw(t, "bodies"), Unacked: rapid.Bool().Draw(t, "unacked"), Limit: rapid.IntRange(0, MaxPage).Draw(t, "limit"),
			States: rapid.SliceOfNDistinct(rapid.SampledFrom(outbox.States()), 0, 11, rapid.ID).Draw(t, "states")}
		q.ByOutcome = q.Unacked
		v, err := url.ParseQuery(Values(q).Encode())
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseQuery(v)
		if err != nil {
			t.Fatal(err)
		}
		require.ElementsMatch(t, q.States, got.States)
		q.States, got.States = nil, nil
		require.Equal(t, q, got)
	})
}

func TestGroupsOfStates(t *testing.T) {
	all := map[outbox.State]int{}
	for _, group := range []string{"waiting", "parked", "final"} {
		states, err := ParseStates([]string{group})
		require.NoError(t, err)
		for _, s := range states {
			all[s]++
		}
	}
	require.Len(t, all, len(outbox.States()))
	states, err := ParseStates([]string{"queued", "waiting", "sent"})
	require.NoError(t, err)
	require.Equal(t, []outbox.State{outbox.Queued, outbox.Sent}, states)
	_, err = ParseStates([]string{"queued", "lost"})
	require.ErrorContains(t, err, `no state "lost"`)
}

func FuzzParseQuery(f *testing.F) {
	f.Add("state=waiting&limit=5&bodies=true")
	f.Add("state=&limit=-1&after=%00&lane=a&lane=b")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := ParseQuery(v)
		if err == nil && (q.Limit < 0 || q.Limit > MaxPage) {
			t.Fatalf("limit %d", q.Limit)
		}
	})
}

// TestMaskedOperationsHoldNothingOfTheirBodies: not even where a query or a message repeats them.
func TestMaskedOperationsHoldNothingOfTheirBodies(t *testing.T) {
	const secret = "Grace"
	r := &outbox.Record{ID: "a", State: outbox.Rejected, Request: outbox.Request{Method: "POST", Target: "/x?name=" + secret, Body: []byte(secret)},
		Result: &outbox.Result{Message: secret, Body: []byte(secret), Code: "invalid"}}
	masked := Of(r, false)
	require.Equal(t, "/x?", masked.Target)
	require.Empty(t, masked.Message)
	require.Nil(t, masked.Body)
	require.Nil(t, masked.RequestBody)
	shown := Of(r, true)
	require.Equal(t, secret, shown.Message)
	require.Equal(t, "/x?name="+secret, shown.Target)
}
