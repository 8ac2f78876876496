package flavoso

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// offlineTill has a client that reaches nobody, so that operations stay where they are.
func offlineTill(t testing.TB, change func(*Config)) *Client {
	t.Helper()
	api := &fakeAPI{before: func(*http.Request) error { return errors.New("reset") }}
	return newFakeTill(t, api, func(c *Config) {
		c.Retry = ExponentialJitter{Base: 2 * time.Hour, Floor: 2 * time.Hour, Cap: 2 * time.Hour}
		if change != nil {
			change(c)
		}
	})
}

// TestListFilters compares every filter, alone and combined, with the same choice made from the whole list.
func TestListFilters(t *testing.T) {
	engine, err := bolt.Open(filepath.Join(t.TempDir(), "pos.outbox"), bolt.Options{})
	require.NoError(t, err)
	defer engine.Close()
	api := &fakeAPI{status: func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "7") {
			return 422
		}
		return 200
	}}
	c := newFakeTill(t, api, func(cfg *Config) { cfg.Outbox = engine })
	ctx := t.Context()
	for i := range 240 {
		call := post(c, fmt.Sprintf("lane-%d", i%20)).WithTag(fmt.Sprint("tag-", i%7)).WithKey(Key(fmt.Sprint("key-", i)))
		_, err := call.Enqueue(ctx)
		require.NoError(t, err)
	}
	require.NoError(t, c.Flush(ctx))
	collect := func(f OperationFilter) []Operation {
		var out []Operation
		for o, err := range c.Operations.List(ctx, f) {
			require.NoError(t, err)
			out = append(out, o)
		}
		return out
	}
	all := collect(OperationFilter{})
	require.Len(t, all, 240)
	for i := 1; i < len(all); i++ {
		require.False(t, all[i].Created.Before(all[i-1].Created), "in the order of acceptance")
	}
	acked := all[0].ID
	require.NoError(t, c.Operations.Ack(ctx, acked))
	all = collect(OperationFilter{})
	for _, f := range []OperationFilter{
		{}, {States: []State{StateRejected}}, {States: []State{StateRejected, StateSucceeded}}, {States: []State{StateUncertain}},
		{Lane: "lane-7"}, {Kind: kindCall}, {Kind: "orders.accept"}, {Tag: "tag-3"}, {Key: "key-100"},
		{Unacked: true}, {Lane: "lane-3", Tag: "tag-3"}, {States: []State{StateRejected}, Tag: "tag-1", Unacked: true},
		{AllConnections: true},
	} {
		want := map[string]bool{}
		for _, o := range all {
			in := len(f.States) == 0
			for _, s := range f.States {
				in = in || s == o.State
			}
			if in && (f.Lane == "" || o.Lane == f.Lane) && (f.Kind == "" || o.Kind == f.Kind) && (f.Tag == "" || o.Tag == f.Tag) &&
				(f.Key == "" || o.LogicalKey == f.Key) && (!f.Unacked || !o.Acked) {
				want[o.ID] = true
			}
		}
		got := map[string]bool{}
		for _, o := range collect(f) {
			require.Nil(t, o.RequestBody, "bodies only where they are asked for")
			require.Nil(t, o.Body)
			got[o.ID] = true
		}
		require.Equal(t, want, got, "%+v", f)
	}
	for _, o := range collect(OperationFilter{Lane: "lane-1", Bodies: true}) {
		require.NotEmpty(t, o.RequestBody)
		require.NotEmpty(t, o.Body)
	}
	other, err := Open(Config{Connection: "another", Token: StaticToken("t"), Outbox: engine, Transport: api, BaseURL: "https://api.flavoso.test/v1"})
	require.NoError(t, err)
	defer other.Close()
	for range other.Operations.List(ctx, OperationFilter{}) {
		t.Fatal("another connection's operations are listed only on demand")
	}
}

// TestListCostsTheSamePerPage: a page of an outbox of 5 000 operations in a file costs what one of 200 does. The cost is the number of records read, which List of the engine bounds by the page.
func TestListCostsTheSamePerPage(t *testing.T) {
	engine, err := bolt.Open(filepath.Join(t.TempDir(), "pos.outbox"), bolt.Options{})
	require.NoError(t, err)
	defer engine.Close()
	var wg sync.WaitGroup
	for g := range 50 { // together, so that they share commits
		wg.Go(func() {
			for i := range 100 {
				id := fmt.Sprintf("%02d-%03d", g, i)
				_, err := engine.Add(context.Background(), outbox.Addition{Now: time.Now(), Record: outbox.Record{
					ID: id, Connection: store, Lane: "l" + id, Kind: kindCall, Tag: id,
					Request: outbox.Request{Method: "PUT", Target: "/things/" + id}}})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	counter := &listCounter{Engine: engine, count: func(q outbox.Query) bool { return q.Tag == "" && q.States == nil }}
	c := offlineTill(t, func(cfg *Config) { cfg.Outbox, cfg.Concurrency = counter, 1 })
	n := 0
	for _, err := range c.Operations.List(t.Context(), OperationFilter{}) {
		require.NoError(t, err)
		if n++; n == 150 {
			break
		}
	}
	require.LessOrEqual(t, counter.read(), 200, "two pages, however large the outbox is")
	n = 0
	for _, err := range c.Operations.List(t.Context(), OperationFilter{}) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 5_000, n)
}

// TestCancelOrSentNeverBoth: cancelling races with sending. Either the operation is canceled and no request
// of it was ever made, or Cancel says no and its outcome tells.
func TestCancelOrSentNeverBoth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		concurrency := rapid.IntRange(1, 4).Draw(rt, "concurrency")
		lanes := rapid.IntRange(1, 6).Draw(rt, "lanes")
		n := rapid.IntRange(1, 20).Draw(rt, "operations")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 3), n, n).Draw(rt, "pauses")
		order := rapid.Permutation(seq(n)).Draw(rt, "order")
		synctest.Test(t, func(t *testing.T) {
			api := &fakeAPI{before: func(*http.Request) error { time.Sleep(time.Millisecond); return nil }}
			c := newFakeTill(t, api, func(cfg *Config) { cfg.Concurrency = concurrency })
			ids := make([]string, n)
			for i := range n {
				call := NewCall[thing](c, "POST", Path("things", fmt.Sprint(i)), nil).WithLane(fmt.Sprint(i % lanes))
				p, err := call.Enqueue(t.Context())
				require.NoError(t, err)
				ids[i] = p.ID()
			}
			canceled := map[int]bool{}
			for k, i := range order {
				time.Sleep(time.Duration(pauses[k]) * 500 * time.Microsecond)
				err := c.Operations.Cancel(t.Context(), ids[i])
				if err != nil {
					require.ErrorIs(t, err, ErrState)
				}
				canceled[i] = err == nil
			}
			require.NoError(t, c.Flush(t.Context()))
			requests := map[string]int{}
			for _, r := range api.sent() {
				requests[r]++
			}
			for i := range n {
				_, err := Attach[thing](c, ids[i]).Wait(t.Context())
				path := "POST /v1/things/" + fmt.Sprint(i)
				if canceled[i] {
					require.ErrorIs(t, err, ErrOperationCanceled)
					require.Zero(t, requests[path])
				} else {
					require.NoError(t, err)
					require.Equal(t, 1, requests[path])
				}
			}
		})
	})
}

func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestCancel: only what provably was never sent, and who waits is told.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		refuse := s.srv.Inject(mockserver.Refuse())
		done := make(chan error, 1)
		call := s.Orders.Accept("o", AcceptParams{})
		go func() {
			_, err := call.Do(t.Context())
			done <- err
		}()
		time.Sleep(time.Second)
		o, _ := call.Outcome()
		require.NoError(t, s.Operations.Cancel(t.Context(), o.ID))
		require.ErrorIs(t, <-done, ErrOperationCanceled)
		err := s.Operations.Cancel(t.Context(), o.ID)
		require.ErrorIs(t, err, ErrState)
		require.ErrorContains(t, err, "operation "+o.ID+" is canceled; nothing was changed")
		err = s.Operations.Cancel(t.Context(), "no such operation")
		require.ErrorIs(t, err, ErrNotFound)
		_, attached := Attach[Order](s.Client, "no such operation").Wait(t.Context())
		require.ErrorIs(t, attached, ErrNotFound)
		require.Equal(t, err.Error(), attached.Error(), "it says what was not found")

		refuse.Remove()
		s.Wake()
		s.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
		s.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept").Optional())
		id := s.srv.AddOrder(store, mockserver.Order{})
		time.Sleep(5 * time.Second)
		p, err := s.Orders.Accept(id, AcceptParams{}).Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		err = s.Operations.Cancel(t.Context(), p.ID())
		require.ErrorIs(t, err, ErrState)
		require.ErrorContains(t, err, "is sent: it may have reached Flavoso; nothing was changed")
		require.ErrorContains(t, s.Operations.Resolve(t.Context(), p.ID(), Resolution{Decision: SendAgain}), "is sent")
	})
}

// TestResolve takes each decision for each state that allows it, and names those that do not.
func TestResolve(t *testing.T) {
	decisions := map[string]Resolution{
		"done":       {Decision: Done, Body: json.RawMessage(`{"id":"9"}`), Note: "by Eva"},
		"send again": {Decision: SendAgain, Note: "by Eva"},
		"abandon":    {Decision: Abandon, Note: "by Eva"},
	}
	for from, want := range map[State]map[string]State{
		StateQueued:    {"done": StateSucceeded, "send again": "", "abandon": StateAbandoned},
		StateSent:      {"done": StateSucceeded, "send again": "", "abandon": StateAbandoned},
		StateUncertain: {"done": StateSucceeded, "send again": StateSucceeded, "abandon": StateAbandoned},
		StateBlocked:   {"done": StateSucceeded, "send again": StateSucceeded, "abandon": StateAbandoned},
		StateSucceeded: {"done": "", "send again": "", "abandon": ""},
		StateRejected:  {"done": "", "send again": "", "abandon": ""},
	} {
		for name, to := range want {
			t.Run(string(from)+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var works atomic.Bool
					works.Store(from == StateSucceeded || from == StateRejected || from == StateBlocked)
					api := &fakeAPI{
						before: func(r *http.Request) error {
							time.Sleep(time.Millisecond) // until everything is saved
							if !works.Load() && strings.HasSuffix(r.URL.Path, "/x") {
								return errors.New("reset")
							}
							return nil
						},
						status: func(r *http.Request) int {
							if from == StateRejected || strings.HasSuffix(r.URL.Path, "/refused") {
								return 422
							}
							return 200
						},
					}
					c := newFakeTill(t, api, nil)
					ctx := t.Context()
					lane := "l"
					switch from {
					case StateQueued:
						_, err := post(c, "x").WithLane(lane).Enqueue(ctx)
						require.NoError(t, err)
					case StateBlocked:
						_, err := post(c, "refused").WithLane(lane).StopLaneOnReject().Enqueue(ctx)
						require.NoError(t, err)
					}
					p, err := post(c, "x").WithLane(lane).Enqueue(ctx)
					require.NoError(t, err)
					if from == StateUncertain {
						time.Sleep(30 * time.Hour)
					} else {
						time.Sleep(2 * time.Second)
					}
					require.Equal(t, from, stateOf(t, c, p.ID()))
					sent := api.count()
					err = c.Operations.Resolve(ctx, p.ID(), decisions[name])
					if to == "" {
						require.ErrorIs(t, err, ErrState)
						require.Equal(t, from, stateOf(t, c, p.ID()))
						return
					}
					require.NoError(t, err)
					works.Store(true)
					time.Sleep(time.Second)
					o, err := c.Operations.Get(ctx, p.ID())
					require.NoError(t, err)
					require.Equal(t, to, o.State)
					if name == "send again" {
						require.Greater(t, api.count(), sent)
						require.Equal(t, "1", mustID(t, o))
						return
					}
					require.Equal(t, "by Eva", o.Note)
					require.Equal(t, "resolved", o.Reason)
					if name == "done" {
						require.Equal(t, "9", mustID(t, o))
					}
				})
			})
		}
	}
	t.Run("nonsense", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := offlineTill(t, nil)
			p, err := post(c, "x").Enqueue(t.Context())
			require.NoError(t, err)
			var param *ParamError
			require.ErrorAs(t, c.Operations.Resolve(t.Context(), p.ID(), Resolution{}), &param)
			require.ErrorAs(t, c.Operations.Resolve(t.Context(), p.ID(), Resolution{Decision: Done, Body: []byte("{")}), &param)
			require.ErrorIs(t, c.Operations.Resolve(t.Context(), "none", Resolution{Decision: Done}), ErrNotFound)
			require.NoError(t, c.Close())
			require.ErrorIs(t, c.Operations.Resolve(t.Context(), p.ID(), Resolution{Decision: Done}), ErrClosed)
		})
	})
}

func mustID(t *testing.T, o Operation) string {
	t.Helper()
	v, err := Result[thing](o.Outcome)
	require.NoError(t, err)
	return v.ID
}

// TestRetryNow makes one operation due; its neighbours keep their time.
func TestRetryNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		down := true
		api := &fakeAPI{status: func(r *http.Request) int {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return 503
			}
			return 200
		}}
		c := newFakeTill(t, api, func(cfg *Config) {
			cfg.Retry = ExponentialJitter{Base: time.Hour, Floor: time.Hour, Cap: time.Hour}
		})
		p, err := post(c, "a").Enqueue(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		q, err := post(c, "a").Enqueue(t.Context())
		require.NoError(t, err)
		mu.Lock()
		down = false
		mu.Unlock()
		require.NoError(t, c.Operations.RetryNow(t.Context(), p.ID()))
		_, err = p.Wait(t.Context())
		require.NoError(t, err)
		_, err = q.Wait(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, c.Operations.RetryNow(t.Context(), p.ID()), ErrState)
	})
}

// TestExport: one JSON object a line, with names that stay, without bodies unless they are asked for, and
// never with a token.
func TestExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token, guest = "a-very-secret-token", "Jörg"
		api := &fakeAPI{status: func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "refused") {
				return 422
			}
			return 200
		}}
		c := newFakeTill(t, api, func(cfg *Config) { cfg.Token = StaticToken(token) })
		for _, lane := range []string{"a", "b", "refused"} {
			_, err := post(c, lane).WithTag("t-" + lane).WithKey(Key("k-" + lane)).WithExpiry(time.Hour).Enqueue(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, c.Flush(t.Context()))
		lines := func(f OperationFilter) ([]map[string]any, string) {
			var b bytes.Buffer
			require.NoError(t, c.Operations.Export(t.Context(), &b, f))
			var out []map[string]any
			text := b.String()
			for sc := bufio.NewScanner(&b); sc.Scan(); {
				var m map[string]any
				require.NoError(t, json.Unmarshal(sc.Bytes(), &m))
				out = append(out, m)
			}
			return out, text
		}
		got, text := lines(OperationFilter{})
		require.Len(t, got, 3)
		require.NotContains(t, text, token)
		require.NotContains(t, text, guest)
		require.NotContains(t, text, "body")
		for i, name := range []string{"a", "b", "refused"} {
			m := got[i]
			for _, field := range []string{"id", "connection", "kind", "lane", "state", "method", "target", "attempts",
				"created", "key", "wire_key", "tag", "request_id", "first_sent", "finished", "expires", "last_attempt", "status"} {
				require.Contains(t, m, field)
			}
			require.Equal(t, name, m["lane"])
			require.Equal(t, "t-"+name, m["tag"])
		}
		require.Equal(t, "rejected", got[2]["state"])
		require.Equal(t, "validation_failed", got[2]["code"])

		got, text = lines(OperationFilter{Lane: "a", Bodies: true})
		require.Len(t, got, 1)
		require.NotContains(t, text, token)
		body, err := json.Marshal([]byte(`{"name":"Jörg"}`))
		require.NoError(t, err)
		require.Equal(t, strings.Trim(string(body), `"`), got[0]["request_body"], "the frozen bytes, in base64")

		require.ErrorIs(t, c.Operations.Export(t.Context(), brokenWriter{}, OperationFilter{}), errBroken)
	})
}

var errBroken = errors.New("the disk is full")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// TestResultOfAListedOperation: a list has no bodies unless it is asked for them, and then says so rather than that
// Flavoso gave none.
func TestResultOfAListedOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		id := s.srv.AddOrder(store, mockserver.Order{})
		_, err := s.Orders.Accept(id, AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
		for op, err := range s.Operations.List(t.Context(), OperationFilter{}) {
			require.NoError(t, err)
			_, err = Result[Order](op.Outcome)
			require.ErrorAs(t, err, new(*DecodeError))
			require.Equal(t, FateDone, FateOf(err))
			require.ErrorContains(t, err, "OperationFilter.Bodies")
		}
		for op, err := range s.Operations.List(t.Context(), OperationFilter{Bodies: true}) {
			require.NoError(t, err)
			order, err := Result[Order](op.Outcome)
			require.NoError(t, err)
			require.Equal(t, OrderConfirmed, order.Status)
		}
	})
}

// TestAnotherConnectionsOperationDoesNotGoOnHere: a till that got a new connection still finds what the old one left.
func TestAnotherConnectionsOperationDoesNotGoOnHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		s.srv.Inject(mockserver.Refuse())
		p, err := s.Orders.Accept("7", AcceptParams{}).Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		s.cfg.Connection = "store-43"
		s.restart()
		_, err = Attach[Order](s.Client, p.ID()).Wait(t.Context())
		require.ErrorIs(t, err, ErrPending)
		require.ErrorContains(t, err, `it is of the connection "store-42", and waits for a client of that`)
		require.NotContains(t, err.Error(), "goes on by itself")
	})
}
