package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func goodToken(context.Context, string) (string, error) { return testToken, nil }

// none repeats at once, so that tests without a simulated clock need not wait.
func none(int) time.Duration { return 0 }

func TestReadReturnsTheAnswer(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		class  Class
	}{
		{200, "", Success}, {404, "not_found", Conflict}, {409, "conflict", Conflict}, {410, "", Conflict},
		{422, "validation_failed", Rejected}, {400, "", Rejected}, {403, "forbidden", Forbidden},
	} {
		srv := startRaw(t, func(int, rawRequest) (string, bool) {
			return authoredReply(c.status, `{"error":{"code":"`+c.code+`"}}`), false
		})
		x, v, n, err := srv.sender(t, "/v1").Read(t.Context(), "/orders/a%2Fb?x=%2F", goodToken, ReadOptions{Delay: none})
		require.NoError(t, err)
		assert.Equal(t, c.class, v.Class)
		assert.Equal(t, c.status, x.Status)
		assert.Contains(t, string(x.Body), c.code)
		assert.Equal(t, 1, n)
		got := srv.seen()
		require.Len(t, got, 1)
		assert.Equal(t, "GET /v1/orders/a%2Fb?x=%2F HTTP/1.1", got[0].Line)
		assert.Equal(t, []string{"Bearer " + testToken}, got[0].header("Authorization"))
		assert.Equal(t, []string{"application/json"}, got[0].header("Accept"))
		assert.Empty(t, got[0].header("Idempotency-Key"))
		assert.Empty(t, got[0].header("Referer"))
	}
}

func TestReadRepeatsUntilThereIsAnAnswer(t *testing.T) {
	answers := []struct {
		text   string
		hangUp bool
	}{
		{"", true}, // no answer
		{reply(200, nil, "<html>portal</html>"), false},
		{reply(502, nil, "<html>bad gateway</html>"), false},
		{reply(302, map[string]string{"Location": "http://portal.test/", "X-Request-Id": testRequestID}, ""), false},
		{reply(308, map[string]string{"Location": "http://%zz/", "X-Request-Id": testRequestID}, ""), false},
		{authoredReply(500, `{"error":{"code":"internal"}}`), false},
		{authoredReply(503, ``), false},
		{authoredReply(429, ``), false},
		{authoredReply(408, ``), false},
		{authoredReply(425, ``), false},
		{"HTTP/1.1 200 OK\r\nX-Request-Id: " + testRequestID + "\r\nContent-Length: 9\r\n\r\n{", true},
		{authoredReply(200, `{"id":"1"}`), false},
	}
	srv := startRaw(t, func(n int, _ rawRequest) (string, bool) { return answers[n-1].text, answers[n-1].hangUp })
	s := srv.sender(t, "/v1")
	var delays []int
	var classes []Class
	x, v, n, err := s.Read(t.Context(), "/x", goodToken, ReadOptions{
		Delay:     func(attempt int) time.Duration { delays = append(delays, attempt); return 0 },
		OnAttempt: func(n int, _ Exchange, v Verdict) { classes = append(classes, v.Class) },
	})
	require.NoError(t, err)
	assert.Equal(t, Success, v.Class)
	assert.Equal(t, `{"id":"1"}`, string(x.Body))
	assert.Equal(t, len(answers), n)
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, delays)
	assert.Equal(t, []Class{Broken, NotAuthored, NotAuthored, NotAuthored, NotAuthored, Retry, Retry, Retry, Retry, Retry, SuccessCut, Success}, classes)
	assert.Len(t, srv.seen(), len(answers))
}

// A portal's JSON counts as an answer only as long as Flavoso's own header was never seen.
func TestReadLearnsTheRequestIDOnTheWay(t *testing.T) {
	srv := startRaw(t, func(n int, _ rawRequest) (string, bool) {
		switch n {
		case 1:
			return authoredReply(503, ""), false
		case 2:
			return reply(200, nil, `{"portal":true}`), false
		}
		return authoredReply(200, `{}`), false
	})
	_, v, n, err := srv.sender(t, "").Read(t.Context(), "/x", goodToken, ReadOptions{Delay: none})
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	assert.Equal(t, testRequestID, v.RequestID)
}

func TestReadGivesUpAfterItsAttemptsAndKeepsTheLastAnswer(t *testing.T) {
	srv := startRaw(t, func(int, rawRequest) (string, bool) {
		return authoredReply(503, `{"error":{"code":"unavailable","message":"Maintenance"}}`), false
	})
	for _, most := range []int{1, 3} {
		x, v, n, err := srv.sender(t, "").Read(t.Context(), "/x", goodToken, ReadOptions{Delay: none, MaxAttempts: most})
		assert.Equal(t, most, n)
		var gaveUp *ReadError
		require.ErrorAs(t, err, &gaveUp)
		assert.ErrorIs(t, err, ErrGaveUp)
		assert.Equal(t, most, gaveUp.Attempts)
		assert.NoError(t, gaveUp.Context)
		assert.EqualError(t, err, "no answer to rely on, last: 503 unavailable")
		assert.Equal(t, 503, x.Status)
		assert.Equal(t, "Maintenance", v.Message)
		assert.Contains(t, string(x.Body), "Maintenance")
	}
}

func TestReadRenewsARefusedTokenOnce(t *testing.T) {
	srv := startRaw(t, func(_ int, r rawRequest) (string, bool) {
		if r.header("Authorization")[0] == "Bearer fresh" {
			return authoredReply(200, `{}`), false
		}
		return authoredReply(401, `{"error":{"code":"unauthorized"}}`), false
	})
	t.Run("a fresh one is taken", func(t *testing.T) {
		var rejected []string
		_, v, n, err := srv.sender(t, "").Read(t.Context(), "/x", func(_ context.Context, r string) (string, error) {
			rejected = append(rejected, r)
			if r == "stale" {
				return "fresh", nil
			}
			return "stale", nil
		}, ReadOptions{Delay: none, MaxAttempts: 1})
		require.NoError(t, err)
		assert.Equal(t, Success, v.Class)
		assert.Equal(t, 2, n)
		assert.Equal(t, []string{"", "stale"}, rejected)
	})
	t.Run("the same again is an answer", func(t *testing.T) {
		_, v, n, err := srv.sender(t, "").Read(t.Context(), "/x", goodToken, ReadOptions{Delay: none})
		require.NoError(t, err)
		assert.Equal(t, Unauthorized, v.Class)
		assert.Equal(t, 1, n)
	})
	t.Run("a second refusal is an answer", func(t *testing.T) {
		calls := 0
		_, v, n, err := srv.sender(t, "").Read(t.Context(), "/x", func(context.Context, string) (string, error) {
			calls++
			return fmt.Sprint("t", calls), nil
		}, ReadOptions{Delay: none})
		require.NoError(t, err)
		assert.Equal(t, Unauthorized, v.Class)
		assert.Equal(t, 2, n)
		assert.Equal(t, 2, calls)
	})
	t.Run("its failure ends the read", func(t *testing.T) {
		broken := errors.New("token service down")
		_, v, n, err := srv.sender(t, "").Read(t.Context(), "/x", func(_ context.Context, r string) (string, error) {
			if r != "" {
				return "", broken
			}
			return "stale", nil
		}, ReadOptions{Delay: none})
		assert.Equal(t, broken, err)
		assert.Equal(t, Unauthorized, v.Class)
		assert.Equal(t, 1, n)
	})
	t.Run("an unusable one ends the read", func(t *testing.T) {
		_, _, n, err := srv.sender(t, "").Read(t.Context(), "/x", func(context.Context, string) (string, error) { return "a\nb", nil }, ReadOptions{Delay: none})
		assert.ErrorIs(t, err, ErrBadToken)
		assert.Zero(t, n)
	})
}

func TestReadRefusesATargetItCannotSend(t *testing.T) {
	x, _, n, err := senderTo(t, "http://127.0.0.1:1").Read(t.Context(), "/a b", goodToken, ReadOptions{})
	assert.ErrorIs(t, err, ErrBadRequest)
	assert.Zero(t, n)
	assert.True(t, x.NeverSent)
}

// pipeSender returns a sender whose connections are in-memory pipes answered by handler.
func pipeSender(t *testing.T, handler func(n int) string) *Sender {
	n := 0
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		n++
		answer := handler(n)
		if answer == "refuse" {
			return nil, errors.New("refused")
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			buf := make([]byte, 4096)
			if _, err := server.Read(buf); err != nil {
				return
			}
			if answer == "hang" {
				io.Copy(io.Discard, server)
				return
			}
			io.WriteString(server, answer)
		}()
		return client, nil
	}}
	return &Sender{Transport: transport, Base: &url.URL{Scheme: "http", Host: "flavoso.test"}}
}

func TestReadWaitsByItsDelayAndByRetryAfterAndEndsWithItsContext(t *testing.T) {
	second := func(int) time.Duration { return time.Second }
	limited := reply(429, map[string]string{"X-Request-Id": testRequestID, "Retry-After": "60"}, "")

	t.Run("delay and Retry-After add up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := pipeSender(t, func(n int) string {
				switch n {
				case 1:
					return "refuse"
				case 2:
					return limited
				}
				return authoredReply(200, `{}`)
			})
			start := time.Now()
			_, _, n, err := s.Read(t.Context(), "/x", goodToken, ReadOptions{Delay: second})
			require.NoError(t, err)
			assert.Equal(t, 3, n)
			assert.Equal(t, 62*time.Second, time.Since(start))
			synctest.Wait()
		})
	})
	t.Run("no wait is begun that the deadline would cut", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := pipeSender(t, func(int) string { return limited })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			start := time.Now()
			_, v, n, err := s.Read(ctx, "/x", goodToken, ReadOptions{Delay: second})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, ErrGaveUp)
			assert.Equal(t, 1, n)
			assert.Equal(t, Retry, v.Class)
			assert.Zero(t, time.Since(start))
			synctest.Wait()
		})
	})
	t.Run("cancelled while waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := pipeSender(t, func(int) string { return limited })
			cause := errors.New("client closed")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(5*time.Second, func() { cancel(cause) })
			x, _, n, err := s.Read(ctx, "/x", goodToken, ReadOptions{Delay: second})
			assert.ErrorIs(t, err, cause)
			assert.ErrorIs(t, err, ErrGaveUp)
			assert.Equal(t, 1, n)
			assert.Equal(t, 429, x.Status)
			synctest.Wait()
		})
	})
	t.Run("deadline while an attempt hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := pipeSender(t, func(int) string { return "hang" })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, v, n, err := s.Read(ctx, "/x", goodToken, ReadOptions{Delay: second})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, 1, n)
			assert.Equal(t, Broken, v.Class)
			synctest.Wait()
		})
	})
	t.Run("a hanging attempt has its own end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := pipeSender(t, func(n int) string {
				if n == 1 {
					return "hang"
				}
				return authoredReply(200, `{}`)
			})
			start := time.Now()
			_, _, n, err := s.Read(t.Context(), "/x", goodToken, ReadOptions{Delay: second, AttemptTimeout: 3 * time.Second})
			require.NoError(t, err)
			assert.Equal(t, 2, n)
			assert.Equal(t, 4*time.Second, time.Since(start))
			synctest.Wait()
		})
	})
	t.Run("the default delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := pipeSender(t, func(n int) string {
				if n <= 3 {
					return "refuse"
				}
				return authoredReply(200, `{}`)
			})
			start := time.Now()
			_, _, _, err := s.Read(t.Context(), "/x", goodToken, ReadOptions{})
			require.NoError(t, err)
			assert.GreaterOrEqual(t, time.Since(start), 150*time.Millisecond)
			assert.LessOrEqual(t, time.Since(start), 3500*time.Millisecond)
			synctest.Wait()
		})
	})
}

// The library closes the idle connections of the client it is given whenever it gives up.
func TestGivingUpLeavesTheConnectionsOfOthersAlone(t *testing.T) {
	srv := startRaw(t, func(n int, _ rawRequest) (string, bool) {
		if n == 2 {
			return authoredReply(503, ""), false
		}
		return authoredReply(200, `{}`), false
	})
	s := srv.sender(t, "")
	require.NoError(t, s.Send(t.Context(), post("/x", ""), "k", testToken).Err)
	_, _, _, err := s.Read(t.Context(), "/x", goodToken, ReadOptions{Delay: none, MaxAttempts: 1})
	require.Error(t, err)
	require.NoError(t, s.Send(t.Context(), post("/x", ""), "k", testToken).Err)
	for _, r := range srv.seen() {
		assert.Equal(t, 1, r.Conn)
	}
}

func TestReadWritesNothingToStandardError(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = w
	srv := startRaw(t, func(int, rawRequest) (string, bool) { return authoredReply(503, ""), false })
	_, _, _, err = srv.sender(t, "").Read(t.Context(), "/x?phone=0151234567", goodToken, ReadOptions{Delay: none, MaxAttempts: 2})
	os.Stderr = stderr
	w.Close()
	require.Error(t, err)
	written, _ := io.ReadAll(r)
	r.Close()
	assert.Empty(t, string(written))
	assert.False(t, strings.Contains(err.Error(), "0151234567"))
}
