package promidempotency_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/telemetry/promidempotency"
)

type clock struct{ now time.Time }

func request(key string) idempotency.ClaimRequest {
	return idempotency.ClaimRequest{Scope: idempotency.Scope{Tenant: "t", Operation: "op", Key: key},
		Fingerprint: idempotency.NewFingerprint(16, []byte(key)), Lease: time.Minute, Retention: time.Hour}
}

// Every figure of S16, from an engine that has seen one of each.
func TestEveryFigure(t *testing.T) {
	ctx := t.Context()
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	eng := idempotency.NewMemory(idempotency.WithClock(func() time.Time { return c.now }))
	claim := func(req idempotency.ClaimRequest, want idempotency.Decision) idempotency.Claim {
		t.Helper()
		res, err := eng.Claim(ctx, req)
		require.NoError(t, err)
		require.Equal(t, want, res.Decision)
		return res.Claim
	}
	require.NoError(t, eng.Complete(ctx, claim(request("expired"), idempotency.New), idempotency.Result{Status: 201, Body: make([]byte, 100)}))
	c.now = c.now.Add(30 * time.Minute)
	held := claim(request("held"), idempotency.New)
	require.NoError(t, eng.Complete(ctx, held, idempotency.Result{Status: 201}))
	claim(request("held"), idempotency.Replay)
	other := request("held")
	other.Fingerprint = idempotency.NewFingerprint(16, []byte("other"))
	claim(other, idempotency.Mismatch)
	require.NoError(t, eng.Fail(ctx, claim(request("failed"), idempotency.New), idempotency.Result{Status: 422}))
	require.NoError(t, eng.Complete(ctx, claim(request("large"), idempotency.New), idempotency.Result{Status: 200, Omitted: true}))
	claim(request("large"), idempotency.ResultGone)
	require.NoError(t, eng.Release(ctx, claim(request("released"), idempotency.New)))
	require.ErrorIs(t, eng.Release(ctx, held), idempotency.ErrFinished)
	stale := claim(request("taken over"), idempotency.New)
	late := claim(request("late"), idempotency.New)
	unknown := claim(request("unknown"), idempotency.New)
	require.NoError(t, eng.MarkUncertain(ctx, unknown, "x"))
	claim(request("unknown"), idempotency.Uncertain)
	settled := claim(request("settled"), idempotency.New)
	require.NoError(t, eng.MarkUncertain(ctx, settled, "x"))
	require.NoError(t, eng.Reconcile(ctx, request("settled").Scope.ID(), settled.Generation, idempotency.Reconciliation{Verdict: idempotency.DidNotHappen}))
	claim(request("lapsed"), idempotency.New)
	c.now = c.now.Add(2 * time.Minute)
	claim(request("taken over"), idempotency.TakenOver)
	claim(request("taken over"), idempotency.InProgress)
	require.ErrorIs(t, eng.Complete(ctx, stale, idempotency.Result{}), idempotency.ErrOwnershipLost)
	require.NoError(t, eng.Complete(ctx, late, idempotency.Result{Status: 200}))
	c.now = c.now.Add(28 * time.Minute) // the first is expired now: the backlog
	c.now = c.now.Add(10 * time.Second)

	col, err := promidempotency.New(eng, promidempotency.Options{Name: "orders"})
	require.NoError(t, err)
	st, err := eng.Stats(ctx)
	require.NoError(t, err)
	want := fmt.Sprintf(`
# HELP flavoso_idempotency_backlog_age_seconds How long the oldest of them has been expired.
# TYPE flavoso_idempotency_backlog_age_seconds gauge
flavoso_idempotency_backlog_age_seconds{engine="orders"} 10
# HELP flavoso_idempotency_backlog_records Expired records that are not deleted yet.
# TYPE flavoso_idempotency_backlog_records gauge
flavoso_idempotency_backlog_records{engine="orders"} 1
# HELP flavoso_idempotency_claims_total Claims by decision.
# TYPE flavoso_idempotency_claims_total counter
flavoso_idempotency_claims_total{decision="in_progress",engine="orders"} 1
flavoso_idempotency_claims_total{decision="mismatch",engine="orders"} 1
flavoso_idempotency_claims_total{decision="new",engine="orders"} 10
flavoso_idempotency_claims_total{decision="replay",engine="orders"} 1
flavoso_idempotency_claims_total{decision="result_gone",engine="orders"} 1
flavoso_idempotency_claims_total{decision="taken_over",engine="orders"} 1
flavoso_idempotency_claims_total{decision="uncertain",engine="orders"} 1
# HELP flavoso_idempotency_finished_total Stored results by state.
# TYPE flavoso_idempotency_finished_total counter
flavoso_idempotency_finished_total{engine="orders",state="completed"} 4
flavoso_idempotency_finished_total{engine="orders",state="failed"} 1
# HELP flavoso_idempotency_lapsed_records Processing records whose lease has ended.
# TYPE flavoso_idempotency_lapsed_records gauge
flavoso_idempotency_lapsed_records{engine="orders"} 2
# HELP flavoso_idempotency_late_completions_total Results stored after the lease had ended, by the rightful owner.
# TYPE flavoso_idempotency_late_completions_total counter
flavoso_idempotency_late_completions_total{engine="orders"} 1
# HELP flavoso_idempotency_oldest_held_seconds Age of the oldest result still valid, 0 if there is none.
# TYPE flavoso_idempotency_oldest_held_seconds gauge
flavoso_idempotency_oldest_held_seconds{engine="orders"} 1810
# HELP flavoso_idempotency_oldest_processing_seconds Age of the oldest processing record, 0 if there is none.
# TYPE flavoso_idempotency_oldest_processing_seconds gauge
flavoso_idempotency_oldest_processing_seconds{engine="orders"} 1810
# HELP flavoso_idempotency_oldest_uncertain_seconds Age of the oldest uncertain record, 0 if there is none.
# TYPE flavoso_idempotency_oldest_uncertain_seconds gauge
flavoso_idempotency_oldest_uncertain_seconds{engine="orders"} 1810
# HELP flavoso_idempotency_open_records Records that are not finished, by state.
# TYPE flavoso_idempotency_open_records gauge
flavoso_idempotency_open_records{engine="orders",state="processing"} 2
flavoso_idempotency_open_records{engine="orders",state="uncertain"} 1
# HELP flavoso_idempotency_ownership_lost_total Steps refused because another claim owns the operation.
# TYPE flavoso_idempotency_ownership_lost_total counter
flavoso_idempotency_ownership_lost_total{engine="orders"} 1
# HELP flavoso_idempotency_reconciled_total Uncertain or lapsed records that were settled.
# TYPE flavoso_idempotency_reconciled_total counter
flavoso_idempotency_reconciled_total{engine="orders"} 1
# HELP flavoso_idempotency_records Records kept, expired ones included.
# TYPE flavoso_idempotency_records gauge
flavoso_idempotency_records{engine="orders"} 8
# HELP flavoso_idempotency_records_estimated 1 if flavoso_idempotency_records is an estimate, else 0.
# TYPE flavoso_idempotency_records_estimated gauge
flavoso_idempotency_records_estimated{engine="orders"} 0
# HELP flavoso_idempotency_released_total Keys freed because the operation had no effect.
# TYPE flavoso_idempotency_released_total counter
flavoso_idempotency_released_total{engine="orders"} 1
# HELP flavoso_idempotency_size_bytes Size of all records.
# TYPE flavoso_idempotency_size_bytes gauge
flavoso_idempotency_size_bytes{engine="orders"} %d
# HELP flavoso_idempotency_swept_bytes_total Size of the expired records deleted.
# TYPE flavoso_idempotency_swept_bytes_total counter
flavoso_idempotency_swept_bytes_total{engine="orders"} 0
# HELP flavoso_idempotency_swept_records_total Expired records deleted.
# TYPE flavoso_idempotency_swept_records_total counter
flavoso_idempotency_swept_records_total{engine="orders"} 0
# HELP flavoso_idempotency_uncertain_total Records that became uncertain.
# TYPE flavoso_idempotency_uncertain_total counter
flavoso_idempotency_uncertain_total{engine="orders"} 2
# HELP flavoso_idempotency_up 1 if the engine's figures could be read at this scrape, else 0.
# TYPE flavoso_idempotency_up gauge
flavoso_idempotency_up{engine="orders"} 1
`, st.Bytes)
	var names []string
	for _, line := range strings.Split(want, "\n") {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	require.NoError(t, testutil.CollectAndCompare(col, strings.NewReader(want), names...))
	rep, err := eng.Sweep(ctx, 10)
	require.NoError(t, err)
	require.Equal(t, 1, rep.Deleted)
	require.NoError(t, testutil.CollectAndCompare(col, strings.NewReader(fmt.Sprintf(`
# HELP flavoso_idempotency_swept_bytes_total Size of the expired records deleted.
# TYPE flavoso_idempotency_swept_bytes_total counter
flavoso_idempotency_swept_bytes_total{engine="orders"} %d
# HELP flavoso_idempotency_swept_records_total Expired records deleted.
# TYPE flavoso_idempotency_swept_records_total counter
flavoso_idempotency_swept_records_total{engine="orders"} 1
`, rep.Bytes)), "flavoso_idempotency_swept_bytes_total", "flavoso_idempotency_swept_records_total"))
}

func TestEventsOfTheMiddleware(t *testing.T) {
	eng := idempotency.NewMemory()
	col, err := promidempotency.New(eng, promidempotency.Options{})
	require.NoError(t, err)
	mw, err := idempotency.NewMiddleware(eng, idempotency.Options{Observe: col.Observe,
		Tenant: func(*http.Request) (string, error) { return "t", nil }})
	require.NoError(t, err)
	h := mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok") }))
	for _, key := range []string{"k", "k", "", "bad\x01"} {
		r := httptest.NewRequest("POST", "/", nil)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	require.NoError(t, testutil.CollectAndCompare(col, strings.NewReader(`
# HELP flavoso_idempotency_events_total What the middleware did, by kind.
# TYPE flavoso_idempotency_events_total counter
flavoso_idempotency_events_total{engine="default",kind="claim"} 2
flavoso_idempotency_events_total{engine="default",kind="passed"} 1
flavoso_idempotency_events_total{engine="default",kind="refused"} 1
flavoso_idempotency_events_total{engine="default",kind="run"} 1
flavoso_idempotency_events_total{engine="default",kind="save"} 1
`), "flavoso_idempotency_events_total"))
	reg := prometheus.NewPedanticRegistry()
	require.NoError(t, reg.Register(col))
	families, err := reg.Gather()
	require.NoError(t, err)
	counts := map[string]uint64{}
	for _, f := range families {
		if h := f.GetMetric()[0].GetHistogram(); h != nil {
			counts[f.GetName()] = h.GetSampleCount()
		}
	}
	require.Equal(t, map[string]uint64{"flavoso_idempotency_claim_duration_seconds": 2,
		"flavoso_idempotency_save_duration_seconds": 1, "flavoso_idempotency_handler_duration_seconds": 1}, counts)
}

type down struct{ idempotency.Engine }

func (down) Stats(context.Context) (idempotency.Stats, error) {
	return idempotency.Stats{}, errors.New("down")
}

func TestAnEngineThatIsDownShows(t *testing.T) {
	col, err := promidempotency.New(down{idempotency.NewMemory()}, promidempotency.Options{})
	require.NoError(t, err)
	require.NoError(t, testutil.CollectAndCompare(col, strings.NewReader(`
# HELP flavoso_idempotency_up 1 if the engine's figures could be read at this scrape, else 0.
# TYPE flavoso_idempotency_up gauge
flavoso_idempotency_up{engine="default"} 0
`), "flavoso_idempotency_up", "flavoso_idempotency_records"))
	_, err = promidempotency.New(nil, promidempotency.Options{})
	require.Error(t, err)
}

func TestNamesAreGoodAndTwoEnginesCanBeRegistered(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, name := range []string{"a", "b"} {
		col, err := promidempotency.New(idempotency.NewMemory(), promidempotency.Options{Name: name})
		require.NoError(t, err)
		require.NoError(t, reg.Register(col))
		problems, err := testutil.CollectAndLint(col)
		require.NoError(t, err)
		require.Empty(t, problems)
	}
}

// The documentation lists exactly the metrics there are.
func TestTheDocumentationListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`(flavoso_idempotency_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	col, err := promidempotency.New(idempotency.NewMemory(), promidempotency.Options{})
	require.NoError(t, err)
	descs := make(chan *prometheus.Desc, 100)
	col.Describe(descs)
	close(descs)
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	var have, listed []string
	for d := range descs {
		have = append(have, name.FindStringSubmatch(d.String())[1])
	}
	for n := range documented {
		listed = append(listed, n)
	}
	sort.Strings(have)
	sort.Strings(listed)
	require.Equal(t, have, listed)
	for _, kind := range []idempotency.EventKind{idempotency.EventClaim, idempotency.EventRun, idempotency.EventSave, idempotency.EventPassed,
		idempotency.EventRefused, idempotency.EventEngineError, idempotency.EventFailedOpen, idempotency.EventOwnershipLost,
		idempotency.EventUncertain, idempotency.EventOversize, idempotency.EventPanic} {
		require.Contains(t, string(text), "`"+string(kind)+"`")
	}
}
