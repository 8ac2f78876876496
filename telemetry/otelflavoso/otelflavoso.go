// Package otelflavoso gives OpenTelemetry the traces and metrics of a flavoso.Client. Names, units and attributes
// are listed in docs/observability.md.
//
//	options := otelflavoso.Options{}                   // the global providers
//	cfg.Hooks = otelflavoso.Hooks(options)
//	client, err := flavoso.Open(cfg)
//	gauges, err := otelflavoso.Observe(options, client) // what waits, what needs a decision, who is offline
//	defer gauges.Unregister()
//
// # Traces
//
// Every operation has a trace of its own, and [TraceID] tells its id from the operation's: an operation that was
// saved by an earlier process, and attempts of several processes, meet in one trace, and a ticket that names the
// operation leads to it. Nothing is stored for that, and nothing of it is sent. In that trace stand
//
//   - one span for each attempt, named "<kind> attempt", e.g. "orders.accept attempt". Its context is the
//     request's, so that a transport can continue the trace.
//   - one span for the operation, named by its kind, from when it was saved until it was final or parked. It is
//     recorded when that is known, by the process that learns it: an operation that is killed with its process
//     loses no span. One that was parked and decided later has a second span. Its times are the till's wall clock's.
//
// The sampler sees each of them as the root of its trace. [TraceIDRatioBased] samplers take all or none of an
// operation's spans, over restarts.
//
// The caller's span, if there is one when the operation is saved, gets an event with the operation's id and the
// id of its trace. Spans of the same process have a link back to it.
//
// Spans and metrics hold no keys, tokens, lanes, tags, references, messages and bodies. Metrics hold no ids.
//
// [TraceIDRatioBased]: https://pkg.go.dev/go.opentelemetry.io/otel/sdk/trace#TraceIDRatioBased
package otelflavoso

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/flavoso/flavoso-go"
)

const scope = "github.com/flavoso/flavoso-go/telemetry/otelflavoso"

// Options configure Hooks and Observe. The zero value is usable.
type Options struct {
	// TracerProvider makes the spans; nil = otel.GetTracerProvider().
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics; nil = otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// Attributes are added to every span and every metric, e.g. which restaurant it is. Every combination of
	// values is a time series of each metric: do not put ids of operations here.
	Attributes []attribute.KeyValue
}

func (o Options) tracer() trace.Tracer {
	p := o.TracerProvider
	if p == nil {
		p = otel.GetTracerProvider()
	}
	return p.Tracer(scope, trace.WithInstrumentationVersion(flavoso.Version), trace.WithSchemaURL(semconv.SchemaURL))
}

func (o Options) meter() metric.Meter {
	p := o.MeterProvider
	if p == nil {
		p = otel.GetMeterProvider()
	}
	return p.Meter(scope, metric.WithInstrumentationVersion(flavoso.Version), metric.WithSchemaURL(semconv.SchemaURL))
}

// Hooks returns hooks for flavoso.Config.Hooks that record traces and metrics. They may serve several clients. Where
// an instrument cannot be made the error goes to otel.Handle, and the rest works.
func Hooks(o Options) flavoso.Hooks {
	s, m := newSpans(o), newMetrics(o)
	return flavoso.Hooks{
		Saved: func(ctx context.Context, op flavoso.Outcome) {
			m.savedOperation(ctx, op)
			s.savedOperation(ctx, op)
		},
		AttemptStart: s.startAttempt,
		AttemptEnd: func(ctx context.Context, op flavoso.Outcome, a *flavoso.Attempt) {
			m.endAttempt(ctx, op, a)
			s.endAttempt(ctx, op, a)
		},
		Finished: func(op flavoso.Outcome) {
			if !op.Durable {
				return // it comes again once it is saved, here or in a later process
			}
			ctx := s.finishOperation(op)
			m.finishOperation(ctx, op)
		},
		StatusChange: m.changeStatus,
	}
}
