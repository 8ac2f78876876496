package flavoso

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

func TestSupersedeSendsOnlyTheLastMenu(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		refuse := s.srv.Inject(mockserver.Refuse())
		menu := &Menu{Currency: "EUR"}
		var err error
		for _, name := range []string{"Montag", "Dienstag", "Mittwoch"} {
			menu.Categories = []MenuCategory{{ID: "c", Name: name}}
			_, err = s.Menu.Put(menu).WithSupersede().Enqueue(t.Context())
			require.NoError(t, err)
		}
		synctest.Wait() // the first has been tried
		menu.Categories[0].Name = "changed after the call was made"
		require.Equal(t, 2, s.Status().Waiting, "the first was tried before it was known that nothing gets through")
		refuse.Remove()
		s.Wake()
		require.NoError(t, s.Flush(t.Context()))
		require.Len(t, s.srv.Effects(), 2)
		got, err := s.Menu.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Mittwoch", got.Categories[0].Name)
	})
}

func TestMenuSurvivesReadingChangingAndPuttingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		status, answer := putDocument(t, s.srv, "/menu", []byte(`{"currency":"EUR","season":"winter","categories":[],"modifier_groups":[],
			"items":[{"id":"a","name":"A","price":{"amount":1,"currency":"EUR"},"allergens":null,"photo":{"w":1.50}},
			         {"id":"b","name":"B","price":{"amount":1,"currency":"EUR"},"allergens":[],"tax_rates":{"delivery":700,"eat_in_car":1900}}]}`))
		require.Equal(t, 200, status, string(answer))
		menu, err := s.Menu.Get(t.Context())
		require.NoError(t, err)
		require.Nil(t, menu.Items[0].Allergens, "not declared")
		require.NotNil(t, menu.Items[1].Allergens)
		require.Empty(t, menu.Items[1].Allergens, "none")
		menu.Items[0].Price.Amount = 990
		menu.Items[1].Allergens = DeclareAllergens(AllergenMilk)
		back, err := s.Menu.Put(menu).Do(t.Context())
		require.NoError(t, err)
		require.Empty(t, back.Diff(menu))
		require.JSONEq(t, `"winter"`, string(back.Extra["season"]))
		require.Equal(t, `{"w":1.50}`, string(back.Items[0].Extra["photo"]))
		require.Equal(t, "1900", string(back.Items[1].TaxRates.Extra["eat_in_car"]))
		require.Nil(t, back.Items[0].Allergens)
	})
}

func TestAvailability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill(t, nil)
		until := time.Now().Add(4 * time.Hour).In(time.FixedZone("CET", 3600))
		sold := AvailabilityParams{Changes: []AvailabilityChange{
			{ItemID: "ramen", Status: Unavailable, Until: until, Reason: "aus"}, {ModifierID: "ei", Status: Limited, Quantity: 3}}}
		got, err := s.Menu.SetAvailability(sold).Do(t.Context())
		require.NoError(t, err)
		require.Equal(t, Unavailable, got.Of("ramen").Status)
		require.True(t, got.Of("ramen").Until.Equal(until))
		require.Equal(t, 3, got.Of("ei").Quantity)
		require.Equal(t, Available, got.Of("pizza").Status)

		// The same wish again is a wish of its own: it may have been undone meanwhile.
		back := AvailabilityParams{Changes: []AvailabilityChange{{ExternalID: "plu-ramen", Status: Available}}}
		for _, p := range []AvailabilityParams{back, sold, back} {
			_, err := s.Menu.SetAvailability(p).Do(t.Context())
			require.NoError(t, err)
		}
		got, err = s.Menu.Availability(t.Context())
		require.NoError(t, err)
		require.Equal(t, Available, got.Of("ramen").Status)
		require.Len(t, s.srv.Effects(), 4)

		_, err = s.Menu.SetAvailability(AvailabilityParams{Changes: []AvailabilityChange{
			{ItemID: "ramen", Status: Unavailable}, {ItemID: "nope", Status: Unavailable}}}).Do(t.Context())
		var api *APIError
		require.ErrorAs(t, err, &api)
		require.Equal(t, "/changes/1/item_id", api.Faults()[0].Pointer, "all or nothing, the culprit named")
	})
}
