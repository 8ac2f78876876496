package bolt_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

func TestListsOfUnfinishedOperationsLookAtNoOthers(t *testing.T) {
	e := open(t, filepath.Join(fastDir(t), "pos.outbox"), bolt.Options{})
	var want []string
	for i := range 30 {
		a := addition(fmt.Sprint(i))
		a.Record.Connection = []string{"store-1", "store-2", "store-2\x00"}[i%3]
		a.Record.Lane = "menu"
		_, err := e.Add(ctx, a)
		require.NoError(t, err)
		if i%5 == 0 {
			want = append(want, a.Record.ID)
			continue
		}
		_, err = e.Set(ctx, outbox.Change{ID: a.Record.ID, Action: outbox.Cancel, Now: now})
		require.NoError(t, err)
	}
	waiting := []outbox.State{outbox.Queued, outbox.Sent}
	for name, c := range map[string]struct {
		q      outbox.Query
		looked int
		want   []string
	}{
		"of all connections":       {outbox.Query{States: waiting}, 6, want},
		"of one":                   {outbox.Query{States: waiting, Connection: "store-2"}, 2, []string{"10", "25"}},
		"of a lane":                {outbox.Query{States: waiting, Connection: "store-1", Lane: "menu"}, 2, []string{"0", "15"}},
		"of a lane of each":        {outbox.Query{States: waiting, Lane: "menu"}, 6, want},
		"of a lane that is empty":  {outbox.Query{States: waiting, Lane: "order:1"}, 0, nil},
		"parked ones":              {outbox.Query{States: []outbox.State{outbox.Blocked}}, 0, nil},
		"finished ones among them": {outbox.Query{States: []outbox.State{outbox.Queued, outbox.Rejected}}, 30, want},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.looked, e.Walked(c.q))
			var got []string
			for q := c.q; ; {
				q.Limit = 2
				p, err := e.List(ctx, q)
				require.NoError(t, err)
				for _, r := range p.Records {
					got = append(got, r.ID)
				}
				if q.After = p.Next; p.Next == "" {
					break
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}
