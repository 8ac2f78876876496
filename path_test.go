package flavoso

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flavoso/flavoso-go/internal/wire"
)

func TestPath(t *testing.T) {
	for want, got := range map[string]string{
		"/":                             Path(),
		"/orders":                       Path("orders"),
		"/orders/" + testOrderID:        Path("orders", testOrderID),
		"/orders/a%2F..%2Fb%3Fx/accept": Path("orders", "a/../b?x", "accept"),
		"/orders/%2E/accept":            Path("orders", ".", "accept"),
		"/orders/%2E%2E/accept":         Path("orders", "..", "accept"),
		"/orders/...":                   Path("orders", "..."),
		"/orders//accept":               Path("orders", "", "accept"),
		"/orders/%C3%A4%20%23%25":       Path("orders", "ä #%"),
		"/orders/%0D%0AHost:%20evil":    Path("orders", "\r\nHost: evil"),
	} {
		assert.Equal(t, want, got)
	}
}

func TestNoSegmentChangesThePath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("./%?#2eE\\")))).Draw(t, "id")
		p := Path("orders", id, "accept")
		if err := wire.CheckTarget(p); err != nil {
			t.Fatalf("%q cannot be sent: %v", p, err)
		}
		parts := strings.Split(p, "/")
		if len(parts) != 4 || parts[1] != "orders" || parts[3] != "accept" {
			t.Fatalf("%q", p)
		}
		if back, err := url.PathUnescape(parts[2]); err != nil || back != id {
			t.Fatalf("%q became %q, %v", id, back, err)
		}
		if u, err := url.Parse("https://api.flavoso.com/v1" + p); err != nil || u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("%q: %v", p, err)
		}
	})
}

func TestValidateID(t *testing.T) {
	for _, id := range []string{testOrderID, "1", "ord_1A", "a.b", "...", "a~b", "urn:x:1", "YWJj=", "a+b", strings.Repeat("x", 255)} {
		assert.NoError(t, validateID("order_id", id), id)
		assert.Equal(t, 2, strings.Count(Path("orders", id), "/"), id)
	}
	for _, id := range []string{"", ".", "..", "a/b", "a/../b?x", "../..", "a?b", "a#b", "a%2Fb", "%2e%2e", `a\b`, " ", "a b", "a\n", "\x00", "ä", "\xff", "a;b", "<a>", `"`, strings.Repeat("x", 256)} {
		var param *ParamError
		require.ErrorAs(t, validateID("order_id", id), &param, "%q", id)
		assert.Equal(t, "order_id", param.Field)
	}
}

func FuzzValidateID(f *testing.F) {
	for _, seed := range []string{testOrderID, "", ".", "..", "a/../b?x", "a%2Fb", "ä"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if validateID("id", id) != nil {
			return
		}
		u, err := url.Parse("https://api.flavoso.com/v1" + Path("orders", id, "accept"))
		if err != nil || u.Path != "/v1/orders/"+id+"/accept" || u.RawQuery != "" || u.JoinPath().Path != u.Path {
			t.Fatalf("%q: %v %v", id, u, err)
		}
	})
}
