package flavoso

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTokensAreRedactedUnderEveryVerb(t *testing.T) {
	const secret = "tok_s3cret"
	static := StaticToken(secret)
	token, err := static.Token(t.Context(), TokenRequest{Connection: "store-42"})
	require.NoError(t, err)
	require.Equal(t, secret, token)

	type hidden struct{ source TokenSource } // fmt cannot call methods on unexported fields
	for name, v := range map[string]any{
		"static":     static,
		"pointer":    &static,
		"func":       TokenFunc(func(context.Context, TokenRequest) (string, error) { return secret, nil }),
		"in a field": struct{ Token TokenSource }{static},
		"hidden":     hidden{static},
		"in a map":   map[string]TokenSource{"t": static},
		"in a slice": []TokenSource{static},
		"request":    TokenRequest{Connection: "store-42", Rejected: secret},
		"requests":   []*TokenRequest{{Connection: "store-42", Rejected: secret}},
	} {
		t.Run(name, func(t *testing.T) {
			// %p is left out: fmt asks no Formatter for it.
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%t", "%z"} {
				text := fmt.Sprintf(verb, v)
				assert.NotContains(t, text, secret, verb)
				assert.NotContains(t, text, fmt.Sprintf("%x", secret), verb)
			}
			assert.NotContains(t, fmt.Sprint(v)+fmt.Sprintln(v), secret)
			b, err := json.Marshal(v)
			require.NoError(t, err)
			assert.NotContains(t, string(b), secret)
			var log bytes.Buffer
			for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
				slog.New(h).Info("x", "v", v, slog.Group("g", "v", v))
			}
			assert.NotContains(t, log.String(), secret)
		})
	}
	assert.Equal(t, "[redacted]", fmt.Sprint(static))
	assert.Equal(t, "[redacted]", fmt.Sprintf("%#v", static))
	assert.Equal(t, "{Connection:store-42 Rejected:[redacted]}", fmt.Sprintf("%+v", TokenRequest{"store-42", secret}))
	assert.Equal(t, "{Connection:store-42 Rejected:}", fmt.Sprint(TokenRequest{Connection: "store-42"}))
}

func TestTokenFuncPassesTheRequestOn(t *testing.T) {
	want := TokenRequest{Connection: "store-42", Rejected: "old"}
	source := TokenFunc(func(_ context.Context, r TokenRequest) (string, error) {
		assert.Equal(t, want, r)
		return "", context.Canceled
	})
	_, err := source.Token(t.Context(), want)
	assert.ErrorIs(t, err, context.Canceled)
}
