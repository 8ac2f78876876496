package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
)

// row is one situation of an attempt. The fields are those of the model that the real record is made from.
type row struct {
	kind       kind
	dirty      bool
	past       bool
	suspect    bool
	evidence   bool
	attempts   int
	generation int
	lastN      int // the last attempt that was saved found the key in use; 0 = none was
	open       int // the last one up to that after which a request may still have been under way
	script     script
}

func (r row) String() string {
	s := r.script
	text := fmt.Sprintf("%s, attempt %d", kindNames[r.kind], r.attempts)
	for _, f := range []struct {
		is   bool
		text string
	}{{!r.dirty, "clean"}, {r.past, "past its window"}, {r.suspect, "suspect"}, {r.evidence, "a success was seen"}, {r.generation > 1, "last key"},
		{r.lastN > 0, fmt.Sprintf("attempt %d found the key in use, and %d may still run", r.lastN, r.open)}} {
		if f.is {
			text += ", " + f.text
		}
	}
	if r.dirty {
		text += "; before: " + wishNames[s.before]
	}
	text += "; answer: " + classNames[s.answer.class]
	if s.answer.replayed {
		text += ", replayed"
	}
	if s.answer.neverSent {
		text += ", never sent"
	}
	if s.answer.class == forbidden {
		text += fmt.Sprintf(", control %d", s.answer.control)
	}
	return text + "; then: " + wishNames[s.after]
}

// rows are all situations that the model distinguishes.
func rows() (list []row) {
	var answers []answer
	for c := range class(len(classNames)) {
		answers = append(answers, answer{class: c})
	}
	answers = append(answers, answer{neverSent: true}, answer{class: success, replayed: true}, answer{class: refused, replayed: true}, answer{class: conflict, replayed: true},
		answer{class: forbidden, control: controlRefused}, answer{class: forbidden, control: controlBroken})
	for k := range kind(len(kindNames)) {
		wishes := []wish{wishOpen, wishFulfilled, wishImpossible, wishUnreadable}
		if k == put {
			wishes = []wish{wishOpen, wishFulfilled, wishUnreadable, wishLapsed}
		} else if k == call {
			wishes = wishes[:1]
		}
		for _, a := range answers {
			for _, after := range wishes {
				if k == put && a.class == forbidden && after == wishUnreadable {
					continue // the control read and the look are one
				}
				s := script{kind: k, answer: a, after: after}
				list = append(list, row{kind: k, attempts: 1, generation: 1, script: s})
				for _, past := range []bool{false, true} {
					for _, evidence := range []bool{false, true} {
						list = append(list, row{kind: k, dirty: true, past: past, evidence: evidence, attempts: 2, generation: 1, script: s})
					}
				}
				if a.class == forbidden || a.class == keyReused || a.replayed {
					for _, r := range []row{{attempts: 3}, {attempts: 3, lastN: 2}, {attempts: 3, lastN: 2, open: 1}, {attempts: 2, lastN: 1},
						{attempts: 2, suspect: true}, {attempts: 2, suspect: true, lastN: 1}} {
						r.kind, r.dirty, r.generation, r.script = k, true, 1, s
						list = append(list, r)
					}
				}
				if a.class == successCut {
					list = append(list, row{kind: k, dirty: true, evidence: true, attempts: cutTries, generation: 1, script: s})
				}
				if a.class == keyReused && k != put {
					list = append(list, row{kind: k, attempts: 1, generation: maxGenerations, script: s})
				}
			}
		}
		for _, before := range wishes {
			s := script{kind: k, answer: answer{class: retry}, before: before}
			for _, past := range []bool{false, true} {
				for _, r := range []row{{attempts: 2}, {attempts: 2, suspect: true}, {attempts: 2, evidence: true}, {attempts: 2, lastN: 1}, {attempts: 3, lastN: 2},
					{attempts: 3, lastN: 2, open: 1}, {attempts: 3, lastN: 1}, {attempts: 2, suspect: true, lastN: 1}} {
					r.kind, r.dirty, r.past, r.generation, r.script = k, true, past, 1, s
					list = append(list, r)
				}
			}
		}
	}
	return list
}

// facts is the situation as the model's policy sees it.
func (r row) facts() facts {
	o := op{kind: r.kind}
	return facts{repeatSafe: o.repeatSafe(), derived: o.derived(), keyless: o.keyless(), canFind: o.canFind(), clean: !r.dirty,
		past: r.past || r.suspect, evidence: r.evidence, attempts: r.attempts, generation: r.generation, counted: !r.suspect, lastN: r.lastN, lastReused: r.lastN > 0, unanswered: r.unanswered()}
}

// unanswered is what the record's last attempt says, or that nobody saved one.
func (r row) unanswered() int {
	switch {
	case !r.dirty:
		return 0
	case r.lastN != r.attempts-1:
		return r.attempts - 1
	}
	return r.open
}

// predict is what the model says comes of the attempt, and whether the write is sent.
func (f *facts) predict(s script) (ruling, bool) {
	if !f.clean {
		if r, over := f.beforeRepeat(func() wish { return s.before }); over {
			return r, false
		}
	}
	return f.judge(received(s.answer, f.clean), func() wish { return s.after }), !s.answer.neverSent
}

// prepare puts the situation into a real record.
func (r row) prepare(rec *outbox.Record) *outbox.Record {
	now := time.Now().UTC()
	rec.State, rec.Attempts, rec.Suspect, rec.Generation = outbox.Sent, r.attempts, r.suspect, r.generation
	rec.WireKey = outbox.WireKey(rec.Key, r.generation)
	rec.Claim = outbox.Claim{Token: "this claim", At: now}
	rec.Exposure = &outbox.Exposure{Claim: "this claim", At: now, Server: now}
	if r.dirty {
		age := time.Hour
		if r.past {
			age = 25 * time.Hour
		}
		rec.Exposure = &outbox.Exposure{Claim: "an earlier claim", At: now.Add(-age), Server: now.Add(-age)}
	}
	if r.evidence {
		rec.Result = &outbox.Result{Status: 201, At: now}
	}
	if r.lastN > 0 {
		rec.Last = &outbox.Attempt{N: r.lastN, Code: codeReused, Unanswered: r.open}
	}
	return rec
}

// saved is a real settlement as a ruling.
func saved(st *outbox.Settlement) ruling {
	r := ruling{to: number(st.To), unsent: st.NeverSent, next: st.NextGeneration, holds: !st.LaneNotBefore.IsZero()}
	if st.Last != nil {
		r.last, r.reused, r.conflicted, r.unanswered = true, st.Last.Code == codeReused, st.Last.Code == outbox.CodeConflict, st.Last.Unanswered
	}
	if res := st.Result; res != nil {
		r.result, r.evidence = true, res.Status >= 200 && res.Status < 300
		r.byOther, r.clean, r.because = res.ByOther, res.Clean, reasonNumber(res.Reason)
		r.conflict, r.barred = res.Code == outbox.CodeConflict, res.Code == codeForbidden
	}
	return r
}

const codeForbidden = "forbidden"

// told is the part of a ruling that a settlement shows.
func (r ruling) told() ruling {
	r.surprise, r.forget, r.pause = false, false, false
	return r
}

// TestPolicyIsTheProducts runs the real client over every row of the model's policy. It sends what the model
// says it sends, at most once, and would save what the model says.
func TestPolicyIsTheProducts(t *testing.T) {
	n := 0
	for _, r := range rows() {
		n++
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			defer d.client.Close()
			f := r.facts()
			want, sends := f.predict(r.script)
			st, writes := d.attempt(r.prepare(d.freeze(t, r.kind)), r.script)
			if got := saved(&st); got != want.told() {
				t.Errorf("%s\n got %+v\nwant %+v", r, got, want.told())
			}
			if sends && writes != 1 || !sends && writes != 0 {
				t.Errorf("%s\n%d writes were sent", r, writes)
			}
		})
	}
	t.Logf("%d rows", n)
}

// TestSurprisesWaitAsTheProducts: a refusal that an unfinished request could explain is believed when that
// request must be over, and not before; not then, either, when an attempt since has got no answer.
func TestSurprisesWaitAsTheProducts(t *testing.T) {
	for k := range kind(len(kindNames)) {
		for _, c := range []class{conflict, keyReused} {
			for n, waits := range []time.Duration{time.Minute, 3 * time.Minute, 3 * time.Minute} {
				synctest.Test(t, func(t *testing.T) {
					d := newDesk(t)
					defer d.client.Close()
					r := row{kind: k, dirty: true, attempts: 2, generation: 1, script: script{kind: k, answer: answer{class: c}}}
					rec := d.freeze(t, k)
					f := r.facts()
					first, _ := f.predict(r.script)
					earlier := r.prepare(rec.Clone())
					mark := *earlier.Exposure
					st, _ := d.attempt(earlier, r.script)
					if got := saved(&st); got != first.told() {
						t.Errorf("%s\n got %+v\nwant %+v", r, got, first.told())
					}
					time.Sleep(waits)
					r.attempts = 3
					answered := n != 2
					if answered {
						r.lastN, r.open = 2, 1
					}
					f = r.facts()
					if first.surprise {
						f.surprises, f.waited = 1, answered && waits > 2*time.Minute+30*time.Second
						f.waitedTaken = f.waited
					}
					second, _ := f.predict(r.script)
					later := r.prepare(rec.Clone())
					later.Exposure = &mark
					st, _ = d.attempt(later, r.script)
					if got := saved(&st); got != second.told() {
						t.Errorf("%s, %v after the first\n got %+v\nwant %+v", r, waits, got, second.told())
					}
				})
			}
		}
	}
}

// TestPortalsBlockAsTheProducts: ten answers of somebody else over half an hour.
func TestPortalsBlockAsTheProducts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		defer d.client.Close()
		r := row{kind: call, dirty: true, generation: 1, script: script{kind: call, answer: answer{class: notAuthored}}}
		rec := d.freeze(t, call)
		for n := 2; n <= 11; n++ {
			r.attempts = n
			r.script.answer.forLong = n == 11
			f := r.facts()
			want, _ := f.predict(r.script)
			st, _ := d.attempt(r.prepare(rec.Clone()), r.script)
			if got := saved(&st); got != want.told() {
				t.Fatalf("answer %d\n got %+v\nwant %+v", n-1, got, want.told())
			}
			time.Sleep(4 * time.Minute)
		}
	})
}
