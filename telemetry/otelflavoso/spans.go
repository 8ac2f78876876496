package otelflavoso

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/flavoso/flavoso-go"
)

// TraceID returns the id of an operation's trace: the first 16 bytes of the SHA-256 of "flavoso operation " and
// the operation's id.
func TraceID(operationID string) trace.TraceID {
	sum := sha256.Sum256([]byte("flavoso operation " + operationID))
	return trace.TraceID(sum[:16])
}

// within returns a context whose new spans belong to an operation's trace and have no parent: a span context
// with a trace id alone.
func within(ctx context.Context, operationID string) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: TraceID(operationID)}))
}

// spans makes the spans.
type spans struct {
	tracer trace.Tracer
	common []attribute.KeyValue
	callers
}

func newSpans(o Options) *spans {
	return &spans{tracer: o.tracer(), common: o.Attributes, callers: callers{byID: map[string]trace.SpanContext{}}}
}

// savedOperation connects the caller's span with the operation.
func (s *spans) savedOperation(ctx context.Context, o flavoso.Outcome) {
	span := trace.SpanFromContext(ctx)
	if !span.SpanContext().IsValid() {
		return
	}
	span.AddEvent("flavoso.operation.saved", trace.WithAttributes(keyOperationID.String(o.ID), keyOperationKind.String(o.Kind),
		keyOperationTraceID.String(TraceID(o.ID).String())))
	s.remember(o.ID, span.SpanContext())
}

func (s *spans) startAttempt(ctx context.Context, o flavoso.Outcome) context.Context {
	ctx, _ = s.tracer.Start(within(ctx, o.ID), o.Kind+" attempt", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithLinks(s.links(o.ID)...), trace.WithAttributes(s.common...),
		trace.WithAttributes(keyOperationID.String(o.ID), keyOperationKind.String(o.Kind), keyConnectionName.String(o.Connection),
			keyAttemptNumber.Int(o.Attempts)))
	return ctx
}

func (s *spans) endAttempt(ctx context.Context, o flavoso.Outcome, a *flavoso.Attempt) {
	span := trace.SpanFromContext(ctx)
	verdict := verdictOf(a)
	span.SetAttributes(keyAttemptVerdict.String(verdict), keyOperationState.String(string(o.State)))
	if a != nil {
		span.SetAttributes(answer(a.Status, a.RequestID)...)
	}
	if verdict != verdictSuccess && verdict != verdictNone {
		span.SetAttributes(semconv.ErrorTypeKey.String(verdict))
		span.SetStatus(codes.Error, verdict)
	}
	span.End()
}

// finishOperation records the whole of an operation's life, and returns a context with its span.
func (s *spans) finishOperation(o flavoso.Outcome) context.Context {
	end := o.Finished
	if end.Before(o.Created) {
		end = o.Created // the clock was set back
	}
	ctx, span := s.tracer.Start(within(context.Background(), o.ID), o.Kind, trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithTimestamp(o.Created), trace.WithLinks(s.links(o.ID)...), trace.WithAttributes(s.common...),
		trace.WithAttributes(keyOperationID.String(o.ID), keyOperationKind.String(o.Kind), keyConnectionName.String(o.Connection),
			keyOperationState.String(string(o.State)), keyOperationAttempts.Int(o.Attempts), keyOperationRevision.Int(o.Revision),
			keyOperationReplayed.Bool(o.Replayed), keyOperationByOther.Bool(o.ByOther)),
		trace.WithAttributes(answer(o.Status, o.RequestID)...))
	if o.Reason != "" {
		span.SetAttributes(keyOperationReason.String(o.Reason))
	}
	switch o.State {
	case flavoso.StateRejected, flavoso.StateUncertain, flavoso.StateBlocked, flavoso.StateDamaged:
		kind := string(o.State)
		if o.Code != "" {
			kind = o.Code
		}
		span.SetAttributes(semconv.ErrorTypeKey.String(kind))
		span.SetStatus(codes.Error, string(o.State))
	}
	span.End(trace.WithTimestamp(end))
	if o.State.Final() {
		s.forget(o.ID)
	}
	return ctx
}

// answer is what may be told of an answer.
func answer(status int, requestID string) (attrs []attribute.KeyValue) {
	if status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(status))
	}
	if requestID != "" {
		attrs = append(attrs, keyRequestID.String(requestID))
	}
	return attrs
}

// callers remembers in whose spans operations were saved.
type callers struct {
	mu    sync.Mutex
	byID  map[string]trace.SpanContext
	order []string // ids, the oldest first; some of them are forgotten
}

// callersKept bounds how many are remembered: a till may be offline for days, and of what another process sends
// nothing more is told here. The oldest beyond it have no link.
const callersKept = 10_000

func (c *callers) remember(id string, sc trace.SpanContext) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID[id] = sc
	c.order = append(c.order, id)
	for len(c.byID) > callersKept {
		delete(c.byID, c.order[0])
		c.order = c.order[1:]
	}
	if len(c.order) > 2*callersKept {
		c.order = slices.DeleteFunc(c.order, func(id string) bool { _, known := c.byID[id]; return !known })
	}
}

func (c *callers) links(id string) []trace.Link {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sc, ok := c.byID[id]; ok {
		return []trace.Link{{SpanContext: sc}}
	}
	return nil
}

func (c *callers) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, id)
}
