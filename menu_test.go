package flavoso

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAllergensHaveThreeStates(t *testing.T) {
	for allergens, want := range map[string][]Allergen{
		`null`: nil, `[]`: {}, `["milk","nuts"]`: {AllergenMilk, AllergenNuts}, `["moon_dust"]`: {"moon_dust"},
	} {
		var it MenuItem
		require.NoError(t, json.Unmarshal([]byte(`{"id":"a","allergens":`+allergens+`}`), &it))
		assert.Equal(t, want, it.Allergens)
		out, err := json.Marshal(it)
		require.NoError(t, err)
		assert.Contains(t, string(out), `"allergens":`+allergens)
	}
	assert.NotNil(t, DeclareAllergens())
	assert.Empty(t, DeclareAllergens())
}

func TestMenuBodies(t *testing.T) {
	for want, v := range map[string]any{
		`{"currency":"EUR","categories":[],"items":[],"modifier_groups":[]}`: Menu{Currency: "EUR"},
		`{"id":"c","name":"<Ü>","item_ids":[]}`:                              MenuCategory{ID: "c", Name: "<Ü>"},
		`{"id":"a","name":"A","price":{"amount":950,"currency":"EUR"},"tax_rates":{"delivery":700,"pickup":0,"dine_in":1900},"allergens":null,"modifier_group_ids":[]}`: MenuItem{
			ID: "a", Name: "A", Price: Money{950, "EUR"}, TaxRates: TaxRates{Delivery: 700, DineIn: 1900}},
		`{"id":"m","name":"M","price":{"amount":0,"currency":""},"max_quantity":2}`: MenuModifier{ID: "m", Name: "M", MaxQuantity: 2},
		`{"id":"g","name":"G","min":0,"max":1,"modifiers":[],"a":[1,2],"z":null}`: ModifierGroup{ID: "g", Name: "G", Max: 1,
			Extra: Extra{"z": json.RawMessage(`null`), "a": json.RawMessage("[ 1,\n2 ]"), "max": json.RawMessage(`7`)}},
		`{"timezone":"UTC","weekly":[{"day":"monday","ranges":[]}],"special_days":[{"date":"2026-12-25","closed":true}]}`: Hours{
			Timezone: "UTC", Weekly: []DayHours{{Day: Monday}}, SpecialDays: []SpecialDay{{Date: "2026-12-25", Closed: true}}},
		`{"changes":[{"item_id":"a","status":"unavailable","until":"2026-11-30T21:00:00Z"}]}`: AvailabilityParams{Changes: []AvailabilityChange{
			{ItemID: "a", Status: Unavailable, Until: time.Date(2026, 11, 30, 22, 0, 0, 0, berlin)}}},
		`{"paused_until":null}`: UpdateStoreParams{PausedUntil: Null[time.Time]()},
		`{"paused_until":"2026-11-30T21:00:00Z","pause_reason":"voll","default_preparation_minutes":30}`: UpdateStoreParams{
			PausedUntil: Set(time.Date(2026, 11, 30, 22, 0, 0, 0, berlin)), PauseReason: Set("voll"), DefaultPreparationMinutes: Set(30)},
	} {
		out, err := marshal(v)
		require.NoError(t, err)
		assert.Equal(t, want, string(out))
	}
	_, err := marshal(Menu{Extra: Extra{"x": json.RawMessage(`{`)}})
	assert.Error(t, err, "what is not JSON is an error, not another menu")
}

func TestMenuDiff(t *testing.T) {
	price := func(n int64) Money { return Money{n, "EUR"} }
	old := &Menu{Currency: "EUR",
		Categories: []MenuCategory{{ID: "c", Name: "Essen", ItemIDs: []string{"a", "b"}}, {ID: "d", Name: "Trinken"}},
		Items:      []MenuItem{{ID: "a", Name: "A", Price: price(100)}, {ID: "b", Name: "B", Price: price(200)}, {ID: "x", Name: "X", Price: price(1)}},
		ModifierGroups: []ModifierGroup{{ID: "g", Name: "G", Max: 1, Modifiers: []MenuModifier{{ID: "m", Name: "M", Price: price(5)}, {ID: "n", Name: "N", Price: price(5)}}},
			{ID: "h", Name: "H"}},
	}
	now := &Menu{Currency: "EUR",
		Categories: []MenuCategory{{ID: "d", Name: "Trinken"}, {ID: "c", Name: "Essen", ItemIDs: []string{"b", "a"}}},
		Items:      []MenuItem{{ID: "a", Name: "A", Price: price(120), Allergens: []Allergen{}}, {ID: "b", Name: "B", Price: price(200)}, {ID: "y", Name: "Y", Price: price(1)}},
		ModifierGroups: []ModifierGroup{{ID: "g", Name: "G", Max: 2, Modifiers: []MenuModifier{{ID: "n", Name: "N", Price: price(5)}}},
			{ID: "h", Name: "H", Modifiers: []MenuModifier{{ID: "m", Name: "M", Price: price(5)}}}},
	}
	require.NoError(t, old.Validate())
	require.NoError(t, now.Validate())
	lines := []string{}
	for _, c := range now.Diff(old) {
		lines = append(lines, c.String())
	}
	assert.Equal(t, []string{
		`changed menu: categories`,
		`changed category "c" (Essen): item_ids`,
		`changed item "a" (A): allergens, price`,
		`added item "y" (Y)`,
		`removed item "x" (X)`,
		`changed modifier_group "g" (G): max`,
		`changed modifier "m" (M): modifier_group`,
	}, lines)
	assert.Empty(t, now.Diff(now))
	one, other := Menu{Extra: Extra{"x": json.RawMessage(`{"a":1,"b":2}`)}}, Menu{Extra: Extra{"x": json.RawMessage(`{"b":2, "a":1}`)}}
	assert.Empty(t, one.Diff(&other), "the order of fields is no difference")
	assert.Len(t, now.Diff(nil), 1+2+3+2+2)
}

// someMenu draws a valid menu over few ids, so that two of them have much in common.
func someMenu() *rapid.Generator[*Menu] {
	ids := func(t *rapid.T, of string) []string {
		return rapid.Permutation([]string{"a", "b", "c"}).Draw(t, of)[:rapid.IntRange(0, 3).Draw(t, "number of "+of)]
	}
	return rapid.Custom(func(t *rapid.T) *Menu {
		m := &Menu{Currency: "EUR"}
		if rapid.Bool().Draw(t, "extra") {
			m.Extra = Extra{"x": json.RawMessage(fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "x")))}
		}
		for _, id := range ids(t, "items") {
			m.Items = append(m.Items, MenuItem{ID: id, Name: id, Price: Money{rapid.Int64Range(0, 1).Draw(t, "price"), "EUR"},
				Allergens: rapid.SampledFrom([][]Allergen{nil, {}, {AllergenMilk}}).Draw(t, "allergens")})
		}
		for _, id := range ids(t, "categories") {
			m.Categories = append(m.Categories, MenuCategory{ID: id, Name: id, ItemIDs: nil})
		}
		taken := 0
		modifiers := ids(t, "modifiers")
		for _, id := range ids(t, "groups") {
			g := ModifierGroup{ID: id, Name: id, Max: rapid.IntRange(0, 1).Draw(t, "max")}
			for range rapid.IntRange(0, len(modifiers)-taken).Draw(t, "modifiers of a group") {
				g.Modifiers = append(g.Modifiers, MenuModifier{ID: modifiers[taken], Name: "m", Price: Money{0, "EUR"}})
				taken++
			}
			m.ModifierGroups = append(m.ModifierGroups, g)
		}
		return m
	})
}

func TestMenuDiffIsEmptyExactlyForTheSameMenu(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := someMenu().Draw(t, "a"), someMenu().Draw(t, "b")
		if a.Validate() != nil || b.Validate() != nil {
			t.Fatal("not valid")
		}
		x, _ := marshal(a)
		y, _ := marshal(b)
		if there, back := a.Diff(b), b.Diff(a); (string(x) == string(y)) != (len(there) == 0) || len(there) == 0 != (len(back) == 0) {
			t.Fatalf("%s\n%s\n%v\n%v", x, y, there, back)
		}
	})
}

// FuzzEncoding: the same value gives the same bytes, and what was decoded from them is the same value.
func FuzzEncoding(f *testing.F) {
	for _, path := range []string{"testdata/menu_cases.json", "testdata/hours_cases.json"} {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		var cases []validationCase
		require.NoError(f, json.Unmarshal(data, &cases))
		for _, c := range cases {
			f.Add([]byte(c.Input))
		}
	}
	f.Add([]byte(`{"items":[{"allergens":[],"Allergens":null,"b":{"a":1.0e2}},null],"Currency":"x","currency":"y"}`))
	f.Add([]byte(`{"until":"2026-11-30T22:00:00.5+01:00","reason":"\u2028<&>\ud83c\udf5c\ud800"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		sameBytes[Menu](t, data)
		sameBytes[MenuItem](t, data)
		sameBytes[Hours](t, data)
		sameBytes[AvailabilityChange](t, data)
		sameBytes[AcceptParams](t, data)
		sameBytes[RejectParams](t, data)
		sameBytes[bookingBody](t, data)
		sameBytes[map[string]any](t, data)
	})
}

func sameBytes[T any](t *testing.T, data []byte) {
	var v, again T
	if json.Unmarshal(data, &v) != nil {
		return
	}
	one, err := encodeBody(v)
	if err != nil {
		return // a year that RFC 3339 cannot write
	}
	two, err := encodeBody(v)
	if err != nil || string(one) != string(two) {
		t.Fatalf("%s\n%s (%v)", one, two, err)
	}
	plain, err := marshal(v)
	if err == nil {
		err = json.Unmarshal(plain, &again)
	}
	if err != nil {
		t.Fatalf("%s: %v", plain, err)
	}
	if three, err := marshal(again); err != nil || string(plain) != string(three) {
		t.Fatalf("%s\n%s (%v)", plain, three, err)
	}
}

func FuzzMenuValidate(f *testing.F) {
	f.Add([]byte(`{"currency":"EUR","modifier_groups":[{"id":"g","modifiers":[{"modifier_group_ids":["g","g"]}]},{"id":"g"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m Menu
		if json.Unmarshal(data, &m) != nil {
			return
		}
		_ = m.Validate() // it ends, and does not panic
		if out, err := marshal(m); err == nil && len(m.Diff(&m)) > 0 {
			t.Fatalf("%s differs from itself", out)
		}
	})
}

func BenchmarkLargeMenu(b *testing.B) {
	m := &Menu{Currency: "EUR"}
	for i := range 5000 {
		g := ModifierGroup{ID: fmt.Sprint("g", i), Name: "Optionen", Max: 4}
		for j := range 4 {
			g.Modifiers = append(g.Modifiers, MenuModifier{ID: fmt.Sprint("m", i, "-", j), Name: "Extra", Price: Money{100, "EUR"}, MaxQuantity: 2})
		}
		m.ModifierGroups = append(m.ModifierGroups, g)
		m.Items = append(m.Items, MenuItem{ID: fmt.Sprint("i", i), Name: "Gericht", Price: Money{950, "EUR"}, ModifierGroupIDs: []string{g.ID}})
	}
	data, err := marshal(m)
	require.NoError(b, err)
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			var v Menu
			require.NoError(b, json.Unmarshal(data, &v))
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			_, _ = marshal(m)
		}
	})
	b.Run("validate", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, m.Validate())
		}
	})
}
