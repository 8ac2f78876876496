package flavoso

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/mockserver"
	"github.com/flavoso/flavoso-go/outbox"
)

const guestName = "Ada Lovelace"

// inspected is a till whose outbox holds a booking that waits, one that is uncertain, and a lane that a
// rejection has stopped.
type inspected struct {
	*till
	waiting, uncertain, blocked string
}

func newInspected(t *testing.T) *inspected {
	t.Helper()
	s := newTill(t, nil)
	in := &inspected{till: s}
	canceled := s.srv.AddOrder(store, mockserver.Order{})
	require.NoError(t, s.srv.CancelOrder(store, canceled))
	head, err := s.Orders.Reject(canceled, RejectParams{Reason: ReasonTooBusy}).StopLaneOnReject().Enqueue(t.Context())
	require.NoError(t, err)
	behind, err := s.Orders.SetStatus(canceled, StatusParams{Status: OrderPreparing}).Enqueue(t.Context())
	require.NoError(t, err)
	in.blocked = behind.ID()
	_, err = head.Wait(t.Context())
	require.ErrorIs(t, err, ErrConflict)
	_, err = behind.Wait(t.Context())
	require.ErrorIs(t, err, ErrBlocked)

	s.srv.Inject(mockserver.Refuse().Optional())
	for _, ref := range []string{"waiting", "uncertain"} {
		p, err := s.Bookings.Create(ref, BookingParams{StartsAt: time.Now().Add(24 * time.Hour), PartySize: 2,
			Customer: BookingCustomer{Name: guestName}}).WithTag("ticket " + ref).Enqueue(t.Context())
		require.NoError(t, err)
		in.waiting, in.uncertain = in.uncertain, p.ID()
	}
	require.Eventually(t, func() bool {
		_, err := s.engine.Set(t.Context(), outbox.Change{ID: in.uncertain, Action: outbox.Park, To: StateUncertain,
			Now: time.Now(), Result: &outbox.Result{Reason: "window_passed", Message: "for " + guestName}})
		return err == nil
	}, 10*time.Second, 5*time.Millisecond, "it is not being sent at some moment")
	return in
}

// ask sends one request to a handler on a loopback listener.
func ask(t *testing.T, h http.Handler, method, target, body string, header http.Header) (int, map[string]any, string) {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+target, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for name, v := range header {
		req.Header[name] = v
	}
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	var m map[string]any
	require.NoError(t, json.Unmarshal(b, &m), "%s", b)
	return resp.StatusCode, m, string(b)
}

func TestInspectShowsAndMasks(t *testing.T) {
	s := newInspected(t)
	h := InspectHandler(s.Client)
	status, m, _ := ask(t, h, "GET", "/status", "", nil)
	require.Equal(t, 200, status)
	states := m["states"].(map[string]any)
	require.Len(t, states, len(outbox.States()))
	require.EqualValues(t, 1, states["uncertain"])
	require.EqualValues(t, 1, states["blocked"])
	require.EqualValues(t, 1, states["rejected"])
	require.EqualValues(t, 2, m["held_lanes"])
	till := m["till"].(map[string]any)
	require.EqualValues(t, os.Getpid(), till["pid"])
	require.Equal(t, store, till["connection"])
	require.Equal(t, false, till["changes"])

	for _, target := range []string{"/operations", "/operations/" + s.waiting, "/operations/" + s.uncertain} {
		status, _, text := ask(t, h, "GET", target, "", nil)
		require.Equal(t, 200, status)
		require.NotContains(t, text, guestName)
		require.NotContains(t, text, "body")
		require.NotContains(t, text, "message")
		require.NotContains(t, text, s.srv.Token(store))
		status, m, _ = ask(t, h, "GET", target+"?bodies=true", "", nil)
		require.Equal(t, 403, status)
		require.Equal(t, "no_bodies", m["code"])
	}
	open := InspectHandler(s.Client, InspectBodies())
	_, m, _ = ask(t, open, "GET", "/operations/"+s.uncertain+"?bodies=true", "", nil)
	require.NotEmpty(t, m["request_body"])
	require.Equal(t, "for "+guestName, m["message"])
	_, m, text := ask(t, open, "GET", "/operations/"+s.uncertain, "", nil)
	require.NotContains(t, text, guestName, "only who asks gets them")
	require.Equal(t, "ticket uncertain", m["tag"])

	_, m, _ = ask(t, h, "GET", "/operations?state=parked&limit=1", "", nil)
	require.Len(t, m["data"], 1)
	require.Equal(t, s.blocked, m["data"].([]any)[0].(map[string]any)["id"])
	_, m, _ = ask(t, h, "GET", "/operations?state=parked&limit=1&after="+m["next"].(string), "", nil)
	require.Equal(t, s.uncertain, m["data"].([]any)[0].(map[string]any)["id"])
	require.NotContains(t, m, "next")
}

func TestInspectChangesOnlyWhereItIsAllowed(t *testing.T) {
	s := newInspected(t)
	const done = `{"decision":"done","body":{"id":"b-1"},"note":"seen in the book"}`
	changes := []string{"/operations/" + s.waiting + "/retry", "/operations/" + s.waiting + "/cancel", "/operations/" + s.uncertain + "/resolve", "/lanes/resume"}
	for _, target := range changes {
		status, m, _ := ask(t, InspectHandler(s.Client, InspectBodies()), "POST", target, done, nil)
		require.Equal(t, 403, status)
		require.Equal(t, "read_only", m["code"])
	}
	h := InspectHandler(s.Client, InspectChanges())
	for _, tc := range []struct {
		target, body string
		status       int
		code         string
	}{
		{"/operations/none/retry", "", 404, "not_found"},
		{"/operations/" + s.uncertain + "/retry", "", 409, "state"},
		{"/operations/" + s.uncertain + "/cancel", "", 409, "state"},
		{"/operations/" + s.uncertain + "/resolve", "", 400, "invalid"},
		{"/operations/" + s.uncertain + "/resolve", `{"decision":"maybe"}`, 400, "invalid"},
		{"/operations/" + s.uncertain + "/resolve", `{"decision":"done","amount":1}`, 400, "invalid"},
		{"/operations/" + s.uncertain + "/resolve", done + done, 400, "invalid"},
		{"/operations/" + s.uncertain + "/explode", "", 400, "invalid"},
		{"/lanes/resume", `{"connection":"store-42","lane":"none"}`, 404, "not_found"},
	} {
		status, m, _ := ask(t, h, "POST", tc.target, tc.body, nil)
		require.Equal(t, tc.status, status, tc.target)
		require.Equal(t, tc.code, m["code"], tc.target)
	}
	status, m, _ := ask(t, h, "POST", "/operations/"+s.uncertain+"/resolve", done, http.Header{"Content-Type": {"text/plain"}})
	require.Equal(t, 400, status, "a form of a web page cannot say application/json")
	require.Contains(t, m["message"], "Content-Type")

	status, m, _ = ask(t, h, "POST", "/operations/"+s.uncertain+"/resolve", done, nil)
	require.Equal(t, 200, status)
	require.Equal(t, "succeeded", m["state"])
	require.Equal(t, "seen in the book", m["note"])
	o, err := s.Operations.Get(t.Context(), s.uncertain)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"b-1"}`, string(o.Body))

	o, err = s.Operations.Get(t.Context(), s.blocked)
	require.NoError(t, err)
	lane, err := json.Marshal(inspect.Resume{Connection: store, Lane: o.Lane})
	require.NoError(t, err)
	s.srv.ClearFaults()
	status, _, _ = ask(t, h, "POST", "/lanes/resume", string(lane), nil)
	require.Equal(t, 200, status)
	status, m, _ = ask(t, h, "POST", "/operations/"+s.waiting+"/retry", "", nil)
	require.Contains(t, []int{200, 409}, status, "409: it is being sent right now; %v", m)
	require.NoError(t, s.Flush(t.Context()))
	made := s.srv.Bookings(store)
	require.Len(t, made, 1, "what was decided is not sent")
	s.srv.AssertExactlyOnce(t, "bookings.create", made[0].ID)
}

func TestInspectAnswersThisMachineOnly(t *testing.T) {
	s := newTill(t, nil)
	h := InspectHandler(s.Client, InspectChanges(), InspectBodies())
	for name, header := range map[string]http.Header{
		"a name that was made to point here": {"Host": {"evil.example"}},
		"a name that looks like it":          {"Host": {"localhost.evil.example:80"}},
		"an address of the network":          {"Host": {"192.0.2.1"}},
		"a page of another origin":           {"Origin": {"https://evil.example"}},
		"a page without an origin":           {"Origin": {"null"}},
		"a page of another port":             {"Origin": {"http://127.0.0.1:1"}},
		"an image of another page":           {"Sec-Fetch-Site": {"cross-site"}},
		"a page of a sibling":                {"Sec-Fetch-Site": {"same-site"}},
		"a proxy":                            {"X-Forwarded-For": {"203.0.113.9"}},
		"a proxy by the standard":            {"Forwarded": {"for=203.0.113.9"}},
	} {
		for _, method := range []string{"GET", "POST"} {
			status, m, _ := ask(t, h, method, "/status", "{}", header)
			require.Equal(t, 403, status, name)
			require.Equal(t, "forbidden", m["code"], name)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:8484", "127.0.0.1", "[::1]:80", "[::1]", "127.8.9.1:1"} {
		status, _, _ := ask(t, h, "GET", "/status", "", http.Header{"Host": {host}, "Origin": {"http://" + host}, "Sec-Fetch-Site": {"same-origin"}})
		require.Equal(t, 200, status, host)
	}
	for peer, want := range map[string]int{"192.0.2.7:1234": 403, "[2001:db8::1]:1234": 403, "": 403, "@": 403,
		"127.0.0.1:1": 200, "[::1]:1": 200, "[::ffff:127.0.0.1]:1": 200} {
		r := httptest.NewRequest("GET", "http://localhost/status", nil)
		r.RemoteAddr = peer
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, peer)
	}
}

func TestInspectRefusesWhatItDoesNotUnderstand(t *testing.T) {
	s := newTill(t, nil)
	h := InspectHandler(s.Client)
	for _, target := range []string{"/operations?state=lost", "/operations?sate=sent", "/operations?limit=0", "/operations?limit=1001",
		"/operations?limit=x", "/operations?lane=a&lane=b", "/operations?bodies=2", "/nothing"} {
		status, m, _ := ask(t, h, "GET", target, "", nil)
		require.Equal(t, 400, status, target)
		require.Equal(t, "invalid", m["code"], target)
	}
	status, m, _ := ask(t, h, "GET", "/operations/none", "", nil)
	require.Equal(t, 404, status)
	require.Equal(t, "not_found", m["code"])
	status, m, _ = ask(t, h, "DELETE", "/operations/none", "", nil)
	require.Equal(t, 400, status)
	require.Contains(t, m["message"], "DELETE")
	require.NoError(t, s.Close())
	for _, target := range []string{"/status", "/operations", "/operations/none"} {
		status, m, _ = ask(t, h, "GET", target, "", nil)
		require.Equal(t, 503, status, target)
		require.Equal(t, "closed", m["code"], target)
	}
}

func TestListenInspectIsFoundBesideTheOutbox(t *testing.T) {
	s := newTill(t, nil)
	in, err := ListenInspect(s.Client)
	require.NoError(t, err)
	file := s.cfg.OutboxPath + ".inspect"
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it holds a secret")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var a inspect.Address
	require.NoError(t, json.Unmarshal(b, &a))
	require.Equal(t, inspect.Address{URL: in.URL(), Token: in.Token(), PID: os.Getpid()}, a)

	get := func(token string) int {
		req, err := http.NewRequestWithContext(t.Context(), "GET", a.URL+"/status", nil)
		require.NoError(t, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, in), in.Token(), "a log does not show it")
		require.Contains(t, fmt.Sprintf(verb, in), in.URL())
	}
	require.Equal(t, 200, get(a.Token))
	require.Equal(t, 403, get(""))
	require.Equal(t, 403, get("wrong"))
	require.NoError(t, in.Close())
	require.NoError(t, in.Close())
	require.NoFileExists(t, file)
	left, err := filepath.Glob(s.cfg.OutboxPath + ".inspect*")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestListenInspectSaysWhyItCannot(t *testing.T) {
	s := newTill(t, nil)
	_, err := ListenInspect(s.Client, InspectAddressFile(filepath.Join(t.TempDir(), "none", "address")))
	require.ErrorIs(t, err, os.ErrNotExist)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(t.TempDir(), link))
	own := filepath.Join(link, "address")
	in, err := ListenInspect(s.Client, InspectAddressFile(own), InspectToken("t"))
	require.NoError(t, err)
	require.Equal(t, "t", in.Token())
	b, err := os.ReadFile(own)
	require.NoError(t, err)
	require.True(t, bytes.Contains(b, []byte(in.URL())))
	require.NoError(t, in.Close())
	_, err = ListenInspect(s.Client, InspectAddressFile(own), InspectToken(""))
	var param *ParamError
	require.ErrorAs(t, err, &param)
	require.NoFileExists(t, own)
}

// A token that was forgotten (an environment variable that is not set) opens nothing.
func TestInspectWithAnEmptyTokenAnswersNobody(t *testing.T) {
	h := InspectHandler(newTill(t, nil).Client, InspectToken(""))
	for _, header := range []http.Header{nil, {"Authorization": {"Bearer "}}} {
		status, m, _ := ask(t, h, "GET", "/status", "", header)
		require.Equal(t, 403, status)
		require.Equal(t, "forbidden", m["code"])
	}
}

// TestInspectAFleet: any client of it shows what all connections have, and lets it be changed.
func TestInspectAFleet(t *testing.T) {
	f := newFakeFleet(t, &fakeAPI{}, func(c *FleetConfig) {
		c.Token = TokenFunc(func(_ context.Context, r TokenRequest) (string, error) {
			if r.Connection == "offline" {
				return "", errors.New("no token")
			}
			return r.Connection, nil
		})
	})
	for _, name := range []string{"store-1", "store-2"} {
		_, err := post(f.Client(name), "lane").Do(t.Context())
		require.NoError(t, err)
	}
	in, err := ListenInspect(f.Client("store-1"))
	require.NoError(t, err)
	require.NoError(t, in.Close())
	h := InspectHandler(f.Client("store-1"), InspectChanges())
	_, m, _ := ask(t, h, "GET", "/operations", "", nil)
	require.Len(t, m["data"], 2)
	_, m, _ = ask(t, h, "GET", "/operations?connection=store-2", "", nil)
	require.Len(t, m["data"], 1)
	_, m, _ = ask(t, h, "GET", "/status?connection=store-2", "", nil)
	require.EqualValues(t, 1, m["states"].(map[string]any)["succeeded"])

	p, err := post(f.Client("offline"), "lane").Enqueue(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return stateOf(t, f.Client("offline"), p.ID()) == StateQueued }, 10*time.Second, time.Millisecond)
	status, m, _ := ask(t, h, "POST", "/operations/"+p.ID()+"/cancel", "{}", nil)
	require.Equal(t, 200, status, m)
	require.Equal(t, "canceled", m["state"])
	status, _, _ = ask(t, h, "POST", "/operations/none/cancel", "{}", nil)
	require.Equal(t, 404, status)

	require.NoError(t, f.Close())
	status, m, _ = ask(t, h, "GET", "/status", "", nil)
	require.Equal(t, 503, status)
	require.Equal(t, "closed", m["code"])
}
