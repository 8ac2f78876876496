package mockserver_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

var update = flag.Bool("update", false, "write docs/openapi.json anew")

const openAPIFile = "../docs/openapi.json"

// TestOpenAPIDocumentIsTheOneInDocs keeps the file in docs/ and the served one the same:
// go test ./mockserver -run OpenAPI -update
func TestOpenAPIDocumentIsTheOneInDocs(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile(openAPIFile, mockserver.OpenAPI(), 0o644))
	}
	file, err := os.ReadFile(openAPIFile)
	require.NoError(t, err)
	assert.Equal(t, string(file), string(mockserver.OpenAPI()), "run this test with -update")
	_, c := start(t)
	assert.JSONEq(t, string(file), c.admin("GET", "openapi.json", "").body)
}

// TestOpenAPIDescribesEveryOperation finds a summary, an answer and the source of every operation.
func TestOpenAPIDescribesEveryOperation(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(mockserver.OpenAPI(), &doc))
	operations, admin := 0, 0
	for path, item := range doc.Paths {
		if strings.HasPrefix(path, "/_mock") {
			admin++
			continue
		}
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var op struct {
				Summary     string
				Clauses     []string `json:"x-clauses"`
				Assumptions []string `json:"x-assumptions"`
			}
			require.NoError(t, json.Unmarshal(raw, &op))
			operations++
			assert.NotEmpty(t, op.Summary, path+method)
			assert.NotEmpty(t, append(op.Clauses, op.Assumptions...), "%s %s comes from somewhere", method, path)
		}
	}
	assert.Equal(t, 24, operations)
	assert.Equal(t, 19, admin)
}
