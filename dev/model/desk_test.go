package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/internal/wire"
	"github.com/flavoso/flavoso-go/outbox"
)

// desk is the real client between an outbox that hands out what the test puts on it, and a Flavoso that
// answers as the test says.
type desk struct {
	outbox.Engine // in memory; what is not overridden
	changed       chan struct{}
	settled       chan outbox.Settlement
	client        *flavoso.Client

	mu     sync.Mutex
	added  outbox.Addition
	next   *outbox.Record
	method string // of the request being dialled for
	script script
	writes int
}

// script is what Flavoso does during one attempt.
type script struct {
	kind   kind
	answer answer
	before wish // what reading tells before the write has come
	after  wish // and then
}

func newDesk(t *testing.T) *desk {
	d := &desk{Engine: outbox.NewMemory(), changed: make(chan struct{}, 1), settled: make(chan outbox.Settlement, 1)}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: d.dial, Proxy: func(r *http.Request) (*url.URL, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.method = r.Method
		return nil, nil
	}}
	var err error
	d.client, err = flavoso.Open(flavoso.Config{Connection: "store-42", Token: flavoso.StaticToken("token"), Outbox: d,
		BaseURL: "http://127.0.0.1:1/v1", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Add keeps what a call froze, and does not let it be sent.
func (d *desk) Add(_ context.Context, a outbox.Addition) (outbox.Added, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.added = a
	r := outbox.NewRecord(&a, 1, 1)
	r.Due = r.Due.Add(100 * 24 * time.Hour)
	return outbox.Added{Record: *r}, nil
}

func (d *desk) NextDue(context.Context, outbox.Scope) (time.Time, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == nil {
		return time.Time{}, false, nil
	}
	return time.Now(), true, nil
}

func (d *desk) Claim(context.Context, outbox.ClaimRequest) (recs []outbox.Record, _ error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next != nil {
		recs, d.next = append(recs, *d.next), nil
	}
	return recs, nil
}

func (d *desk) Settle(_ context.Context, ss ...outbox.Settlement) ([]outbox.Settled, error) {
	d.settled <- ss[0]
	return []outbox.Settled{{Record: outbox.Record{ID: ss[0].ID, State: ss[0].To}}}, nil
}

func (d *desk) Get(context.Context, string) (outbox.Record, error) {
	return outbox.Record{}, outbox.ErrNotFound
}

func (d *desk) Changed() <-chan struct{} { return d.changed }

// attempt has the client make one attempt, and returns what it would save and how many writes were sent.
func (d *desk) attempt(rec *outbox.Record, s script) (outbox.Settlement, int) {
	d.mu.Lock()
	d.next, d.script, d.writes = rec, s, 0
	d.mu.Unlock()
	d.client.Wake() // in case the last attempt left the connection offline
	select {
	case d.changed <- struct{}{}:
	default:
	}
	st := <-d.settled
	d.mu.Lock()
	defer d.mu.Unlock()
	return st, d.writes
}

// freeze makes a real call of the kind and returns it as it would be saved.
func (d *desk) freeze(t *testing.T, k kind) *outbox.Record {
	var err error
	switch k {
	case transition:
		_, err = d.client.Orders.Accept(orderID, flavoso.AcceptParams{PreparationMinutes: 20}).Enqueue(t.Context())
	case booking:
		_, err = d.client.Bookings.Create("17", flavoso.BookingParams{PartySize: 4, StartsAt: startsAt,
			Customer: flavoso.BookingCustomer{Name: "a guest"}}).Enqueue(t.Context())
	case call:
		_, err = flavoso.NewCall[map[string]any](d.client, "POST", flavoso.Path("orders", orderID, "print"), nil).Enqueue(t.Context())
	case put:
		_, err = d.client.Store.Update(flavoso.UpdateStoreParams{DefaultPreparationMinutes: flavoso.Set(25), PausedUntil: flavoso.Set(pausedUntil)}).Enqueue(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return outbox.NewRecord(&d.added, 1, 1)
}

const orderID = "0b8f1d5e-6a51-4f3c-8d3b-0d3c1f0e7a11"

// pausedUntil is over by the time that anything is sent.
var pausedUntil = time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC)

var startsAt = time.Date(2100, 1, 2, 19, 0, 0, 0, time.UTC)

// dial connects to the script.
func (d *desk) dial(context.Context, string, string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.method != http.MethodGet && d.script.answer.neverSent {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		r, err := http.ReadRequest(bufio.NewReader(there))
		if err != nil {
			return
		}
		for b := make([]byte, 512); ; {
			if n, err := r.Body.Read(b); n == 0 || err != nil {
				break
			}
		}
		if text := d.answer(r); text != "" {
			_, _ = there.Write([]byte(text))
		}
	}()
	return here, nil
}

// answer is the script's answer on the wire; "" = the connection is closed.
func (d *desk) answer(r *http.Request) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.script
	if r.Method != http.MethodGet {
		d.writes++
		return onTheWire(exchange(s.answer.class, s.answer.replayed))
	}
	found := s.before
	if d.writes > 0 {
		found = s.after
		if s.answer.class == forbidden && strings.HasSuffix(r.URL.Path, "/store") {
			switch s.answer.control {
			case controlRefused:
				return onTheWire(exchange(unauthorized, false))
			case controlBroken:
				return ""
			}
			if s.kind != put {
				found = wishOpen
			}
		}
	}
	if found == wishUnreadable && !(strings.HasSuffix(r.URL.Path, "/store") && s.kind != put) {
		return onTheWire(exchange(retry, false))
	}
	x := exchange(success, false)
	x.Status, x.Body = http.StatusOK, []byte(resource(s.kind, found))
	return onTheWire(x)
}

// resource is what reading back gives.
func resource(k kind, found wish) string {
	switch k {
	case transition:
		status := map[wish]string{wishOpen: "pending", wishFulfilled: "confirmed", wishImpossible: "cancelled"}[found]
		return fmt.Sprintf(`{"object":"order","id":%q,"status":%q}`, orderID, status)
	case booking:
		party := map[wish]int{wishFulfilled: 4, wishImpossible: 2}[found]
		if party == 0 {
			return `{"object":"list","data":[]}`
		}
		return fmt.Sprintf(`{"object":"list","data":[{"object":"booking","id":"b1","status":"confirmed","external_id":"17","party_size":%d,"starts_at":%q}]}`,
			party, startsAt.Format(time.RFC3339))
	}
	switch found {
	case wishFulfilled:
		return fmt.Sprintf(`{"object":"store","id":"s1","default_preparation_minutes":25,"paused_until":%q}`, pausedUntil.Format(time.RFC3339))
	case wishLapsed:
		return `{"object":"store","id":"s1","default_preparation_minutes":25,"paused_until":null}`
	}
	return `{"object":"store","id":"s1","default_preparation_minutes":15}`
}

func onTheWire(x wire.Exchange) string {
	if x.Status == 0 {
		return ""
	}
	length := len(x.Body)
	if !x.Whole {
		length += 10
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d -\r\nContent-Length: %d\r\nDate: %s\r\n", x.Status, length, time.Now().UTC().Format(http.TimeFormat))
	_ = x.Header.Write(&b)
	return b.String() + "\r\n" + string(x.Body)
}
