package wire

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bodyForm is a way in which an answer may say its code.
type bodyForm struct {
	name string
	body func(code string) string
	says bool // a code in it can be found
	json bool // it is a JSON object
	cut  bool // the connection ends before the body does
}

var bodyForms = []bodyForm{
	{"documented envelope", func(code string) string {
		return fmt.Sprintf(`{"error":{"code":%q,"message":"…","param":"items[3].price"}}`, code)
	}, true, true, false},
	{"flat", func(code string) string { return fmt.Sprintf(`{"message":"no","code":%q}`, code) }, true, true, false},
	{"unknown envelope", func(code string) string { return fmt.Sprintf(`{"errors":[{"type":%q,"id":7}]}`, code) }, true, true, false},
	{"bare string", func(code string) string { return strconv.Quote(code) }, true, false, false},
	{"text", func(code string) string { return code + "\n" }, true, false, false},
	{"cut behind the code", func(code string) string { return fmt.Sprintf(`{"error":{"code":%q,"mess`, code) }, true, false, true},
	{"cut before the code", func(string) string { return `{"error":{` }, false, false, true},
	{"JSON without a code", func(string) string { return `{"message":"no"}` }, false, true, false},
	{"HTML", func(string) string { return `<html><body>conflict</body></html>` }, false, false, false},
	{"empty", func(string) string { return "" }, false, false, false},
}

// verdictRow is a row of the table: what an answer of this status and code means, in every body form.
type verdictRow struct {
	status int
	code   string
	with   Class // the code is found
	bare   Class // a whole answer without a code
	cut    Class // the answer broke off before a code
}

var verdictTable = []verdictRow{
	{200, "", Success, Success, SuccessCut},
	{201, "", Success, Success, SuccessCut},
	{202, "", Success, Success, SuccessCut},
	{200, "conflict", Success, Success, SuccessCut}, // a word in a good answer decides nothing
	{300, "", NotAuthored, NotAuthored, NotAuthored},
	{302, "conflict", NotAuthored, NotAuthored, NotAuthored},
	{307, "", NotAuthored, NotAuthored, NotAuthored},
	{400, "invalid_request", Rejected, Rejected, Retry},
	{401, "unauthorized", Unauthorized, Unauthorized, Unauthorized},
	{403, "forbidden", Forbidden, Forbidden, Forbidden},
	{404, "not_found", Conflict, Conflict, Conflict},
	{405, "method_not_allowed", Rejected, Rejected, Retry},
	{408, "", Retry, Retry, Retry},
	{409, "conflict", Conflict, Retry, Retry},
	{409, "idempotency_in_progress", InProgress, Retry, Retry},
	{410, "", Conflict, Conflict, Conflict},
	{410, "not_found", Conflict, Conflict, Conflict},
	{413, "payload_too_large", Rejected, Rejected, Retry},
	{415, "unsupported_media_type", Rejected, Rejected, Retry},
	{418, "", Rejected, Rejected, Retry},
	{422, "validation_failed", Rejected, Rejected, Retry},
	{422, "idempotency_key_reused", KeyReused, Rejected, Retry},
	{425, "", Retry, Retry, Retry},
	{429, "rate_limited", Retry, Retry, Retry},
	{500, "internal", Retry, Retry, Retry},
	{500, "conflict", Retry, Retry, Retry},
	{502, "", Retry, Retry, Retry},
	{503, "unavailable", Retry, Retry, Retry},
	{504, "", Retry, Retry, Retry},
	// The code counts, not the status alone.
	{400, "idempotency_in_progress", InProgress, Rejected, Retry},
	{409, "idempotency_key_reused", KeyReused, Retry, Retry},
	{422, "conflict", Conflict, Rejected, Retry},
	{400, "not_found", Conflict, Rejected, Retry},
	{409, "validation_failed", Rejected, Retry, Retry},
	// A code of the future.
	{409, "order_locked", Conflict, Retry, Retry},
	{422, "menu_too_spicy", Rejected, Rejected, Retry},
}

// answer makes the server give the row's answer in a form.
func (row verdictRow) answer(form bodyForm, requestID bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d X\r\n", row.status)
	if requestID {
		b.WriteString("X-Request-Id: " + testRequestID + "\r\n")
	}
	if row.status/100 == 3 {
		b.WriteString("Location: /elsewhere\r\n")
	}
	body := form.body(row.code)
	length := len(body)
	if form.cut {
		length += 10
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", length, body)
	return b.String()
}

// want is the row's class for a form. Codes this release does not know are found under "code" only.
func (row verdictRow) want(form bodyForm) Class {
	_, known := byCode[row.code]
	says := form.says && row.code != "" && (known || form.name != "unknown envelope" && form.name != "bare string" && form.name != "text")
	switch {
	case form.cut && (row.status < 300 || !says):
		return row.cut
	case form.cut && !known:
		// An unknown code is not enough when the rest may say more.
		return row.cut
	case says:
		return row.with
	}
	return row.bare
}

func TestVerdictTable(t *testing.T) {
	var current string
	var cut bool
	srv := startRaw(t, func(int, rawRequest) (string, bool) { return current, cut })
	s := srv.sender(t, "/v1")
	for _, row := range verdictTable {
		for _, form := range bodyForms {
			t.Run(fmt.Sprintf("%d %s, %s", row.status, row.code, form.name), func(t *testing.T) {
				for _, requestID := range []bool{true, false} {
					current, cut = row.answer(form, requestID), form.cut
					x := s.Send(t.Context(), post("/x", "{}"), "k", testToken)
					require.Equal(t, row.status, x.Status, "%v", x.Err)
					for _, seen := range []bool{true, false} {
						v := Judge(x, Facts{SeenRequestID: seen}, time.Now())
						want, authored := row.want(form), row.status/100 != 3
						if !requestID && (seen || !form.json) {
							want, authored = NotAuthored, false
						}
						assert.Equal(t, want, v.Class, "X-Request-Id %t, seen before %t: got %v, want %v", requestID, seen, v.Class, want)
						assert.Equal(t, authored, v.Authored)
						assert.Equal(t, row.status, v.Status)
						if requestID && authored {
							assert.Equal(t, testRequestID, v.RequestID)
						}
						if v.Class == NotAuthored || v.Class == SuccessCut {
							assert.NotEmpty(t, v.Reason)
						}
					}
				}
			})
		}
	}
}

func TestNoContentIsSuccessOnlyWithARequestID(t *testing.T) {
	var current string
	srv := startRaw(t, func(int, rawRequest) (string, bool) { return current, false })
	s := srv.sender(t, "")
	current = "HTTP/1.1 204 No Content\r\nX-Request-Id: " + testRequestID + "\r\n\r\n"
	x := s.Send(t.Context(), post("/x", ""), "k", testToken)
	assert.Equal(t, Success, Judge(x, Facts{}, time.Now()).Class)
	current = "HTTP/1.1 204 No Content\r\n\r\n"
	x = s.Send(t.Context(), post("/x", ""), "k", testToken)
	assert.Equal(t, NotAuthored, Judge(x, Facts{}, time.Now()).Class)
}

func TestReplayedRejectionOnTheFirstExposureIsAnotherSendersKey(t *testing.T) {
	for _, c := range []struct {
		status   int
		code     string
		replayed string
		clean    bool
		want     Class
	}{
		{422, "validation_failed", "true", true, KeyReused},
		{422, "validation_failed", "true", false, Rejected},
		{422, "validation_failed", "", true, Rejected},
		{422, "validation_failed", "false", true, Rejected},
		{422, "validation_failed", "True", true, Rejected}, // only true means replay (D21)
		{404, "not_found", "true", true, KeyReused},
		{404, "not_found", "true", false, Conflict},
		{422, "idempotency_key_reused", "", false, KeyReused},
		{409, "idempotency_in_progress", "true", true, InProgress},
		{401, "unauthorized", "true", true, Unauthorized},
		{200, "", "true", true, Success},
	} {
		x := Exchange{Status: c.status, Whole: true, Body: []byte(`{"error":{"code":"` + c.code + `"}}`), Header: http.Header{"X-Request-Id": {testRequestID}}}
		if c.replayed != "" {
			x.Header.Set("Idempotent-Replayed", c.replayed)
		}
		v := Judge(x, Facts{Clean: c.clean}, time.Now())
		assert.Equal(t, c.want, v.Class, "%+v", c)
		assert.Equal(t, c.replayed == "true", v.Replayed)
	}
}

func TestRequestIDHasF1sForm(t *testing.T) {
	for id, want := range map[string]bool{
		testRequestID:                              true,
		"req_0123456789abcdef0123456":              false,
		"req_0123456789abcdef012345678":            false,
		"req_0123456789ABCDEF01234567":             false,
		"REQ_0123456789abcdef01234567":             false,
		"req_0123456789abcdeg01234567":             false,
		"9f86d081-884c-4d65-9a2f-eaa0c55ad015":     false,
		"":                                         false,
		"req_":                                     false,
		" req_0123456789abcdef01234567":            false,
		testRequestID + ", " + testRequestID:       false,
		"req_0123456789abcdef01234567\u00e4\u00e4": false,
	} {
		assert.Equal(t, want, validRequestID(id), "%q", id)
	}
	h := http.Header{"X-Request-Id": {"added-by-a-proxy", testRequestID}}
	assert.Equal(t, testRequestID, requestID(h))
}

func TestDateAndRetryAfterOfAVerdict(t *testing.T) {
	now := time.Date(1970, 1, 1, 0, 0, 7, 0, time.UTC) // a till whose clock was never set
	server := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		header   http.Header
		authored bool
		want     time.Duration
	}{
		"seconds":                          {http.Header{"Retry-After": {"7"}}, true, 7 * time.Second},
		"date against the answer's Date":   {http.Header{"Date": {server.Format(http.TimeFormat)}, "Retry-After": {server.Add(90 * time.Second).Format(http.TimeFormat)}}, true, 90 * time.Second},
		"date without Date, absurd clock":  {http.Header{"Retry-After": {server.Format(http.TimeFormat)}}, true, time.Hour},
		"authored, capped at an hour":      {http.Header{"Retry-After": {"86400"}}, true, time.Hour},
		"not authored, capped at a minute": {http.Header{"Retry-After": {"86400"}}, false, time.Minute},
		"overflow":                         {http.Header{"Retry-After": {"9223372037"}}, true, time.Hour},
		"far overflow":                     {http.Header{"Retry-After": {strings.Repeat("9", 400)}}, true, time.Hour},
		"none":                             {http.Header{}, true, 0},
		"nonsense, then a value":           {http.Header{"Retry-After": {"soon", "3"}}, true, 3 * time.Second},
		"nonsense":                         {http.Header{"Retry-After": {"soon"}}, true, 0},
		"negative":                         {http.Header{"Retry-After": {"-5"}}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if c.authored {
				c.header.Set("X-Request-Id", testRequestID)
			}
			v := Judge(Exchange{Status: 503, Whole: true, Header: c.header}, Facts{}, now)
			assert.Equal(t, c.want, v.RetryAfter)
			if c.authored && c.header.Get("Date") != "" {
				assert.True(t, v.Date.Equal(server))
			} else {
				assert.True(t, v.Date.IsZero())
			}
		})
	}
}

func TestRetryAfterForms(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	in := now.Add(2 * time.Minute)
	for value, want := range map[string]time.Duration{
		"0":                           0,
		"120":                         2 * time.Minute,
		" 120 ":                       2 * time.Minute,
		"000000000000000000000000120": 2 * time.Minute,
		in.Format(http.TimeFormat):    2 * time.Minute,
		in.Format("Monday, 02-Jan-06 15:04:05 GMT"): 2 * time.Minute,
		in.Format(time.ANSIC):                       2 * time.Minute,
		now.Add(-time.Hour).Format(http.TimeFormat): 0,
		"9223372036":           9223372036 * time.Second,
		"9223372037":           1<<63 - 1,
		"18446744073709551617": 1<<63 - 1,
	} {
		got, ok := ParseRetryAfter(value, now)
		assert.True(t, ok, "%q", value)
		assert.Equal(t, want, got, "%q", value)
	}
	for _, value := range []string{"", " ", "-1", "+1", "1.5", "1e3", "0x10", "soon", "１２", "1 2", "Mon, 99 Nov 2026 12:00:00 GMT"} {
		_, ok := ParseRetryAfter(value, now)
		assert.False(t, ok, "%q", value)
	}
}

func TestAnswersOfARealServer(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/portal":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>please log in</html>")
		case "/proxy":
			w.Header().Set("Retry-After", "3600")
			http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
		case "/limited":
			w.Header().Set("X-Request-Id", testRequestID)
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer srv.Close()
	s := senderTo(t, srv.URL)
	judge := func(path string) Verdict {
		return Judge(s.Send(t.Context(), post(path, "{}"), "k", testToken), Facts{}, time.Now())
	}
	assert.Equal(t, NotAuthored, judge("/portal").Class)
	v := judge("/proxy")
	assert.Equal(t, NotAuthored, v.Class)
	assert.Equal(t, time.Minute, v.RetryAfter)
	v = judge("/limited")
	assert.Equal(t, Retry, v.Class)
	assert.Equal(t, 30*time.Second, v.RetryAfter)
	assert.WithinDuration(t, time.Now(), v.Date, time.Minute)
}

func TestKeptHeaders(t *testing.T) {
	x := Exchange{Header: http.Header{"Content-Type": {"application/json"}, "Etag": {`"1"`}, "Location": {"/bookings/1"}, "Set-Cookie": {"a=b"}}}
	assert.Equal(t, map[string]string{"Content-Type": "application/json", "Etag": `"1"`, "Location": "/bookings/1"}, x.Kept())
	assert.Nil(t, (&Exchange{}).Kept())
}

func TestClassNames(t *testing.T) {
	seen := map[string]bool{}
	for c := Broken; c <= NotAuthored; c++ {
		assert.NotEmpty(t, c.String())
		assert.False(t, seen[c.String()])
		seen[c.String()] = true
	}
	assert.Equal(t, "invalid", Class(99).String())
	assert.Equal(t, "invalid", Class(-1).String())
}
