package pgoutbox_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// documentedEvents are the rows of the list of log events: by name, level and attributes.
func documentedEvents(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	events := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(pgoutbox\\.[a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(doc), -1) {
		require.NotContains(t, events, m[1])
		events[m[1]] = append([]string{m[2]}, strings.FieldsFunc(m[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })...)
	}
	return events
}

// Every log event is in the list, with its level and attributes, and the other way round: names that people search for
// do not change unnoticed.
func TestEveryLogEventIsDocumented(t *testing.T) {
	inCode := map[string][]string{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		calls := regexp.MustCompile(`\blog\.(Debug|Info|Warn|Error|Log)[A-Za-z]*\((.*)\)`).FindAllStringSubmatch(string(source), -1)
		for _, m := range calls {
			words := regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(m[2], -1)
			require.NotEmpty(t, words, "an event without a name in %s", file)
			event := []string{strings.ToLower(m[1])}
			for _, attribute := range words[1:] {
				event = append(event, attribute[1])
			}
			inCode[words[0][1]] = event
		}
	}
	require.Equal(t, documentedEvents(t), inCode)
}

// logged collects events.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A database that is gone is told by the names of the list.
func TestALostDatabaseIsLogged(t *testing.T) {
	cluster, err := pgtest.StartCluster(false)
	require.NoError(t, err)
	stop := sync.OnceValue(cluster.Stop)
	t.Cleanup(func() { require.NoError(t, stop()) })
	pool, err := pgxpool.New(t.Context(), cluster.DSN("postgres"))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, pgoutbox.Migrate(t.Context(), pool))
	var out logged
	open(t, pool, pgoutbox.Options{Poll: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&out, nil))})
	require.NoError(t, stop())
	for _, event := range []string{"pgoutbox.poll_failed", "pgoutbox.not_listening"} {
		require.Contains(t, documentedEvents(t), event)
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "msg="+event+" error=") }, 30*time.Second, 10*time.Millisecond, event)
	}
}
