package flavoso

import (
	"fmt"
	"log/slog"
)

// String names the operation and where it stands, without keys, bodies or messages, which may hold guests'
// data. It is what every verb of fmt prints but %#v.
func (o Outcome) String() string {
	s := fmt.Sprintf("%s %s of %q: %s", o.Kind, o.ID, o.Resource, o.State)
	if o.Code != "" {
		s += " " + o.Code
	}
	if o.Reason != "" {
		s += " (" + o.Reason + ")"
	}
	return s
}

// LogValue gives a log line what is safe to log.
func (o Outcome) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("operation", o.ID), slog.String("connection", o.Connection), slog.String("kind", o.Kind),
		slog.String("state", string(o.State)), slog.Int("revision", o.Revision), slog.Int("attempts", o.Attempts),
		slog.Int("status", o.Status), slog.String("code", o.Code), slog.String("reason", o.Reason),
		slog.String("request_id", o.RequestID))
}

// String names the operation.
func (p *Pending[T]) String() string { return "operation " + p.id }
