package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// limit is more states than any scenario has within the usual bounds.
const limit = 2_000_000

// TestThePromiseHolds explores every scenario whole. Of the named holes those are met that the scenario
// expects, so that none goes unnoticed and none is named for nothing.
func TestThePromiseHolds(t *testing.T) {
	for _, sc := range scenarios(0) {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			r := explore(&sc, right, limit)
			if r.stopped {
				t.Fatalf("more than %d states", limit)
			}
			if r.bad != "" {
				t.Fatalf("%s:\n%s", r.bad, strings.Join(r.trace, "\n"))
			}
			met, want := slices.Sorted(maps.Keys(r.holes)), slices.Sorted(slices.Values(sc.holes))
			if !slices.Equal(met, want) {
				t.Errorf("holes met: %v, expected: %v", met, want)
				for _, h := range met {
					if !slices.Contains(want, h) {
						t.Errorf("%s:\n%s", h, strings.Join(r.ways[h], "\n"))
					}
				}
			}
			t.Logf("%d states, %d steps, depth %d", r.states, r.edges, r.depth)
		})
	}
}

// TestEveryMutantIsFound: a client that is wrong in one way gets a counterexample, in the scenario that is
// about it and for the right reason.
func TestEveryMutantIsFound(t *testing.T) {
	const (
		never   = "which says that it was never sent"
		second  = "done a second time"
		stays   = "waits for ever"
		false_  = "called rejected, and it was done"
		credits = "called somebody else's doing, and was its own"
	)
	missing := slices.Clone(mutants)
	for _, tc := range []struct {
		wrong    mutant
		scenario string
		bad      string
	}{
		{mutMarkLate, "booking", never},
		{mutAnyMark, "call", "removes the mark of another"},
		{mut5xxUnsent, "booking", "a mark is removed although the request had left"},
		{mutBreakUnsent, "booking", "a mark is removed although the request had left"},
		{mutNoLook, "booking", second},
		{mutNoWindow, "call", second},
		{mutNoMargin, "call", second},
		{mutPortalRefuses, "booking", false_},
		{mutPortalSucceeds, "booking", "called succeeded, and nothing was done"},
		{mutKeyPerAttempt, "call", second},
		{mutTakeoverUnsent, "shared booking", credits},
		{mutNotSuspect, "restored call", never},
		{mutConflictFinal, "booking", false_},
		{mutRefusalFinal, "put", false_},
		{mutReplayFinal, "transition", false_},
		{mutLapsedFinal, "put that lapses", false_},
		{mutWaitFromFirst, "booking, refused for long", false_},
		{mutCreditsOthers, "two tills, two bookings", credits},
		{mutBarredFinal, "booking", false_},
		{mutDiffersFinal, "two tills, two bookings", false_},
		{mutProgressFinal, "booking", false_},
		{mutTimeoutFinal, "call", false_},
		{mutNoSecondLook, "two tills, two bookings", false_},
		{mutNoFence, "shared call", credits},
		{mutSilentResend, "call", "two requests on the wire"},
		{mutIgnoreLane, "lane", "order of the lane"},
		{mutCancelSent, "booking", never},
		{mut5xxUncertain, "call", "although nothing can have been sent before"},
		{mutForgetEvidence, "call", "although its success was seen"},
		{mutNoTakeover, "shared booking", stays},
		{mutNeverTry, "booking", stays},
	} {
		missing = slices.DeleteFunc(missing, func(m mutant) bool { return m == tc.wrong })
		t.Run(string(tc.wrong), func(t *testing.T) {
			t.Parallel()
			sc := scenarioNamed(t, tc.scenario)
			r := explore(&sc, tc.wrong, limit)
			if !strings.Contains(r.bad, tc.bad) || r.bad == "" {
				t.Fatalf("%q was found in %d states, and not %q:\n%s", r.bad, r.states, tc.bad, strings.Join(r.trace, "\n"))
			}
			t.Logf("%s, in %d steps and %d states:\n%s", r.bad, len(r.trace), r.states, strings.Join(r.trace, "\n"))
		})
	}
	t.Run(string(mutNoHold), func(t *testing.T) {
		sc := scenarioNamed(t, "puts, in time")
		if r := explore(&sc, mutNoHold, limit); r.holes[lateWrite] == 0 {
			t.Fatal("not found")
		}
	})
	if !slices.Equal(missing, []mutant{mutNoHold}) {
		t.Errorf("no test is about %v", missing)
	}
}

// TestTwoExplorationsAreOne: nothing depends on chance.
func TestTwoExplorationsAreOne(t *testing.T) {
	sc := scenarioNamed(t, "booking")
	a, b := explore(&sc, right, limit), explore(&sc, right, limit)
	if a.states != b.states || a.edges != b.edges || a.depth != b.depth || !maps.Equal(a.holes, b.holes) {
		t.Fatalf("%d, %d, %d and %d, %d, %d", a.states, a.edges, a.depth, b.states, b.edges, b.depth)
	}
	for h, way := range a.ways {
		if !slices.Equal(way, b.ways[h]) {
			t.Fatalf("%s: two ways", h)
		}
	}
}

func scenarioNamed(t *testing.T, name string) scenario {
	t.Helper()
	for _, sc := range scenarios(0) {
		if sc.name == name {
			return sc
		}
	}
	t.Fatalf("no scenario is called %q", name)
	return scenario{}
}
