package flavoso

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryLogEventIsDocumented, and every documented one is in the code: names that people search for do
// not change unnoticed.
func TestEveryLogEventIsDocumented(t *testing.T) {
	event := regexp.MustCompile(`"(flavoso\.[a-z]+(?:_[a-z]+)*)"`)
	var inCode []string
	for _, dir := range []string{".", "internal/dispatch"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range event.FindAllStringSubmatch(string(source), -1) {
				inCode = append(inCode, m[1])
			}
		}
	}
	doc, err := os.ReadFile("docs/observability.md")
	require.NoError(t, err)
	var inDoc []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(flavoso\\.[a-z_]+)` \\|").FindAllStringSubmatch(string(doc), -1) {
		inDoc = append(inDoc, m[1])
	}
	slices.Sort(inCode)
	slices.Sort(inDoc)
	require.Equal(t, slices.Compact(inCode), inDoc)
}
