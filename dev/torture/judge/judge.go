package judge

import (
	"regexp"
	"slices"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/account"
)

// The names of what is excused: the contract makes it possible, and no client can prevent it.
const (
	// ExcusedUnheld: Flavoso executes a repeat after a 5xx and after an aborted request (F9, F10), and
	// nothing can be read back to prevent it.
	ExcusedUnheld = "a second effect behind an answer that Flavoso did not hold, of a call that nothing reads back (F9, F10)"
	// ExcusedOverlap is the same for what was read back, while the request that did it was still running.
	ExcusedOverlap = "a second effect behind an answer that Flavoso did not hold, read back while the first request still ran (F9, F10)"
	// ExcusedForgotten: two outboxes of one connection used a reference, the second one for the first time after
	// Flavoso had forgotten the key, or while it did not hold it.
	ExcusedForgotten = "a second till used a key for the first time after Flavoso had forgotten it, or not held it (F5, F10)"
	// ExcusedLate: an attempt without a key was carried out after a newer write of its lane, although it had
	// arrived before that, and later than any lane is held for it.
	ExcusedLate = "a keyless write that had arrived first was carried out after a newer one"
)

// remembered is how long Flavoso remembers a key (F5).
const remembered = 24 * time.Hour

// Judge judges.
func Judge(e Evidence) Verdict {
	f := sort(e)
	for i := range f.tills {
		f.settled(&f.tills[i])
	}
	wishes := map[string][]*operation{}
	lanes := map[string][]*operation{}
	for _, o := range f.ops {
		f.told(o)
		f.sameBytes(o)
		w := o.conn + " " + o.Wish
		wishes[w] = append(wishes[w], o)
		l := o.conn + " " + o.Lane
		if len(lanes[l]) == 0 || lanes[l][0].till == o.till { // two outboxes have no order between them
			lanes[l] = append(lanes[l], o)
		}
	}
	for _, o := range f.ops { // in an order that does not change
		w := o.conn + " " + o.Wish
		if ops := wishes[w]; ops[0] == o {
			f.once(ops)
		}
		l := o.conn + " " + o.Lane
		if ops := lanes[l]; ops[0] == o {
			f.inOrder(ops)
		}
	}
	c := &f.verdict.Counts
	c.Begun, c.Requests, c.Effects = len(f.ops), len(f.requests), len(f.effects)
	c.States = map[string]int{}
	for _, o := range f.ops {
		if o.saved >= 0 || o.kept != nil {
			c.Accepted++
			c.States[o.state()]++
		}
	}
	for _, r := range f.requests {
		if r.Replayed {
			c.Replays++
		}
	}
	return f.verdict
}

// settled: when everything was worked off, the till has said so.
func (f *file) settled(t *Till) {
	if n := len(t.Events); n == 0 || t.Events[n-1].What != account.Settled {
		f.object("not settled", nil, "till %d has not listed its outbox at the end", t.Slot)
	}
}

var (
	waiting   = []string{"queued", "sent"}
	parked    = []string{"uncertain", "blocked", "damaged"}
	neverSent = []string{"expired", "canceled", "superseded"}
)

// told compares what a till was promised about one operation with what it was told later.
func (f *file) told(o *operation) {
	f.delivered(o)
	f.fates(o)
	f.revisions(o)
	f.seen(o)
}

// delivered: what was accepted is in the outbox and settled, and its outcome was handed over and taken.
func (f *file) delivered(o *operation) {
	state := o.state()
	last := ""
	if n := len(o.outcomes); n > 0 {
		last = o.outcomes[n-1].State
	}
	purged := o.till.Purges && last != "" && !slices.Contains(parked, last)
	switch {
	case o.kept == nil:
		if o.saved >= 0 && !purged {
			f.object("missing", o, "%s was accepted, and the outbox does not know it", o)
		}
	case slices.Contains(waiting, state) && !f.held(o):
		f.object("not settled", o, "%s still waits although nothing is in its way", o)
	case o.kept.Revision > 0 && !slices.ContainsFunc(o.outcomes, func(e account.Event) bool {
		return e.Revision == o.kept.Revision && e.State == o.kept.State
	}):
		f.object("not delivered", o, "%s is %s, and nobody was told", o, state)
	case o.kept.Revision > 0 && !o.kept.Acked:
		f.object("not delivered", o, "%s is %s, and counts as not taken over", o, state)
	}
}

// fates: what callers were told is what became of it.
func (f *file) fates(o *operation) {
	state, notSent := o.state(), 0
	for _, e := range o.fates {
		ok := true
		switch e.Fate {
		case "done":
			ok = state == "succeeded"
		case "refused":
			ok = state == "rejected"
		case "not sent":
			notSent++ // only this call; an earlier one may have saved it
			ok = notSent < o.begins || state == "" || slices.Contains(neverSent, state)
		}
		if !ok {
			f.object("told wrongly", o, "the caller of %s was told %s, and it is %s", o, e.Fate, state)
		}
	}
	if o.canceled && state != "canceled" {
		f.object("told wrongly", o, "%s was cancelled, and it is %s", o, state)
	}
}

// revisions: they come in their order, and none of them changes.
func (f *file) revisions(o *operation) {
	for i, e := range o.outcomes {
		if i > 0 && e.Revision < o.outcomes[i-1].Revision {
			f.object("told wrongly", o, "%s: revision %d was delivered after %d", o, e.Revision, o.outcomes[i-1].Revision)
		}
		if i > 0 && e.Revision == o.outcomes[i-1].Revision && e.State != o.outcomes[i-1].State {
			f.object("told wrongly", o, "%s: revision %d was once %s and once %s", o, e.Revision, o.outcomes[i-1].State, e.State)
		}
	}
}

// seen compares what it is said to be with what the server has seen of it.
func (f *file) seen(o *operation) {
	state, heard := o.state(), len(o.heard()) > 0
	if o.rolledBack && o.begins == 1 && (o.kept != nil || len(o.requests) > 0 || len(o.outcomes) > 0) {
		f.object("told wrongly", o, "%s was rolled back, and it is there", o)
	}
	if heard && slices.Contains(neverSent, state) {
		f.object("told wrongly", o, "%s is %s, which says that it was never sent, and the server has seen it", o, state)
	}
	if state == "rejected" && !o.shared && !slices.ContainsFunc(o.requests, refusal) {
		f.object("told wrongly", o, "%s is rejected, and the server has not refused it", o)
	}
	if o.saved < 0 && o.kept == nil && heard && !o.till.Purges {
		f.object("missing", o, "the server has seen %s, and the outbox does not know it", o)
	}
}

// refusal reports whether Flavoso itself has decided against a request.
func refusal(r *request) bool {
	return r.Status >= 400 && r.Status < 500 && r.Status != 401 && r.Status != 408 && r.Status != 429 && r.Fault != "portal" && r.Fault != "proxy_error"
}

// held reports whether something parked stands before a waiting operation.
func (f *file) held(o *operation) bool {
	return slices.ContainsFunc(f.ops, func(p *operation) bool {
		return p.till == o.till && p.conn == o.conn && p.Lane == o.Lane && p.kept != nil && p.listed < o.listed && slices.Contains(parked, p.kept.State)
	})
}

var generation = regexp.MustCompile(`~\d+$`)

// sameBytes: all attempts are the same request under the same key (F7, F11). Where others use the key too,
// it may move on to its next generation.
func (f *file) sameBytes(o *operation) {
	for _, r := range o.requests {
		first := o.requests[0]
		key := r.Key
		if o.shared {
			key = generation.ReplaceAllString(key, "")
		}
		switch {
		case r.Target != first.Target || string(r.Body) != string(first.Body):
			f.object("other bytes", o, "%s was sent as %s %s %s and as %s %s %s", o, first.Method, first.Target, first.Body, r.Method, r.Target, r.Body)
		case key != first.Key && !(o.shared && key == generation.ReplaceAllString(first.Key, "")):
			f.object("other key", o, "%s was sent with the keys %q and %q", o, first.Key, r.Key)
		case o.kept != nil && string(o.kept.Body) != string(r.Body):
			f.object("other bytes", o, "%s was sent as %s and is kept as %s", o, r.Body, o.kept.Body)
		default:
			continue
		}
		return
	}
}

// once: operations that want the same come to one effect together, and every one of them was told the truth.
func (f *file) once(ops []*operation) {
	var effects []effect
	for _, o := range ops {
		effects = append(effects, o.effects...)
	}
	slices.SortFunc(effects, func(a, b effect) int { return a.pos - b.pos })
	states := map[string]*operation{}
	for _, o := range ops {
		states[o.state()] = o
	}
	succeeded := states["succeeded"]
	if succeeded != nil && len(effects) == 0 && !f.passed(succeeded) {
		f.object("not done", succeeded, "%s succeeded, and nothing happened", succeeded)
	}
	for i := 1; i < len(effects); i++ {
		f.second(effects[i-1], effects[i])
	}
	if len(effects) == 0 || succeeded != nil {
		return
	}
	for _, o := range ops {
		switch state := o.state(); {
		case state == "rejected" || slices.Contains(neverSent, state):
			if len(o.effects) > 0 {
				f.object("told wrongly", o, "%s is %s, and it was done", o, state)
			}
		}
	}
}

// passed reports whether an order had gone past what an operation asked of it: the operation was asked for once
// more after others of the order, or together with another till's.
func (f *file) passed(o *operation) bool {
	if o.Kind != "orders.accept" && o.Kind != "orders.status" || o.begins < 2 && !o.shared {
		return false
	}
	return slices.ContainsFunc(f.ops, func(p *operation) bool {
		return p != o && p.Lane == o.Lane && p.conn == o.conn && p.Kind == "orders.status" && len(p.effects) > 0
	})
}

// second judges the second of two effects of one wish.
func (f *file) second(first, again effect) {
	o := again.req.op
	unheld := first.req.Fault == "status_after_commit" || first.req.Fault == "crash_after_commit"
	if o.till != first.req.op.till && (unheld || again.At.Sub(first.At) >= remembered) && o.heard()[0] == again.req {
		f.verdict.Excused[ExcusedForgotten]++
		return
	}
	if !unheld || first.req.Replayed {
		f.object("doubled", o, "%s was done twice, at #%d and at #%d", o, first.req.pos, again.req.pos)
		return
	}
	if !o.readable() {
		f.verdict.Excused[ExcusedUnheld]++
		return
	}
	// What can be read back must have been, after the last life that knew of no attempt; and what was read
	// must not have shown it.
	var read *request
	for _, r := range f.reads[o.conn+" "+o.ReadBack] {
		if r.pos > first.req.pos && r.pos < again.req.pos {
			read = r
		}
	}
	switch {
	case again.req.pos < first.req.pos || !first.At.Before(again.req.At):
		f.verdict.Excused[ExcusedOverlap]++ // it was on its way already
	case read == nil:
		f.object("doubled", o, "%s was done at #%d and, without being read back, again at #%d", o, first.req.pos, again.req.pos)
	case first.At.Before(read.At):
		f.object("doubled", o, "%s was done at #%d, could be seen at #%d, and was done again at #%d", o, first.req.pos, read.pos, again.req.pos)
	default:
		f.verdict.Excused[ExcusedOverlap]++
	}
}

// inOrder: what was promised first is sent first, and nothing older comes after something newer (one till's
// operations of one lane, in the order in which they began).
func (f *file) inOrder(ops []*operation) {
	for i, b := range ops {
		for _, a := range ops[:i] {
			if a.saved < 0 || a.saved > b.began {
				continue // which of them came first is not known
			}
			f.pair(a, b)
		}
	}
}

func (f *file) pair(a, b *operation) {
	if a.kept != nil && b.kept != nil && a.listed > b.listed {
		f.object("out of order", b, "%s was accepted before %s, and stands behind it in the outbox", a, b)
	}
	ra, rb := a.heard(), b.heard()
	if len(ra) > 0 && len(rb) > 0 && ra[0].pos > rb[0].pos {
		f.object("out of order", a, "%s was first sent after %s (#%d, #%d)\n%s", a, b, ra[0].pos, rb[0].pos, f.story(b))
		return
	}
	if sent(a) && sent(b) && a.firstOutcome >= 0 && b.firstOutcome >= 0 && a.firstOutcome > b.firstOutcome {
		f.object("out of order", b, "the outcome of %s was delivered before that of %s", b, a)
	}
	if len(rb) == 0 {
		return
	}
	for _, x := range a.effects {
		for _, y := range b.effects {
			if x.pos < y.pos || x.req.unsure || y.req.unsure {
				continue
			}
			if x.Key == "" && x.req.pos < rb[0].pos && x.At.Sub(x.req.At) >= a.till.Hold {
				f.verdict.Excused[ExcusedLate]++
				return
			}
			f.object("out of order", a, "%s was done after %s, which was accepted later\n%s", a, b, f.story(b))
			return
		}
	}
}

// sent reports whether it ended by being sent.
func sent(o *operation) bool {
	s := o.state()
	return s == "succeeded" || s == "rejected"
}
