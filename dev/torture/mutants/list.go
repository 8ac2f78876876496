// Package mutants holds clients that are wrong on purpose: the product with one small patch laid over its
// source, each a mistake that clients of this kind make. A torture run must object to every one of them; a rig
// that lets one pass proves nothing.
package mutants

import (
	"slices"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/overlay"
	"github.com/flavoso/flavoso-go/dev/torture/plan"
	"github.com/flavoso/flavoso-go/dev/torture/rig"
)

// Mutant is a client with one thing wrong.
type Mutant struct {
	Name    string
	Rule    string // the judge's, by which it is found out
	CI      bool   // it is part of the short list
	Patches []overlay.Patch
	Run     rig.Options // what brings it to light, in a few seconds
}

func patch(dir, old, replacement string) overlay.Patch {
	return overlay.Patch{Dir: dir, Old: old, New: replacement}
}

const (
	root     = "."
	dispatch = "internal/dispatch"
	wire     = "internal/wire"
	engines  = "outbox"
	bolt     = "outbox/bolt"
)

// crashing is a run in which tills die.
func crashing(shape func(*rig.Style), only ...string) rig.Options {
	return rig.Options{Modes: []rig.Mode{rig.Crashes}, Round: 4 * time.Second, Only: only, Ratio: 0.25, Shape: func(s *rig.Style) {
		s.Seal, s.Plain, s.Purge, s.Workers, s.Calls, s.Jumps = false, false, false, 3, 5, 0
		if shape != nil {
			shape(s)
		}
	}}
}

func working(kinds ...string) func(*rig.Style) {
	return func(s *rig.Style) { s.Work = kinds }
}

func dying(point string, kinds ...string) func(*rig.Style) {
	return func(s *rig.Style) { s.Work, s.Points, s.PointRatio = kinds, []string{point}, 0.8 }
}

// All returns every mutant.
func All() []Mutant {
	return slices.Concat(aboutSending(), aboutKeeping(), aboutFleets())
}

// aboutSending are clients that send wrongly, or misread what they are answered.
func aboutSending() []Mutant {
	return []Mutant{
		{Name: "a new key for each attempt", Rule: "other key", CI: true, Run: crashing(working("booking"), "drop_response", "status 500"),
			Patches: []overlay.Patch{patch(dispatch, "x := d.cfg.Sender.SendGated(ctx, rec.Request, rec.WireKey, token,",
				`key := rec.WireKey
	if key != "" {
		key += fmt.Sprintf(".%d", rec.Attempts)
	}
	x := d.cfg.Sender.SendGated(ctx, rec.Request, key, token,`)}},
		{Name: "the body is encoded anew for each attempt", Rule: "other bytes", Run: crashing(working("booking"), "drop_response", "status 500"),
			Patches: []overlay.Patch{patch(dispatch, "x := d.cfg.Sender.SendGated(ctx, rec.Request, rec.WireKey, token,",
				`again := rec.Request
	again.Body = append([]byte(fmt.Sprintf("%*s", rec.Attempts-1, "")), again.Body...)
	x := d.cfg.Sender.SendGated(ctx, again, rec.WireKey, token,`)}},
		{Name: "what is not Flavoso's answer is a refusal", Rule: "told wrongly", Run: crashing(nil, "proxy_error", "portal"),
			Patches: []overlay.Patch{patch(wire, "v.Class, v.Reason = NotAuthored,", "v.Class, v.Reason = Rejected,")}},
		{Name: "a portal's 200 is a success", Rule: "not done", Run: crashing(nil, "portal"),
			Patches: []overlay.Patch{patch(wire, "	if requestID != \"\" {\n		return true\n	}\n	return !f.Seen", "	if requestID != \"\" || x.Status == 200 {\n		return true\n	}\n	return !f.Seen")}},
		{Name: "a 5xx is a refusal", Rule: "told wrongly", Run: crashing(nil, "status_after_commit"),
			Patches: []overlay.Patch{patch(wire, "	if x.Status >= 500 {\n		return Retry\n	}", "	if x.Status >= 500 {\n		return Rejected\n	}")}},
		{Name: "a request still running is a refusal", Rule: "told wrongly", Run: crashing(working("ticket"), "delay in_handler", "crash_before_commit"),
			Patches: []overlay.Patch{patch(wire, "CodeInProgress:           InProgress,", "CodeInProgress:           Rejected,")}},
		{Name: "a refused token is a refusal", Rule: "told wrongly", Run: crashing(nil, "status 401"),
			Patches: []overlay.Patch{patch(wire, "http.StatusUnauthorized:    Unauthorized,", "http.StatusUnauthorized:    Rejected,")}},
		{Name: "no answer means that nothing was sent", Rule: "told wrongly", Run: crashing(working("expire", "cancel"), "drop_response", "hang after"),
			Patches: []overlay.Patch{patch(wire, "x.NeverSent = own && sought.Load() > 0 && got.Load() == 0", "x.NeverSent = own && sought.Load() > 0")}},
		{Name: "nothing is read back before it is repeated", Rule: "doubled", CI: true, Run: crashing(working("booking"), "not_held", "crash_after_commit"),
			Patches: []overlay.Patch{patch(dispatch, "	if !t.clean {\n		if s, over := t.beforeRepeat(ctx); over {", "	if false {\n		if s, over := t.beforeRepeat(ctx); over {")}},
		{Name: "a lane does not wait for a late write without a key", Rule: "out of order", Run: crashing(func(s *rig.Style) { s.Workers, s.Calls = 0, 12 }, "late", "delay before"),
			Patches: []overlay.Patch{patch(dispatch, "	if t.rec.WireKey == \"\" && !t.clean {\n		s.LaneNotBefore", "	if false {\n		s.LaneNotBefore")}},
		{Name: "a key that others use moves on at once", Rule: "doubled", Run: crashing(func(s *rig.Style) { s.Workers, s.Menu, s.LifeMean, s.PointRatio = 0, false, 60*time.Millisecond, 0 }, "drop_response"),
			Patches: []overlay.Patch{patch(dispatch, "		f := d.find(ctx, t.c, rec)\n		switch {\n		case f.Wish == Fulfilled:\n			r := t.found(\"by_other\", f)",
				"		if rec.Generation < maxGenerations {\n			return outbox.Settlement{To: outbox.Queued, Due: t.d.cfg.Now(), NextGeneration: true, Last: last}\n		}\n		f := d.find(ctx, t.c, rec)\n		switch {\n		case f.Wish == Fulfilled:\n			r := t.found(\"by_other\", f)")}},
		{Name: "a key is good for ever", Rule: "doubled", Run: restless(crashing(working("call"), "drop_response", "hang after", "status 503")),
			Patches: []overlay.Patch{patch(dispatch, "return !known || age >= d.cfg.Window", "return false && (!known || age >= d.cfg.Window)")}},
	}
}

func restless(o rig.Options) rig.Options {
	o.Restless, o.Ratio = true, 0.5
	return o
}

func outages(o rig.Options) rig.Options {
	o.Outages, o.Ratio = true, 0.5
	return o
}

func stormy(o rig.Options) rig.Options {
	o.Ratio = 0.6
	return o
}

// aboutKeeping are clients that save, promise, order or report wrongly.
func aboutKeeping() []Mutant {
	return []Mutant{
		{Name: "the exposure is marked when the attempt is over", Rule: "doubled", CI: true,
			Run: crashing(func(s *rig.Style) {
				s.Work, s.Points = []string{"booking"}, []string{plan.Answered, plan.AnswerRead}
				s.PointRatio = 0.8
			}, "not_held"),
			Patches: []overlay.Patch{
				patch(bolt, "	e := newFrame(tagProgress, 256)\n", `	if r.Claimed() && r.Exposure != nil && r.Exposure.Claim == r.Claim.Token {
		unmarked := *r
		unmarked.Exposure = nil
		r = &unmarked
	}
	e := newFrame(tagProgress, 256)
`),
				patch(engines, "	ownMark := r.Exposure != nil", `	if r.Exposure == nil && !s.NeverSent {
		r.Exposure = &Exposure{Claim: s.Claim, At: wall(s.Now)}
	}
	ownMark := r.Exposure != nil`),
			}},
		{Name: "any claim clears the mark", Rule: "told wrongly",
			Run: outages(crashing(func(s *rig.Style) {
				s.Work, s.LifeMean, s.PointRatio = []string{"expiring call"}, 200*time.Millisecond, 0
			}, "drop_response")),
			Patches: []overlay.Patch{patch(engines, "unmarked := r.Exposure == nil || s.NeverSent && ownMark", "unmarked := r.Exposure == nil || s.NeverSent || ownMark && s.NeverSent")}},
		{Name: "answered before it is durable", Rule: "missing", Run: crashing(func(s *rig.Style) { s.Workers = 6 }, "refuse"),
			Patches: []overlay.Patch{
				patch(bolt, "	select {\n	case <-e.role:\n		// Nobody commits now", "	select {\n	case <-(chan struct{})(nil):\n		// Nobody commits now"),
				patch(bolt, "				if err = t.finish(); err == nil {\n", "				if err = t.finish(); err == nil {\n					for _, s := range wave {\n						s.done <- nil\n					}\n					time.Sleep(3 * time.Millisecond)\n"),
				patch(bolt, "		s.done <- named(s.err, s)\n", "		select {\n		case s.done <- named(s.err, s):\n		default:\n		}\n"),
			}},
		{Name: "commits are not synced", Rule: "missing", Run: rig.Options{Modes: []rig.Mode{rig.PowerDisk}, Round: 4 * time.Second, Only: []string{"refuse"}},
			Patches: []overlay.Patch{patch(bolt, "		FreelistType: bbolt.FreelistMapType,\n", "		FreelistType: bbolt.FreelistMapType,\n		NoSync:       true,\n")}},
		{Name: "lanes are forgotten", Rule: "out of order", CI: true, Run: crashing(working("ticket"), "status 500", "drop_response"),
			Patches: []overlay.Patch{patch(root, "	rec.Created = now\n", "	rec.Created = now\n	rec.Lane += rec.ID\n")}},
		{Name: "acknowledged before it was taken over", Rule: "not delivered", CI: true, Run: crashing(dying(plan.InHandler, "booking"), "refuse"),
			Patches: []overlay.Patch{patch(root, "	err := d.client.handOver(ctx, outcomeOf(rec, true))\n", "	_ = d.client.engine.Ack(ctx, rec.ID, rec.Revision)\n	err := d.client.handOver(ctx, outcomeOf(rec, true))\n")}},
		{Name: "a known key is no reason not to save", Rule: "twice in the outbox", Run: crashing(dying(string("commit: durable, callers not answered"), "booking"), "status 500"),
			Patches: []overlay.Patch{patch(engines, "	if prev == nil || a.Record.Key == \"\" {", "	if prev == nil || a.Record.Key == \"\" || !prev.State.Final() {")}},
		{Name: "what nobody has seen is removed", Rule: "missing", Run: crashing(func(s *rig.Style) { s.Purge = true; s.Points, s.PointRatio = []string{plan.InHandler}, 0.9 }, "refuse"),
			Patches: []overlay.Patch{patch(engines, "return !r.Unacked() || p.Unacked && r.State != Rejected", "return true")}},
		{Name: "a write that was sent is superseded", Rule: "told wrongly", Run: stormy(crashing(func(s *rig.Style) {
			s.Workers, s.Calls, s.MenuOf, s.LifeMean = 0, 12, []string{"menu.supersede"}, 80*time.Millisecond
		}, "status 500")),
			Patches: []overlay.Patch{patch(engines, "return r.State == Queued && r.NeverSent() && r.Attempts == 0 && !r.Claimed() &&", "return r.State.Waiting() && !r.Claimed() &&")}},
		{Name: "what was sent can be cancelled", Rule: "told wrongly", Run: crashing(working("cancel"), "status 500", "drop_response"),
			Patches: []overlay.Patch{patch(engines, "if r.State != Queued && r.State != Blocked || !r.NeverSent() {", "if !r.State.Waiting() && r.State != Blocked {")}},
		{Name: "what was sent can expire", Rule: "told wrongly", Run: crashing(working("expire"), "status 500", "drop_response"),
			Patches: []overlay.Patch{patch(engines, "return r.State == Queued && r.NeverSent() && !r.Expires.IsZero()", "return r.State.Waiting() && !r.Expires.IsZero()")}},
	}
}

// Clean runs the same torture on the right client, to which the judge must not object.
func (m Mutant) Clean() (*rig.Report, error) {
	o := m.Run
	o.Seed, o.For = 1, time.Nanosecond
	return rig.Run(o)
}

// Caught runs the torture on the mutant, with up to four seeds, and reports whether the judge objected by the
// mutant's rule.
func (m Mutant) Caught() (bool, *rig.Report, error) {
	var rep *rig.Report
	for seed := range uint64(4) {
		o := m.Run
		o.Seed, o.Patches, o.For = seed+1, m.Patches, time.Nanosecond
		var err error
		if rep, err = rig.Run(o); err != nil {
			return false, rep, err
		}
		for _, v := range rep.Violations {
			if v.Rule == m.Rule {
				return true, rep, nil
			}
		}
	}
	return false, rep, nil
}
