package flavoso_test

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // Windows tills need it; see Hours

	"github.com/flavoso/flavoso-go"
)

func ExampleStoreService_Update() {
	_, client, done := example()
	defer done()
	ctx := context.Background()
	store, err := client.Store.Update(flavoso.UpdateStoreParams{
		PausedUntil: flavoso.Set(time.Now().Add(30 * time.Minute)),
		PauseReason: flavoso.Set("the kitchen is full"),
	}).Do(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.Paused(time.Now()))

	store, err = client.Store.Update(flavoso.UpdateStoreParams{PausedUntil: flavoso.Null[time.Time]()}).Do(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.Paused(time.Now()))
	// Output:
	// true
	// false
}

func ExampleStoreService_PutHours() {
	_, client, done := example()
	defer done()
	ctx := context.Background()
	hours, err := client.Store.Hours(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	hours.SpecialDays = []flavoso.SpecialDay{
		{Date: "2031-12-25", Closed: true},
		{Date: "2031-12-31", Ranges: []flavoso.TimeRange{{Open: "18:00", Close: "04:00"}}}, // until the next morning
	}
	hours, err = client.Store.PutHours(hours).Do(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(hours.Weekly), len(hours.SpecialDays))
	// Output: 7 2
}

func ExampleHours_IsOpen() {
	hours := flavoso.Hours{
		Timezone: "Europe/Berlin",
		Weekly:   []flavoso.DayHours{{Day: flavoso.Friday, Ranges: []flavoso.TimeRange{{Open: "18:00", Close: "02:00"}}}},
	}
	night := time.Date(2026, 12, 5, 0, 30, 0, 0, time.UTC) // Saturday, 01:30 in Berlin
	fmt.Println(hours.IsOpen(night))
	fmt.Println(hours.IsOpen(night.Add(30 * time.Minute)))
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleHours_NextChange() {
	hours := flavoso.Hours{
		Timezone:    "Europe/Berlin",
		Weekly:      []flavoso.DayHours{{Day: flavoso.Friday, Ranges: []flavoso.TimeRange{{Open: "18:00", Close: "22:00"}}}},
		SpecialDays: []flavoso.SpecialDay{{Date: "2026-12-25", Closed: true}},
	}
	at, opens, err := hours.NextChange(time.Date(2026, 12, 20, 12, 0, 0, 0, time.UTC))
	fmt.Println(at.Format(time.RFC3339), opens, err)
	// Output: 2027-01-01T17:00:00Z true <nil>
}
