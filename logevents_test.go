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
	event := regexp.MustCompile(`\.(?:Log\([^"]*|Debug\(|Info\(|Warn\(|Error\()"([^"]+)"`)
	var inCode []string
	for _, dir := range []string{".", "internal/dispatch", "outbox", "outbox/bolt"} {
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
	var inDoc []string
	for name := range documentedEvents(t) {
		inDoc = append(inDoc, name)
	}
	slices.Sort(inCode)
	slices.Sort(inDoc)
	require.Equal(t, slices.Compact(inCode), inDoc)
}

// documentedEvent is a row of the list of log events.
type documentedEvent struct {
	levels     string
	attributes []string
}

func documentedEvents(t *testing.T) map[string]documentedEvent {
	t.Helper()
	doc, err := os.ReadFile("docs/observability.md")
	require.NoError(t, err)
	events := map[string]documentedEvent{}
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:flavoso|outbox)\\.[a-z_]+)` \\| ([^|]+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(doc), -1) {
		e := documentedEvent{levels: m[2]}
		for _, a := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(m[3], -1) {
			e.attributes = append(e.attributes, a[1])
		}
		require.NotContains(t, events, m[1])
		events[m[1]] = e
	}
	return events
}
