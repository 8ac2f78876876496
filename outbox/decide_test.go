package outbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// The table of what a new call under a known key is, row by row.
func TestDecideIsTheKeyTable(t *testing.T) {
	const (
		existing   = "existing"
		otherUse   = "other use"
		sameKey    = "new, same key"
		nextKey    = "next generation"
		generation = 3 // of the existing operation
	)
	type row struct {
		state       outbox.State
		clean       bool // rejected by a conflict that no earlier attempt can have caused
		code        string
		derived     bool
		repeatSafe  bool
		after       outbox.AfterSuccess
		same, other string
	}
	var rows []row
	for _, s := range []outbox.State{outbox.Queued, outbox.Sent, outbox.Uncertain, outbox.Blocked, outbox.Damaged} {
		for _, derived := range []bool{false, true} {
			rows = append(rows, row{state: s, derived: derived, same: existing, other: otherUse},
				row{state: s, derived: derived, after: outbox.NextGeneration, same: existing, other: otherUse})
		}
	}
	for _, s := range []outbox.State{outbox.Canceled, outbox.Expired, outbox.Superseded} {
		rows = append(rows, row{state: s, same: sameKey, other: sameKey}, row{state: s, derived: true, same: sameKey, other: sameKey})
	}
	rows = append(rows,
		row{state: outbox.Succeeded, same: existing, other: otherUse},
		row{state: outbox.Succeeded, derived: true, same: existing, other: otherUse},
		row{state: outbox.Succeeded, after: outbox.NextGeneration, same: nextKey, other: nextKey},
		row{state: outbox.Succeeded, derived: true, after: outbox.NextGeneration, same: nextKey, other: nextKey},
		row{state: outbox.Rejected, clean: true, code: "conflict", same: sameKey, other: nextKey},
		row{state: outbox.Rejected, clean: true, code: "conflict", derived: true, same: sameKey, other: nextKey},
		row{state: outbox.Rejected, clean: false, code: "conflict", derived: true, same: nextKey, other: nextKey},
		row{state: outbox.Rejected, clean: false, code: "conflict", same: existing, other: otherUse},
		row{state: outbox.Rejected, clean: true, code: "not_found", derived: true, same: nextKey, other: nextKey},
		row{state: outbox.Rejected, clean: true, code: "validation_failed", same: existing, other: otherUse},
		row{state: outbox.Abandoned, repeatSafe: true, same: sameKey, other: otherUse},
		row{state: outbox.Abandoned, same: existing, other: otherUse},
	)
	for _, r := range rows {
		for content, want := range map[string]string{"same": r.same, "other": r.other} {
			t.Run(fmt.Sprintf("%s clean=%v code=%s derived=%v after=%d safe=%v %s content", r.state, r.clean, r.code, r.derived, r.after, r.repeatSafe, content), func(t *testing.T) {
				prev := &outbox.Tombstone{
					Connection: "c", Key: "k", ID: "first", Generation: generation, Fingerprint: []byte("same"),
					State: r.state, Clean: r.clean, Code: r.code, RepeatSafe: r.repeatSafe,
				}
				a := outbox.Addition{
					Record:       outbox.Record{Key: "k", KeyDerived: r.derived, Fingerprint: []byte(content)},
					AfterSuccess: r.after,
				}
				require.Equal(t, map[string]outbox.Choice{
					existing: {Decision: outbox.FoundOperation},
					otherUse: {Decision: outbox.FoundOtherUse},
					sameKey:  {Decision: outbox.AddedNew, Generation: generation},
					nextKey:  {Decision: outbox.AddedNew, Generation: generation + 1},
				}[want], outbox.Decide(prev, &a))
			})
		}
	}
}

func TestDecideWithoutAnEarlierUseAddsTheFirstGeneration(t *testing.T) {
	first := outbox.Choice{Decision: outbox.AddedNew, Generation: 1}
	require.Equal(t, first, outbox.Decide(nil, &outbox.Addition{Record: outbox.Record{Key: "k"}}))
	require.Equal(t, first, outbox.Decide(&outbox.Tombstone{State: outbox.Sent}, &outbox.Addition{}), "operations without a key never meet")
}

func TestDecideKeepsADamagedKeyReserved(t *testing.T) {
	got := outbox.Decide(&outbox.Tombstone{Key: "k", State: outbox.Damaged}, &outbox.Addition{Record: outbox.Record{Key: "k", Fingerprint: []byte("x")}})
	require.Equal(t, outbox.FoundOperation, got.Decision, "nobody can tell what it was")
}

func TestWireKeyNumbersGenerationsFromTwo(t *testing.T) {
	require.Equal(t, "k", outbox.WireKey("k", 0))
	require.Equal(t, "k", outbox.WireKey("k", 1))
	require.Equal(t, "k~2", outbox.WireKey("k", 2))
	require.Equal(t, "k~13", outbox.WireKey("k", 13))
	require.Empty(t, outbox.WireKey("", 2))
}

// F3: a key has at most 255 characters.
func TestWireKeyOfALongKeyFits(t *testing.T) {
	long := strings.Repeat("k", 254)
	seen := map[string]bool{}
	for _, key := range []string{strings.Repeat("k", 252), long[:253], long, long + "a", long + "b"} {
		for _, generation := range []int{1, 2, 10, 1000} {
			w := outbox.WireKey(key, generation)
			require.LessOrEqual(t, len(w), 255)
			require.False(t, seen[w], "%d of %s", generation, key)
			seen[w] = true
			require.Equal(t, w, outbox.WireKey(key, generation))
		}
	}
	require.Equal(t, long[:253]+"~2", outbox.WireKey(long[:253], 2), "what fits is not changed")
}

func TestTombstoneCountsFromTheLastAttempt(t *testing.T) {
	end := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	r := outbox.Record{Connection: "c", Key: "k", RepeatSafe: true, State: outbox.Succeeded, Finished: end.Add(-time.Hour),
		Last: &outbox.Attempt{End: end}, Resource: "ref", Result: &outbox.Result{Resource: "id", Code: "code", Clean: true}}
	tomb := r.Tombstone()
	require.Equal(t, end.Add(48*time.Hour), tomb.Until)
	require.Equal(t, "id", tomb.Resource)
	require.True(t, tomb.Clean)
	r.RepeatSafe = false
	require.Equal(t, end.Add(400*24*time.Hour), r.Tombstone().Until)
}

func TestTombstoneOutlivesItsRecordInFull(t *testing.T) {
	boot := time.Unix(60, 0)
	r := outbox.Record{Connection: "c", Key: "k", State: outbox.Succeeded, Finished: boot, Last: &outbox.Attempt{End: boot}}
	removed := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	tomb := r.TombstoneAt(removed)
	require.Equal(t, removed.Add(400*24*time.Hour), tomb.Until)
	require.Equal(t, removed, tomb.Since())
	early := r.TombstoneAt(boot.Add(-time.Hour))
	require.True(t, early.Since().Equal(boot), "nor does a clock that is behind now shorten it")
}
