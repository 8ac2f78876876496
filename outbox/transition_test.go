package outbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// inState returns a record as it is in a state, reached by the machine's own steps where there are any.
func inState(s outbox.State) *outbox.Record {
	r := outbox.NewRecord(&outbox.Addition{Now: t0, Record: outbox.Record{
		ID: "a", Connection: "c", Lane: "l", Key: "k", Fingerprint: []byte("f"), Expires: t0.Add(time.Minute),
	}}, 1, 1)
	outcome := func() { r.OutcomeSeq = 1 }
	switch s {
	case outbox.Queued:
	case outbox.Sent:
		r.ApplyClaim("old", outbox.Mark{Now: t0})
		_ = r.ApplySettlement(&outbox.Settlement{Claim: "old", Now: t0, To: outbox.Queued})
	case outbox.Expired:
		r.ApplyExpire(t0.Add(time.Minute))
		outcome()
	case outbox.Superseded:
		r.ApplySupersede("b", t0)
		outcome()
	case outbox.Canceled:
		_ = r.ApplyChange(&outbox.Change{Action: outbox.Cancel, Now: t0})
		outcome()
	case outbox.Abandoned:
		_ = r.ApplyChange(&outbox.Change{Action: outbox.ResolveAbandon, Now: t0})
		outcome()
	default:
		r.ApplyClaim("old", outbox.Mark{Now: t0})
		_ = r.ApplySettlement(&outbox.Settlement{Claim: "old", Now: t0, To: s})
		outcome()
	}
	return r
}

func claimed(s outbox.State) *outbox.Record {
	r := inState(s)
	r.ApplyClaim("token", outbox.Mark{Now: t0, Server: t0.Add(time.Second), Boot: "b", Uptime: time.Hour, Lease: time.Minute})
	return r
}

func TestEveryStateIsReachedConsistently(t *testing.T) {
	for _, s := range outbox.States() {
		r := inState(s)
		require.Equal(t, s, r.State)
		require.NoError(t, r.Check())
	}
}

// Which action leads from which state where; what is not listed is refused and changes nothing.
func TestActionsByState(t *testing.T) {
	allowed := map[outbox.Action]map[outbox.State]outbox.State{
		outbox.Cancel:           {outbox.Queued: outbox.Canceled},
		outbox.RetryNow:         {outbox.Queued: outbox.Queued, outbox.Sent: outbox.Sent},
		outbox.ResolveSendAgain: {outbox.Uncertain: outbox.Sent, outbox.Blocked: outbox.Sent},
		outbox.Expire:           {outbox.Queued: outbox.Expired},
		outbox.Park:             {outbox.Queued: outbox.Blocked, outbox.Sent: outbox.Blocked},
		outbox.ResolveDone: {
			outbox.Queued: outbox.Succeeded, outbox.Sent: outbox.Succeeded, outbox.Uncertain: outbox.Succeeded, outbox.Blocked: outbox.Succeeded, outbox.Damaged: outbox.Succeeded,
		},
		outbox.ResolveAbandon: {
			outbox.Queued: outbox.Abandoned, outbox.Sent: outbox.Abandoned, outbox.Uncertain: outbox.Abandoned, outbox.Blocked: outbox.Abandoned, outbox.Damaged: outbox.Abandoned,
		},
		"nonsense": {},
	}
	for action, rows := range allowed {
		for _, from := range outbox.States() {
			t.Run(string(action)+" of "+string(from), func(t *testing.T) {
				r := inState(from)
				before := r.Clone()
				err := r.ApplyChange(&outbox.Change{Action: action, To: outbox.Blocked, Now: t0.Add(time.Hour)})
				want, ok := rows[from]
				if !ok {
					require.ErrorIs(t, err, outbox.ErrState)
					require.Equal(t, before, r)
					return
				}
				require.NoError(t, err)
				require.Equal(t, want, r.State)
				if !want.Waiting() {
					require.Equal(t, before.Revision+1, r.Revision, "one more outcome")
					r.OutcomeSeq = 2
				}
				require.NoError(t, r.Check())
			})
		}
		r := claimed(outbox.Queued)
		require.ErrorIs(t, r.ApplyChange(&outbox.Change{Action: action, Now: t0}), outbox.ErrState, "somebody works on it")
	}
}

func TestSettlementsByStateAndProof(t *testing.T) {
	for _, c := range []struct {
		name      string
		from      outbox.State
		to        outbox.State
		neverSent bool
		want      outbox.State
		err       error
	}{
		{"rescheduled", outbox.Queued, outbox.Queued, false, outbox.Sent, nil},
		{"rescheduled, never reached a peer", outbox.Queued, outbox.Queued, true, outbox.Queued, nil},
		{"rescheduled, this one never reached a peer, an earlier one may have", outbox.Sent, outbox.Queued, true, outbox.Sent, nil},
		{"succeeded", outbox.Queued, outbox.Succeeded, false, outbox.Succeeded, nil},
		{"rejected", outbox.Sent, outbox.Rejected, false, outbox.Rejected, nil},
		{"uncertain", outbox.Sent, outbox.Uncertain, false, outbox.Uncertain, nil},
		{"blocked", outbox.Queued, outbox.Blocked, true, outbox.Blocked, nil},
		{"damaged", outbox.Sent, outbox.Damaged, false, outbox.Damaged, nil},
		{"expired, provably never sent", outbox.Queued, outbox.Expired, true, outbox.Expired, nil},
		{"expired, may have been sent", outbox.Queued, outbox.Expired, false, "", outbox.ErrState},
		{"canceled, an earlier claim may have sent it", outbox.Sent, outbox.Canceled, true, "", outbox.ErrState},
		{"superseded is not a result of sending", outbox.Queued, outbox.Superseded, true, "", outbox.ErrState},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := claimed(c.from)
			before := r.Clone()
			err := r.ApplySettlement(&outbox.Settlement{Claim: "token", Now: t0, To: c.to, NeverSent: c.neverSent})
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				require.Equal(t, before, r)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, r.State)
			require.False(t, r.Claimed())
			if !c.want.Waiting() {
				r.OutcomeSeq = 1
			}
			require.NoError(t, r.Check())
		})
	}
	for _, token := range []string{"", "another"} {
		r := claimed(outbox.Queued)
		require.ErrorIs(t, r.ApplySettlement(&outbox.Settlement{Claim: token, Now: t0, To: outbox.Succeeded}), outbox.ErrClaimLost)
		require.Equal(t, outbox.Sent, r.State)
	}
	r := inState(outbox.Queued)
	require.ErrorIs(t, r.ApplySettlement(&outbox.Settlement{Now: t0, To: outbox.Succeeded}), outbox.ErrClaimLost, "nobody works on it")
}

// TestAttemptsAreCountedAnew: the latest attempt of before is not one of the new count.
func TestAttemptsAreCountedAnew(t *testing.T) {
	last := &outbox.Attempt{N: 1, Start: t0, End: t0, Code: "idempotency_key_reused", Unanswered: 1}
	next := claimed(outbox.Queued)
	require.NoError(t, next.ApplySettlement(&outbox.Settlement{Claim: "token", Now: t0, To: outbox.Queued, NextGeneration: true, Last: last}))
	again := claimed(outbox.Queued)
	require.NoError(t, again.ApplySettlement(&outbox.Settlement{Claim: "token", Now: t0, To: outbox.Uncertain, Last: last}))
	require.NoError(t, again.ApplyChange(&outbox.Change{Action: outbox.ResolveSendAgain, Now: t0}))
	for _, r := range []*outbox.Record{next, again} {
		require.Zero(t, r.Attempts)
		require.Equal(t, &outbox.Attempt{Start: t0, End: t0, Code: "idempotency_key_reused"}, r.Last)
	}
	require.Equal(t, 1, last.N, "and the caller's stays as it is")
}

// TestALateVerdictCreditsNobodyElse: a later claim may have made the request whose answer is taken for another sender's.
func TestALateVerdictCreditsNobodyElse(t *testing.T) {
	r := claimed(outbox.Queued)
	require.NoError(t, r.ApplySettlement(&outbox.Settlement{Claim: "token", Now: t0, To: outbox.Queued}))
	s := &outbox.Settlement{Claim: "earlier", Now: t0, To: outbox.Succeeded, Result: &outbox.Result{Status: 200, ByOther: true}}
	require.NoError(t, r.ApplySettlement(s))
	require.False(t, r.Result.ByOther)
	require.True(t, s.Result.ByOther, "the caller's stays as it is")

	r = claimed(outbox.Queued)
	s.Claim = "token"
	require.NoError(t, r.ApplySettlement(s))
	require.True(t, r.Result.ByOther)
}

func TestAClaimKeepsTheFirstMark(t *testing.T) {
	r := claimed(outbox.Queued)
	require.Equal(t, &outbox.Exposure{Claim: "token", At: t0, Server: t0.Add(time.Second), Boot: "b", Uptime: time.Hour}, r.Exposure)
	require.Equal(t, outbox.Claim{Token: "token", At: t0, Until: t0.Add(time.Minute)}, r.Claim)
	require.NoError(t, r.ApplySettlement(&outbox.Settlement{Claim: "token", Now: t0, To: outbox.Queued}))
	first := *r.Exposure
	r.ApplyClaim("second", outbox.Mark{Now: t0.Add(time.Hour)})
	require.Equal(t, first, *r.Exposure, "the window counts from the first")
	require.Equal(t, 2, r.Attempts)
}

func TestSendingAgainStartsTheWindowAnewAndProvesNothing(t *testing.T) {
	r := inState(outbox.Uncertain)
	require.NoError(t, r.ApplyChange(&outbox.Change{Action: outbox.ResolveSendAgain, Now: t0.Add(48 * time.Hour)}))
	require.Zero(t, r.Attempts)
	require.False(t, r.NeverSent())
	again := t0.Add(49 * time.Hour)
	r.ApplyClaim("again", outbox.Mark{Now: again, Boot: "b2"})
	require.Equal(t, again, r.Exposure.At)
	require.Equal(t, "b2", r.Exposure.Boot)
	require.NoError(t, r.ApplySettlement(&outbox.Settlement{Claim: "again", Now: again, To: outbox.Queued, NeverSent: true}))
	require.Equal(t, outbox.Sent, r.State, "an earlier claim may have sent it")
	require.ErrorIs(t, r.ApplyChange(&outbox.Change{Action: outbox.Cancel, Now: again}), outbox.ErrState)
}

func TestASuspectRecordCountsAsSentSinceItsCreation(t *testing.T) {
	for _, s := range outbox.States() {
		r := inState(s)
		before := r.Clone()
		r.ApplySuspect()
		if s.Final() {
			require.Equal(t, before, r, "what is over stays over")
			continue
		}
		require.True(t, r.Suspect)
		require.Equal(t, r.Created, r.Exposure.At)
		require.NotEqual(t, outbox.Queued, r.State)
		require.False(t, r.PastExpiry(t0.Add(time.Hour)), "it may have been sent: it does not expire")
		require.NoError(t, r.Check())
	}
}

func TestTheNextGenerationForgetsTheSuspicion(t *testing.T) {
	r := inState(outbox.Queued)
	r.ApplySuspect()
	r.ApplyClaim("token", outbox.Mark{Now: t0})
	require.NoError(t, r.ApplySettlement(&outbox.Settlement{Claim: "token", Now: t0, To: outbox.Queued, NextGeneration: true}))
	require.Equal(t, outbox.Queued, r.State)
	require.Equal(t, "k~2", r.WireKey)
	require.False(t, r.Suspect)
	require.NoError(t, r.Check())
}

func TestPurgeableByState(t *testing.T) {
	late := outbox.PurgeRequest{Before: t0.Add(time.Hour)}
	for _, s := range outbox.States() {
		r := inState(s)
		require.False(t, r.Purgeable(&late), "%s, unseen", s)
		unseen := late
		unseen.Unacked = true
		require.Equal(t, s.Final() && s != outbox.Rejected, r.Purgeable(&unseen), "%s, unseen, in an application that takes no outcomes", s)
		r.ApplyAck(r.Revision)
		require.Equal(t, s.Final(), r.Purgeable(&late), "%s, seen", s)
		require.False(t, r.Purgeable(&outbox.PurgeRequest{Before: t0}), "%s, not long ago", s)
	}
}

func TestAnAcknowledgementCoversOnlyWhatWasSeen(t *testing.T) {
	r := inState(outbox.Uncertain)
	r.ApplyAck(7)
	require.Equal(t, 1, r.Acked, "no more than there is")
	require.NoError(t, r.ApplyChange(&outbox.Change{Action: outbox.ResolveDone, Now: t0}))
	r.OutcomeSeq = 2
	require.True(t, r.Unacked(), "the resolution is a new outcome")
	r.ApplyAck(1)
	require.True(t, r.Unacked())
	r.ApplyAck(2)
	require.False(t, r.Unacked())
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	for name, spoil := range map[string]func(*outbox.Record){
		"unknown state":               func(r *outbox.Record) { r.State = "lost" },
		"no identity":                 func(r *outbox.Record) { r.ID = "" },
		"no lane":                     func(r *outbox.Record) { r.Lane = "" },
		"it may have been sent":       func(r *outbox.Record) { r.Suspect = true },
		"without an exposure":         func(r *outbox.Record) { r.State = outbox.Sent },
		"claimed, but not sent":       func(r *outbox.Record) { r.Claim.Token = "t" },
		"ended as never sent":         func(r *outbox.Record) { r.State, r.Exposure = outbox.Expired, &outbox.Exposure{} },
		"waiting with an outcome":     func(r *outbox.Record) { r.OutcomeSeq = 1 },
		"without an outcome":          func(r *outbox.Record) { r.State = outbox.Blocked },
		"revision 1 acknowledged of":  func(r *outbox.Record) { r.Acked = 1 },
		`wire key "x" of key "k" gen`: func(r *outbox.Record) { r.WireKey = "x" },
	} {
		r := inState(outbox.Queued)
		spoil(r)
		require.ErrorContains(t, r.Check(), name)
	}
}
