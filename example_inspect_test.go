package flavoso_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/flavoso/flavoso-go"
)

// A till lets the command flavoso look into its outbox while it runs.
func ExampleListenInspect() {
	_, client, done := example()
	defer done()

	inspection, err := flavoso.ListenInspect(client, flavoso.InspectChanges())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer inspection.Close() // before the client is closed

	req, _ := http.NewRequest("GET", inspection.URL()+"/operations", nil)
	req.Header.Set("Authorization", "Bearer "+inspection.Token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(os.Stdout, resp.Body)
	// Output: {"data":[]}
}

// An application with a loopback server of its own mounts the handler there.
func ExampleInspectHandler() {
	_, client, done := example()
	defer done()

	mux := http.NewServeMux()
	mux.Handle("/outbox/", http.StripPrefix("/outbox", flavoso.InspectHandler(client, flavoso.InspectToken("a secret of this till"))))
	server := httptest.NewServer(mux) // listens on 127.0.0.1
	defer server.Close()

	resp, err := http.Get(server.URL + "/outbox/status")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(os.Stdout, resp.Body)
	// Output: {"code":"forbidden","message":"the token is missing or wrong"}
}
