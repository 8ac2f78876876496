package docs

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// features are the packages that others import, and what of each a runnable Example has to show.
var features = map[string][]string{
	".": {"", "Open", "FateOf", "OrdersService_Accept", "OrdersService_Acknowledge", "OrdersService_Reject", "OrdersService_Cancel",
		"OrdersService_SetStatus", "OrdersService_Update", "OrdersService_List", "OrdersService_Watch", "BookingsService_Create",
		"BookingsService_Update", "BookingsService_Cancel", "BookingsService_Seat", "BookingsService_List", "MenuService_Put",
		"MenuService_SetAvailability", "MenuService_Availability", "Menu_Validate", "Menu_Diff", "StoreService_Update", "StoreService_PutHours",
		"Hours_IsOpen", "Hours_NextChange", "Call_Do_sameOperation", "Call_Enqueue", "Call_WithExpiry", "Call_WithSupersede", "NewCall", "Get", "Path",
		"Attach", "Result", "Config_onOutcome", "Config_reconcile", "Config_outboxKeys", "Hooks", "OperationsService_List", "OperationsService_Get",
		"OperationsService_Resolve", "OperationsService_Cancel", "OperationsService_ResumeLane", "OperationsService_Export", "Client_Status",
		"Client_Flush", "Client_Wake", "Client_Shutdown", "OpenFleet", "ListenInspect", "InspectHandler", "StaticToken", "TokenFunc", "NewKey",
		"DeriveKey", "HashKey", "ExponentialJitter", "APIError_Faults", "Money", "Patch"},
	"outbox":                      {"", "Decide", "Seal"},
	"outbox/bolt":                 {"", "Verify", "Adopt", "Engine_Compact"},
	"outbox/bolt/bolttest":        {"Disk"},
	"outbox/outboxtest":           {"Run"},
	"idempotency":                 {"NewMiddleware", "Options", "CanonicalJSON", "Wait", "OperationResource", "MarkEffect", "SetOutcome", "DownstreamKey", "LeasePolicy", "Reconciliation", "Memory"},
	"idempotency/idempotencytest": {"Run"},
	"mockserver": {"", "Server_Inject", "Server_Clock", "Refuse", "CrashBeforeCommit", "Server_AssertExactlyOnce", "Server_AssertSameBytes", "Server_Restore",
		"WithSwitches", "Server_RotateToken", "LargeOrder", "Server_CancelOrder", "Server_Keys", "Server_WaitForRequests", "WithTLS"},
	"mockserver/conformance":    {"Check", "Run"},
	"postgres/pgidem":           {"New", "Engine_CompleteTx", "InTx"},
	"postgres/pgoutbox":         {"New", "Tx", "SQLTx"},
	"telemetry/otelflavoso":     {"Hooks"},
	"telemetry/promidempotency": {"New"},
}

func parse(t *testing.T, dir string, tests bool) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	require.NoError(t, err)
	fset := token.NewFileSet()
	var out []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") != tests {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		require.NoError(t, err)
		out = append(out, f)
	}
	return fset, out
}

// TestEveryFeatureHasAnExample. go vet sees to it that each belongs to a name that exists.
func TestEveryFeatureHasAnExample(t *testing.T) {
	for dir, names := range features {
		_, files := parse(t, dir, true)
		have := map[string]bool{}
		for _, e := range doc.Examples(files...) {
			have[e.Name] = true
		}
		for _, name := range names {
			assert.True(t, have[name], "%s: Example%s", dir, strings.TrimPrefix("_"+name, "_"))
		}
	}
}

// TestEveryPublishedPackageIsKnownHere, so that none escapes the tests of this file.
func TestEveryPublishedPackageIsKnownHere(t *testing.T) {
	walk(t, ".go", func(path, text string) {
		dir := filepath.ToSlash(filepath.Dir(path))
		parts := strings.Split(dir, "/")
		if strings.HasSuffix(path, "_test.go") || slices.Contains(parts, "internal") || slices.Contains(parts, "examples") || parts[0] == "dev" || parts[0] == "cmd" {
			return
		}
		assert.Contains(t, features, dir)
	})
}

// obvious are methods that need no words: their type has them.
var obvious = []string{"Error", "Unwrap", "String"}

// TestEveryExportedNameSaysWhatItIs: packages, functions, methods, types, constants and variables have doc comments. Fields of
// structs are explained by their names or comments, which no test can weigh.
func TestEveryExportedNameSaysWhatItIs(t *testing.T) {
	for dir := range features {
		fset, files := parse(t, dir, false)
		p, err := doc.NewFromFiles(fset, files, "github.com/flavoso/flavoso-go/"+dir)
		require.NoError(t, err)
		assert.Greater(t, len(p.Doc), 60, "the comment of package %s", dir)

		funcs := func(list []*doc.Func) {
			for _, f := range list {
				if !slices.Contains(obvious, f.Name) {
					assert.NotEmpty(t, f.Doc, "%s: %s.%s", dir, f.Recv, f.Name)
				}
			}
		}
		values := func(list []*doc.Value) {
			for _, v := range list {
				for _, spec := range v.Decl.Specs {
					s := spec.(*ast.ValueSpec)
					exported := slices.ContainsFunc(s.Names, (*ast.Ident).IsExported)
					assert.True(t, !exported || v.Doc != "" || s.Doc != nil || s.Comment != nil, "%s: %v", dir, s.Names)
				}
			}
		}
		funcs(p.Funcs)
		values(p.Consts)
		values(p.Vars)
		for _, typ := range p.Types {
			assert.NotEmpty(t, typ.Doc, "%s: %s", dir, typ.Name)
			funcs(typ.Funcs)
			funcs(typ.Methods)
			values(typ.Consts)
			values(typ.Vars)
		}
	}
}

// dotted is a name as pages and comments write it: of a package, or of a type.
var dotted = regexp.MustCompile(`\b([A-Za-z]+)\.([A-Z]\w*)`)

// TestNamesInPagesAndPackageCommentsExist: what is written as package.Name or Type.Member in code is one.
func TestNamesInPagesAndPackageCommentsExist(t *testing.T) {
	owners, have := map[string]bool{}, map[string]bool{}
	know := func(owner, name string) { owners[owner], have[owner+"."+name] = true, true }
	texts := map[string]string{}
	for dir := range features {
		fset, files := parse(t, dir, false)
		p, err := doc.NewFromFiles(fset, files, "github.com/flavoso/flavoso-go/"+dir)
		require.NoError(t, err)
		for _, b := range p.Parser().Parse(p.Doc).Content {
			if c, is := b.(*comment.Code); is {
				texts["package "+p.Name] += c.Text
			}
		}
		for _, f := range files {
			for _, d := range f.Decls {
				for _, name := range declared(d) {
					know(p.Name, name)
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Recv != nil {
						know(receiver(n.Recv.List[0].Type), n.Name.Name)
					}
				case *ast.TypeSpec:
					ast.Inspect(n.Type, func(m ast.Node) bool {
						field, is := m.(*ast.Field)
						if is {
							for _, name := range field.Names {
								know(n.Name.Name, name.Name)
							}
							know(n.Name.Name, receiver(field.Type)) // embedded
						}
						return true
					})
				}
				return true
			})
		}
	}
	walk(t, ".md", func(page, text string) {
		if !strings.HasPrefix(page, "dev/") {
			texts[page] = strings.Join(code.FindAllString(prose(text), -1), "\n")
		}
	})
	n := 0
	for at, text := range texts {
		for _, m := range dotted.FindAllStringSubmatch(text, -1) {
			if owners[m[1]] {
				n++
				service := m[1] + "Service." + m[2] // Menu.Put is client.Menu.Put
				assert.True(t, have[m[0]] || have[service], "%s: there is no %s", at, m[0])
			}
		}
	}
	require.Greater(t, n, 100)
}

// declared returns the names that a declaration gives to its package.
func declared(d ast.Decl) []string {
	var out []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			out = append(out, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out = append(out, s.Name.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					out = append(out, name.Name)
				}
			}
		}
	}
	return out
}

// receiver returns the name of a receiver's or an embedded field's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
