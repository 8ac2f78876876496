package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/account"
	"github.com/flavoso/flavoso-go/mockserver"
)

// book is a hand-made piece of evidence.
type book struct {
	till   Till
	server Dump
	now    time.Time
}

func newBook() *book {
	return &book{till: Till{Connection: "store"}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (b *book) tick() time.Time { b.now = b.now.Add(time.Millisecond); return b.now }

// event adds an event of operation n.
func (b *book) event(what string, n string, change ...func(*account.Event)) *book {
	e := account.Event{At: b.tick(), What: what, Op: "op_0.1." + n + "_"}
	if what == account.Began {
		e.Kind, e.Lane, e.Wish, e.Method, e.Target = "bookings.create", "booking:"+n, "booking "+n, "POST", "/bookings"
		e.Marker, e.ReadBack = e.Op, "/bookings?external_id="+n
	}
	for _, c := range change {
		c(&e)
	}
	b.till.Events = append(b.till.Events, e)
	return b
}

func (b *book) began(n string, change ...func(*account.Event)) *book {
	return b.event(account.Began, n, change...)
}

func (b *book) saved(n string) *book { return b.event(account.Saved, n) }

// ends adds what a till is told at the end: an outcome, and the operation in the list.
func (b *book) ends(n, state string) *book { return b.told(n, state).kept(n, state) }

func (b *book) told(n, state string) *book {
	return b.event(account.Outcome, n, func(e *account.Event) { e.State, e.Revision = state, 1 })
}

func (b *book) kept(n, state string) *book {
	return b.event(account.Kept, n, func(e *account.Event) {
		e.State, e.Revision, e.Acked, e.Body = state, 1, true, body(n)
		if state == "queued" || state == "sent" {
			e.Revision, e.Acked = 0, false
		}
	})
}

func body(n string) []byte { return []byte(`{"external_id":"op_0.1.` + n + `_"}`) }

// sent adds a request, and its effect if it has one.
func (b *book) sent(n string, effect bool, change ...func(*mockserver.Request)) *book {
	r := mockserver.Request{Seq: len(b.server.Requests) + 1, At: b.tick(), Connection: "store", Method: "POST", Target: "/v1/bookings",
		Key: "booking-" + n, Body: body(n), Status: 201, RequestID: "req_" + string(rune('a'+len(b.server.Requests)))}
	for _, c := range change {
		c(&r)
	}
	b.server.Requests = append(b.server.Requests, r)
	if effect {
		b.effect(r)
	}
	return b
}

func (b *book) effect(r mockserver.Request) *book {
	b.server.Effects = append(b.server.Effects, mockserver.Effect{Seq: len(b.server.Effects) + 1, Connection: "store", Kind: "bookings.create",
		Key: r.Key, RequestID: r.RequestID, At: b.tick()})
	return b
}

func (b *book) read(n string) *book {
	return b.sent(n, false, func(r *mockserver.Request) {
		r.Method, r.Target, r.Key, r.Body, r.Status = "GET", "/v1/bookings?external_id="+n, "", nil, 200
	})
}

func (b *book) settled() Evidence {
	b.till.Events = append(b.till.Events, account.Event{At: b.tick(), What: account.Settled})
	return b.evidence()
}

func (b *book) evidence() Evidence { return Evidence{Tills: []Till{b.till}, Server: []Dump{b.server}} }

func unheld(r *mockserver.Request) { r.Fault, r.Status = "status_after_commit", 500 }

func inLane(lane string) func(*account.Event) {
	return func(e *account.Event) { e.Lane = lane }
}

func call(e *account.Event) { e.Kind, e.ReadBack = "call", "" }

// keyless are the events and requests of a write without a key.
func keyless(e *account.Event) {
	e.Kind, e.Method, e.Target, e.Lane, e.ReadBack = "menu.put", "PUT", "/menu", "menu", ""
}

func put(r *mockserver.Request) { r.Method, r.Target, r.Key = "PUT", "/v1/menu", "" }

func status(n int) func(*mockserver.Request) { return func(r *mockserver.Request) { r.Status = n } }

func key(k string) func(*mockserver.Request) { return func(r *mockserver.Request) { r.Key = k } }

func returned(fate string) func(*account.Event) { return func(e *account.Event) { e.Fate = fate } }

func TestWhatIsRightIsNotObjectedTo(t *testing.T) {
	for name, b := range map[string]*book{
		"done once":                  newBook().began("a1").saved("a1").sent("a1", true).ends("a1", "succeeded"),
		"done by the second attempt": newBook().began("a1").saved("a1").sent("a1", false).sent("a1", true).ends("a1", "succeeded"),
		"never known to be saved":    newBook().began("a1"),
		"saved before it was killed": newBook().began("a1").sent("a1", true).ends("a1", "succeeded"),
		"refused":                    newBook().began("a1").saved("a1").sent("a1", false, status(422)).ends("a1", "rejected"),
		"nobody knows, done":         newBook().began("a1").saved("a1").sent("a1", true).ends("a1", "uncertain"),
		"nobody knows, not done":     newBook().began("a1").saved("a1").sent("a1", false).ends("a1", "uncertain"),
		"cancelled":                  newBook().began("a1").saved("a1").event(account.Canceled, "a1").ends("a1", "canceled"),
		"told twice":                 newBook().began("a1").saved("a1").sent("a1", true).told("a1", "succeeded").ends("a1", "succeeded"),
		"turned away for its token": newBook().began("a1").saved("a1").
			sent("a1", false, func(r *mockserver.Request) { r.Status = 401 }).ends("a1", "expired"),
		"waits behind what is parked": newBook().began("a1", inLane("l")).saved("a1").began("a2", inLane("l")).saved("a2").
			sent("a1", true).ends("a1", "uncertain").kept("a2", "queued"),
		"asked for again after it was refused a place": newBook().began("a1").event(account.Returned, "a1", returned("unknown")).
			began("a1").event(account.Returned, "a1", returned("not sent")).sent("a1", true).ends("a1", "succeeded"),
		"in order": newBook().began("a1", inLane("l")).saved("a1").began("a2", inLane("l")).saved("a2").
			sent("a1", true).sent("a2", true).ends("a1", "succeeded").ends("a2", "succeeded"),
		"side by side, so that no order is known": newBook().began("a1", inLane("l")).began("a2", inLane("l")).saved("a1").saved("a2").
			sent("a2", true).sent("a1", true).ends("a2", "succeeded").ends("a1", "succeeded"),
	} {
		t.Run(name, func(t *testing.T) {
			if v := Judge(b.settled()); len(v.Violations) > 0 || len(v.Excused) > 0 {
				t.Fatalf("%v %v", v.Violations, v.Excused)
			}
		})
	}
}

func TestEveryKindOfWrongIsObjectedTo(t *testing.T) {
	two := func() *book {
		return newBook().began("a1", inLane("l")).saved("a1").began("a2", inLane("l")).saved("a2")
	}
	for _, c := range []struct {
		rule, what string
		book       *book
	}{
		{"missing", "accepted and gone", newBook().began("a1").saved("a1").sent("a1", true)},
		{"missing", "seen by the server and gone", newBook().began("a1").sent("a1", true)},
		{"doubled", "done twice", newBook().began("a1").saved("a1").sent("a1", true).sent("a1", true).ends("a1", "succeeded")},
		{"doubled", "done twice although nobody knows", newBook().began("a1").saved("a1").sent("a1", true).sent("a1", true).ends("a1", "uncertain")},
		{"doubled", "not held, and not read back", newBook().began("a1").saved("a1").sent("a1", true, unheld).sent("a1", true).ends("a1", "succeeded")},
		{"doubled", "not held, and read back, and done again", newBook().began("a1").saved("a1").sent("a1", true, unheld).read("a1").sent("a1", true).ends("a1", "succeeded")},
		{"not done", "succeeded without an effect", newBook().began("a1").saved("a1").sent("a1", false).ends("a1", "succeeded")},
		{"told wrongly", "refused, and done", newBook().began("a1").saved("a1").sent("a1", true).ends("a1", "rejected")},
		{"told wrongly", "refused by nobody", newBook().began("a1").saved("a1").sent("a1", false, status(503)).ends("a1", "rejected")},
		{"told wrongly", "refused by a proxy", newBook().began("a1").saved("a1").
			sent("a1", false, func(r *mockserver.Request) { r.Status, r.Fault = 404, "proxy_error" }).ends("a1", "rejected")},
		{"told wrongly", "expired, and sent", newBook().began("a1").saved("a1").sent("a1", false).ends("a1", "expired")},
		{"told wrongly", "cancelled, and done", newBook().began("a1").saved("a1").event(account.Canceled, "a1").sent("a1", true).ends("a1", "succeeded")},
		{"told wrongly", "the caller heard that it was done", newBook().began("a1").saved("a1").event(account.Returned, "a1", returned("done")).sent("a1", false).ends("a1", "rejected")},
		{"told wrongly", "the caller heard that it was refused", newBook().began("a1").saved("a1").event(account.Returned, "a1", returned("refused")).sent("a1", true).ends("a1", "succeeded")},
		{"told wrongly", "the caller heard that it was not sent", newBook().began("a1").event(account.Returned, "a1", returned("not sent")).sent("a1", true).ends("a1", "succeeded")},
		{"told wrongly", "rolled back, and done", newBook().began("a1").event(account.RolledBack, "a1").sent("a1", true).ends("a1", "succeeded")},
		{"told wrongly", "one revision, two states", newBook().began("a1").saved("a1").sent("a1", true).told("a1", "uncertain").ends("a1", "succeeded")},
		{"not delivered", "nobody was told", newBook().began("a1").saved("a1").sent("a1", true).kept("a1", "succeeded")},
		{"not delivered", "told another state", newBook().began("a1").saved("a1").sent("a1", true).told("a1", "rejected").kept("a1", "succeeded")},
		{"not delivered", "still not taken over", newBook().began("a1").saved("a1").sent("a1", true).told("a1", "succeeded").event(account.Kept, "a1", func(e *account.Event) {
			e.State, e.Revision, e.Body = "succeeded", 1, body("a1")
		})},
		{"not settled", "waits for nothing", newBook().began("a1").saved("a1").kept("a1", "queued")},
		{"other key", "a new key for each attempt", newBook().began("a1").saved("a1").sent("a1", false).sent("a1", true, key("k2")).ends("a1", "succeeded")},
		{"other bytes", "another encoding for each attempt", newBook().began("a1").saved("a1").sent("a1", false).
			sent("a1", true, func(r *mockserver.Request) { r.Body = append([]byte(" "), r.Body...) }).ends("a1", "succeeded")},
		{"other bytes", "not what is kept", newBook().began("a1").saved("a1").
			sent("a1", true, func(r *mockserver.Request) { r.Body = append([]byte(" "), r.Body...) }).ends("a1", "succeeded")},
		{"out of order", "sent in another order", two().sent("a2", true).sent("a1", true).ends("a1", "succeeded").ends("a2", "succeeded")},
		{"out of order", "done in another order", two().sent("a1", false).sent("a2", true).sent("a1", true).ends("a1", "succeeded").ends("a2", "succeeded")},
		{"out of order", "told in another order", two().sent("a1", true).sent("a2", true).told("a2", "succeeded").ends("a1", "succeeded").kept("a2", "succeeded")},
		{"out of order", "kept in another order", two().sent("a1", true).sent("a2", true).told("a1", "succeeded").ends("a2", "succeeded").kept("a1", "succeeded")},
		{"out of order", "an old write again after a new one", newBook().began("a1", keyless).saved("a1").began("a2", keyless).saved("a2").
			sent("a1", true, put).sent("a2", true, put).sent("a1", true, put).ends("a1", "succeeded").ends("a2", "succeeded")},
		{"out of order", "a late write that the lane did not wait for", func() *book {
			b := newBook().began("a1", keyless).saved("a1").began("a2", keyless).saved("a2").sent("a1", false, put)
			b.till.Hold = time.Second
			first := b.server.Requests[0]
			return b.sent("a2", true, put).effect(first).ends("a1", "succeeded").ends("a2", "succeeded")
		}()},
		{"nobody asked for it", "a request of nobody's", newBook().sent("a1", false)},
		{"nobody asked for it", "an effect of nobody's", newBook().effect(mockserver.Request{RequestID: "req_z"})},
		{"nobody asked for it", "an operation of nobody's", newBook().kept("a1", "succeeded")},
		{"twice in the outbox", "two records of one operation", newBook().began("a1").saved("a1").sent("a1", true).ends("a1", "succeeded").kept("a1", "succeeded")},
	} {
		t.Run(c.rule+"/"+c.what, func(t *testing.T) {
			v := Judge(c.book.settled())
			if !slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Rule == c.rule }) {
				t.Fatalf("no objection, but %v", v.Violations)
			}
		})
	}
}

func TestATillThatDoesNotSettleIsObjectedTo(t *testing.T) {
	v := Judge(newBook().began("a1").evidence())
	if len(v.Violations) != 1 || v.Violations[0].Rule != "not settled" {
		t.Fatal(v.Violations)
	}
}

func TestWhatTheContractAllowsIsExcusedByName(t *testing.T) {
	late := newBook().began("a1", keyless).saved("a1").began("a2", keyless).saved("a2").sent("a1", false, put)
	first := late.server.Requests[0]
	late.sent("a2", true, put).effect(first).ends("a1", "succeeded").ends("a2", "succeeded")

	overlap := newBook().began("a1").saved("a1").sent("a1", false, unheld)
	slow := overlap.server.Requests[0]
	overlap.read("a1").effect(slow).sent("a1", true).ends("a1", "succeeded")

	for excuse, b := range map[string]*book{
		ExcusedUnheld:  newBook().began("a1", call).saved("a1").sent("a1", true, unheld).sent("a1", true).ends("a1", "succeeded"),
		ExcusedLate:    late,
		ExcusedOverlap: overlap,
	} {
		t.Run(excuse, func(t *testing.T) {
			v := Judge(b.settled())
			if len(v.Violations) > 0 || v.Excused[excuse] != 1 || len(v.Excused) != 1 {
				t.Fatalf("%v %v", v.Violations, v.Excused)
			}
		})
	}
}

// Two tills of one connection want the same: one effect for both.
func TestTwoTillsAreJudgedTogether(t *testing.T) {
	both := func(effects int, later time.Duration) Evidence {
		one := newBook().began("a1").saved("a1").sent("a1", true).ends("a1", "succeeded")
		e := one.settled()
		other := newBook()
		other.event(account.Began, "b1", func(e *account.Event) {
			e.Wish, e.Kind, e.Method, e.Target, e.Lane, e.Marker = "booking a1", "bookings.create", "POST", "/bookings", "booking:a1", e.Op
		}).saved("b1")
		if effects > 1 {
			one.now = one.now.Add(later)
			r := mockserver.Request{At: one.tick(), Connection: "store", Method: "POST", Target: "/v1/bookings", Key: "booking-a1~2", Body: body("b1"), RequestID: "req_zz"}
			one.server.Requests = append(one.server.Requests, r)
			one.effect(r)
			e.Server[0] = one.server
		}
		other.ends("b1", "succeeded")
		e.Tills = append(e.Tills, other.settled().Tills[0])
		return e
	}
	if v := Judge(both(1, 0)); len(v.Violations) > 0 {
		t.Fatal(v.Violations)
	}
	if v := Judge(both(2, 23*time.Hour)); len(v.Violations) == 0 || v.Violations[0].Rule != "doubled" {
		t.Fatal(v.Violations)
	}
	if v := Judge(both(2, 25*time.Hour)); len(v.Violations) > 0 || v.Excused[ExcusedForgotten] != 1 {
		t.Fatal(v.Violations, v.Excused)
	}
}

// A story has both sides of the operation that it is about, and nothing of others.
func TestAStoryIsShort(t *testing.T) {
	v := Judge(newBook().began("a1").saved("a1").began("b2").saved("b2").sent("a1", true).sent("b2", true).read("a1").sent("a1", true).
		ends("a1", "succeeded").ends("b2", "succeeded").settled())
	if len(v.Violations) != 1 {
		t.Fatal(v.Violations)
	}
	s := v.Violations[0].Story
	for _, want := range []string{"life 0: began", "outcome state=succeeded", "#0 POST /v1/bookings key=booking-a1 -> 201", "EFFECT bookings.create", "#2 GET"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	if strings.Contains(s, "booking-b2") {
		t.Errorf("somebody else's request in\n%s", s)
	}
}

func TestWhatIsRemovedMustHaveBeenTakenOver(t *testing.T) {
	b := newBook().began("a1").saved("a1").sent("a1", true).told("a1", "succeeded")
	b.till.Purges = true
	if v := Judge(b.settled()); len(v.Violations) > 0 {
		t.Fatal(v.Violations)
	}
	b = newBook().began("a1").saved("a1").sent("a1", true).told("a1", "uncertain")
	b.till.Purges = true
	if v := Judge(b.settled()); len(v.Violations) != 1 || v.Violations[0].Rule != "missing" {
		t.Fatal(v.Violations)
	}
}
