package docs

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/flavoso/flavoso-go"

// mayImport says which packages of the root module a package of it may import; CONTRIBUTING.md says it in words.
var mayImport = map[string][]string{
	".":                           {"internal/delay", "internal/dispatch", "internal/inspect", "internal/wire", "outbox", "outbox/bolt"},
	"internal/delay":              {},
	"internal/dispatch":           {"internal/delay", "internal/wire", "outbox"},
	"internal/wire":               {"outbox", "internal/delay"},
	"internal/inspect":            {"outbox"},
	"outbox":                      {},
	"outbox/bolt":                 {"outbox"},
	"outbox/bolt/bolttest":        {"outbox/bolt"},
	"outbox/outboxtest":           {"outbox"},
	"idempotency":                 {},
	"idempotency/idempotencytest": {"idempotency"},
	"mockserver":                  {"idempotency"},
	"mockserver/conformance":      {"mockserver"},
}

// TestImportsGoOneWay, and nothing that is shipped imports what is for tests only.
func TestImportsGoOneWay(t *testing.T) {
	for dir, may := range mayImport {
		_, files := parse(t, dir, false)
		require.NotEmpty(t, files, dir)
		for _, f := range files {
			for _, i := range f.Imports {
				name := strings.Trim(i.Path.Value, `"`)
				assert.NotContains(t, name, "testify", dir)
				if rest, own := strings.CutPrefix(name, module); own {
					rest = path.Join(".", strings.TrimPrefix(rest, "/"))
					assert.True(t, slices.Contains(may, rest), "%s imports %s", dir, name)
				}
			}
		}
	}
}

// TestEveryMethodOfAServiceIsInTheTablesOfCalls of docs/api.md, writes and reads.
func TestEveryMethodOfAServiceIsInTheTablesOfCalls(t *testing.T) {
	text := read(t, "docs/api.md")
	_, files := parse(t, ".", false)
	n := 0
	for _, f := range files {
		for _, d := range f.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is || fn.Recv == nil || !fn.Name.IsExported() {
				continue
			}
			name, is := strings.CutSuffix(receiver(fn.Recv.List[0].Type), "Service")
			if !is || name == "Operations" {
				continue
			}
			n++
			full := name + "." + fn.Name.Name
			assert.True(t, strings.Contains(text, "| `"+full+"`") || fn.Name.Name == "ListPage" && strings.Contains(text, "`"+name+".List`, `ListPage`"), full)
		}
	}
	require.Greater(t, n, 20)
}
