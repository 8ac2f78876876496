package otelflavoso

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/flavoso/flavoso-go"
)

// metrics counts what the hooks are told.
type metrics struct {
	common []attribute.KeyValue

	saved, finished, attempts, changes metric.Int64Counter
	operationTime, attemptTime         metric.Float64Histogram
}

var (
	// attemptBuckets are those of the HTTP conventions, and the longest that an attempt takes by default.
	attemptBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30}
	// operationBuckets reach from an answer at once to days without a network.
	operationBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
)

func newMetrics(o Options) *metrics {
	meter := o.meter()
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter("flavoso.client."+name, metric.WithUnit(unit), metric.WithDescription(description))
		handle(err)
		return c
	}
	histogram := func(name, description string, buckets []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram("flavoso.client."+name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(buckets...))
		handle(err)
		return h
	}
	return &metrics{
		common:        o.Attributes,
		saved:         counter("operation.saved", "{operation}", "Operations that were saved."),
		finished:      counter("operation.finished", "{operation}", "Operations that became final or parked."),
		operationTime: histogram("operation.duration", "Time from saving an operation until it was final or parked.", operationBuckets),
		attempts:      counter("attempt.ended", "{attempt}", "Attempts that ended."),
		attemptTime:   histogram("attempt.duration", "Time one request of an operation took.", attemptBuckets),
		changes:       counter("connection.changes", "{change}", "Changes of a connection's state."),
	}
}

// handle reports an error that leaves an instrument without effect.
func handle(err error) {
	if err != nil {
		otel.Handle(err)
	}
}

// with returns the attributes of a measurement.
func (m *metrics) with(attrs ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(attrs, m.common...)...)
}

func (m *metrics) savedOperation(ctx context.Context, o flavoso.Outcome) {
	m.saved.Add(ctx, 1, m.with(keyOperationKind.String(o.Kind)))
}

func (m *metrics) finishOperation(ctx context.Context, o flavoso.Outcome) {
	attrs := m.with(keyOperationKind.String(o.Kind), keyOperationState.String(string(o.State)))
	m.finished.Add(ctx, 1, attrs)
	if d, ok := believable(o.Created, o.Finished); ok {
		m.operationTime.Record(ctx, d.Seconds(), attrs)
	}
}

func (m *metrics) endAttempt(ctx context.Context, o flavoso.Outcome, a *flavoso.Attempt) {
	verdict := verdictOf(a)
	attrs := []attribute.KeyValue{keyOperationKind.String(o.Kind), keyAttemptVerdict.String(verdict)}
	if a != nil && a.Status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(a.Status))
	}
	m.attempts.Add(ctx, 1, m.with(attrs...))
	if verdict == verdictNone {
		return
	}
	if d, ok := believable(a.Start, a.End); ok {
		m.attemptTime.Record(ctx, d.Seconds(), m.with(attrs...))
	}
}

func (m *metrics) changeStatus(s flavoso.Status) {
	m.changes.Add(context.Background(), 1, m.with(keyConnectionState.String(connectionState(s))))
}
