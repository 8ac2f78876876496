package otelflavoso_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/telemetry/otelflavoso"
)

// documented returns the rows of the documentation's tables whose first cell matches, by that cell.
func documented(t *testing.T, first string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	rows := map[string][]string{}
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if m := regexp.MustCompile("^`(" + first + ")`$").FindStringSubmatch(cells[0]); m != nil {
			require.NotContains(t, rows, m[1])
			rows[m[1]] = cells
		}
	}
	return rows
}

// everyTrouble has a client meet errors of every kind, and returns what must not be told.
func everyTrouble(t *testing.T, w *watched) (secrets []string) {
	const guest, tag, ref = "Xavier-Guest-Secret", "Tag-Secret", "ref-secret"
	faults := []mockserver.Fault{
		mockserver.Reset(), mockserver.DropResponse(), mockserver.Status(503), mockserver.Portal(), mockserver.ProxyError(),
		mockserver.Status(401), mockserver.Status(403), mockserver.Truncate(10), mockserver.Status(409).Code("conflict"),
		mockserver.Status(400).Body(`{"error":{"code":"validation_failed","message":"` + guest + ` is no name"}}`),
		mockserver.Status(422).Code("idempotency_key_reused"), mockserver.Hang(), mockserver.Status(301), mockserver.RateLimit(time.Minute),
		mockserver.CrashAfterCommit(),
	}
	secrets = []string{guest, tag, ref, w.srv.Token(store), "Lane-Secret"}
	for i, f := range faults {
		w.srv.Inject(f.On("POST", "").Times(1).Optional())
		p := flavoso.BookingParams{PartySize: 4, StartsAt: time.Date(2100, 1, 2, 19, 0, 0, 0, time.UTC), Customer: flavoso.BookingCustomer{Name: guest}}
		call := w.Bookings.Create(fmt.Sprint(ref, "-", i), p).WithTag(tag).WithLane(fmt.Sprint("Lane-Secret-", i))
		_, _ = call.Do(within(t, 10*time.Minute)) // every outcome is welcome
		id := w.order()
		accept := w.Orders.Accept(id, flavoso.AcceptParams{})
		secrets = append(secrets, id, string(accept.Key()), string(call.Key()))
		_, _ = accept.Do(within(t, 10*time.Minute))
	}
	refuse := w.srv.Inject(mockserver.Refuse())
	_, err := w.Orders.Accept(w.order(), flavoso.AcceptParams{}).WithExpiry(time.Minute).Do(within(t, time.Hour))
	require.ErrorIs(t, err, flavoso.ErrExpired)
	refuse.Remove()
	w.Wake()
	require.NoError(t, w.Flush(within(t, 10*time.Hour)))
	require.NoError(t, w.Close())
	w.cfg.Token = flavoso.StaticToken("a-refused-token")
	w.open()
	_, _ = w.Orders.Accept(w.order(), flavoso.AcceptParams{}).Enqueue(t.Context())
	time.Sleep(10 * time.Minute)
	require.True(t, w.Status().AuthRequired)
	return append(secrets, "a-refused-token")
}

// TestNamesAndSecrets: over errors of every kind, what is told has documented names, units and attributes, and
// holds nothing that is not for everybody's eyes.
func TestNamesAndSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, sdktrace.AlwaysSample(), nil)
		ctx, caller := w.opts.TracerProvider.Tracer("pos").Start(t.Context(), "caller")
		_, err := w.Orders.Accept(w.order(), flavoso.AcceptParams{}).Do(ctx)
		require.NoError(t, err)
		synctest.Wait()
		caller.End()
		secrets := everyTrouble(t, w)
		gauges, err := otelflavoso.Observe(w.opts, w)
		require.NoError(t, err)
		defer func() { require.NoError(t, gauges.Unregister()) }()

		attributes := documented(t, `(?:flavoso\.(?:operation|attempt|connection|request)\.[a-z_]+|http\.[a-z_.]+|error\.type)`)
		known := func(attrs []attribute.KeyValue, metric bool) {
			for _, a := range attrs {
				require.Contains(t, attributes, string(a.Key))
				if metric {
					require.Equal(t, "yes", attributes[string(a.Key)][1], a.Key)
				}
			}
		}
		seen := map[attribute.Key]bool{}
		verdicts := map[string]bool{}
		for _, s := range w.spans.Ended() {
			known(s.Attributes(), false)
			for _, a := range s.Attributes() {
				seen[a.Key] = true
				if a.Key == "flavoso.attempt.verdict" {
					verdicts[a.Value.AsString()] = true
				}
			}
			for _, e := range s.Events() {
				known(e.Attributes, false)
			}
		}
		require.Greater(t, len(verdicts), 7, "%v", verdicts)
		text, err := os.ReadFile("../../docs/observability.md")
		require.NoError(t, err)
		for v := range verdicts {
			require.Contains(t, string(text), "`"+v+"`")
		}

		metrics := documented(t, `flavoso\.client\.[a-z_.]+`)
		told := w.metrics()
		require.Len(t, told, len(metrics), "every metric is documented, and every documented one is there")
		for name, m := range told {
			require.Contains(t, metrics, name)
			row := metrics[name]
			kind, points := "", [][]attribute.KeyValue{}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				if kind = "updowncounter"; d.IsMonotonic {
					kind = "counter"
				}
				for _, p := range d.DataPoints {
					points = append(points, p.Attributes.ToSlice())
				}
			case metricdata.Gauge[float64]:
				kind = "gauge"
				for _, p := range d.DataPoints {
					points = append(points, p.Attributes.ToSlice())
				}
			case metricdata.Histogram[float64]:
				kind = "histogram"
				for _, p := range d.DataPoints {
					points = append(points, p.Attributes.ToSlice())
				}
			}
			var keys []string
			for _, attrs := range points {
				known(attrs, true)
				for _, a := range attrs {
					if k := "`" + string(a.Key) + "`"; !slices.Contains(keys, k) {
						keys = append(keys, k)
					}
				}
			}
			require.Equal(t, kind, row[1], name)
			require.Equal(t, "`"+m.Unit+"`", row[2], name)
			require.NotEmpty(t, m.Description, name)
			var listed []string
			if row[3] != "" {
				listed = strings.Split(row[3], ", ")
			}
			require.ElementsMatch(t, keys, listed, name)
			require.Less(t, len(points), 60, "few series: %s", name)
		}

		spans, err := json.Marshal(tracetest.SpanStubsFromReadOnlySpans(w.spans.Ended()))
		require.NoError(t, err)
		all := string(spans) + fmt.Sprintf("%+v", told)
		for _, secret := range secrets {
			require.NotContains(t, all, secret)
		}
		metricsOnly := fmt.Sprintf("%+v", told)
		for o, err := range w.Operations.List(t.Context(), flavoso.OperationFilter{}) {
			require.NoError(t, err)
			require.NotContains(t, metricsOnly, o.ID)
			require.Contains(t, string(spans), o.ID)
		}
	})
}

// TestEveryAttributeIsDocumented compares the source with the documentation, where no test may reach.
func TestEveryAttributeIsDocumented(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	inCode := []string{"http.response.status_code", "error.type"}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`attribute\.Key\("([^"]+)"\)`).FindAllStringSubmatch(string(source), -1) {
			inCode = append(inCode, m[1])
		}
	}
	var listed []string
	for name := range documented(t, `(?:flavoso\.(?:operation|attempt|connection|request)\.[a-z_]+|http\.[a-z_.]+|error\.type)`) {
		listed = append(listed, name)
	}
	require.ElementsMatch(t, inCode, listed)
}
