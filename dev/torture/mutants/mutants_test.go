package mutants

import (
	"slices"
	"testing"

	"github.com/flavoso/flavoso-go/dev/torture/overlay"
)

// TestEveryPatchFits: the source has every place that is patched, once.
func TestEveryPatchFits(t *testing.T) {
	root, err := overlay.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range All() {
		if _, err := overlay.Apply(root, slices.Concat(overlay.Clock, overlay.Pace, overlay.FleetPace, m.Patches)); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// TestMutantsAreCaught runs the short list; `go run ./dev/torture -mutants` runs all of them.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range All() {
		if !m.CI {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			caught, rep, err := m.Caught()
			if err != nil {
				t.Fatal(err)
			}
			if !caught {
				t.Fatalf("the judge let it pass: %d processes killed, objections %v", rep.Killed(), rep.Violations)
			}
		})
	}
}
