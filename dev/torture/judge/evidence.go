// Package judge compares what tills were promised and told with what a server really did.
//
// The rules: every accepted operation has exactly one effect, or a reported state that says truthfully that
// it has none or that nobody knows; lanes keep their order; every outcome was delivered; all attempts of an
// operation are the same bytes under the same key; nothing is missing, and nothing is there that nobody
// asked for. Where Flavoso's own contract makes a second effect possible for a call that nothing can read
// back (F9, F10), or a late write overtakes a newer one, the judge does not object, and counts it by name.
package judge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/account"
	"github.com/flavoso/flavoso-go/mockserver"
)

// Dump is what one life of a mock server leaves behind.
type Dump struct {
	Snapshot json.RawMessage
	Requests []mockserver.Request
	Effects  []mockserver.Effect
}

// Till is the account of one outbox.
type Till struct {
	Slot       int
	Connection string
	Purges     bool          // finished operations are removed from the outbox once they were taken over
	Hold       time.Duration // how long a lane waits for a late write without a key
	Events     []account.Event
}

// Evidence is everything there is to judge: the accounts of all tills, and what the lives of the server left
// behind, in their order.
type Evidence struct {
	Tills  []Till
	Server []Dump
}

// request is one that arrived, at a place in the order of all.
type request struct {
	mockserver.Request
	pos     int
	op      *operation
	unsure  bool // tills of one connection ask for exactly the same: it may be another's
	effects []effect
}

type effect struct {
	mockserver.Effect
	pos int // in the order of all effects
	req *request
}

// operation is everything that is known of one.
type operation struct {
	account.Event // of the first Began
	till          *Till
	conn          string
	rolledBack    bool // the transaction that saved it was
	shared        bool // another till of the connection may want the same
	began         int  // number of the first event
	begins        int  // how often it was asked for
	saved         int  // number of the event since which it was promised; -1 = never
	fates         []account.Event
	outcomes      []account.Event
	firstOutcome  int // number of the event
	canceled      bool
	kept          *account.Event
	listed        int // place in the final list
	requests      []*request
	effects       []effect
}

func (o *operation) String() string { return o.Op + " (" + o.Kind + ")" }

// readable reports whether the client can find out what became of it.
func (o *operation) readable() bool { return o.ReadBack != "" }

// state is what the till was finally told; "" = nothing.
func (o *operation) state() string {
	if o.kept != nil {
		return o.kept.State
	}
	if n := len(o.outcomes); n > 0 {
		return o.outcomes[n-1].State
	}
	return ""
}

// heard lists the requests that Flavoso can have acted upon: one that was turned away for its token did not
// happen.
func (o *operation) heard() []*request {
	var out []*request
	for _, r := range o.requests {
		if r.Status != 401 && r.Status != 403 {
			out = append(out, r)
		}
	}
	return out
}

// file is the evidence in order.
type file struct {
	tills    []Till
	ops      []*operation
	byName   map[string]*operation
	requests []*request
	reads    map[string][]*request // GETs that were answered, by connection and target
	effects  []effect
	verdict  Verdict
}

var opName = regexp.MustCompile(`op_\d+\.\d+\.[a-z]+\d+_`)

const base = "/v1"

// sort brings the evidence into order, and objects to what belongs nowhere.
func sort(e Evidence) *file {
	f := &file{tills: e.Tills, byName: map[string]*operation{}, reads: map[string][]*request{}, verdict: Verdict{Excused: map[string]int{}}}
	tills := map[string]int{}
	for i := range f.tills {
		tills[f.tills[i].Connection]++
	}
	for i := range f.tills {
		f.account(&f.tills[i], tills[f.tills[i].Connection] > 1)
	}
	byTarget := map[string][]*operation{}
	for _, o := range f.ops {
		k := o.conn + " " + o.Method + " " + o.Target
		byTarget[k] = append(byTarget[k], o)
	}
	for _, d := range e.Server {
		byID := map[string]*request{}
		for i := range d.Requests {
			r := &request{Request: d.Requests[i], pos: len(f.requests)}
			f.requests = append(f.requests, r)
			byID[r.RequestID] = r
			f.attribute(r, byTarget)
		}
		for _, m := range d.Effects {
			x := effect{Effect: m, pos: len(f.effects), req: byID[m.RequestID]}
			f.effects = append(f.effects, x)
			if x.req == nil || x.req.op == nil {
				f.object("nobody asked for it", nil, "an effect that belongs to no operation: %+v", m)
				continue
			}
			x.req.effects = append(x.req.effects, x)
			x.req.op.effects = append(x.req.op.effects, x)
		}
	}
	return f
}

func (f *file) account(t *Till, shared bool) {
	listed := 0
	for n := range t.Events {
		e := &t.Events[n]
		f.verdict.count(e)
		if e.Op == "" {
			continue
		}
		o := f.byName[e.Op]
		if o == nil {
			if e.What != account.Began {
				f.object("nobody asked for it", nil, "the outbox tells of %s, which no call has made", e.Op)
				continue
			}
			o = &operation{Event: *e, till: t, conn: cmp.Or(e.Connection, t.Connection), shared: shared, began: n, saved: -1, firstOutcome: -1}
			f.byName[e.Op] = o
			f.ops = append(f.ops, o)
		}
		switch e.What {
		case account.Began:
			o.begins++
		case account.Saved:
			if o.saved < 0 {
				o.saved = n
			}
		case account.Returned:
			o.fates = append(o.fates, *e)
			if o.saved < 0 && (e.Fate == "done" || e.Fate == "refused") {
				o.saved = n
			}
		case account.Outcome:
			o.outcomes = append(o.outcomes, *e)
			if o.firstOutcome < 0 {
				o.firstOutcome = n
			}
		case account.RolledBack:
			o.rolledBack = true
		case account.Canceled:
			o.canceled = true
		case account.Kept:
			if o.kept != nil {
				f.object("twice in the outbox", o, "%s is in the outbox twice, as %s and as %s", o, o.kept.ID, e.ID)
			}
			o.kept, o.listed = e, listed
			listed++
		}
	}
}

// attribute finds the operation a request belongs to.
func (f *file) attribute(r *request, byTarget map[string][]*operation) {
	target := strings.TrimPrefix(r.Target, base)
	if r.Method == "GET" {
		if r.Status == 200 {
			k := r.Connection + " " + target
			f.reads[k] = append(f.reads[k], r)
		}
		return
	}
	if r.Connection == "" || r.Fault == "broken_off" {
		return // turned away for its token; or it never came whole
	}
	candidates := byTarget[r.Connection+" "+r.Method+" "+target]
	switch {
	case len(candidates) == 1:
		r.op = candidates[0]
	default:
		for _, name := range opName.FindAllString(string(r.Body), -1) {
			if o := f.byName[name]; o != nil && o.Target == target && o.conn == r.Connection {
				r.op = o
			}
		}
		for _, o := range candidates {
			if r.op == nil && o.Marker != "" && strings.Contains(string(r.Body), o.Marker) {
				r.op = o
			}
		}
		if r.op == nil && len(candidates) > 0 && candidates[0].Marker == "" {
			r.op, r.unsure = candidates[0], true
		}
	}
	if r.op == nil {
		f.object("nobody asked for it", nil, "a request that belongs to no operation: %s %s %s", r.Method, r.Target, r.Body)
		return
	}
	if !r.unsure {
		r.op.requests = append(r.op.requests, r)
	}
}

// Verdict is what the judge has found.
type Verdict struct {
	Violations []Violation
	Excused    map[string]int // what Flavoso's contract allows, by name
	Counts     Counts
}

// Counts are the size of what was judged.
type Counts struct {
	Lives, Begun, Accepted, Requests, Replays, Effects int
	Points                                             map[string]int // deaths by point
	States                                             map[string]int
}

// Violation is a broken rule.
type Violation struct {
	Rule  string
	Text  string
	Story string
}

func (v Violation) String() string { return v.Rule + ": " + v.Text + "\n" + v.Story }

func (v *Verdict) count(e *account.Event) {
	switch e.What {
	case account.Opened:
		v.Counts.Lives++
	case account.Dying:
		if v.Counts.Points == nil {
			v.Counts.Points = map[string]int{}
		}
		v.Counts.Points[e.Text]++
	}
}

// object notes a violation with the shortest story there is: what both sides know of the operation.
func (f *file) object(rule string, o *operation, format string, args ...any) {
	v := Violation{Rule: rule, Text: fmt.Sprintf(format, args...)}
	if o != nil {
		v.Story = f.story(o)
	}
	f.verdict.Violations = append(f.verdict.Violations, v)
}

func (f *file) story(o *operation) string {
	var b strings.Builder
	const clock = "15:04:05.000"
	fmt.Fprintf(&b, "  the till (connection %s, lane %s):\n", o.conn, o.Lane)
	for _, e := range o.till.Events {
		if e.Op != o.Op {
			continue
		}
		fmt.Fprintf(&b, "    %s life %d: %s", e.At.Format(clock), e.Life, e.What)
		for _, field := range []struct{ name, value string }{{"state", e.State}, {"fate", e.Fate}, {"error", e.Error}, {"reason", e.Reason}, {"key", e.Key}} {
			if field.value != "" {
				fmt.Fprintf(&b, " %s=%s", field.name, field.value)
			}
		}
		if e.Attempts > 0 {
			fmt.Fprintf(&b, " attempts=%d", e.Attempts)
		}
		b.WriteByte('\n')
	}
	b.WriteString("  the server:\n")
	for _, r := range f.requests {
		read := r.Method == "GET" && o.ReadBack != "" && r.Connection == o.conn && strings.TrimPrefix(r.Target, base) == o.ReadBack
		if r.op != o && !read {
			continue
		}
		fmt.Fprintf(&b, "    %s #%d %s %s key=%s -> %d replayed=%t", r.At.Format(clock), r.pos, r.Method, r.Target, r.Key, r.Status, r.Replayed)
		if r.Fault != "" {
			fmt.Fprintf(&b, " fault=%s", r.Fault)
		}
		for _, x := range r.effects {
			fmt.Fprintf(&b, " EFFECT %s at %s", x.Kind, x.At.Format(clock))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
