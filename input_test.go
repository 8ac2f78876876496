package flavoso

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// TestBadInputOfEveryCall: whatever is wrong shows in the Call, before anything is saved or sent.
func TestBadInputOfEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, inMemory)
		for field, calls := range map[string][]func(context.Context) error{
			"order_id": {doing(s.Orders.Accept("", AcceptParams{})), doing(s.Orders.Acknowledge("a/b", AcknowledgeParams{"1"})),
				doing(s.Orders.Reject("..", RejectParams{Reason: ReasonTooBusy})), doing(s.Orders.Cancel("a?b", CancelParams{Reason: ReasonTooBusy})),
				doing(s.Orders.SetStatus("a b", StatusParams{OrderReady})), doing(s.Orders.Update("ä", UpdateOrderParams{Null[time.Time]()})),
				reading(s.Orders.Get(t.Context(), ""))},
			"booking_id": {doing(s.Bookings.Update("", UpdateBookingParams{Note: Set("x")})), doing(s.Bookings.Cancel("a/b")), doing(s.Bookings.Seat("..")),
				doing(s.Bookings.Complete("a%2Fb")), doing(s.Bookings.NoShow("#")), reading(s.Bookings.Get(t.Context(), "a/b"))},
			"external_id":        {doing(s.Orders.Acknowledge("o", AcknowledgeParams{})), doing(s.Bookings.Create("", BookingParams{PartySize: 1, StartsAt: time.Now()}))},
			"reason":             {doing(s.Orders.Reject("o", RejectParams{})), doing(s.Orders.Cancel("o", CancelParams{}))},
			"status":             {doing(s.Orders.SetStatus("o", StatusParams{"Ready"}))},
			"estimated_ready_at": {doing(s.Orders.Update("o", UpdateOrderParams{}))},
			"body":               {doing(s.Bookings.Update("b", UpdateBookingParams{})), doing(s.Store.Update(UpdateStoreParams{}))},
			"changes":            {doing(s.Menu.SetAvailability(AvailabilityParams{}))},
			"menu":               {doing(s.Menu.Put(nil))},
			"/currency":          {doing(s.Menu.Put(&Menu{}))},
			"hours":              {doing(s.Store.PutHours(nil))},
			"/timezone":          {doing(s.Store.PutHours(&Hours{}))},
			"limit": {reading(s.Orders.ListPage(t.Context(), ListOrdersParams{PageSize: 101}, "")),
				reading(s.Bookings.ListPage(t.Context(), ListBookingsParams{PageSize: -1}, ""))},
		} {
			for i, call := range calls {
				err := call(t.Context())
				var param *ParamError
				require.ErrorAs(t, err, &param, "%s %d", field, i)
				assert.Equal(t, field, param.Field)
				assert.NotEmpty(t, param.Rule)
				assert.Equal(t, FateNotSent, FateOf(err))
			}
		}
		counts, err := s.engine.Counts(t.Context(), "")
		require.NoError(t, err)
		require.Zero(t, counts.LastSeq)
		require.Empty(t, s.srv.Requests())
	})
}

func reading[T any](_ *T, err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

func TestBadInputIsNeitherSavedNorSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, func(c *Config) { c.Limits = outbox.Limits{Body: 200} })
		long := strings.Repeat("x", 256)
		type anything map[string]any
		cases := []struct {
			name  string
			do    func(ctx context.Context) error
			field string
		}{
			{"empty id", doing(s.Orders.Accept("", AcceptParams{})), "order_id"},
			{"hostile id", doing(s.Orders.Accept("a/../b?x", AcceptParams{})), "order_id"},
			{"dots", doing(s.Orders.Accept("..", AcceptParams{})), "order_id"},
			{"negative minutes", doing(s.Orders.Accept("o1", AcceptParams{PreparationMinutes: -1})), "preparation_minutes"},
			{"no external id", doing(s.Orders.Acknowledge("o1", AcknowledgeParams{})), "external_id"},
			{"no party", doing(s.Bookings.Create("r1", BookingParams{StartsAt: time.Now().Add(time.Hour)})), "party_size"},
			{"no reference", doing(s.Bookings.Create("", BookingParams{PartySize: 2, StartsAt: time.Now().Add(time.Hour)})), "external_id"},
			{"key too long", doing(s.Orders.Accept("o1", AcceptParams{}).WithKey(Key(long))), "Idempotency-Key"},
			{"key not ASCII", doing(s.Orders.Accept("o1", AcceptParams{}).WithKey("schlüssel")), "Idempotency-Key"},
			{"empty key", doing(s.Orders.Accept("o1", AcceptParams{}).WithKey("")), "Idempotency-Key"},
			{"body that does not encode", doing(NewCall[anything](s.Client, "POST", "/x", func() {})), "body"},
			{"body over the limit", doing(NewCall[anything](s.Client, "POST", "/x", long)), "body"},
			{"path without a slash", doing(NewCall[anything](s.Client, "POST", "x", nil)), "path"},
			{"path with a space", doing(NewCall[anything](s.Client, "POST", "/x y", nil)), "path"},
			{"method that reads", doing(NewCall[anything](s.Client, "GET", "/x", nil)), "method"},
			{"key on a PUT", doing(NewCall[anything](s.Client, "PUT", "/x", nil).WithKey("k")), "Idempotency-Key"},
			{"supersede on a POST", doing(s.Orders.Accept("o1", AcceptParams{}).WithSupersede()), "supersede"},
			{"expiry in the past", doing(s.Orders.Accept("o1", AcceptParams{}).WithExpiry(-time.Second)), "expiry"},
			{"no lane", doing(s.Orders.Accept("o1", AcceptParams{}).WithLane("")), "lane"},
			{"a lane that JSON cannot name", doing(s.Orders.Accept("o1", AcceptParams{}).WithLane("a\xff")), "lane"},
			{"a tag that JSON cannot name", doing(s.Orders.Accept("o1", AcceptParams{}).WithTag("a\xff")), "tag"},
			{"a path that is resolved on the way", doing(NewCall[anything](s.Client, "POST", "/orders/../store", nil)), "path"},
			{"the same at its end", doing(NewCall[anything](s.Client, "PUT", "/orders/.", nil)), "path"},
			{"the same above the base", doing(NewCall[anything](s.Client, "PUT", "/..?x=1", nil)), "path"},
		}
		for _, tc := range cases {
			err := tc.do(t.Context())
			var param *ParamError
			require.ErrorAs(t, err, &param, tc.name)
			require.Contains(t, param.Field, tc.field, tc.name)
			require.Equal(t, FateNotSent, FateOf(err), tc.name)
			require.ErrorIs(t, err, ErrNotSaved, tc.name)
		}
		counts, err := s.engine.Counts(t.Context(), "")
		require.NoError(t, err)
		require.Zero(t, counts.LastSeq)
		require.Empty(t, s.srv.Requests())

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Orders.Accept("o1", AcceptParams{}).Do(ctx)
		require.ErrorIs(t, err, ErrNotSaved)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, FateNotSent, FateOf(err))
		_, err = s.Orders.Get(ctx, "o1")
		var read *ReadError
		require.ErrorAs(t, err, &read)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, read.Attempts, "%v", err)
		_, err = Get[anything](t.Context(), s.Client, "/orders/..", nil)
		require.ErrorAs(t, err, new(*ParamError))
		require.Empty(t, s.srv.Requests())
	})
}

func TestOpenSaysWhatToSet(t *testing.T) {
	good := func() Config {
		return Config{Connection: store, Token: StaticToken("t"), OutboxPath: filepath.Join(t.TempDir(), "pos.outbox")}
	}
	cases := []struct {
		name   string
		change func(*Config)
		field  string
	}{
		{"no connection", func(c *Config) { c.Connection = "" }, "Config.Connection"},
		{"a connection that JSON cannot name", func(c *Config) { c.Connection = "a\xff" }, "Config.Connection"},
		{"control characters", func(c *Config) { c.Connection = "a\x7f" }, "Config.Connection"},
		{"no token", func(c *Config) { c.Token = nil }, "Config.Token"},
		{"no token function", func(c *Config) { c.Token = TokenFunc(nil) }, "Config.Token"},
		{"no outbox", func(c *Config) { c.OutboxPath = "" }, "Config.OutboxPath"},
		{"two outboxes", func(c *Config) { c.Outbox = outbox.NewMemory() }, "Config.OutboxPath"},
		{"plain http", func(c *Config) { c.BaseURL = "http://api.flavoso.com/v1" }, "Config.BaseURL"},
		{"looks like loopback", func(c *Config) { c.BaseURL = "http://127.0.0.1.example.com/v1" }, "Config.BaseURL"},
		{"a port and no host", func(c *Config) { c.BaseURL = "https://:443/v1" }, "Config.BaseURL"},
		{"no scheme", func(c *Config) { c.BaseURL = "api.flavoso.com" }, "Config.BaseURL"},
		{"credentials in the URL", func(c *Config) { c.BaseURL = "https://me:secret@api.flavoso.com/v1" }, "Config.BaseURL"},
		{"a query", func(c *Config) { c.BaseURL = "https://api.flavoso.com/v1?x=1" }, "Config.BaseURL"},
		{"negative concurrency", func(c *Config) { c.Concurrency = -1 }, "Config.Concurrency"},
		{"negative timeout", func(c *Config) { c.AttemptTimeout = -1 }, "Config.AttemptTimeout"},
		{"a timeout longer than the key lives", func(c *Config) { c.AttemptTimeout = 24 * time.Hour }, "Config.AttemptTimeout"},
		{"negative limit", func(c *Config) { c.Limits.Body = -1 }, "Config.Limits"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			cfg := good()
			tc.change(&cfg)
			c, err := Open(cfg)
			require.Nil(t, c)
			var param *ParamError
			require.ErrorAs(t, err, &param)
			require.Equal(t, tc.field, param.Field)
			require.NotContains(t, err.Error(), "secret")
		})
	}
	for _, base := range []string{"", "https://example.com", "http://localhost:4010/v1", "http://127.0.0.9:1", "http://[::1]:4010"} {
		cfg := good()
		cfg.BaseURL = base
		c, err := Open(cfg)
		require.NoError(t, err, base)
		require.NoError(t, c.Close())
	}
}

func TestAnOutboxThatDoesNotOpenSavesNothing(t *testing.T) {
	cfg := Config{Connection: store, Token: StaticToken("t"), OutboxPath: filepath.Join(t.TempDir(), "pos.outbox"), BaseURL: "http://localhost:1"}
	require.NoError(t, os.WriteFile(cfg.OutboxPath, make([]byte, 1<<15), 0o600))
	c, err := Open(cfg)
	require.Nil(t, c)
	require.ErrorIs(t, err, ErrOutboxDamaged)
	require.ErrorIs(t, err, ErrNotSaved)
	require.Equal(t, FateNotSent, FateOf(err))
}
