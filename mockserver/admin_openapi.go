package mockserver

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// OpenAPI returns the OpenAPI 3.1 document of the API the server serves. What is assumed is marked with
// x-assumptions, what Flavoso documents with x-clauses.
func OpenAPI() []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, encode(openAPI()), "", "  "); err != nil {
		return nil // not reachable: it was just encoded
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func (s *Server) adminOpenAPI(*http.Request) (int, any, error) {
	return http.StatusOK, json.RawMessage(OpenAPI()), nil
}
