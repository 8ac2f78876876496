package bolt_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/outbox/bolt/bolttest"
)

// What is true after a step whose result stayed unknown, and after a salvage in the middle of one.

func claim(t *testing.T, e outbox.Engine, limit int) []outbox.Record {
	t.Helper()
	out, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: limit})
	require.NoError(t, err)
	return out
}

// foundDamaged makes the next commit fail before anything of it is written, and the copy find damage.
func foundDamaged(d *bolttest.Disk) {
	d.Fail(bolttest.WriteData, 1)
	d.FailAt(bolt.PointCopyBegin, 1, berrors.ErrInvalid)
}

func TestASalvageIsNotTakenForTheCommitThatFailed(t *testing.T) {
	e, d, path := onDisk(t)
	for i := range 20 {
		add(t, e, fmt.Sprintf("op-%d", i))
	}
	foundDamaged(d)
	require.Equal(t, outbox.AddedNew, add(t, e, "new").Decision)
	require.Len(t, e.Reports(), 1)
	_, err := e.Get(ctx, "new")
	require.NoError(t, err, "Add returned nil: it is there")
	require.NoError(t, e.Close())
	e, _ = openOn(t, path)
	require.Empty(t, e.Reports(), "the mark and the file agree")
	_, err = e.Get(ctx, "new")
	require.NoError(t, err)
}

// A rescheduling is committed, nobody can tell, and it is settled again.
func TestASettlementWhoseResultStayedUnknownLeavesNoClaimBehind(t *testing.T) {
	for name, s := range map[string]struct {
		op        bolttest.Op
		committed bool
	}{
		"it was committed":     {bolttest.SyncMeta, true},
		"it was not committed": {bolttest.WriteMeta, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, d, _ := onDisk(t)
			add(t, e, "a")
			claimed := claim(t, e, 1)
			d.Fail(s.op, 1)
			d.FailAt(bolt.PointCopyWritten, 1, syscall.EIO)
			again := outbox.Settlement{ID: "a", Claim: claimed[0].Claim.Token, Now: now, To: outbox.Queued, Due: now}
			_, err := e.Settle(ctx, again)
			var unknown *outbox.SaveError
			require.ErrorAs(t, err, &unknown)
			out, err := e.Settle(ctx, again)
			require.NoError(t, err)
			if s.committed {
				require.ErrorIs(t, out[0].Err, outbox.ErrClaimLost)
			} else {
				require.NoError(t, out[0].Err)
			}
			_, due, err := e.NextDue(ctx, outbox.Scope{})
			require.NoError(t, err)
			require.True(t, due)
			require.Len(t, claim(t, e, 1), 1, "NextDue says that it is due, so it is claimable")
		})
	}
}

// A claim is committed, and nobody can tell: it holds until somebody settles it.
func TestAClaimWhoseResultStayedUnknownIsWhatTheFileSays(t *testing.T) {
	e, d, _ := onDisk(t)
	add(t, e, "a")
	d.Fail(bolttest.SyncMeta, 1)
	d.FailAt(bolt.PointCopyWritten, 1, syscall.EIO)
	_, err := e.Claim(ctx, outbox.ClaimRequest{Mark: outbox.Mark{Now: now}, Limit: 1})
	var unknown *outbox.SaveError
	require.ErrorAs(t, err, &unknown)
	add(t, e, "b")
	taken := claim(t, e, 5)
	require.Len(t, taken, 1)
	require.Equal(t, "b", taken[0].ID, "a is claimed")
	r, err := e.Get(ctx, "a")
	require.NoError(t, err)
	out, err := e.Settle(ctx, outbox.Settlement{ID: "a", Claim: r.Claim.Token, Now: now, To: outbox.Queued, Due: now, NeverSent: true})
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	require.Len(t, claim(t, e, 5), 1)
}

func TestASalvageThatFailsLateIsToldAndKeepsClaims(t *testing.T) {
	for _, p := range []bolt.Point{bolt.PointCopyRenamed, bolt.PointCopyDone} {
		t.Run(string(p), func(t *testing.T) {
			e, d, _ := onDisk(t)
			add(t, e, "a")
			claimed := claim(t, e, 1)
			foundDamaged(d)
			d.FailAt(p, 1, syscall.EIO)
			_, err := e.Add(ctx, addition("b"))
			require.ErrorIs(t, err, syscall.EIO)
			add(t, e, "b")
			require.Len(t, e.Reports(), 1, "what was done about the damage is told")
			require.FileExists(t, e.Reports()[0].Aside)
			out, err := e.Settle(ctx, outbox.Settlement{ID: "a", Claim: claimed[0].Claim.Token, Now: now, To: outbox.Queued, Due: now})
			require.NoError(t, err)
			require.NoError(t, out[0].Err)
			require.True(t, out[0].Record.Suspect)
			require.Len(t, claim(t, e, 5), 2)
		})
	}
}

func TestAClaimOutlivesTheSalvageOfItsFile(t *testing.T) {
	e, d, _ := onDisk(t)
	add(t, e, "a")
	claimed := claim(t, e, 1)
	foundDamaged(d)
	add(t, e, "b")
	require.Len(t, e.Reports(), 1)
	others := claim(t, e, 5)
	require.Len(t, others, 1)
	require.Equal(t, "b", others[0].ID, "a is being worked on")
	out, err := e.Settle(ctx, outbox.Settlement{ID: "a", Claim: claimed[0].Claim.Token, Now: now, To: outbox.Succeeded,
		Last: &outbox.Attempt{N: 1, Start: now, End: now, Status: 200}, Result: &outbox.Result{Status: 200, Body: []byte("{}")}})
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	require.Equal(t, map[outbox.State]int{outbox.Succeeded: 1, outbox.Sent: 1}, states(t, e))
}

// The commit of a claim reached the disk, nobody can tell, and the file has to be salvaged: the claim was
// answered to nobody, and is made again.
func TestAClaimOfACommitInDoubtIsMadeAgainAfterASalvage(t *testing.T) {
	e, d, _ := onDisk(t)
	add(t, e, "a")
	d.Fail(bolttest.SyncMeta, 1)
	d.FailAt(bolt.PointCopyBegin, 1, berrors.ErrInvalid)
	require.Len(t, claim(t, e, 1), 1)
	require.Len(t, e.Reports(), 1)
}
