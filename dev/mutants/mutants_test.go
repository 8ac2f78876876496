package mutants

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/mockserver/conformance"
)

// check runs the suite against a mutant.
func check(t *testing.T, m Mutant) []conformance.Result {
	t.Helper()
	opts := []mockserver.Option{mockserver.InMemory()}
	if m.Switches != nil {
		opts = append(opts, mockserver.WithSwitches(m.Switches))
	}
	right := mockserver.Start(t, opts...)
	var handler http.Handler = right
	if m.Wrap != nil {
		handler = m.Wrap(right)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	target := conformance.Target{BaseURL: srv.URL + "/v1", Token: "mock_store-42", SecondToken: "mock_store-43"}
	control, err := conformance.MockControl(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	target.Control = control
	results, err := conformance.Check(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestEveryMutantIsCaughtByTheClauseItBreaks(t *testing.T) {
	broken := map[string]bool{}
	for _, m := range All() {
		broken[m.Breaks] = true
		t.Run(m.Breaks+" "+m.Name, func(t *testing.T) {
			t.Parallel()
			caught := false
			for _, r := range check(t, m) {
				if r.Status == conformance.Fail {
					t.Logf("%s: %s", r.Clause, r.Detail)
					caught = caught || r.Clause == m.Breaks
				}
			}
			if !caught {
				t.Errorf("%s passed", m.Breaks)
			}
		})
	}
	if len(All()) < 15 || len(broken) != 17 {
		t.Errorf("%d mutants break %d clauses, want at least 15 and all 17", len(All()), len(broken))
	}
}

// TestTheRightServerPasses shows that it is the mutation that is caught, not the way it is built.
func TestTheRightServerPasses(t *testing.T) {
	for name, m := range map[string]Mutant{
		"bare": {},
		"passed on": {Wrap: api(func(right http.Handler, w http.ResponseWriter, r *http.Request) {
			right.ServeHTTP(&tee{ResponseWriter: w}, r)
		})},
		"kept back":  answering("", "", func(*http.Request) bool { return true }, func(*http.Request, *recorded) {}),
		"same bytes": changing("", "", func(r *http.Request) { readBody(r) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range check(t, m) {
				if r.Status != conformance.Pass {
					t.Errorf("%s: %s %s", r.Clause, r.Status, r.Detail)
				}
			}
		})
	}
}
