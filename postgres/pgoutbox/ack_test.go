package pgoutbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// A lane that was being added to while its head ended is looked at again, also when the application takes the
// outcome over before that.
func TestAckDoesNotForgetALane(t *testing.T) {
	e, pool := newEngine(t)
	mustAdd(t, e, op("a1", "a"))
	claimed := mustClaim(t, e, outbox.ClaimRequest{Limit: 1})
	require.Len(t, claimed, 1)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	second := op("a2", "a")
	second.Tx = pgoutbox.Tx(tx)
	mustAdd(t, e, second)
	settled, err := e.Settle(t.Context(), outbox.Settlement{ID: "a1", Claim: claimed[0].Claim.Token, Now: time.Now(), To: outbox.Succeeded})
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	require.NoError(t, e.Ack(t.Context(), "a1", 1))
	require.NoError(t, tx.Commit(t.Context()))
	require.Eventually(t, func() bool {
		return len(mustClaim(t, e, outbox.ClaimRequest{Limit: 1})) == 1
	}, 10*time.Second, 20*time.Millisecond)
}
