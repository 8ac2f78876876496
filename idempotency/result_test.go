package idempotency_test

import (
	"bytes"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flavoso/flavoso-go/idempotency"
)

func goldenResult() idempotency.Result {
	return idempotency.Result{Status: 201, Body: []byte("{\"b\":1,\"a\":1, \"a\":2}\x00\xff"), Header: http.Header{
		"Content-Type": {"application/json"}, "X-List": {"a, b", "", "c"}, "X-None": {}}}
}

// The file was written by the first release: every later one must read it.
func TestResultFormatOfEarlierReleases(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "result-v1.hex"))
	require.NoError(t, err)
	golden, err := hex.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	var r idempotency.Result
	require.NoError(t, r.UnmarshalBinary(golden))
	require.Equal(t, goldenResult(), r)
	b, err := r.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, golden, b, "version 1 is written as it always was")
}

func TestUnreadableResultsAreADefiniteError(t *testing.T) {
	good, err := goldenResult().MarshalBinary()
	require.NoError(t, err)
	newer := bytes.Clone(good)
	newer[0]++
	flags := bytes.Clone(good)
	flags[1] |= 0x80
	for name, data := range map[string][]byte{"empty": nil, "newer version": newer, "unknown flags": flags, "cut": good[:20]} {
		var r idempotency.Result
		require.ErrorIs(t, r.UnmarshalBinary(data), idempotency.ErrResultFormat, name)
		require.Zero(t, r, name)
	}
}

func TestResultRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := idempotency.Result{Status: rapid.IntRange(0, 999).Draw(t, "status"), Omitted: rapid.Bool().Draw(t, "omitted"),
			Header: rapid.MapOf(rapid.String(), rapid.SliceOfN(rapid.String(), 0, 4)).Draw(t, "header")}
		if body := rapid.SliceOf(rapid.Byte()).Draw(t, "body"); len(body) > 0 {
			want.Body = body
		}
		for k, v := range want.Header {
			if v == nil {
				want.Header[k] = []string{}
			}
		}
		b, err := want.MarshalBinary()
		require.NoError(t, err)
		var got idempotency.Result
		require.NoError(t, got.UnmarshalBinary(b))
		require.Equal(t, want, got)
		again, err := got.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}

func FuzzResultUnmarshal(f *testing.F) {
	good, err := goldenResult().MarshalBinary()
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte{1, 2, 200, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Add([]byte{1, 2, 200, 1, 200, 1, 1, 'a', 255, 255, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		var r idempotency.Result
		if r.UnmarshalBinary(data) != nil {
			return
		}
		b, err := r.MarshalBinary()
		require.NoError(t, err)
		var again idempotency.Result
		require.NoError(t, again.UnmarshalBinary(b))
		require.Equal(t, r, again)
	})
}

func FuzzValidateKey(f *testing.F) {
	for _, s := range []string{"", "a", "accept-1", strings.Repeat("k", 255), strings.Repeat("k", 256), "caf\xc3\xa9", "a\x7f", " ,\"~"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		printable := len(key) >= 1 && len(key) <= 255
		for _, c := range []byte(key) {
			printable = printable && c >= ' ' && c <= '~'
		}
		require.Equal(t, printable, idempotency.ValidateKey(key) == nil)
	})
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{`, `[1e400]`, `"\ud800"`, `{"a":1,"a":2}`, "", "null", strings.Repeat("[", 100)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest("POST", "/", nil)
		a, err := idempotency.CanonicalJSON(r, body)
		if err != nil {
			return
		}
		b, err := idempotency.CanonicalJSON(r, body)
		require.NoError(t, err)
		require.Equal(t, a, b)
	})
}

func fingerprint(t require.TestingT, f idempotency.FingerprintFunc, method, target, body string) idempotency.Fingerprint {
	fp, err := f(httptest.NewRequest(method, target, nil), []byte(body))
	require.NoError(t, err)
	return fp
}

func TestRawBytesTellsRequestsApart(t *testing.T) {
	base := fingerprint(t, idempotency.RawBytes, "POST", "/orders?x=1", `{"a":1}`)
	require.Equal(t, base, fingerprint(t, idempotency.RawBytes, "POST", "/orders?x=1", `{"a":1}`))
	require.Equal(t, base, fingerprint(t, idempotency.RawBytes, "POST", "https://other.example/orders?x=1", `{"a":1}`), "host and scheme do not count")
	for _, other := range [][3]string{
		{"PUT", "/orders?x=1", `{"a":1}`}, {"POST", "/orders?x=2", `{"a":1}`}, {"POST", "/orders", `{"a":1}`},
		{"POST", "/orders/?x=1", `{"a":1}`}, {"POST", "/%6frders?x=1", `{"a":1}`}, {"POST", "/orders?x=1", `{"a": 1}`},
		{"POST", "/orders?x=1", ``}, {"POST", "/orders?x=1&", `{"a":1}`},
	} {
		require.NotEqual(t, base, fingerprint(t, idempotency.RawBytes, other[0], other[1], other[2]), other)
	}
}

// Moving a boundary between parts makes another fingerprint.
func TestFingerprintPartsDoNotRunTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		joined := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "bytes")
		i, j := rapid.IntRange(0, len(joined)).Draw(t, "i"), rapid.IntRange(0, len(joined)).Draw(t, "j")
		a := idempotency.NewFingerprint(16, joined[:i], joined[i:])
		b := idempotency.NewFingerprint(16, joined[:j], joined[j:])
		require.Equal(t, i == j, a == b)
		require.NotEqual(t, idempotency.NewFingerprint(16, joined), idempotency.NewFingerprint(16, joined, nil))
		require.NotEqual(t, idempotency.NewFingerprint(16, joined), idempotency.NewFingerprint(17, joined))
		s, u := string(joined[:i]), string(joined[i:])
		x, y := idempotency.Scope{Tenant: s, Operation: u, Key: "k"}, idempotency.Scope{Tenant: string(joined[:j]), Operation: string(joined[j:]), Key: "k"}
		require.Equal(t, x == y, x.ID() == y.ID())
	})
}

func TestCanonicalJSONIsDeterministic(t *testing.T) {
	canon := func(body string) idempotency.Fingerprint {
		return fingerprint(t, idempotency.CanonicalJSON, "POST", "/", body)
	}
	same := [][]string{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, " {\n\"b\" : 2 , \"a\":1}"},
		{`[1,1.5,100]`, `[1.0,15e-1,1e2]`},
		{`"\u00e9"`, "\"\u00e9\""},
	}
	for _, group := range same {
		for _, body := range group[1:] {
			require.Equal(t, canon(group[0]), canon(body), body)
		}
	}
	for _, pair := range [][2]string{
		{`{"a":1}`, `{"a":"1"}`}, {`{"a":null}`, `{}`}, {`[1,2]`, `[2,1]`},
		{"\"\u00e9\"", "\"e\u0301\""}, // Unicode is not normalised (RFC 8785)
	} {
		require.NotEqual(t, canon(pair[0]), canon(pair[1]), pair)
	}
	require.NotEqual(t, fingerprint(t, idempotency.RawBytes, "POST", "/", ""), canon(""), "schemes do not meet")
}

func TestIdentitiesAsText(t *testing.T) {
	id := idempotency.Scope{Tenant: "t", Operation: "o", Key: "k"}.ID()
	back, err := idempotency.ParseID(id.String())
	require.NoError(t, err)
	require.Equal(t, id, back)
	for _, bad := range []string{"", "00", strings.Repeat("zz", 32)} {
		_, err := idempotency.ParseID(bad)
		require.Error(t, err)
	}
	fp := idempotency.NewFingerprint(16, []byte("x"))
	text, err := fp.MarshalText()
	require.NoError(t, err)
	var fp2 idempotency.Fingerprint
	require.NoError(t, fp2.UnmarshalText(text))
	require.Equal(t, fp, fp2)
	require.Error(t, fp2.UnmarshalText([]byte("xx")))
}

func TestFingerprintsOfShortAndLongRequestsAreMadeAlike(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 1990, 2000, 2048, 5000} {
		body := strings.Repeat("x", n)
		require.Equal(t, idempotency.NewFingerprint(1, []byte("POST"), []byte("/orders?x"), []byte(body)),
			fingerprint(t, idempotency.RawBytes, "POST", "/orders?x", body), n)
	}
}
