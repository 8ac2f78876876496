package conformance_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/mockserver/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func target(t *testing.T, srv *mockserver.Server) conformance.Target {
	target := conformance.Target{BaseURL: srv.BaseURL(), Token: srv.Token("store-42"), SecondToken: srv.Token("store-43"), Transport: srv.Transport()}
	control, err := conformance.MockControl(t.Context(), target)
	require.NoError(t, err)
	target.Control = control
	return target
}

func byClause(results []conformance.Result) map[string]conformance.Status {
	out := map[string]conformance.Status{}
	for _, r := range results {
		out[r.Clause] = r.Status
	}
	return out
}

func TestMockServerConforms(t *testing.T) {
	srv := mockserver.Start(t)
	srv.AddOrder("store-42", mockserver.Order{AcceptBy: srv.Clock().Now().AddDate(1, 0, 0)}) // not ours: must stay as it is
	results, err := conformance.Check(t.Context(), target(t, srv))
	require.NoError(t, err)
	require.Len(t, results, 17)
	for _, r := range results {
		assert.Equal(t, conformance.Pass, r.Status, "%s (%s): %s", r.Clause, r.Name, r.Detail)
		assert.NotEmpty(t, r.Name)
	}
	for _, b := range srv.Bookings("store-42") {
		assert.Contains(t, []string{mockserver.BookingCancelled, mockserver.BookingCompleted}, b.Status, "what was made is cleaned up")
	}
	assert.Len(t, srv.Orders("store-42"), 5, "one that was there, four of the check's own")
	assert.Equal(t, 1, srv.Orders("store-42")[0].Version)
}

func TestConformsUnderEveryReadingOfTheContract(t *testing.T) {
	for name, change := range map[string]func(*mockserver.Switches){
		"query ignored":    func(s *mockserver.Switches) { s.Query = "ignore" },
		"holds no 4xx":     func(s *mockserver.Switches) { s.Hold4xx = "none" },
		"holds all 4xx":    func(s *mockserver.Switches) { s.Hold4xx = "all" },
		"from receipt":     func(s *mockserver.Switches) { s.HoldFrom = "receipt" },
		"no Retry-After":   func(s *mockserver.Switches) { s.RetryAfterInProgress = false },
		"claims early":     func(s *mockserver.Switches) { s.ClaimOnHeaders = true },
		"flat errors":      func(s *mockserver.Switches) { s.ErrorEnvelope = "flat" },
		"bookings request": func(s *mockserver.Switches) { s.BookingStatus = "requested" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, target(t, mockserver.Start(t, mockserver.InMemory(), mockserver.WithSwitches(change))))
		})
	}
}

func TestWithoutControlAndSecondTokenClausesAreSkippedByName(t *testing.T) {
	srv := mockserver.Start(t, mockserver.InMemory())
	results, err := conformance.Check(t.Context(), conformance.Target{BaseURL: srv.BaseURL() + "/", Token: srv.Token("store-42"), Transport: srv.Transport()})
	require.NoError(t, err)
	got := byClause(results)
	for _, id := range []string{"F4", "F5", "F9", "F13", "F14", "F16"} {
		assert.Equal(t, conformance.Skip, got[id], id)
	}
	for _, id := range []string{"F1", "F2", "F3", "F6", "F7", "F8", "F10", "F11", "F12", "F15", "F17"} {
		assert.Equal(t, conformance.Pass, got[id], id)
	}
	for _, r := range results {
		assert.Equal(t, r.Status == conformance.Skip || r.Clause == "F17", r.Detail != "", r.Clause)
	}
	assert.Empty(t, srv.Orders("store-42"))
}

func TestTargetsThatCannotBeChecked(t *testing.T) {
	srv := mockserver.Start(t, mockserver.InMemory(), mockserver.RequireKnownTokens())
	for want, target := range map[string]conformance.Target{
		"BaseURL must be":    {BaseURL: "flavoso.com", Token: "x"},
		"Token is required":  {BaseURL: srv.BaseURL()},
		"is not accepted":    {BaseURL: srv.BaseURL(), Token: "x", Transport: srv.Transport()},
		"cannot be reached":  {BaseURL: "http://127.0.0.1:1/v1", Token: "x"},
		"this transport rea": {BaseURL: "http://other/v1", Token: "x", Transport: srv.Transport()},
	} {
		_, err := conformance.Check(t.Context(), target)
		assert.ErrorContains(t, err, want)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	_, err := conformance.MockControl(t.Context(), conformance.Target{BaseURL: plain.URL, Token: "x"})
	assert.ErrorContains(t, err, "is no mock server")
	http.DefaultClient.CloseIdleConnections()
}

func TestRunReportsToATest(t *testing.T) {
	srv := mockserver.Start(t, mockserver.InMemory(), mockserver.WithSwitches(func(s *mockserver.Switches) { s.Hold4xx, s.BookingCapacity = "none", 0 }))
	broken := target(t, srv)
	broken.Control.NewToken = nil
	broken.SecondToken = broken.Token // a wrong set-up shows
	rec := &recorder{}
	conformance.Run(rec, broken)
	require.Len(t, rec.errors, 1)
	assert.Contains(t, rec.errors[0], "F4")
	rec = &recorder{}
	conformance.Run(rec, conformance.Target{})
	assert.Len(t, rec.errors, 1)
}

func TestCheckStopsWithItsContext(t *testing.T) {
	srv := mockserver.Start(t, mockserver.InMemory())
	tg := target(t, srv)
	ctx, cancel := context.WithCancel(t.Context())
	advance := tg.Control.Advance
	tg.Control.Advance = func(ctx context.Context, d time.Duration) error { cancel(); return advance(ctx, d) }
	results, err := conformance.Check(ctx, tg)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Len(t, results, 5)
}
