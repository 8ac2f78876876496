package openapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/mockserver/conformance"
)

func validator(t *testing.T) *Validator {
	t.Helper()
	doc, err := os.ReadFile("../../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := New(doc)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestTheMockServersOwnTestsStayInsideTheDocument runs them once more, lets them write down what they
// sent and got, and checks every exchange.
func TestTheMockServersOwnTestsStayInsideTheDocument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "exchanges")
	cmd := exec.Command("go", "test", "-count=1", "-short", "-run", "^Test", "github.com/flavoso/flavoso-go/mockserver")
	cmd.Env = append(os.Environ(), "FLAVOSO_EXCHANGES="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	v := validator(t)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen, operations := 0, map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var x Exchange
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		if outside(x) {
			continue
		}
		seen++
		if x.Status < 300 {
			operations[operation(x)] = true
		}
		if err := v.Check(x); err != nil {
			t.Errorf("%s: %v", x.Test, err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if seen < 1000 || len(operations) < 40 {
		t.Errorf("%d exchanges of %d operations were checked, want the whole API: %v", seen, len(operations), operations)
	}
}

// outside are exchanges that are not the document's: paths written another way (D3) or not below the base
// path, and what faults and switches put in the place of answers.
func outside(x Exchange) bool {
	if strings.HasPrefix(x.Path, "/_mock") {
		return x.Path == "/_mock/" // another way to write /_mock
	}
	return strings.Contains(x.Path, "%61") || x.AnswerHeader.Get("X-Request-Id") == "" ||
		strings.HasPrefix(x.Test, "TestNothingIsServedOutsideTheBasePath") || strings.HasPrefix(x.Test, "TestStrayRequestsUseNoFaultUp") ||
		strings.HasPrefix(x.Test, "TestAnswersInTheServersPlace") || strings.HasPrefix(x.Test, "TestErrorEnvelopeCanBeFlat") || strings.HasPrefix(x.Test, "TestMediaTypeCanBeIgnored")
}

// operation is the method and the path with ids taken out.
func operation(x Exchange) string {
	path, _, _ := strings.Cut(x.Path, "?")
	parts := strings.Split(path, "/")
	if len(parts) > 2 && (parts[1] == "orders" || parts[1] == "bookings") {
		parts[2] = "{id}"
	}
	if len(parts) > 3 && parts[1] == "_mock" {
		parts[3] = "{id}"
	}
	return x.Method + " " + strings.Join(parts, "/")
}

// recording is a transport that checks what goes through it.
type recording struct {
	http.RoundTripper
	v    *Validator
	mu   sync.Mutex
	errs []error
	n    int
}

func (r *recording) RoundTrip(req *http.Request) (*http.Response, error) {
	body := []byte{}
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := r.RoundTripper.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	answer, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	x := Exchange{Method: req.Method, Path: strings.TrimPrefix(req.URL.RequestURI(), "/v1"), Header: req.Header, Body: body,
		Status: resp.StatusCode, AnswerHeader: resp.Header, Answer: answer}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if fault := r.v.Check(x); fault != nil {
		r.errs = append(r.errs, fault)
	}
	return resp, err
}

// TestTheConformanceSuiteStaysInsideTheDocument checks what the suite sends and gets.
func TestTheConformanceSuiteStaysInsideTheDocument(t *testing.T) {
	srv := mockserver.Start(t, mockserver.InMemory())
	rec := &recording{RoundTripper: srv.Transport(), v: validator(t)}
	target := conformance.Target{BaseURL: srv.BaseURL(), Token: srv.Token("store-42"), SecondToken: srv.Token("store-43"), Transport: rec}
	control, err := conformance.MockControl(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	target.Control = control
	conformance.Run(t, target)
	for _, err := range rec.errs {
		t.Error(err)
	}
	if rec.n < 100 {
		t.Errorf("only %d exchanges were checked", rec.n)
	}
}

func TestCheckFindsWhatIsNotDescribed(t *testing.T) {
	v := validator(t)
	id := http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req_0123456789abcdef01234567"}}
	for name, x := range map[string]Exchange{
		"an unknown path":        {Method: "GET", Path: "/nowhere", Status: 200, AnswerHeader: id, Answer: []byte(`{}`)},
		"an answer without data": {Method: "GET", Path: "/orders", Status: 200, AnswerHeader: id, Answer: []byte(`{}`)},
		"an undescribed status":  {Method: "GET", Path: "/orders", Status: 418, AnswerHeader: id, Answer: []byte(`{}`)},
		"a wrong request":        {Method: "POST", Path: "/bookings", Body: []byte(`{"party_size":"x"}`), Header: id, Status: 201, AnswerHeader: id, Answer: []byte(`{}`)},
		"HTML":                   {Method: "GET", Path: "/store", Status: 500, AnswerHeader: http.Header{"Content-Type": {"text/html"}}, Answer: []byte(`<p>`)},
	} {
		if err := v.Check(x); err == nil {
			t.Errorf("%s was let through", name)
		}
	}
	if _, err := New([]byte(`{"openapi":"3.1.0"}`)); err == nil {
		t.Error("an incomplete document was taken")
	}
}
