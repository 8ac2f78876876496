package flavoso

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// TokenSource gives the access token of a connection (F1). It is asked before requests, may be asked from
// many goroutines, and should answer from memory: renew when the token is about to expire, or when
// TokenRequest.Rejected is the one it would give. An error is temporary: it postpones sending and loses
// nothing.
//
// A token belongs to one connection (F4). Operations stay with their connection when the token changes.
type TokenSource interface {
	Token(ctx context.Context, r TokenRequest) (string, error)
}

// TokenRequest says whose token is wanted.
type TokenRequest struct {
	// Connection is the connection's name, as in Config.Connection.
	Connection string
	// Rejected is the token that Flavoso just refused; "" = none. Giving it again makes the connection
	// pause until there is another.
	Rejected string
}

// StaticToken is a TokenSource with one token for ever. It prints as "[redacted]" under every verb.
func StaticToken(token string) TokenSource {
	// The token is kept in a function: not even printing the fields of a struct that holds the source
	// shows it.
	give := TokenFunc(func(context.Context, TokenRequest) (string, error) { return token, nil })
	return staticToken{TokenFunc: give, rule: tokenFault(token)}
}

// staticToken is what StaticToken returns: Open can tell beforehand that it will never do.
type staticToken struct {
	TokenFunc
	rule string // what is wrong with the token; "" = nothing
}

// tokenFault says what is wrong with a token, without showing it; "" = nothing.
func tokenFault(token string) string {
	switch {
	case token == "":
		return "must not be empty"
	case strings.HasPrefix(token, "Bearer "):
		return "must be the token alone, without \"Bearer \""
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "must be printable ASCII without spaces or line breaks"
	}
	return ""
}

// TokenFunc is a function as a TokenSource.
type TokenFunc func(ctx context.Context, r TokenRequest) (string, error)

// Token implements [TokenSource].
func (f TokenFunc) Token(ctx context.Context, r TokenRequest) (string, error) { return f(ctx, r) }

const redacted = "[redacted]"

// Format implements [fmt.Formatter]: every verb prints "[redacted]".
func (TokenFunc) Format(s fmt.State, _ rune) { io.WriteString(s, redacted) }

// MarshalText implements [encoding.TextMarshaler], for JSON and the like.
func (TokenFunc) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements [slog.LogValuer].
func (TokenFunc) LogValue() slog.Value { return slog.StringValue(redacted) }

// shown is what of a request may be seen.
func (r TokenRequest) shown() (connection, rejected string) {
	if r.Rejected != "" {
		rejected = redacted
	}
	return r.Connection, rejected
}

// Format implements [fmt.Formatter]: every verb prints the connection and hides the token.
func (r TokenRequest) Format(s fmt.State, _ rune) {
	connection, rejected := r.shown()
	fmt.Fprintf(s, "{Connection:%s Rejected:%s}", connection, rejected)
}

// MarshalJSON implements [json.Marshaler]; the token is hidden.
func (r TokenRequest) MarshalJSON() ([]byte, error) {
	connection, rejected := r.shown()
	return marshal(map[string]string{"connection": connection, "rejected": rejected})
}

// LogValue implements [slog.LogValuer]; the token is hidden.
func (r TokenRequest) LogValue() slog.Value {
	connection, rejected := r.shown()
	return slog.GroupValue(slog.String("connection", connection), slog.String("rejected", rejected))
}
