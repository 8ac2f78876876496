package flavoso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

// The bodies a status may come with. Which of them carry a code decides what the status means.
var bodies = []struct {
	name   string
	coded  bool // a code can be read
	json   bool
	answer func(status int, code string) answer
}{
	{"JSON", true, true, refusal},
	{"flat JSON", true, true, func(s int, code string) answer {
		return answer{status: s, body: fmt.Sprintf(`{"message":"no","code":%q}`, code)}
	}},
	{"an unknown envelope", true, true, func(s int, code string) answer {
		return answer{status: s, body: fmt.Sprintf(`{"errors":[{"reason":{"type":%q}}],"v":2}`, code)}
	}},
	{"HTML", false, false, func(s int, _ string) answer {
		return answer{status: s, body: "<html><body>conflict, validation_failed</body></html>", media: "text/html"}
	}},
	{"no body", false, false, func(s int, _ string) answer { return answer{status: s} }},
	{"a cut body", false, false, func(s int, code string) answer { return answer{status: s, body: `{"error":{"co`, cut: true} }},
}

// what an answer leads to.
type verdict string

const (
	succeeds  verdict = "succeeded"
	rejects   verdict = "rejected"
	repeats   verdict = "repeated"
	refreshes verdict = "repeated with another token"
)

// verdictRows is the table of the state machine: for a first attempt, what an authored answer means when
// its code can be read, when it cannot, and when its body broke off.
var verdictRows = []struct {
	status       int
	code         string
	coded, blank verdict
	cut          verdict
	is           error // of a coded rejection
}{
	{200, "", succeeds, succeeds, repeats, nil},
	{201, "", succeeds, succeeds, repeats, nil},
	{202, "", succeeds, succeeds, repeats, nil},
	{409, "idempotency_in_progress", repeats, repeats, repeats, nil},
	{409, "conflict", rejects, repeats, repeats, ErrConflict},
	{409, "a_code_of_tomorrow", rejects, repeats, repeats, nil},
	{404, "not_found", rejects, rejects, rejects, ErrNotFound},
	{410, "not_found", rejects, rejects, rejects, ErrNotFound},
	{422, "idempotency_key_reused", rejects, rejects, repeats, ErrKeyReused},
	{422, "validation_failed", rejects, rejects, repeats, ErrInvalid},
	{400, "invalid_request", rejects, rejects, repeats, ErrInvalid},
	{405, "method_not_allowed", rejects, rejects, repeats, nil},
	{413, "payload_too_large", rejects, rejects, repeats, nil},
	{415, "unsupported_media_type", rejects, rejects, repeats, nil},
	{418, "teapot", rejects, rejects, repeats, nil},
	{401, "unauthorized", refreshes, refreshes, refreshes, nil},
	{403, "forbidden", rejects, rejects, rejects, ErrForbidden},
	{408, "timeout", repeats, repeats, repeats, nil},
	{425, "too_early", repeats, repeats, repeats, nil},
	{429, "rate_limited", repeats, repeats, repeats, nil},
	{500, "internal", repeats, repeats, repeats, nil},
	{500, "conflict", repeats, repeats, repeats, nil},
	{501, "not_found", repeats, repeats, repeats, nil},
	{502, "unavailable", repeats, repeats, repeats, nil},
	{503, "unavailable", repeats, repeats, repeats, nil},
	{504, "validation_failed", repeats, repeats, repeats, nil},
	{599, "x", repeats, repeats, repeats, nil},
}

func TestVerdicts(t *testing.T) {
	signatures := []struct {
		name   string
		signed bool // this answer
		others bool // all others
	}{
		{"signed", true, true},
		{"never signed", false, false},
		{"not signed, though others are", false, true},
	}
	for _, sign := range signatures {
		for _, row := range verdictRows {
			for _, body := range bodies {
				want := row.blank
				a := body.answer(row.status, row.code)
				switch {
				case a.cut:
					want = row.cut
				case body.name == "an unknown envelope" && row.code == "a_code_of_tomorrow":
					// Nothing tells that it is a code.
				case body.coded:
					want = row.coded
				}
				if !sign.signed && (sign.others || !body.json) {
					want = repeats // not Flavoso's: no verdict
				}
				a.noID = !sign.signed
				t.Run(fmt.Sprintf("%s/%d %s/%s", sign.name, row.status, row.code, body.name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { runVerdict(t, a, sign.others, want, row.is, body.coded) })
				})
			}
		}
	}
}

func runVerdict(t *testing.T, a answer, othersSigned bool, want verdict, is error, coded bool) {
	last, get := done, inStore
	last.noID, get.noID = !othersSigned, !othersSigned
	s := &script{writes: []answer{a, last}, get: get}
	asked := 0
	c := newScripted(t, s, func(cfg *Config) {
		cfg.Token = TokenFunc(func(_ context.Context, r TokenRequest) (string, error) {
			if r.Rejected != "" {
				asked++
			}
			return "token-" + strconv.Itoa(asked), nil
		})
	})
	_, err := Get[json.RawMessage](t.Context(), c, "/store", nil)
	require.NoError(t, err)

	call := NewCall[thing](c, "POST", "/things", nil)
	_, err = call.Do(forHours(t, 3))
	o, ok := call.Outcome()
	require.True(t, ok)
	writes := s.count("POST")
	require.Equal(t, writes, o.Attempts)
	switch want {
	case succeeds:
		require.Equal(t, 1, writes)
		require.Equal(t, FateDone, FateOf(err), "%v", err)
		require.Equal(t, StateSucceeded, o.State)
		require.Equal(t, a.body, string(o.Body), "the raw answer is kept")
		var decode *DecodeError
		require.Equal(t, strings.HasPrefix(a.body, "<"), errors.As(err, &decode))
	case rejects:
		require.Equal(t, 1, writes)
		require.Equal(t, FateRefused, FateOf(err), "%v", err)
		require.Equal(t, StateRejected, o.State)
		var api *APIError
		require.ErrorAs(t, err, &api)
		require.Equal(t, a.status, api.Status)
		require.Equal(t, a.body, string(api.Body))
		if is != nil && coded {
			require.ErrorIs(t, err, is)
		}
		if a.status == 403 {
			require.Equal(t, 2, s.count("GET"), "a control read tells a forbidden call from a refused token")
		}
	case repeats, refreshes:
		require.NoError(t, err)
		require.Equal(t, 2, writes)
		require.Equal(t, StateSucceeded, o.State)
		if want == refreshes {
			require.Equal(t, 1, asked)
			require.Equal(t, "token-1", s.tokens[len(s.tokens)-1])
		} else {
			require.Zero(t, asked)
		}
	}
}

// TestNoContent: a 204 is a success without a body when it is Flavoso's, and nothing otherwise.
func TestNoContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{writes: []answer{{status: 204}}, get: inStore}
		c := newScripted(t, s, nil)
		_, err := c.Orders.Accept("o1", AcceptParams{}).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, s.count("POST"))

		s.then(answer{status: 204, noID: true}, done)
		_, err = NewCall[thing](c, "POST", "/things", nil).Do(forHours(t, 1))
		require.NoError(t, err)
		require.Equal(t, 3, s.count("POST"))
	})
}

// TestRedirectsAreNotFollowed: nobody sends a write, or a token, to where an answer points.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{get: inStore, writes: []answer{{status: status, header: http.Header{"Location": {"/v1/elsewhere"}}}, done}}
			c := newScripted(t, s, nil)
			_, err := NewCall[thing](c, "POST", "/things", nil).Do(forHours(t, 1))
			require.NoError(t, err)
			for _, r := range s.seen {
				require.NotContains(t, r, "elsewhere")
			}
			require.Equal(t, 2, s.count("POST"))
		})
	}
}

// TestSignatureIsRememberedOverARestart: a portal that speaks JSON is not taken for Flavoso by a client
// that has heard Flavoso before.
func TestSignatureIsRememberedOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := outbox.NewMemory()
		s := &script{writes: []answer{done}, get: inStore}
		use := func(c *Config) { c.Outbox = engine }
		first := newScripted(t, s, use)
		_, err := NewCall[thing](first, "POST", "/things", nil).Do(t.Context())
		require.NoError(t, err)
		require.NoError(t, first.Close())

		s.then(answer{status: 200, body: `{"please":"log in"}`, noID: true}, done)
		second := newScripted(t, s, use)
		got, err := NewCall[thing](second, "POST", "/things", nil).Do(forHours(t, 1))
		require.NoError(t, err)
		require.Equal(t, "1", got.ID)
		require.Equal(t, 3, s.count("POST"))
	})
}

var portal = answer{status: 403, body: "<html>blocked by policy</html>", media: "text/html", noID: true}

// TestBlocked: something answers a call in Flavoso's place, again and again, while Flavoso itself can be
// reached. After ten tries and half an hour the operation is kept, shown, and not sent by itself.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{writes: []answer{portal}, get: inStore}
		c := newScripted(t, s, nil)
		began := time.Now()
		call := NewCall[thing](c, "POST", "/things", nil)
		_, err := call.Do(forHours(t, 5))
		require.ErrorIs(t, err, ErrBlocked)
		require.Equal(t, FateUnknown, FateOf(err))
		require.GreaterOrEqual(t, s.count("POST"), 10)
		require.GreaterOrEqual(t, time.Since(began), 30*time.Minute)
		require.Positive(t, s.count("GET"))
		require.Equal(t, 1, c.Status().Blocked)
		n := s.count("POST")
		c.Wake()
		time.Sleep(24 * time.Hour)
		require.Equal(t, n, s.count("POST"), "it is not sent by itself")

		s.then(done)
		o, _ := call.Outcome()
		err = c.Operations.Resolve(t.Context(), o.ID, Resolution{Decision: SendAgain})
		require.NoError(t, err)
		// A day later the key protects nothing any more: without a way to look it up this one stays undecided.
		_, err = call.Do(forHours(t, 1))
		require.ErrorIs(t, err, ErrUncertain)
	})
}

// TestNotBlocked: what must not end in blocked.
func TestNotBlocked(t *testing.T) {
	t.Run("Flavoso cannot be reached either", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{writes: []answer{portal}, get: portal}
			c := newScripted(t, s, nil)
			p := enqueue(t, NewCall[thing](c, "POST", "/things", nil))
			enqueue(t, NewCall[thing](c, "POST", "/other", nil))
			time.Sleep(10 * time.Hour)
			require.Zero(t, c.Status().Blocked)
			require.False(t, c.Status().OfflineSince.IsZero())
			s.mu.Lock()
			s.writes, s.get = []answer{done}, inStore
			s.mu.Unlock()
			_, err := p.Wait(forHours(t, 1))
			require.NoError(t, err)
		})
	})
	t.Run("one stranger after a long trouble of another kind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{writes: []answer{refusal(503, "unavailable")}, get: inStore}
			c := newScripted(t, s, nil)
			p := enqueue(t, NewCall[thing](c, "POST", "/things", nil))
			time.Sleep(5 * time.Hour)
			require.Greater(t, s.count("POST"), 10)
			s.then(portal, portal, done)
			_, err := p.Wait(forHours(t, 1))
			require.NoError(t, err)
		})
	})
	t.Run("strangers in between", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{get: inStore}
			for range 30 {
				s.writes = append(s.writes, portal, portal, portal, portal, portal, refusal(503, "unavailable"))
			}
			s.writes = append(s.writes, done)
			c := newScripted(t, s, nil)
			_, err := NewCall[thing](c, "POST", "/things", nil).WithRepeatSafe().Do(forHours(t, 24))
			require.NoError(t, err)
		})
	})
	t.Run("a clock that is set", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			clock := newWallClock(long1970)
			s := &script{writes: []answer{portal}, get: inStore}
			c := newScripted(t, s, func(cfg *Config) { cfg.now, cfg.uptime = clock.now, clock.uptime })
			p := enqueue(t, NewCall[thing](c, "POST", "/things", nil))
			for s.count("POST") < 12 {
				time.Sleep(time.Second)
			}
			clock.jump(56 * 365 * 24 * time.Hour)
			time.Sleep(time.Minute)
			s.then(done)
			_, err := p.Wait(forHours(t, 1))
			require.NoError(t, err)
		})
	})
}

// TestRetryAfterOfAProxy: honoured, and for a minute at most.
func TestRetryAfterOfAProxy(t *testing.T) {
	for _, tc := range []struct {
		after       string
		signed      bool
		least, most time.Duration
	}{
		{"30", false, 30 * time.Second, 2 * time.Minute},
		{"3600", false, time.Minute, 3 * time.Minute},
		{"600", true, 10 * time.Minute, 16 * time.Minute},
		{"999999999999", true, time.Hour, 2 * time.Hour},
	} {
		t.Run(fmt.Sprint(tc.after, tc.signed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := answer{status: 503, body: "<html>", media: "text/html", noID: !tc.signed, header: http.Header{"Retry-After": {tc.after}}}
				s := &script{writes: []answer{a, done}, get: inStore}
				c := newScripted(t, s, nil)
				began := time.Now()
				_, err := NewCall[thing](c, "POST", "/things", nil).Do(forHours(t, 5))
				require.NoError(t, err)
				require.GreaterOrEqual(t, time.Since(began), tc.least)
				require.LessOrEqual(t, time.Since(began), tc.most)
			})
		})
	}
}
