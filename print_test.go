package flavoso

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

// Printing or logging an outcome shows no guest.
func TestOutcomesArePrintedWithoutBodies(t *testing.T) {
	o := Outcome{ID: "7", Kind: "bookings.create", Resource: "R-1", State: StateRejected, Code: "conflict",
		Body: []byte(`{"name":"Jörg"}`), Message: "Jörg is there already", request: []byte("Jörg")}
	op := Operation{Outcome: o, RequestBody: []byte("Jörg"), Target: "/bookings?name=Jörg"}
	var log bytes.Buffer
	l := slog.New(slog.NewTextHandler(&log, nil))
	l.Info("outcome", "o", o, "op", op)
	for _, text := range []string{fmt.Sprint(o), fmt.Sprintf("%v %+v %s", o, o, o), fmt.Sprintf("%v %+v", op, &op), log.String()} {
		require.NotContains(t, text, "Jörg")
		require.NotContains(t, text, fmt.Sprint([]byte("Jörg")))
		require.Contains(t, text, "bookings.create")
	}
	require.Equal(t, "operation 7", fmt.Sprint(&Pending[Order]{id: "7"}))
}

// printed is v in every way a log may show it. Verbs that are not for text show the fields of what has no Format,
// and %s and %q those of what its pointers lead to.
func printed(v any) string {
	var b strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%z"} {
		fmt.Fprintf(&b, verb+"\n", v)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(h).Info("x", "v", v, slog.Group("g", "v", v))
	}
	return b.String()
}

// requireHidden looks for a secret in all forms that printing gives it.
func requireHidden(t *testing.T, text string, secret []byte) {
	t.Helper()
	plain := string(secret)
	for _, form := range []string{plain, strings.Trim(fmt.Sprint(secret), "[]"), fmt.Sprintf("%x", plain), fmt.Sprintf("%X", plain),
		strings.Trim(fmt.Sprintf("%x", []string{plain}), "[]"), strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", secret), "[]byte{"), "}"),
		strings.TrimRight(base64.StdEncoding.EncodeToString(secret), "=")} {
		require.NotContains(t, text, form)
	}
}

// Keys of the outbox are as secret as tokens: whoever has one and the file reads every guest.
func TestOutboxKeysAreNotPrinted(t *testing.T) {
	srv := mockserver.Start(t)
	key := newOutboxKey(t)
	cfg := Config{Connection: store, Token: StaticToken(srv.Token(store)), BaseURL: srv.BaseURL(),
		OutboxPath: filepath.Join(t.TempDir(), "pos.outbox"), OutboxKeys: [][]byte{key}, UserAgent: "acme/1"}
	c, err := Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for name, v := range map[string]any{
		"config": cfg, "its pointer": &cfg, "in a field": struct{ Config Config }{cfg}, "in a map": map[string]Config{"x": cfg},
		"client": c, "a service": c.Orders, "a call": c.Orders.Accept("7", AcceptParams{}), "its value": *c.Orders.Accept("7", AcceptParams{}),
		"pending": Attach[Order](c, "7"),
	} {
		t.Run(name, func(t *testing.T) { requireHidden(t, printed(v), key) })
	}
	text := fmt.Sprintf("%+v", cfg)
	require.Contains(t, text, "Connection:"+store)
	require.Contains(t, text, "UserAgent:acme/1")
	require.Contains(t, text, "OutboxKeys:[[]]", "how many there are")
	require.Equal(t, key, cfg.OutboxKeys[0])
}

// A call holds the bytes that name a guest, and printing it shows what it is instead.
func TestCallsArePrintedWithoutBodies(t *testing.T) {
	c := newTill(t, nil).Client
	call := c.Bookings.Create("R-1", BookingParams{PartySize: 2, StartsAt: time.Now(), Customer: BookingCustomer{Name: "Jörg", Phone: "1"}})
	for _, v := range []any{call, *call, struct{ C *Call[Booking] }{call}} {
		text := printed(v)
		requireHidden(t, text, []byte("Jörg"))
		requireHidden(t, text, []byte("party_size"))
		require.Contains(t, text, `bookings.create of "R-1"`)
	}
	require.Equal(t, `bookings.create of "R-1"`, fmt.Sprint(call))
	require.Equal(t, `call of "/print"`, fmt.Sprint(NewCall[Order](c, "POST", "/print?guest=J", nil)))
	require.Equal(t, "flavoso: order_id: must not be empty", fmt.Sprint(c.Orders.Accept("", AcceptParams{})))
}

// The query of a path may name a guest. It is sent, and shown only where bodies are.
func TestQueriesAreNotShown(t *testing.T) {
	s := newTill(t, func(c *Config) { c.MaxWait = time.Millisecond })
	guest := "J%C3%B6rg"
	call := NewCall[json.RawMessage](s.Client, "POST", "/print?guest="+guest, nil)
	_, err := call.Enqueue(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Flush(t.Context()))
	o, ok := call.Outcome()
	require.True(t, ok)
	require.Equal(t, "/print", o.Resource)
	require.Equal(t, "call:/print", o.Lane)
	_, err = Result[Order](o)
	require.ErrorIs(t, err, ErrNotFound, "the mock server has no such endpoint")

	var export bytes.Buffer
	require.NoError(t, s.Operations.Export(t.Context(), &export, OperationFilter{}))
	other := NewCall[Order](s.Client, "POST", "/print?guest="+guest, "other").WithKey(call.Key())
	_, reused := other.Do(t.Context())
	_, unknown := Get[Order](contextFor(t, time.Minute), s.Client, "/nothing?guest="+guest, nil)
	require.ErrorIs(t, unknown, ErrNotFound)
	id := s.srv.AddOrder(store, mockserver.Order{})
	_, misfit := Get[int](contextFor(t, time.Minute), s.Client, "/orders/"+id+"?guest="+guest, nil)
	require.ErrorAs(t, misfit, new(*DecodeError))
	for _, text := range []string{export.String(), o.String(), err.Error(), reused.Error(), unknown.Error(), misfit.Error(), fmt.Sprint(call)} {
		require.NotContains(t, text, guest)
	}
	require.Equal(t, "/print?guest="+guest, posts(s.srv)[0].Target[len("/v1"):])
}
