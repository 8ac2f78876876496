package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flavoso/flavoso-go/mockserver"
)

// startMock runs flavoso mock in this process and returns its origin; stop ends it and returns the status
// and what it printed.
func startMock(t *testing.T, args ...string) (origin string, stop func() (int, string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var stderr bytes.Buffer
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, append([]string{"mock", "--addr", "127.0.0.1:0"}, args...), w, &stderr)
		_ = w.Close()
	}()
	out := bufio.NewReader(r)
	line, err := out.ReadString('\n')
	if err != nil {
		cancel()
		t.Fatalf("no first line: %v; status %d; %s", err, <-status, stderr.String())
	}
	rest := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(out)
		rest <- string(b)
	}()
	origin, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		t.Errorf("first line is %q", line)
	}
	return origin, func() (int, string) {
		cancel()
		return <-status, <-rest
	}
}

func request(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestMockServesUntilItIsStopped(t *testing.T) {
	origin, stop := startMock(t, "--orders", "3", "--seed", "7", "--switch", "hold_from=receipt")
	if status, body := request(t, "GET", origin+"/v1/orders", "mock_store-42", ""); status != 200 || strings.Count(body, `"object":"order"`) != 3 {
		t.Errorf("orders: %d %s", status, body)
	}
	if status, _ := request(t, "GET", origin+"/v1/orders", "mock_", ""); status != 401 {
		t.Errorf("an unknown token: %d", status)
	}
	if _, body := request(t, "GET", origin+"/_mock/status", "", ""); !strings.Contains(body, `"hold_from":"receipt"`) || !strings.Contains(body, `"seed":7`) {
		t.Errorf("status: %s", body)
	}
	status, out := stop()
	if status != 0 || !strings.Contains(out, "base URL for a POS: "+origin+"/v1") || !strings.Contains(out, "stopping") {
		t.Errorf("exit status %d, printed %s", status, out)
	}
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(origin, "http://"), time.Second); err == nil {
		t.Error("the port is still open")
	}
}

func TestMockTakesKnownTokensOnlyWhenClosed(t *testing.T) {
	origin, stop := startMock(t, "--open=false")
	defer stop()
	if status, _ := request(t, "GET", origin+"/v1/store", "mock_store-42", ""); status != 401 {
		t.Errorf("mock_store-42: %d", status)
	}
	_, body := request(t, "POST", origin+"/_mock/connections", "", `{"connection":"store-42"}`)
	var c struct{ Token string }
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		t.Fatal(err)
	}
	if status, _ := request(t, "GET", origin+"/v1/store", c.Token, ""); status != 200 {
		t.Errorf("the token that was given out: %d", status)
	}
}

func TestMockWithTLSWritesItsCertificate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	origin, stop := startMock(t, "--tls", "--ca-file", file)
	if !strings.HasPrefix(origin, "https://127.0.0.1:") {
		t.Errorf("origin %s", origin)
	}
	if status, out := stop(); status != 0 || !strings.Contains(out, file) {
		t.Errorf("%d %s", status, out)
	}
	if pem, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(pem, []byte("-----BEGIN CERTIFICATE-----")) {
		t.Errorf("%v %s", err, pem)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tc := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"mock", "--addr", l.Addr().String()}, 1, l.Addr().String() + " is in use by another program; choose another port with --addr"},
		{[]string{"mock", "--addr", "nonsense"}, 2, `--addr takes host:port, such as 127.0.0.1:4010, not "nonsense"`},
		{[]string{"mock", "--addr", "4011"}, 2, `--addr takes host:port, such as 127.0.0.1:4011, not "4011"`},
		{[]string{"mock", "--addr", "127.0.0.1:"}, 2, "--addr takes host:port"},
		{[]string{"mock", "--addr", "localhost"}, 2, "such as 127.0.0.1:4010"},
		{[]string{"mock", "--switch", "hold_from=never"}, 1, "hold_from takes completion or receipt"},
		{[]string{"mock", "--switch", "speed=9"}, 1, `no switch "speed"; there are query, `},
		{[]string{"mock", "extra"}, 2, "extra"},
		{[]string{"conformance"}, 2, "--url is required"},
		{[]string{"conformance", "--url", "http://127.0.0.1:1/v1", "--token", "x"}, 2, "cannot be reached"},
		{[]string{"conformance", "--url", "http://127.0.0.1:1/v1"}, 2, "Token is required"},
	} {
		t.Setenv("FLAVOSO_TOKEN", "")
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), tc.args, &stdout, &stderr); status != tc.status || !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%v: status %d, %s; want %d, %s", tc.args, status, stderr.String(), tc.status, tc.want)
		}
	}
}

func TestConformanceAgainstTheMock(t *testing.T) {
	origin, stop := startMock(t)
	defer stop()
	var stdout, stderr bytes.Buffer
	args := []string{"conformance", "--url", origin + "/v1", "--token", "mock_store-42", "--second-token", "mock_store-43"}
	if status := run(t.Context(), args, &stdout, &stderr); status != 0 || !strings.Contains(stdout.String(), "17 passed, 0 failed, 0 skipped") {
		t.Errorf("status %d\n%s%s", status, stdout.String(), stderr.String())
	}
	stdout.Reset()
	var out struct {
		Results                 []map[string]string
		Passed, Failed, Skipped int
	}
	args = []string{"conformance", "--url", origin + "/v1", "--token", "mock_store-42", "--no-control", "--json"}
	if status := run(t.Context(), args, &stdout, &stderr); status != 0 {
		t.Errorf("status %d", status)
	}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil || len(out.Results) != 17 || out.Failed != 0 || out.Skipped == 0 || out.Results[0]["clause"] != "F1" {
		t.Errorf("%v %+v", err, out)
	}
}

func TestConformanceTakesAnotherBooking(t *testing.T) {
	srv, err := mockserver.New()
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "booking.json"), filepath.Join(dir, "bad.json")
	for file, text := range map[string]string{
		good: `{"external_id":"{ref}","starts_at":"{starts_at}","party_size":7,"customer":{"name":"{ref}"}}`, bad: `{"party_size":7}`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	args := []string{"conformance", "--url", srv.BaseURL(), "--token", srv.Token("store-42"), "--booking-file"}
	if status := run(t.Context(), append(args, good), &stdout, &stderr); status != 0 {
		t.Errorf("status %d\n%s%s", status, stdout.String(), stderr.String())
	}
	if b := srv.Bookings("store-42"); len(b) == 0 || b[0].PartySize != 7 || !strings.HasPrefix(b[0].Customer.Name, "conformance-") {
		t.Errorf("bookings: %+v", b)
	}
	for _, file := range []string{bad, filepath.Join(dir, "none.json")} {
		if status := run(t.Context(), append(args, file), &stdout, &stderr); status != 1 {
			t.Errorf("%s: status %d", file, status)
		}
	}
}

func TestConformanceFailsABrokenServer(t *testing.T) {
	srv, err := mockserver.New(mockserver.WithSwitches(func(s *mockserver.Switches) { s.HoldFor = time.Hour }))
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), []string{"conformance", "--url", srv.BaseURL(), "--token", srv.Token("store-42")}, &stdout, &stderr)
	if status != 1 || !strings.Contains(stdout.String(), "fail  F5") {
		t.Errorf("status %d\n%s", status, stdout.String())
	}
}

// TestSignalsStopTheProgram sends them to a real process.
func TestSignalsStopTheProgram(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := exec.Command(binary, "mock", "--addr", "127.0.0.1:0")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", sig, err)
		}
	}
}

// TestMockOnEveryAddressPrintsOneThatCanBeUsed: [::] and 0.0.0.0 are no places to send a request to.
func TestMockOnEveryAddressPrintsOneThatCanBeUsed(t *testing.T) {
	origin, stop := startMock(t, "--addr", "0.0.0.0:0", "--open")
	if !strings.HasPrefix(origin, "http://127.0.0.1:") {
		t.Errorf("it listens on %s", origin)
	}
	if status, body := request(t, "GET", origin+"/v1/store", "mock_store-42", ""); status != 200 {
		t.Errorf("store: %d %s", status, body)
	}
	if _, out := stop(); !strings.Contains(out, "other machines reach it too") || !strings.Contains(out, "base URL for a POS: "+origin+"/v1") {
		t.Errorf("printed %s", out)
	}
}
