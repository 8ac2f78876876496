package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
)

const testToken = "tok_s3cret"

func post(target, body string) outbox.Request {
	return outbox.Request{Method: "POST", Target: target, ContentType: "application/json", Accept: "application/json", Body: []byte(body)}
}

func TestSendPutsTheFrozenRequestOnTheWireByteForByte(t *testing.T) {
	srv := startRaw(t, func(int, rawRequest) (string, bool) { return authoredReply(200, `{}`), false })
	targets := []string{
		"/orders/1/accept",
		"/orders/a%2Fb/accept",
		"/orders/a%2fb/accept", // the escape's case stays
		"/orders/%61/accept",
		"/orders/%2E%2E/accept",
		"/orders/../x/./y",
		"/orders//accept",
		"//orders",
		"/orders/",
		"/",
		"/a;b=c,d:e@f!$&'()*+~",
		"/orders?x=1&y=%2F&z=a+b",
		"/orders?",
		"/orders?a=b?c",
		"/orders?%zz=|",
	}
	for _, base := range []string{"", "/v1", "/v1/", "/a%20b/v1"} {
		s := srv.sender(t, base)
		for _, target := range targets {
			x := s.Send(t.Context(), post(target, `{"a": 1}`), "k-1", testToken)
			require.NoError(t, x.Err, target)
			seen := srv.seen()
			last := seen[len(seen)-1]
			assert.Equal(t, "POST "+strings.TrimRight(base, "/")+target+" HTTP/1.1", last.Line)
			assert.Equal(t, `{"a": 1}`, last.Body)
		}
	}
}

func TestSendWritesEachHeaderOnce(t *testing.T) {
	srv := startRaw(t, func(int, rawRequest) (string, bool) { return authoredReply(200, `{}`), false })
	s := srv.sender(t, "/v1")
	r := post("/x", `{}`)
	r.Accept, r.ContentType = "application/json;v=1", "application/json; charset=utf-8"
	require.NoError(t, s.Send(t.Context(), r, `a, "b" c`, testToken).Err)
	got := srv.seen()[0]
	assert.Equal(t, []string{`a, "b" c`}, got.header("Idempotency-Key"))
	assert.Equal(t, []string{"application/json;v=1"}, got.header("Accept"))
	assert.Equal(t, []string{"application/json; charset=utf-8"}, got.header("Content-Type"))
	assert.Equal(t, []string{"Bearer " + testToken}, got.header("Authorization"))
	assert.Equal(t, []string{"flavoso-go/test"}, got.header("User-Agent"))
	assert.Equal(t, []string{"2"}, got.header("Content-Length"))
	assert.Empty(t, got.header("Content-Encoding"))
	assert.Empty(t, got.header("Transfer-Encoding"))
}

func TestSendWithoutBodyOrKey(t *testing.T) {
	srv := startRaw(t, func(int, rawRequest) (string, bool) { return authoredReply(200, `{}`), false })
	s := srv.sender(t, "/v1")
	for _, c := range []struct {
		method string
		body   []byte
		length []string
	}{
		{"POST", nil, []string{"0"}},
		{"POST", []byte{}, []string{"0"}},
		{"PUT", nil, []string{"0"}},
		{"PATCH", nil, []string{"0"}},
		{"DELETE", nil, nil},
		{"GET", nil, nil},
	} {
		require.NoError(t, s.Send(t.Context(), outbox.Request{Method: c.method, Target: "/x", Body: c.body}, "", testToken).Err)
		seen := srv.seen()
		got := seen[len(seen)-1]
		assert.Equal(t, c.length, got.header("Content-Length"), c.method)
		assert.Empty(t, got.header("Idempotency-Key"))
		assert.Empty(t, got.header("Content-Type"))
		assert.Empty(t, got.header("Transfer-Encoding"))
	}
}

// net/http repeats a POST by itself when the canonical key header is there and a reused connection dies.
func TestSendIsOneRequestOnTheWireWhenAWarmConnectionDies(t *testing.T) {
	for _, body := range []string{"", `{"preparation_minutes":20}`} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			t.Run(fmt.Sprintf("%s with %d bytes", method, len(body)), func(t *testing.T) {
				srv := startRaw(t, func(n int, _ rawRequest) (string, bool) {
					if n == 2 {
						return "", true // the request arrived; the connection dies without an answer
					}
					return authoredReply(200, `{}`), false
				})
				s := srv.sender(t, "/v1")
				r := outbox.Request{Method: method, Target: "/x", Body: []byte(body)}
				require.NoError(t, s.Send(t.Context(), r, "k-1", testToken).Err)
				x := s.Send(t.Context(), r, "k-1", testToken)
				require.Error(t, x.Err)
				assert.False(t, x.NeverSent)
				assert.Zero(t, x.Status)
				assert.Equal(t, Broken, Judge(x, Facts{}, time.Now()).Class)
				seen := srv.seen()
				require.Len(t, seen, 2, "a hidden second request")
				assert.Equal(t, seen[0].Conn, seen[1].Conn, "the connection was not warm: the test proves nothing")
			})
		}
	}
}

func TestSendDoesNotFollowRedirects(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := startRaw(t, func(int, rawRequest) (string, bool) {
			return reply(status, map[string]string{"Location": "http://127.0.0.1:1/%zz", "X-Request-Id": testRequestID}, ""), false
		})
		x := srv.sender(t, "/v1").Send(t.Context(), post("/x", ""), "k", testToken)
		require.NoError(t, x.Err)
		assert.Equal(t, status, x.Status)
		assert.Len(t, srv.seen(), 1)
		assert.Equal(t, NotAuthored, Judge(x, Facts{}, time.Now()).Class)
	}
}

func TestNeverSentIsProvenByTheMissingConnectionOnly(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := closed.Addr().String()
	closed.Close()

	t.Run("connection refused", func(t *testing.T) {
		x := senderTo(t, "http://"+addr).Send(t.Context(), post("/x", "{}"), "k", testToken)
		assert.True(t, x.NeverSent)
		assert.ErrorContains(t, x.Err, "refused")
	})
	t.Run("no TLS behind the port", func(t *testing.T) {
		srv := httptest.NewServer(http.NotFoundHandler())
		defer srv.Close()
		x := senderTo(t, strings.Replace(srv.URL, "http:", "https:", 1)).Send(t.Context(), post("/x", "{}"), "k", testToken)
		assert.True(t, x.NeverSent, "%v", x.Err)
	})
	t.Run("certificate not trusted", func(t *testing.T) {
		srv := httptest.NewUnstartedServer(http.NotFoundHandler())
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.StartTLS()
		defer srv.Close()
		x := senderTo(t, srv.URL).Send(t.Context(), post("/x", "{}"), "k", testToken)
		assert.True(t, x.NeverSent, "%v", x.Err)
	})
	t.Run("context ended before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		x := senderTo(t, "http://"+addr).Send(ctx, post("/x", "{}"), "k", testToken)
		assert.True(t, x.NeverSent)
		assert.ErrorIs(t, x.Err, context.Canceled)
	})
	t.Run("a foreign transport proves nothing", func(t *testing.T) {
		s := senderTo(t, "http://"+addr)
		s.Transport = roundTripper(s.Transport.RoundTrip)
		x := s.Send(t.Context(), post("/x", "{}"), "k", testToken)
		assert.False(t, x.NeverSent)
		assert.Error(t, x.Err)
	})
	t.Run("nor does a protocol registered on the transport", func(t *testing.T) {
		s := senderTo(t, "http://"+addr)
		s.Transport.(*http.Transport).RegisterProtocol("http", roundTripper(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("reset after sending")
		}))
		x := s.Send(t.Context(), post("/x", "{}"), "k", testToken)
		assert.False(t, x.NeverSent)
	})
	t.Run("a peer that hangs up was reached", func(t *testing.T) {
		srv := startRaw(t, func(int, rawRequest) (string, bool) { return "", true })
		x := srv.sender(t, "").Send(t.Context(), post("/x", "{}"), "k", testToken)
		assert.False(t, x.NeverSent)
		assert.ErrorIs(t, x.Err, io.EOF)
	})
	t.Run("an answer was reached", func(t *testing.T) {
		srv := startRaw(t, func(int, rawRequest) (string, bool) { return authoredReply(500, ""), false })
		x := srv.sender(t, "").Send(t.Context(), post("/x", "{}"), "k", testToken)
		assert.False(t, x.NeverSent)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSendRefusesWhatItCannotSendUnchanged(t *testing.T) {
	ok := post("/x", "{}")
	with := func(change func(*outbox.Request)) outbox.Request {
		r := ok
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		base, key, token string
		request          outbox.Request
		want             error
	}{
		"no token":               {token: "", request: ok, want: ErrBadToken},
		"token with line break":  {token: "a\r\nX: y", request: ok, want: ErrBadToken},
		"token with space":       {token: "a b", request: ok, want: ErrBadToken},
		"key with line break":    {token: "t", key: "a\nb", request: ok, want: ErrBadRequest},
		"key that HTTP trims":    {token: "t", key: " a", request: ok, want: ErrBadRequest},
		"key not ASCII":          {token: "t", key: "ä", request: ok, want: ErrBadRequest},
		"method lower case":      {token: "t", request: with(func(r *outbox.Request) { r.Method = "post" }), want: ErrBadRequest},
		"no method":              {token: "t", request: with(func(r *outbox.Request) { r.Method = "" }), want: ErrBadRequest},
		"target relative":        {token: "t", request: with(func(r *outbox.Request) { r.Target = "x" }), want: ErrBadRequest},
		"target absolute":        {token: "t", request: with(func(r *outbox.Request) { r.Target = "http://evil/x" }), want: ErrBadRequest},
		"target with space":      {token: "t", request: with(func(r *outbox.Request) { r.Target = "/a b" }), want: ErrBadRequest},
		"target with line break": {token: "t", request: with(func(r *outbox.Request) { r.Target = "/a\r\nHost: evil" }), want: ErrBadRequest},
		"target with fragment":   {token: "t", request: with(func(r *outbox.Request) { r.Target = "/a#b" }), want: ErrBadRequest},
		"target not ASCII":       {token: "t", request: with(func(r *outbox.Request) { r.Target = "/ä" }), want: ErrBadRequest},
		"target escape broken":   {token: "t", request: with(func(r *outbox.Request) { r.Target = "/%zz" }), want: ErrBadRequest},
		"target to be escaped":   {token: "t", request: with(func(r *outbox.Request) { r.Target = `/a"b` }), want: ErrBadRequest},
		"accept with line break": {token: "t", request: with(func(r *outbox.Request) { r.Accept = "a\nb" }), want: ErrBadRequest},
		"base with user":         {base: "http://u:p@127.0.0.1:1", token: "t", request: ok, want: ErrBadRequest},
		"base with query":        {base: "http://127.0.0.1:1?a=b", token: "t", request: ok, want: ErrBadRequest},
		"base without host":      {base: "/v1", token: "t", request: ok, want: ErrBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			base := c.base
			if base == "" {
				base = "http://127.0.0.1:1"
			}
			s := senderTo(t, base)
			s.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
				t.Error("was sent")
				return nil, io.EOF
			})
			x := s.Send(t.Context(), c.request, c.key, c.token)
			assert.True(t, x.NeverSent)
			assert.ErrorIs(t, x.Err, c.want)
			if c.token != "" && c.token != "t" {
				assert.NotContains(t, x.Err.Error(), c.token)
			}
		})
	}
}

func TestBodyOfAnswerIsBoundedAndItsEndChecked(t *testing.T) {
	id := "X-Request-Id: " + testRequestID + "\r\n"
	for name, c := range map[string]struct {
		answer          string
		hangUp          bool
		body            string
		whole, oversize bool
	}{
		"length":                         {answer: authoredReply(200, `{"a":1}`), body: `{"a":1}`, whole: true},
		"length, at the limit":           {answer: authoredReply(200, strings.Repeat("x", 64)), body: strings.Repeat("x", 64), whole: true},
		"length, over the limit":         {answer: authoredReply(200, strings.Repeat("x", 65)), body: strings.Repeat("x", 64), whole: true, oversize: true},
		"length, cut":                    {answer: "HTTP/1.1 200 OK\r\n" + id + "Content-Length: 9\r\n\r\n{\"a\":", hangUp: true, body: `{"a":`},
		"length, nothing came":           {answer: "HTTP/1.1 200 OK\r\n" + id + "Content-Length: 9\r\n\r\n", hangUp: true},
		"chunked":                        {answer: "HTTP/1.1 200 OK\r\n" + id + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", body: `{}`, whole: true},
		"chunked, cut":                   {answer: "HTTP/1.1 200 OK\r\n" + id + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", hangUp: true, body: `{}`},
		"until close":                    {answer: "HTTP/1.1 200 OK\r\n" + id + "Content-Type: application/json\r\n\r\n{\"a\":1}", hangUp: true, body: `{"a":1}`, whole: true},
		"until close, JSON cut":          {answer: "HTTP/1.1 200 OK\r\n" + id + "Content-Type: application/json; charset=utf-8\r\n\r\n{\"a\":", hangUp: true, body: `{"a":`},
		"until close, JSON missing":      {answer: "HTTP/1.1 200 OK\r\n" + id + "Content-Type: application/json\r\n\r\n", hangUp: true},
		"until close, no JSON announced": {answer: "HTTP/1.1 200 OK\r\n" + id + "\r\n{\"a\":", hangUp: true, body: `{"a":`, whole: true},
		"until close, HTML":              {answer: "HTTP/1.1 200 OK\r\n" + id + "Content-Type: text/html\r\n\r\n<p>", hangUp: true, body: `<p>`, whole: true},
		"204":                            {answer: "HTTP/1.1 204 No Content\r\n" + id + "\r\n", whole: true},
		"200, empty":                     {answer: authoredReply(200, ""), whole: true},
		"interim answers first":          {answer: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + authoredReply(200, `{}`), body: `{}`, whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			srv := startRaw(t, func(int, rawRequest) (string, bool) { return c.answer, c.hangUp })
			s := srv.sender(t, "")
			s.MaxBody = 64
			x := s.Send(t.Context(), post("/x", ""), "k", testToken)
			assert.Equal(t, c.body, string(x.Body))
			assert.Equal(t, c.whole, x.Whole, "%v", x.Err)
			assert.Equal(t, c.oversize, x.Oversize)
			assert.Equal(t, c.whole, x.Err == nil)
			v := Judge(x, Facts{}, time.Now())
			if c.whole {
				assert.Equal(t, Success, v.Class)
			} else {
				assert.Equal(t, SuccessCut, v.Class)
			}
		})
	}
}

func TestSwitchingProtocolsIsNoAnswer(t *testing.T) {
	srv := startRaw(t, func(int, rawRequest) (string, bool) {
		return "HTTP/1.1 101 Switching Protocols\r\nX-Request-Id: " + testRequestID + "\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", false
	})
	x := srv.sender(t, "").Send(t.Context(), post("/x", ""), "k", testToken)
	assert.Equal(t, 101, x.Status)
	assert.Equal(t, NotAuthored, Judge(x, Facts{}, time.Now()).Class)
}

func TestSendEndsWithItsContextWhereverTheAnswerHangs(t *testing.T) {
	for name, beginning := range map[string]string{
		"before the status": "",
		"in the headers":    "HTTP/1.1 200 OK\r\nX-Re",
		"in the body":       "HTTP/1.1 200 OK\r\nX-Request-Id: " + testRequestID + "\r\nContent-Length: 10\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					go func() {
						defer server.Close()
						buf := make([]byte, 4096)
						if _, err := server.Read(buf); err != nil {
							return
						}
						io.WriteString(server, beginning)
						io.Copy(io.Discard, server) // until the client gives up
					}()
					return client, nil
				}}
				defer transport.CloseIdleConnections()
				s := &Sender{Transport: transport, Base: &url.URL{Scheme: "http", Host: "flavoso.test"}}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				x := s.Send(ctx, post("/x", ""), "k", testToken)
				assert.ErrorIs(t, x.Err, context.DeadlineExceeded)
				assert.Equal(t, "timeout", x.Err.Error())
				assert.Equal(t, 30*time.Second, x.End.Sub(x.Start))
				assert.False(t, x.NeverSent)
				assert.False(t, x.Whole)
				synctest.Wait()
			})
		})
	}
}

func TestErrorsShowNeitherCredentialsNorQueryNorBodies(t *testing.T) {
	const guest = "Erika Mustermann"
	for name, answer := range map[string]string{
		"malformed status line":    guest + "\r\n\r\n",
		"malformed status":         "HTTP/1.1 " + strings.Fields(guest)[0] + " " + guest + "\r\n\r\n",
		"malformed header":         "HTTP/1.1 200 OK\r\n" + guest + "\r\n\r\n",
		"bad length":               "HTTP/1.1 200 OK\r\nContent-Length: " + guest + "\r\n\r\n",
		"two lengths":              "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: " + guest + "\r\n\r\n",
		"unknown transfer coding":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + guest + "\r\n\r\n",
		"malformed chunk":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + guest + "\r\n",
		"body cut":                 "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + guest,
		"nothing":                  "",
		"malformed header in JSON": "HTTP/1.1 200 OK\r\n{\"name\":\"" + guest + "\"}\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			srv := startRaw(t, func(int, rawRequest) (string, bool) { return answer, true })
			x := srv.sender(t, "").Send(t.Context(), post("/x?phone=0151234567", guest), "k", testToken)
			require.Error(t, x.Err)
			for _, secret := range []string{guest, "Erika", "Mustermann", testToken, "0151234567"} {
				assert.NotContains(t, x.Err.Error(), secret)
				assert.NotContains(t, fmt.Sprintf("%v %+v %s %q", x.Err, x.Err, x.Err, x.Err), secret)
				assert.NotContains(t, Judge(x, Facts{}, time.Now()).Reason, secret)
			}
		})
	}
	t.Run("a transport that prints the request", func(t *testing.T) {
		s := senderTo(t, "http://127.0.0.1:1/v1")
		s.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: fmt.Errorf("refused %s %s: %w", r.Header.Get("Authorization"), r.URL, io.ErrClosedPipe)}
		})
		x := s.Send(t.Context(), post("/x?phone=0151234567", guest), "k", testToken)
		assert.ErrorIs(t, x.Err, io.ErrClosedPipe)
		for _, secret := range []string{testToken, "0151234567"} {
			assert.NotContains(t, x.Err.Error(), secret)
		}
	})
}

func TestATransportThatReturnsNothingIsBroken(t *testing.T) {
	s := senderTo(t, "http://127.0.0.1:1/v1")
	s.Transport = roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil })
	x := s.Send(t.Context(), post("/x", ""), "k", testToken)
	assert.Error(t, x.Err)
	assert.False(t, x.NeverSent)
	assert.Equal(t, Broken, Judge(x, Facts{}, time.Now()).Class)
}

// HTTP/2 has lower-case header names; the key must not get lost or doubled there.
func TestSendOverHTTP2(t *testing.T) {
	var keys []string
	var body bytes.Buffer
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = r.Header.Values("Idempotency-Key")
		io.Copy(&body, r.Body)
		w.Header().Set("X-Request-Id", testRequestID)
		fmt.Fprintf(w, `{"proto":%q,"target":%q}`, r.Proto, r.RequestURI)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	s := senderTo(t, srv.URL+"/v1")
	s.Transport = srv.Client().Transport
	x := s.Send(t.Context(), post("/orders/a%2Fb/../accept?x=%2F", `{"a":1}`), "k-1", testToken)
	require.NoError(t, x.Err)
	assert.JSONEq(t, `{"proto":"HTTP/2.0","target":"/v1/orders/a%2Fb/../accept?x=%2F"}`, string(x.Body))
	assert.Equal(t, []string{"k-1"}, keys)
	assert.Equal(t, `{"a":1}`, body.String())
	srv.Close()
	x = s.Send(t.Context(), post("/x", `{}`), "k-1", testToken)
	assert.Error(t, x.Err)
}

func TestCompressedAnswersAreReadPlain(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Content-Encoding"))
		w.Header().Set("X-Request-Id", testRequestID)
		io.WriteString(w, `{}`)
	}))
	defer srv.Close()
	x := senderTo(t, srv.URL).Send(t.Context(), post("/x", `{}`), "k", testToken)
	assert.Equal(t, `{}`, string(x.Body))
}

func TestAReadSurvivesAConnectionThatDiedWhileIdle(t *testing.T) {
	srv := startRaw(t, func(n int, _ rawRequest) (string, bool) {
		if n == 2 {
			return "", true
		}
		return authoredReply(200, `{}`), false
	})
	s := srv.sender(t, "")
	for range 2 {
		require.NoError(t, s.Send(t.Context(), outbox.Request{Method: "GET", Target: "/x"}, "", testToken).Err)
	}
	assert.Len(t, srv.seen(), 3)
}
