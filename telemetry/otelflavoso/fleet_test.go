package otelflavoso_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/telemetry/otelflavoso"
)

// TestAFleet: the hooks serve all connections of a fleet. Spans say whose they are; metrics do not, so that there are as
// many time series for three restaurants as for forty.
func TestAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t, srv: mockserver.Start(t), spans: tracetest.NewSpanRecorder(), read: sdkmetric.NewManualReader()}
		w.opts = otelflavoso.Options{
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans)),
			MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.read)),
		}
		fleet, err := flavoso.OpenFleet(flavoso.FleetConfig{
			Outbox: outbox.NewMemory(), BaseURL: w.srv.BaseURL(), Transport: w.srv.Transport(), Hooks: otelflavoso.Hooks(w.opts),
			Token: flavoso.TokenFunc(func(_ context.Context, r flavoso.TokenRequest) (string, error) {
				if strings.HasPrefix(r.Connection, "revoked-") {
					return "a-refused-token", nil
				}
				return w.srv.Token(r.Connection), nil
			}),
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, fleet.Close()) }()

		// evening lets every kind of thing happen at n more restaurants.
		total := 0
		var sources []otelflavoso.Source
		evening := func(n int) {
			lost := w.srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(n))
			for i := range n {
				name := fmt.Sprint("store-", total+i)
				c := fleet.Client(name)
				sources = append(sources, c)
				id := w.srv.AddOrder(name, mockserver.Order{AcceptBy: time.Now().Add(90 * 24 * time.Hour)})
				_, err := c.Orders.Accept(id, flavoso.AcceptParams{}).Do(within(t, time.Hour))
				require.NoError(t, err)
				_, err = c.Orders.SetStatus(id, flavoso.StatusParams{Status: flavoso.OrderPreparing}).Do(within(t, time.Hour))
				require.NoError(t, err)
				_, err = c.Orders.Reject(id, flavoso.RejectParams{Reason: "too late"}).Do(within(t, time.Hour))
				require.Equal(t, flavoso.FateRefused, flavoso.FateOf(err))
				revoked := fleet.Client(fmt.Sprint("revoked-", total+i))
				sources = append(sources, revoked)
				_, err = revoked.Orders.Accept("1", flavoso.AcceptParams{}).Enqueue(t.Context())
				require.NoError(t, err)
			}
			time.Sleep(time.Minute)
			total += n
			require.Equal(t, n, lost.Fired())
		}
		series := func() map[string][]string {
			out := map[string][]string{}
			for name := range w.metrics() {
				for attrs := range w.points(name) {
					out[name] = append(out[name], attrs)
				}
			}
			return out
		}
		evening(3)
		few := series()
		evening(37)
		many := series()
		for name, attrs := range many {
			require.ElementsMatch(t, few[name], attrs, "%s has a time series for each of something", name)
			require.Less(t, len(attrs), 20, name)
			for _, a := range attrs {
				require.NotContains(t, a, "store-", name)
				require.NotContains(t, a, "revoked-", name)
			}
		}
		require.EqualValues(t, total, w.points("flavoso.client.operation.finished")["flavoso.operation.kind=orders.accept,flavoso.operation.state=succeeded"])
		require.EqualValues(t, 4*total, sumOf(w.points("flavoso.client.operation.saved")))
		require.EqualValues(t, total, w.points("flavoso.client.connection.changes")["flavoso.connection.state=unauthorized"])

		names := map[string]int{}
		for _, s := range w.ended("orders.accept") {
			names[values(s.Attributes())["flavoso.connection.name"]]++
		}
		require.Len(t, names, total, "each span says whose it is")

		gauges, err := otelflavoso.Observe(w.opts, sources...)
		require.NoError(t, err)
		defer func() { require.NoError(t, gauges.Unregister()) }()
		require.Equal(t, map[string]int64{"flavoso.connection.state=offline": 0, "flavoso.connection.state=online": int64(total),
			"flavoso.connection.state=paused": 0, "flavoso.connection.state=unauthorized": int64(total)}, w.points("flavoso.client.connections"))
		require.EqualValues(t, total, w.points("flavoso.client.outbox.operations")["flavoso.operation.state=waiting"])
	})
}

func sumOf(points map[string]int64) (n int64) {
	for _, v := range points {
		n += v
	}
	return n
}
