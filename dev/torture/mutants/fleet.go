package mutants

import (
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/overlay"
	"github.com/flavoso/flavoso-go/dev/torture/plan"
	"github.com/flavoso/flavoso-go/dev/torture/rig"
)

const pgoutbox = "postgres/pgoutbox"

// sharing is a run in which workers of a fleet die, and others take over. A worker lives longer than a till: it has
// to get at the database before it can do anything.
func sharing(shape func(*rig.Style), only ...string) rig.Options {
	return rig.Options{Modes: []rig.Mode{rig.Fleet}, Round: 6 * time.Second, Only: only, Ratio: 0.4, Shape: func(s *rig.Style) {
		s.Purge, s.Workers, s.Calls, s.LifeMin, s.LifeMean = false, 3, 8, 300*time.Millisecond, 200*time.Millisecond
		if shape != nil {
			shape(s)
		}
	}}
}

// aboutFleets are fleets whose workers get in each other's way.
func aboutFleets() []Mutant {
	return []Mutant{
		{Name: "what is taken over counts as never sent", Rule: "doubled", Run: sharing(dying(plan.Answered, "booking"), "not_held"),
			Patches: []overlay.Patch{patch(pgoutbox, "	s.ApplyClaim(rand.Text(), m)\n", "	if s.lapsed {\n		s.Exposure = nil\n	}\n	s.ApplyClaim(rand.Text(), m)\n")}},
		{Name: "saved beside the application's transaction", Rule: "told wrongly", Run: sharing(nil, "refuse"),
			Patches: []overlay.Patch{patch(pgoutbox, "	if a.Tx != nil {\n		return e.addIn(ctx, &a)\n	}", "	a.Tx = nil")}},
		{Name: "a worker hands over its own outcomes first", Rule: "out of order",
			Run: sharing(func(s *rig.Style) {
				dying(plan.OutcomeSaved, "ticket")(s)
				s.Workers, s.Orders = 2, 8
			}, "status 500"),
			Patches: []overlay.Patch{patch(root, "ByOutcome: true, Unacked: true, Bodies: true, Limit: 1})\n", `ByOutcome: true, Unacked: true, Bodies: true, Limit: 50})
	d.mu.Lock()
	for i := range page.Records {
		if _, ours := l.ours[page.Records[i].ID]; ours {
			page.Records = page.Records[i:]
			break
		}
	}
	d.mu.Unlock()
`)}},
	}
}
