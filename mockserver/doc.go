// Package mockserver is Flavoso for tests: a server with orders, bookings, a menu and opening hours that
// keeps the documented contract about repeated requests (clauses F1 to F17) to the letter, and that goes
// wrong on demand in the ways networks and servers do.
//
//	srv := mockserver.Start(t)
//	id := srv.AddOrder("store-42", mockserver.Order{})
//	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))
//	// … let the software under test accept the order at srv.BaseURL() with srv.Token("store-42") …
//	srv.AssertExactlyOnce(t, "orders.accept", id)
//
// Where the contract leaves something open, the server takes the reading that hurts a careless client
// most; [Switches] choose the others. What is assumed about the API beyond the contract is listed in
// docs/assumptions.md.
//
// A server has its own clock ([Server.Clock]), its own faults and its own data per connection; hundreds
// can live at once. It is reached over a port, and over [Server.Transport] without one: then a test inside
// testing/synctest moves time while requests are under way. The same server runs as a program next to
// software in any language: flavoso mock, described in docs/mock.md.
//
// The idempotency layer is package idempotency with its memory engine. Effect, ledger entry and held
// answer of a request are one step under one lock, like one database transaction.
package mockserver
