package flavoso

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const testOrderID = "9f86d081-884c-4d65-9a2f-eaa0c55ad015"

func TestDefaultKeys(t *testing.T) {
	for want, got := range map[string]Key{
		"accept-" + testOrderID:                   acceptKey(testOrderID),
		"ack-" + testOrderID:                      acknowledgeKey(testOrderID),
		"reject-" + testOrderID:                   rejectKey(testOrderID),
		"cancel-" + testOrderID:                   cancelKey(testOrderID),
		"status-" + testOrderID + "-ready":        statusKey(testOrderID, OrderReady),
		"status-x-out_for_delivery":               statusKey("x", OrderOutForDelivery),
		"booking-2026-11-30-17":                   bookingKey("2026-11-30-17"),
		"bookingcancel-" + testOrderID:            bookingCancelKey(testOrderID),
		"bookingseat-" + testOrderID:              bookingSeatKey(testOrderID),
		"bookingcomplete-" + testOrderID:          bookingCompleteKey(testOrderID),
		"bookingnoshow-" + testOrderID:            bookingNoShowKey(testOrderID),
		"booking-Tisch~x207~x2fabend~xc3~xa4~x7e": bookingKey("Tisch 7/abendä~"),
	} {
		assert.Equal(t, want, string(got))
		assert.NoError(t, got.Validate())
	}
}

func TestDeriveKeyForms(t *testing.T) {
	for want, got := range map[string]Key{
		"print":              DeriveKey("print"),
		"print-":             DeriveKey("print", ""),
		"print-~-":           DeriveKey("print", "", ""),
		"print-a-b":          DeriveKey("print", "a-b"),
		"print-a~-b":         DeriveKey("print", "a", "b"),
		"print~x2da-b":       DeriveKey("print-a", "b"),
		"~x":                 DeriveKey(""),
		"~x-a":               DeriveKey("", "a"),
		"print-~x0d~x0a~x00": DeriveKey("print", "\r\n\x00"),
	} {
		assert.Equal(t, want, string(got))
	}
}

// pieces draws texts that are likely to collide when something about the escapes is wrong.
func pieces() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("a-~x2d.m h")), 0, 6, -1),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.IntRange(100, 400), func(n int) string { return strings.Repeat("y", n) }),
	)
}

var derivedForm = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,240}$`)
var generationForm = regexp.MustCompile(`~[0-9]+$`)

func TestDerivedKeysAreInjectiveAndValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (string, []string) {
			return pieces().Draw(t, name+" kind"), rapid.SliceOfN(pieces(), 0, 3).Draw(t, name+" parts")
		}
		kind1, parts1 := draw("first")
		kind2, parts2 := draw("second")
		key1, key2 := DeriveKey(kind1, parts1...), DeriveKey(kind2, parts2...)
		for _, k := range []Key{key1, key2, HashKey([]byte("s"), kind1, parts1...)} {
			if k.Validate() != nil || !derivedForm.MatchString(string(k)) {
				t.Fatalf("not a valid key: %q", k)
			}
			if generationForm.MatchString(string(k)) {
				t.Fatalf("looks like a generation: %q", k)
			}
		}
		same := kind1 == kind2 && len(parts1) == len(parts2)
		for i := 0; same && i < len(parts1); i++ {
			same = parts1[i] == parts2[i]
		}
		if same != (key1 == key2) {
			t.Fatalf("%q %q and %q %q: %q, %q", kind1, parts1, kind2, parts2, key1, key2)
		}
		if hash1, hash2 := HashKey([]byte("s"), kind1, parts1...), HashKey([]byte("s"), kind2, parts2...); same != (hash1 == hash2) {
			t.Fatalf("hashed: %q %q and %q %q", kind1, parts1, kind2, parts2)
		}
		if key1 == HashKey([]byte("s"), kind2, parts2...) {
			t.Fatalf("a derived key is a hashed one: %q", key1)
		}
	})
}

func TestLongKeysDifferInTheirTails(t *testing.T) {
	long := strings.Repeat("x", 1000)
	a, b := DeriveKey("print", long+"1"), DeriveKey("print", long+"2")
	assert.Len(t, a, 240)
	assert.Len(t, b, 240)
	assert.NotEqual(t, a, b)
	assert.Equal(t, a, DeriveKey("print", long+"1"))
	assert.True(t, strings.HasPrefix(string(a), "print-xxx"))

	// 240 characters fit unhashed, 241 do not; no text can spell out another's hashed form.
	fits := DeriveKey("p", strings.Repeat("x", 238))
	assert.Equal(t, "p-"+strings.Repeat("x", 238), string(fits))
	over := DeriveKey("p", strings.Repeat("x", 239))
	assert.Contains(t, string(over), "~h")
	assert.NotEqual(t, over, DeriveKey("p", strings.TrimPrefix(string(over), "p-")))
}

func TestHashKeyHidesItsParts(t *testing.T) {
	secret := []byte("of this restaurant chain")
	k := HashKey(secret, "callback", "+49 30 1234567")
	require.NoError(t, k.Validate())
	assert.True(t, strings.HasPrefix(string(k), "callback-~m"))
	assert.NotContains(t, string(k), "1234567")
	assert.Equal(t, k, HashKey(secret, "callback", "+49 30 1234567"))
	assert.NotEqual(t, k, HashKey([]byte("another"), "callback", "+49 30 1234567"))
	assert.NotEqual(t, HashKey(secret, "k", "a", "b"), HashKey(secret, "k", "ab"))
	assert.Error(t, HashKey(nil, "callback", "x").Validate())
	assert.Error(t, HashKey([]byte{}, "callback", "x").Validate())
}

func TestNewKeysAreRandomUUIDs(t *testing.T) {
	seen := map[Key]bool{}
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for range 1000 {
		k := NewKey()
		require.Regexp(t, form, string(k))
		require.NoError(t, k.Validate())
		require.False(t, seen[k])
		seen[k] = true
	}
}

func TestKeyValidate(t *testing.T) {
	for _, k := range []Key{"a", "A b", `a,"b"`, "~", "!", Key(strings.Repeat("x", 255)), NewKey()} {
		assert.NoError(t, k.Validate(), "%q", k)
	}
	for _, k := range []Key{"", " ", " a", "a ", "ä", "a\x7f", "a\n", "a\r\nX: y", "a\x00", "\t", "\xff", Key(strings.Repeat("x", 256))} {
		err := k.Validate()
		var param *ParamError
		require.ErrorAs(t, err, &param, "%q", k)
		assert.Equal(t, "Idempotency-Key", param.Field)
		assert.ErrorIs(t, err, ErrNotSaved)
	}
}

func FuzzDeriveKey(f *testing.F) {
	f.Add("accept", testOrderID, "")
	f.Add("", "", "")
	f.Add("a-b", "~x2d", "~-")
	f.Add("k", strings.Repeat("ü", 200), "x")
	f.Fuzz(func(t *testing.T, kind, a, b string) {
		one, two := DeriveKey(kind, a), DeriveKey(kind, a, b)
		for _, k := range []Key{one, two, DeriveKey(kind), HashKey([]byte("s"), kind, a, b)} {
			if k.Validate() != nil || !derivedForm.MatchString(string(k)) || generationForm.MatchString(string(k)) {
				t.Fatalf("%q", k)
			}
		}
		if one == two || a != b && DeriveKey(kind, b) == one || kind != a && DeriveKey(a, b) == DeriveKey(kind, b) {
			t.Fatalf("%q %q %q collide", kind, a, b)
		}
	})
}

func FuzzKeyValidate(f *testing.F) {
	for _, seed := range []string{"", "a", " a", "a ", "ä", "\x00", strings.Repeat("x", 256)} {
		f.Add(seed)
	}
	legal := regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`)
	f.Fuzz(func(t *testing.T, s string) {
		want := len(s) <= 255 && legal.MatchString(s) && !strings.HasSuffix(s, "\n")
		if got := Key(s).Validate() == nil; got != want {
			t.Fatalf("%q: %t", s, got)
		}
	})
}
