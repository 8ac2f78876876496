package otelflavoso_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/telemetry/otelflavoso"
)

func ExampleHooks() {
	srv, err := mockserver.New()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	dir, err := os.MkdirTemp("", "flavoso")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	// An application sets providers that export; these keep what they are told.
	exporter, reader := tracetest.NewInMemoryExporter(), sdkmetric.NewManualReader()
	options := otelflavoso.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	}
	client, err := flavoso.Open(flavoso.Config{
		Connection: "store-42", Token: flavoso.StaticToken(srv.Token("store-42")), BaseURL: srv.BaseURL(),
		OutboxPath: filepath.Join(dir, "pos.outbox"),
		Hooks:      otelflavoso.Hooks(options),
	})
	if err != nil {
		log.Fatal(err)
	}
	gauges, err := otelflavoso.Observe(options, client)
	if err != nil {
		log.Fatal(err)
	}

	id := srv.AddOrder("store-42", mockserver.Order{})
	call := client.Orders.Accept(id, flavoso.AcceptParams{PreparationMinutes: 20})
	if _, err := call.Do(context.Background()); err != nil {
		log.Fatal(err)
	}
	outcome, _ := call.Outcome()
	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &metrics); err != nil {
		log.Fatal(err)
	}
	if err := gauges.Unregister(); err != nil {
		log.Fatal(err)
	}
	if err := client.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}

	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name, span.SpanContext.TraceID() == otelflavoso.TraceID(outcome.ID))
	}
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "flavoso.client.operation.saved" {
			fmt.Println(m.Name, sum.DataPoints[0].Value, m.Unit)
		}
	}
	// Output:
	// orders.accept attempt true
	// orders.accept true
	// flavoso.client.operation.saved 1 {operation}
}
