package otelflavoso_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/telemetry/otelflavoso"
)

// TestOneTraceOverARestart: an operation is saved and tried by one process, and finished by another. All of it
// is one trace, whose id follows from the operation's; what is sent is the same on every attempt.
func TestOneTraceOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, sdktrace.ParentBased(sdktrace.AlwaysSample()), nil)
		id := w.order()
		w.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
		w.srv.Inject(mockserver.Status(503).On("POST", "/orders/{id}/accept").RetryAfter(time.Hour).Times(1))

		ctx, caller := w.opts.TracerProvider.Tracer("pos").Start(t.Context(), "POST /accept")
		saved := time.Now()
		p, err := w.Orders.Accept(id, flavoso.AcceptParams{}).Enqueue(ctx)
		require.NoError(t, err)
		caller.End()
		time.Sleep(time.Minute)
		require.Len(t, w.ended("orders.accept attempt"), 2)
		require.NoError(t, w.Close())
		require.Empty(t, w.ended("orders.accept"), "it is not over")

		time.Sleep(10 * time.Hour)
		w.open()
		_, err = flavoso.Attach[flavoso.Order](w.Client, p.ID()).Wait(within(t, time.Hour))
		require.NoError(t, err)
		synctest.Wait()

		sum := sha256.Sum256([]byte("flavoso operation " + p.ID()))
		traceID := otelflavoso.TraceID(p.ID())
		require.Equal(t, hex.EncodeToString(sum[:16]), traceID.String())

		attempts := w.ended("orders.accept attempt")
		require.Len(t, attempts, 3)
		for i, s := range attempts {
			require.Equal(t, traceID, s.SpanContext().TraceID())
			require.False(t, s.Parent().IsValid())
			require.Equal(t, trace.SpanKindClient, s.SpanKind())
			if i < 2 {
				require.Len(t, s.Links(), 1)
				require.Equal(t, caller.SpanContext().SpanID(), s.Links()[0].SpanContext.SpanID())
			} else {
				require.Empty(t, s.Links(), "the later process does not know the caller's span")
			}
		}
		common := map[string]string{"flavoso.operation.id": p.ID(), "flavoso.operation.kind": "orders.accept", "flavoso.connection.name": store}
		with := func(more map[string]string) map[string]string {
			for k, v := range common {
				more[k] = v
			}
			return more
		}
		requests := w.srv.Requests()
		posts := requests[:0:0]
		for _, r := range requests {
			if r.Method == "POST" {
				posts = append(posts, r)
			}
		}
		require.Len(t, posts, 3)
		require.Equal(t, with(map[string]string{"flavoso.attempt.number": "1", "flavoso.attempt.verdict": "broken",
			"flavoso.operation.state": "sent", "error.type": "broken"}), values(attempts[0].Attributes()))
		require.Equal(t, codes.Error, attempts[0].Status().Code)
		require.Equal(t, with(map[string]string{"flavoso.attempt.number": "2", "flavoso.attempt.verdict": "retry",
			"flavoso.operation.state": "sent", "error.type": "retry", "http.response.status_code": "503",
			"flavoso.request.id": posts[1].RequestID}), values(attempts[1].Attributes()))
		require.Equal(t, with(map[string]string{"flavoso.attempt.number": "3", "flavoso.attempt.verdict": "success",
			"flavoso.operation.state": "succeeded", "http.response.status_code": "200",
			"flavoso.request.id": posts[2].RequestID}), values(attempts[2].Attributes()))
		require.Equal(t, codes.Unset, attempts[2].Status().Code)

		operations := w.ended("orders.accept")
		require.Len(t, operations, 1)
		op := operations[0]
		require.Equal(t, traceID, op.SpanContext().TraceID())
		require.False(t, op.Parent().IsValid())
		require.True(t, saved.Equal(op.StartTime()), "it began when it was saved")
		require.WithinDuration(t, saved.Add(10*time.Hour), op.EndTime(), 2*time.Minute)
		require.Equal(t, with(map[string]string{"flavoso.operation.state": "succeeded", "flavoso.operation.attempts": "3",
			"flavoso.operation.revision": "1", "flavoso.operation.replayed": "true", "flavoso.operation.by_other": "false",
			"http.response.status_code": "200", "flavoso.request.id": posts[2].RequestID}), values(op.Attributes()))

		callers := w.ended("POST /accept")
		require.Len(t, callers, 1)
		require.Len(t, callers[0].Events(), 1)
		require.Equal(t, "flavoso.operation.saved", callers[0].Events()[0].Name)
		delete(common, "flavoso.connection.name")
		require.Equal(t, with(map[string]string{"flavoso.operation.trace_id": traceID.String()}), values(callers[0].Events()[0].Attributes))
		for _, r := range posts {
			require.Equal(t, posts[0].Key, r.Key)
			require.Equal(t, posts[0].Body, r.Body)
			require.Empty(t, r.Header.Get("Traceparent"))
		}
		w.srv.AssertExactlyOnce(t, "orders.accept", id)
	})
}

// TestEveryMetric: what is counted, after one of each.
func TestEveryMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, sdktrace.AlwaysSample(), nil)
		w.opts.Attributes = []attribute.KeyValue{attribute.String("store", "42")}
		require.NoError(t, w.Close())
		w.open()
		on := func(f mockserver.Fault) mockserver.Fault { return f.On("POST", "/orders/{id}/accept").Times(1) }
		for _, f := range []mockserver.Fault{on(mockserver.Status(500)), on(mockserver.DropResponse()), on(mockserver.Portal())} {
			w.srv.Inject(f)
		}
		_, err := w.Orders.Accept(w.order(), flavoso.AcceptParams{}).Do(within(t, time.Hour))
		require.NoError(t, err)
		_, err = w.Orders.Acknowledge("missing", flavoso.AcknowledgeParams{ExternalID: "T-1"}).Do(within(t, time.Hour))
		require.ErrorIs(t, err, flavoso.ErrNotFound)
		synctest.Wait() // who waits for an outcome may learn it before the hooks do
		require.Equal(t, map[string]int64{`flavoso.attempt.verdict=retry,flavoso.operation.kind=orders.accept,http.response.status_code=500,store=42`: 1,
			`flavoso.attempt.verdict=broken,flavoso.operation.kind=orders.accept,store=42`:                                      1,
			`flavoso.attempt.verdict=not_authored,flavoso.operation.kind=orders.accept,http.response.status_code=200,store=42`:  1,
			`flavoso.attempt.verdict=success,flavoso.operation.kind=orders.accept,http.response.status_code=200,store=42`:       1,
			`flavoso.attempt.verdict=conflict,flavoso.operation.kind=orders.acknowledge,http.response.status_code=404,store=42`: 1,
		}, w.points("flavoso.client.attempt.ended"))
		require.Equal(t, w.points("flavoso.client.attempt.ended"), w.points("flavoso.client.attempt.duration"))
		require.Equal(t, map[string]int64{`flavoso.operation.kind=orders.accept,store=42`: 1, `flavoso.operation.kind=orders.acknowledge,store=42`: 1},
			w.points("flavoso.client.operation.saved"))
		outcomes := map[string]int64{`flavoso.operation.kind=orders.accept,flavoso.operation.state=succeeded,store=42`: 1,
			`flavoso.operation.kind=orders.acknowledge,flavoso.operation.state=rejected,store=42`: 1}
		require.Equal(t, outcomes, w.points("flavoso.client.operation.finished"))
		require.Equal(t, outcomes, w.points("flavoso.client.operation.duration"))

		gauges, err := otelflavoso.Observe(w.opts, w)
		require.NoError(t, err)
		w.srv.Inject(mockserver.Refuse())
		_, err = w.Orders.Accept(w.order(), flavoso.AcceptParams{}).Enqueue(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, w.points("flavoso.client.attempt.ended")[`flavoso.attempt.verdict=never_sent,flavoso.operation.kind=orders.accept,store=42`])
		require.EqualValues(t, 1, w.points("flavoso.client.connection.changes")[`flavoso.connection.state=offline,store=42`])
		require.Equal(t, map[string]int64{`flavoso.operation.state=waiting,store=42`: 1, `flavoso.operation.state=uncertain,store=42`: 0,
			`flavoso.operation.state=blocked,store=42`: 0, `flavoso.operation.state=damaged,store=42`: 0}, w.points("flavoso.client.outbox.operations"))
		require.Equal(t, map[string]int64{`flavoso.connection.state=online,store=42`: 0, `flavoso.connection.state=offline,store=42`: 1,
			`flavoso.connection.state=paused,store=42`: 0, `flavoso.connection.state=unauthorized,store=42`: 0}, w.points("flavoso.client.connections"))
		require.Equal(t, map[string]int64{`store=42`: 3600}, w.points("flavoso.client.outbox.oldest_age"))
		require.Equal(t, map[string]int64{`store=42`: 0}, w.points("flavoso.client.outbox.held_lanes"))
		require.NoError(t, gauges.Unregister())
		require.NotContains(t, w.metrics(), "flavoso.client.outbox.operations")
	})
}

// TestParkedAndDecided: what needs a decision is an outcome, and so is the decision.
func TestParkedAndDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, sdktrace.AlwaysSample(), nil)
		gauges, err := otelflavoso.Observe(w.opts, w)
		require.NoError(t, err)
		defer func() { require.NoError(t, gauges.Unregister()) }()
		w.srv.Inject(mockserver.DropResponse().On("POST", "").Times(1))
		w.srv.Inject(mockserver.Status(409).On("POST", "").Code("conflict").Times(1))
		p, err := flavoso.NewCall[map[string]any](w.Client, "POST", flavoso.Path("orders", w.order(), "accept"), nil).Enqueue(t.Context())
		require.NoError(t, err)
		_, err = p.Wait(within(t, time.Hour))
		require.ErrorIs(t, err, flavoso.ErrUncertain)
		synctest.Wait()
		require.EqualValues(t, 1, w.points("flavoso.client.outbox.operations")["flavoso.operation.state=uncertain"])
		require.EqualValues(t, 1, w.points("flavoso.client.outbox.held_lanes")[""])
		require.NoError(t, w.Operations.Resolve(t.Context(), p.ID(), flavoso.Resolution{Decision: flavoso.Done, Note: "Ada saw it"}))
		require.Equal(t, map[string]int64{"flavoso.operation.kind=call,flavoso.operation.state=uncertain": 1,
			"flavoso.operation.kind=call,flavoso.operation.state=succeeded": 1}, w.points("flavoso.client.operation.finished"))
		spans := w.ended("call")
		require.Len(t, spans, 2)
		require.Equal(t, codes.Error, spans[0].Status().Code)
		require.Equal(t, "conflict", values(spans[0].Attributes())["error.type"])
		require.Equal(t, "refused_after_unknown_attempt", values(spans[0].Attributes())["flavoso.operation.reason"])
		require.Equal(t, codes.Unset, spans[1].Status().Code)
		require.Equal(t, "2", values(spans[1].Attributes())["flavoso.operation.revision"])
		require.Equal(t, "resolved", values(spans[1].Attributes())["flavoso.operation.reason"])
	})
}

// TestSamplersTakeWholeOperations: a ratio takes all or none of an operation's spans, also in a later process.
func TestSamplersTakeWholeOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.5)), nil)
		const operations = 60
		for range operations {
			id := w.order()
			w.srv.Inject(mockserver.DropResponse().On("POST", "/orders/"+id+"/accept").Times(1))
			_, err := w.Orders.Accept(id, flavoso.AcceptParams{}).Enqueue(t.Context())
			require.NoError(t, err)
		}
		time.Sleep(5 * time.Second)
		require.NoError(t, w.Close())
		w.open()
		require.NoError(t, w.Flush(within(t, time.Hour)))
		synctest.Wait()
		names := map[trace.TraceID]map[string]int{}
		for _, s := range w.spans.Ended() {
			id := s.SpanContext().TraceID()
			if names[id] == nil {
				names[id] = map[string]int{}
			}
			names[id][s.Name()]++
		}
		require.Greater(t, len(names), operations/6)
		require.Less(t, len(names), operations*5/6)
		for id, n := range names {
			require.Equal(t, 1, n["orders.accept"], id)
			require.GreaterOrEqual(t, n["orders.accept attempt"], 2, id)
		}
	})
}

// TestTotalsThatCannotBeReadAreNotTold: a zero would say that nothing waits.
func TestTotalsThatCannotBeReadAreNotTold(t *testing.T) {
	w := watch(t, sdktrace.AlwaysSample(), nil)
	gauges, err := otelflavoso.Observe(w.opts, w)
	require.NoError(t, err)
	require.NotEmpty(t, w.points("flavoso.client.outbox.operations"))
	require.NoError(t, w.Close())
	for _, name := range []string{"operations", "held_lanes", "oldest_age"} {
		require.NotContains(t, w.metrics(), "flavoso.client.outbox."+name)
	}
	require.NotEmpty(t, w.points("flavoso.client.connections"))
	require.NoError(t, gauges.Unregister())
}

// TestWithoutProviders: the global providers do nothing until the application sets others.
func TestWithoutProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, sdktrace.AlwaysSample(), nil)
		require.NoError(t, w.Close())
		w.opts = otelflavoso.Options{}
		w.open()
		gauges, err := otelflavoso.Observe(w.opts, w)
		require.NoError(t, err)
		_, err = w.Orders.Accept(w.order(), flavoso.AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
		require.NoError(t, gauges.Unregister())
		require.Empty(t, w.spans.Ended())
		_, err = otelflavoso.Observe(w.opts)
		require.Error(t, err)
	})
}

// TestClocksThatWereSet: durations that a wall clock cannot have measured are left out, and spans do not end
// before they begin.
func TestClocksThatWereSet(t *testing.T) {
	w := watch(t, sdktrace.AlwaysSample(), nil)
	hooks := otelflavoso.Hooks(w.opts)
	now := time.Now()
	for i, finished := range []time.Time{now.Add(-time.Hour), now.Add(56 * 365 * 24 * time.Hour), now.Add(time.Second)} {
		hooks.Finished(flavoso.Outcome{ID: fmt.Sprint(i), Kind: "menu.put", State: flavoso.StateSucceeded, Revision: 1,
			Created: now, Finished: finished, Durable: true})
		hooks.Finished(flavoso.Outcome{ID: fmt.Sprint(i), Kind: "menu.put", State: flavoso.StateSucceeded, Durable: false})
	}
	key := "flavoso.operation.kind=menu.put,flavoso.operation.state=succeeded"
	require.EqualValues(t, 3, w.points("flavoso.client.operation.finished")[key], "a verdict counts when it is durable")
	require.EqualValues(t, 1, w.points("flavoso.client.operation.duration")[key])
	for _, s := range w.ended("menu.put") {
		require.False(t, s.EndTime().Before(s.StartTime()))
	}
}
