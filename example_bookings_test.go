package flavoso_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flavoso/flavoso-go"
)

// book makes the booking that the examples change.
func book(client *flavoso.Client) *flavoso.Booking {
	booking, err := client.Bookings.Create("2031-05-01-17", flavoso.BookingParams{
		PartySize: 4, StartsAt: time.Now().Add(48 * time.Hour), Customer: flavoso.BookingCustomer{Name: "Jörg Müller"},
	}).Do(context.Background())
	if err != nil {
		panic(err)
	}
	return booking
}

func ExampleBookingsService_Update() {
	_, client, done := example()
	defer done()
	booking, err := client.Bookings.Update(book(client).ID, flavoso.UpdateBookingParams{
		PartySize: flavoso.Set(5),             // changed
		Note:      flavoso.Null[string](),     // cleared
		StartsAt:  flavoso.Patch[time.Time]{}, // stays as it is
	}).Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(booking.PartySize, booking.Customer.Name)
	// Output: 5 Jörg Müller
}

func ExampleBookingsService_Cancel() {
	_, client, done := example()
	defer done()
	booking, err := client.Bookings.Cancel(book(client).ID).Do(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(booking.Status)
	// Output: cancelled
}

func ExampleBookingsService_Seat() {
	_, client, done := example()
	defer done()
	ctx := context.Background()
	id := book(client).ID
	if _, err := client.Bookings.Seat(id).Do(ctx); err != nil {
		fmt.Println(err)
		return
	}
	_, err := client.Bookings.NoShow(id).Do(ctx)
	fmt.Println(errors.Is(err, flavoso.ErrConflict))
	booking, err := client.Bookings.Complete(id).Do(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(booking.Status)
	// Output:
	// true
	// completed
}

func ExampleBookingsService_List() {
	_, client, done := example()
	defer done()
	book(client)
	for booking, err := range client.Bookings.List(context.Background(), flavoso.ListBookingsParams{ExternalID: "2031-05-01-17"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(booking.ExternalID, booking.Status)
	}
	// Output: 2031-05-01-17 confirmed
}
