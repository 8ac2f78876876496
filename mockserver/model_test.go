package mockserver_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flavoso/flavoso-go/mockserver"
)

// keyModel is what the contract says about one key.
type keyModel struct {
	body   string
	id     string    // of the booking whose answer is held; "" while a crashed request keeps the key
	until  time.Time // end of the 24 hours (F5), or of the 2 minutes (F9)
	exists bool
}

// TestKeysFollowTheContract plays random afternoons (requests, repeats, other bodies, crashes, time) and
// compares every answer with a model of F4 to F10 that fits on one page.
func TestKeysFollowTheContract(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rec := &recorder{}
		srv := mockserver.Start(rec, mockserver.InMemory())
		defer rec.end()
		// The clock is set before every step, so that the model's time is the server's, to the millisecond.
		now := time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)
		srv.Clock().Set(now)
		c := newClient(t, srv)
		bodies := []string{
			`{"external_id":"a","party_size":2,"starts_at":"2027-06-01T18:00:00Z","customer":{"name":"A"}}`,
			`{"external_id":"b","party_size":2,"starts_at":"2027-06-01T18:00:00Z","customer":{"name":"B"}}`,
			` {"external_id":"a","party_size":2,"starts_at":"2027-06-01T18:00:00Z","customer":{"name":"A"}}`,
		}
		keys := map[string]*keyModel{"k1": {}, "k2": {}}
		bookings := 0

		step := func(fault mockserver.Fault, crashes, effect bool) func(*rapid.T) {
			return func(rt *rapid.T) {
				key, body := rapid.SampledFrom([]string{"k1", "k2"}).Draw(rt, "key"), rapid.SampledFrom(bodies).Draw(rt, "body")
				if crashes {
					srv.Inject(fault.Times(1).Optional())
				}
				srv.Clock().Set(now)
				a := c.post("/bookings", body, key)
				srv.ClearFaults()
				k := keys[key]
				known := k.exists && now.Before(k.until)
				want := ""
				switch {
				case known && k.body != body:
					want = "422 idempotency_key_reused"
				case known && k.id == "":
					want = "409 idempotency_in_progress"
				case known:
					want = "201 replay of " + k.id
				case crashes:
					want = "no answer"
					*k = keyModel{body, "", now.Add(2 * time.Minute), true}
				default:
					want = "201"
					id, _ := a.field("id").(string)
					*k = keyModel{body, id, now.Add(24 * time.Hour), true}
				}
				if effect && (want == "201" || want == "no answer") {
					bookings++
				}
				if got := describe(a); got != want {
					rt.Fatalf("got %s, want %s", got, want)
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"post":         step(mockserver.Fault{}, false, true),
			"crash before": step(mockserver.CrashBeforeCommit(), true, false),
			"crash after":  step(mockserver.CrashAfterCommit(), true, true),
			"time passes": func(rt *rapid.T) {
				// No few of these add up to 2 minutes or to 24 hours: the server's clock runs on while a step
				// is made, so a boundary itself cannot be hit.
				d := rapid.SampledFrom([]time.Duration{11 * time.Second, 50 * time.Second, 95 * time.Second, 23 * time.Hour, 24*time.Hour + 11*time.Second}).Draw(rt, "d")
				now = now.Add(d)
			},
			"": func(rt *rapid.T) {
				if n := len(srv.Bookings(store)); n != bookings {
					rt.Fatalf("%d bookings, want %d", n, bookings)
				}
				if n := len(srv.Effects()); n != bookings {
					rt.Fatalf("%d effects, want %d", n, bookings)
				}
			},
		})
	})
}

func describe(a answer) string {
	switch {
	case a.err != nil:
		return "no answer"
	case a.replayed():
		return fmt.Sprintf("%d replay of %v", a.status, a.field("id"))
	case a.status >= 400:
		return fmt.Sprintf("%d %s", a.status, a.code())
	default:
		return fmt.Sprint(a.status)
	}
}
