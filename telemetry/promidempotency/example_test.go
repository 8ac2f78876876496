package promidempotency_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flavoso/flavoso-go/idempotency"
	"github.com/flavoso/flavoso-go/telemetry/promidempotency"
)

func ExampleNew() {
	engine := idempotency.NewMemory()
	collector, err := promidempotency.New(engine, promidempotency.Options{Name: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	_, err = idempotency.NewMiddleware(engine, idempotency.Options{
		Tenant:  func(*http.Request) (string, error) { return "store-42", nil },
		Observe: collector.Observe,
	})
	if err != nil {
		log.Fatal(err)
	}
	families, err := registry.Gather()
	fmt.Println(len(families) > 10, err)
	// Output: true <nil>
}
