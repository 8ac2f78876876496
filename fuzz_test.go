package flavoso

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/internal/dispatch"
	"github.com/flavoso/flavoso-go/outbox"
)

// Fuzzers of what Flavoso answers to a read, beyond the objects themselves (types_test.go, menu_test.go, hours_test.go), and of
// what the outbox keeps for a watch.

// FuzzReadBack: what a read says of an earlier attempt is said of the resource that was asked for, or nothing is.
func FuzzReadBack(f *testing.F) {
	for _, body := range []string{
		`{"id":"r1","status":"accepted","acknowledged":true,"preparation_minutes":20}`, `{"id":"r1","status":"cancelled"}`, `{"id":"r2","status":"accepted"}`,
		`{"data":[{"id":"b1","external_id":"r1","status":"confirmed","party_size":2,"starts_at":"2026-11-30T19:30:00Z"}],"has_more":false}`,
		`{"data":[{"external_id":"r1","status":"confirmed","party_size":2,"starts_at":"2026-11-30T19:30:00Z"}]}`,
		`{"data":[null,{"id":"b1","external_id":"r1","status":"declined"}],"has_more":true}`, `{"data":null}`, `{"data":[]}`, `[]`, `null`, `{}`, ``,
		`{"id":"r1","status":"waitlisted"}`, `{"paused_until":null}`, `{"paused_until":null}0`,
	} {
		f.Add([]byte(body), []byte(`{"external_id":"r1","party_size":2,"starts_at":"2026-11-30T19:30:00Z"}`))
		f.Add([]byte(body), []byte(`{"status":"ready","paused_until":null}`))
	}
	f.Fuzz(func(t *testing.T, body, wish []byte) {
		for name, k := range kinds {
			if k.judge == nil {
				continue
			}
			rec := outbox.Record{Kind: name, Resource: "r1", Request: outbox.Request{Method: "POST", Target: "/x", Body: wish}}
			switch found := k.judge(&rec, body); found.Wish {
			case dispatch.Fulfilled, dispatch.Impossible:
				if found.Resource == "" || !json.Valid(found.Body) {
					t.Fatalf("%s: %v of %q with the body %q", name, found.Wish, found.Resource, found.Body)
				}
				if name != kindBookingCreate && found.Resource != rec.Resource {
					t.Fatalf("%s: it is %q that was found", name, found.Resource)
				}
			}
			if k.unexpected != nil {
				k.unexpected(Outcome{Kind: name, State: StateSucceeded, Body: body})
			}
		}
	})
}

// FuzzWatchPage: whatever a page of orders is, a poll ends, hands over no order without an id, and none twice.
func FuzzWatchPage(f *testing.F) {
	for _, page := range []string{
		`{"data":[{"id":"o1","version":1,"updated_at":"2026-11-30T12:00:00Z"}],"has_more":false}`,
		`{"data":[{"id":"o1","version":1},{"id":"o1","version":1},{"id":"o1","version":2}],"has_more":true,"next_cursor":"x"}`,
		`{"data":[null,{},{"id":1},"x",{"id":"o2","total":"much"}],"has_more":true}`, `{"data":null}`, `{}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		client := newFakeTill(t, &fakeAPI{body: string(page)}, nil)
		seen := map[string]int{}
		w := &watch{client: client, params: WatchParams{Name: "fuzz"}, handle: func(_ context.Context, o *Order) error {
			if o.ID == "" {
				t.Errorf("an order without an id: %q", page)
			}
			seen[o.ID]++
			return nil
		}}
		require.NoError(t, w.load(t.Context()))
		_ = w.poll(t.Context()) // what is not a page is an error of the poll
		first := len(seen)
		_ = w.poll(t.Context())
		if len(seen) != first {
			t.Fatalf("the same page again had news: %q", page)
		}
	})
}

// FuzzWatchCursor: a saved cursor is taken up, or refused by an error.
func FuzzWatchCursor(f *testing.F) {
	f.Add([]byte(`{"format":1,"from":"2026-11-30T12:00:00Z","taken":[{"id":"o1","version":1}],"owed":[{"id":"o2"}]}`), []byte(`{"format":1}`))
	f.Add([]byte(`{"format":2}`), []byte(`null`))
	f.Add([]byte(``), []byte(`[]`))
	f.Fuzz(func(t *testing.T, whole, taken []byte) {
		client := newFakeTill(t, &fakeAPI{body: `{"data":[],"has_more":false}`}, nil)
		w := &watch{client: client, params: WatchParams{Name: "fuzz"}}
		nameOfWhole, nameOfTaken := w.names()
		require.NoError(t, client.engine.SaveState(t.Context(), client.cfg.Connection, nameOfWhole, whole))
		require.NoError(t, client.engine.SaveState(t.Context(), client.cfg.Connection, nameOfTaken, taken))
		if err := w.load(t.Context()); err != nil {
			if !strings.Contains(err.Error(), `watch "fuzz"`) {
				t.Fatal(err)
			}
			return
		}
		_ = w.poll(t.Context())
	})
}
