package flavoso_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flavoso/flavoso-go"
)

func ExampleMenuService_Put() {
	_, client, done := example()
	defer done()
	menu, err := client.Menu.Put(&flavoso.Menu{
		Currency:   "EUR",
		Categories: []flavoso.MenuCategory{{ID: "suppen", Name: "Suppen", ItemIDs: []string{"ramen"}}},
		Items: []flavoso.MenuItem{{
			ID: "ramen", ExternalID: "plu-4711", Name: "Tonkotsu Ramen",
			Price:            flavoso.Money{Amount: 1450, Currency: "EUR"},
			TaxRates:         flavoso.TaxRates{Delivery: 700, Pickup: 700, DineIn: 1900}, // basis points
			Allergens:        flavoso.DeclareAllergens(flavoso.AllergenGluten, flavoso.AllergenEggs),
			ModifierGroupIDs: []string{"extras"},
		}},
		ModifierGroups: []flavoso.ModifierGroup{{
			ID: "extras", Name: "Extras", Max: 3,
			Modifiers: []flavoso.MenuModifier{{ID: "ei", Name: "Ei", Price: flavoso.Money{Amount: 150, Currency: "EUR"}, MaxQuantity: 2}},
		}},
	}).WithSupersede().Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(menu.Items[0].Name, menu.Items[0].Price)
	// Output: Tonkotsu Ramen 14.50 EUR
}

func ExampleMenu_Validate() {
	menu := flavoso.Menu{
		Currency:   "EUR",
		Categories: []flavoso.MenuCategory{{ID: "suppen", Name: "Suppen", ItemIDs: []string{"ramen"}}},
		Items:      []flavoso.MenuItem{{ID: "udon", Price: flavoso.Money{Amount: 900, Currency: "USD"}}},
	}
	var invalid *flavoso.ValidationError
	if errors.As(menu.Validate(), &invalid) {
		for _, fault := range invalid.Faults {
			fmt.Println(fault.Pointer, fault.Code)
		}
	}
	// Output:
	// /categories/0/item_ids/0 unknown
	// /items/0/name required
	// /items/0/price/currency mismatch
}

// An import that would take half of the menu away is more likely a broken export than a decision.
func ExampleMenu_Diff() {
	_, client, done := example()
	defer done()
	ctx := context.Background()
	old, err := client.Menu.Get(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	next := *old
	next.Items = old.Items[:1]
	next.Categories = nil

	removed := 0
	for _, change := range next.Diff(old) {
		if change.Op == flavoso.MenuRemoved && change.Part == "item" {
			removed++
		}
	}
	if removed*10 > len(old.Items)*4 {
		fmt.Println("more than 40 % of the items would go: ask somebody")
	}
	// Output: more than 40 % of the items would go: ask somebody
}

func ExampleMenuService_SetAvailability() {
	_, client, done := example()
	defer done()
	until := time.Now().Add(4 * time.Hour)
	availability, err := client.Menu.SetAvailability(flavoso.AvailabilityParams{Changes: []flavoso.AvailabilityChange{
		{ItemID: "ramen", Status: flavoso.Unavailable, Until: until, Reason: "sold out"},
		{ModifierID: "ei", Status: flavoso.Limited, Quantity: 6},
	}}).WithExpiry(time.Until(until)).Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(availability.Of("ramen").Status, availability.Of("ei").Quantity)
	// Output: unavailable 6
}

func ExampleAPIError_Faults() {
	_, client, done := example()
	defer done()
	_, err := client.Menu.SetAvailability(flavoso.AvailabilityParams{Changes: []flavoso.AvailabilityChange{
		{ItemID: "no-such-item", Status: flavoso.Unavailable},
	}}).Do(context.Background())
	var refused *flavoso.APIError
	if errors.As(err, &refused) {
		for _, fault := range refused.Faults() {
			fmt.Println(fault.Pointer, fault.Code)
		}
	}
	// Output: /changes/0/item_id unknown
}
