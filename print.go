package flavoso

import (
	"fmt"
	"io"
	"log/slog"
)

// Format implements [fmt.Formatter]: every verb shows how many OutboxKeys there are and hides what they are. (In an
// unexported field of another struct fmt cannot ask for this.)
func (c Config) Format(s fmt.State, verb rune) {
	type plain Config
	c.OutboxKeys = make([][]byte, len(c.OutboxKeys))
	fmt.Fprintf(s, fmt.FormatString(s, verb), plain(c))
}

// String names the call and what it is about, without keys and bodies, which may hold guests' data.
func (c Call[T]) String() string {
	if c.err != nil {
		return c.err.Error()
	}
	return fmt.Sprintf("%s of %q", c.record.Kind, c.record.Resource)
}

// Format implements [fmt.Formatter]: every verb prints String.
func (c Call[T]) Format(s fmt.State, _ rune) { io.WriteString(s, c.String()) }

// String names the operation and where it stands, without keys, bodies or messages, which may hold guests'
// data. It is what %v, %+v, %s and %q print; %#v shows all fields.
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
