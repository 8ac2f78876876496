package idempotency_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var logName = regexp.MustCompile(`"(idempotency\.[a-z_]+)"`)

// The documentation lists exactly the log names there are.
func TestTheDocumentationListsEveryLogName(t *testing.T) {
	have := map[string]bool{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range logName.FindAllStringSubmatch(string(src), -1) {
			have[m[1]] = true
		}
	}
	text, err := os.ReadFile("../docs/observability.md")
	require.NoError(t, err)
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("`(idempotency\\.[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = true
	}
	require.NotEmpty(t, have)
	require.Equal(t, have, listed)
}

// Every test that docs/idempotency.md names exists.
func TestTheDocumentationNamesTestsThatExist(t *testing.T) {
	if _, err := os.Stat("../postgres/go.mod"); err != nil {
		t.Skip("only in the repository: the other modules' tests are not here")
	}
	text, err := os.ReadFile("../docs/idempotency.md")
	require.NoError(t, err)
	source := ""
	for _, pattern := range []string{"*_test.go", "idempotencytest/*.go", "../postgres/pgidem/*_test.go", "../postgres/examples/server/*_test.go",
		"../telemetry/promidempotency/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, f := range files {
			b, err := os.ReadFile(f)
			require.NoError(t, err)
			source += string(b)
		}
	}
	names := regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9]+)(?:/([^`]+))?`").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, names)
	for _, m := range names {
		require.Contains(t, source, "func "+m[1]+"(", "docs/idempotency.md")
		if m[2] != "" {
			require.Contains(t, source, `"`+m[2]+`"`, "docs/idempotency.md, %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("suite: `([^`]+)`").FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, source, `"`+m[1]+`"`, "docs/idempotency.md")
	}
}
