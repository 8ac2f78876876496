package mockserver_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/mockserver"
)

// till is the software under test: it accepts an order and may repeat itself.
func till(srv *mockserver.Server) func(method, path, key string) string {
	client := &http.Client{Transport: srv.Transport()}
	return func(method, path, key string) string {
		req, err := http.NewRequest(method, srv.BaseURL()+path, strings.NewReader(""))
		if err != nil {
			return err.Error()
		}
		req.Header.Set("Authorization", "Bearer "+srv.Token("store-42"))
		if key != "" {
			req.Header["idempotency-key"] = []string{key} // net/http repeats a POST by itself when it knows the key
		}
		resp, err := client.Do(req)
		if err != nil {
			return "no answer"
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		out := resp.Status
		if resp.Header.Get("Idempotent-Replayed") == "true" {
			out += ", replayed"
		}
		return out
	}
}

func newServer(opts ...mockserver.Option) *mockserver.Server {
	srv, err := mockserver.New(append(opts, mockserver.InMemory())...)
	if err != nil {
		log.Fatal(err)
	}
	return srv
}

// An answer is lost; the repeat with the same key gets it, and nothing happens a second time.
func Example() {
	srv := newServer()
	defer srv.Close()
	id := srv.AddOrder("store-42", mockserver.Order{Customer: mockserver.Customer{Name: "Zoë"}})
	srv.Inject(mockserver.DropResponse().On("POST", "/orders/{id}/accept").Times(1))

	send := till(srv)
	fmt.Println(send("POST", "/orders/"+id+"/accept", "accept-"+id))
	fmt.Println(send("POST", "/orders/"+id+"/accept", "accept-"+id))
	for _, e := range srv.Effects() {
		fmt.Println(e.Seq, e.Kind)
	}
	// Output:
	// no answer
	// 200 OK, replayed
	// 1 orders.accept
}

// Faults with Times make a script: each call meets the next one.
func ExampleServer_Inject() {
	srv := newServer()
	defer srv.Close()
	srv.Inject(mockserver.Status(503).RetryAfter(2 * time.Second).Times(1))
	srv.Inject(mockserver.ProxyError().Times(1))
	f := srv.Inject(mockserver.Reset().On("POST", "/bookings"))

	send := till(srv)
	for range 3 {
		fmt.Println(send("GET", "/store", ""))
	}
	fmt.Println(send("POST", "/bookings", "b-1"), f.Fired())
	// Output:
	// 503 Service Unavailable
	// 502 Bad Gateway
	// 200 OK
	// no answer 1
}

// A held answer is forgotten after 24 hours of the server's own clock (F5).
func ExampleServer_Clock() {
	srv := newServer(mockserver.WithSwitches(func(s *mockserver.Switches) { s.AcceptWithin = 0 }))
	defer srv.Close()
	id := srv.AddOrder("store-42", mockserver.Order{})
	send := till(srv)
	fmt.Println(send("POST", "/orders/"+id+"/accept", "k"))
	srv.Clock().Advance(24*time.Hour - time.Second)
	fmt.Println(send("POST", "/orders/"+id+"/accept", "k"))
	srv.Clock().Advance(time.Second)
	fmt.Println(send("POST", "/orders/"+id+"/accept", "k"))
	// Output:
	// 200 OK
	// 200 OK, replayed
	// 200 OK
}

// A process that dies keeps its key for 2 minutes (F9); then the request is executed.
func ExampleCrashBeforeCommit() {
	srv := newServer()
	defer srv.Close()
	id := srv.AddOrder("store-42", mockserver.Order{})
	srv.Inject(mockserver.CrashBeforeCommit().Times(1))
	send := till(srv)
	fmt.Println(send("POST", "/orders/"+id+"/accept", "k"))
	fmt.Println(send("POST", "/orders/"+id+"/accept", "k"))
	srv.Clock().Advance(2 * time.Minute)
	fmt.Println(send("POST", "/orders/"+id+"/accept", "k"))
	// Output:
	// no answer
	// 409 Conflict
	// 200 OK
}

// printer stands for *testing.T here.
type printer struct{}

func (printer) Helper()                   {}
func (printer) Logf(string, ...any)       {}
func (printer) Cleanup(func())            {}
func (printer) Errorf(f string, a ...any) { fmt.Printf(f+"\n", a...) }
func (printer) Fatalf(f string, a ...any) { fmt.Printf(f+"\n", a...) }

// Assertions say what happened instead.
func ExampleServer_AssertExactlyOnce() {
	srv := newServer()
	defer srv.Close()
	id := srv.AddOrder("store-42", mockserver.Order{ID: "order-7"})
	send := till(srv)
	send("POST", "/orders/"+id+"/accept", "k")
	fmt.Println(srv.AssertExactlyOnce(printer{}, "orders.accept", id))
	srv.AssertExactlyOnce(printer{}, "orders.cancel", id)
	// Output:
	// true
	// mockserver: orders.cancel of order-7 happened 0 times, want exactly once
	//   there was orders.accept of order-7, key "k"
	//   request 1: POST /v1/orders/order-7/accept, 0 bytes, key "k" → 200
}

// The bytes of every repeat must be the same (F7).
func ExampleServer_AssertSameBytes() {
	srv := newServer()
	defer srv.Close()
	send := till(srv)
	send("POST", "/orders/a/accept", "k")
	send("POST", "/orders/b/accept", "k")
	srv.AssertSameBytes(printer{}, "k")
	// Output:
	// mockserver: requests with the key "k" differ: request 1 and request 2: target /v1/orders/a/accept, then /v1/orders/b/accept
}

// A test chooses what a restart of the service loses (D25).
func ExampleServer_Restore() {
	srv := newServer()
	defer srv.Close()
	id := srv.AddOrder("store-42", mockserver.Order{})
	send := till(srv)
	send("POST", "/orders/"+id+"/accept", "k")
	snap, err := srv.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	srv.Reset()
	fmt.Println(send("GET", "/orders/"+id, ""))
	if err := srv.Restore(snap); err != nil {
		log.Fatal(err)
	}
	fmt.Println(send("POST", "/orders/"+id+"/accept", "k"))
	srv.ForgetKeys()
	fmt.Println(send("POST", "/orders/"+id+"/accept", "k"))
	// Output:
	// 404 Not Found
	// 200 OK, replayed
	// 200 OK
}

// Switches show the other readings of what the contract leaves open.
func ExampleWithSwitches() {
	srv := newServer(mockserver.WithSwitches(func(s *mockserver.Switches) { s.RequireKey = true }))
	defer srv.Close()
	fmt.Println(till(srv)("POST", "/bookings", ""))
	// Output:
	// 400 Bad Request
}

// One connection does not meet the other's keys, and a rotated token keeps its own (F4, D6).
func ExampleServer_RotateToken() {
	srv := newServer()
	defer srv.Close()
	old := srv.Token("store-42")
	fmt.Println(old)
	srv.RotateToken("store-42")
	fmt.Println(srv.Token("store-42") != old, till(srv)("GET", "/store", ""))
	// Output:
	// mock_store-42
	// true 200 OK
}

// LargeOrder is an overlay for an order of a size that finds limits.
func ExampleLargeOrder() {
	srv := newServer()
	defer srv.Close()
	o, _ := srv.Order("store-42", srv.AddOrder("store-42", mockserver.LargeOrder(300)))
	fmt.Println(len(o.Items), "lines")
	// Output:
	// 300 lines
}

// The world acts too: a guest cancels while the till is about to accept. Accept gives the order back as it
// is (F13).
func ExampleServer_CancelOrder() {
	srv := newServer()
	defer srv.Close()
	id := srv.AddOrder("store-42", mockserver.Order{})
	if err := srv.CancelOrder("store-42", id); err != nil {
		log.Fatal(err)
	}
	fmt.Println(till(srv)("POST", "/orders/"+id+"/accept", "k"))
	o, _ := srv.Order("store-42", id)
	fmt.Println(o.Status, "by", o.Cancellation.By, len(srv.Effects()))
	// Output:
	// 200 OK
	// cancelled by customer 0
}

// Keys shows what the server holds of a key.
func ExampleServer_Keys() {
	srv := newServer()
	defer srv.Close()
	id := srv.AddOrder("store-42", mockserver.Order{})
	till(srv)("POST", "/orders/"+id+"/accept", "accept-it")
	for _, k := range srv.Keys("store-42") {
		fmt.Println(k.Key, k.State, k.Status, k.ExpiresAt.Sub(k.CreatedAt).Round(time.Hour))
	}
	// Output:
	// accept-it completed 200 24h0m0s
}

// A test waits for a request to arrive instead of sleeping.
func ExampleServer_WaitForRequests() {
	srv := newServer()
	defer srv.Close()
	go till(srv)("GET", "/store", "")
	rs, err := srv.WaitForRequests(context.Background(), func(rs []mockserver.Request) bool { return len(rs) > 0 })
	fmt.Println(rs[0].Method, rs[0].Target, err)
	// Output:
	// GET /v1/store <nil>
}

// With TLS the certificate is made for this server, and CertPool trusts it.
func ExampleWithTLS() {
	srv, err := mockserver.New(mockserver.WithTLS())
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: srv.CertPool()}}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(srv.BaseURL() + "/store")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status) // no token was sent
	// Output:
	// 401 Unauthorized
}
