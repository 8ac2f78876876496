package otelflavoso_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/telemetry/otelflavoso"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const store = "store-42"

// watched is a client on a mock server and a real outbox file, with all it tells.
type watched struct {
	t     *testing.T
	srv   *mockserver.Server
	cfg   flavoso.Config
	spans *tracetest.SpanRecorder
	read  *sdkmetric.ManualReader
	opts  otelflavoso.Options
	*flavoso.Client
}

func watch(t *testing.T, sampler sdktrace.Sampler, change func(*flavoso.Config)) *watched {
	t.Helper()
	w := &watched{t: t, srv: mockserver.Start(t), spans: tracetest.NewSpanRecorder(), read: sdkmetric.NewManualReader()}
	w.opts = otelflavoso.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans), sdktrace.WithSampler(sampler)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.read)),
	}
	w.cfg = flavoso.Config{
		Connection: store, Token: flavoso.StaticToken(w.srv.Token(store)), OutboxPath: filepath.Join(t.TempDir(), "pos.outbox"),
		BaseURL: w.srv.BaseURL(), Transport: w.srv.Transport(),
	}
	if change != nil {
		change(&w.cfg)
	}
	w.open()
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// open opens the client as a new process would: with hooks that know nothing of earlier ones.
func (w *watched) open() {
	w.t.Helper()
	w.cfg.Hooks = otelflavoso.Hooks(w.opts)
	c, err := flavoso.Open(w.cfg)
	require.NoError(w.t, err)
	w.Client = c
}

// order adds an order that nobody cancels meanwhile.
func (w *watched) order() string {
	return w.srv.AddOrder(store, mockserver.Order{AcceptBy: time.Now().Add(90 * 24 * time.Hour)})
}

// ended returns the spans with a name, in the order in which they ended.
func (w *watched) ended(name string) (out []sdktrace.ReadOnlySpan) {
	for _, s := range w.spans.Ended() {
		if s.Name() == name {
			out = append(out, s)
		}
	}
	return out
}

// metrics returns all metrics there are by name.
func (w *watched) metrics() map[string]metricdata.Metrics {
	w.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(w.t, w.read.Collect(context.Background(), &all))
	out := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			out[m.Name] = m
		}
	}
	return out
}

// points returns a metric's values by their attributes: a histogram's are its counts.
func (w *watched) points(name string) map[string]int64 {
	w.t.Helper()
	out := map[string]int64{}
	put := func(attrs attribute.Set, v int64) { out[attrs.Encoded(attribute.DefaultEncoder())] += v }
	switch d := w.metrics()[name].Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			put(p.Attributes, p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			put(p.Attributes, int64(p.Value))
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			put(p.Attributes, int64(p.Count))
		}
	default:
		w.t.Fatalf("no metric %s, or of an unknown form: %T", name, d)
	}
	return out
}

// values returns a span's attributes as text.
func values(attrs []attribute.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range attrs {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// within is a context that ends after so long.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
