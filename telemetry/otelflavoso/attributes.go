package otelflavoso

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/flavoso/flavoso-go"
)

// The attributes of this package. Those of the conventions are http.response.status_code and error.type.
const (
	keyOperationID       = attribute.Key("flavoso.operation.id")
	keyOperationKind     = attribute.Key("flavoso.operation.kind")
	keyOperationState    = attribute.Key("flavoso.operation.state")
	keyOperationAttempts = attribute.Key("flavoso.operation.attempts")
	keyOperationRevision = attribute.Key("flavoso.operation.revision")
	keyOperationReason   = attribute.Key("flavoso.operation.reason")
	keyOperationReplayed = attribute.Key("flavoso.operation.replayed")
	keyOperationByOther  = attribute.Key("flavoso.operation.by_other")
	keyOperationTraceID  = attribute.Key("flavoso.operation.trace_id")
	keyAttemptNumber     = attribute.Key("flavoso.attempt.number")
	keyAttemptVerdict    = attribute.Key("flavoso.attempt.verdict")
	keyRequestID         = attribute.Key("flavoso.request.id")
	keyConnectionName    = attribute.Key("flavoso.connection.name")
	keyConnectionState   = attribute.Key("flavoso.connection.state")
)

// Verdicts that flavoso.Attempt.Verdict does not have.
const (
	verdictNone      = "none"       // no request was made
	verdictNeverSent = "never_sent" // it provably reached nobody
	verdictSuccess   = "success"
)

func verdictOf(a *flavoso.Attempt) string {
	switch {
	case a == nil || a.Verdict == "":
		return verdictNone
	case a.NeverSent:
		return verdictNeverSent
	}
	return a.Verdict
}

// connectionState puts a status in one word: what keeps operations from being sent.
func connectionState(s flavoso.Status) string {
	switch {
	case s.AuthRequired:
		return "unauthorized"
	case !s.OfflineSince.IsZero():
		return "offline"
	case !s.PausedUntil.IsZero():
		return "paused"
	}
	return "online"
}

// longestDuration bounds durations that are believed.
const longestDuration = 366 * 24 * time.Hour

// believable returns the time from one reading of a wall clock to a later one. false = the clock was set in
// between, so that the difference says nothing.
func believable(from, to time.Time) (time.Duration, bool) {
	d := to.Sub(from)
	return d, !from.IsZero() && !to.IsZero() && d >= 0 && d <= longestDuration
}
