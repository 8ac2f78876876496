package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// TestTheGoVersionIsTheOneThatIsPromised: one go line in all modules, and the READMEs name it.
func TestTheGoVersionIsTheOneThatIsPromised(t *testing.T) {
	line := regexp.MustCompile(`(?m)^go (\d+\.\d+)`)
	version := line.FindStringSubmatch(read(t, "go.mod"))[1]
	for _, file := range []string{"go.work", "dev/go.mod", "cmd/flavoso/go.mod", "postgres/go.mod", "telemetry/go.mod"} {
		assert.Equal(t, version, line.FindStringSubmatch(read(t, file))[1], file)
	}
	assert.Contains(t, read(t, "README.md"), "Go "+version+" or newer")
	assert.Contains(t, read(t, "README.de.md"), "Go "+version+" oder neuer")
}

// TestTheChangelogKnowsTheVersionAndTheFormat, as the format's page does.
func TestTheChangelogKnowsTheVersionAndTheFormat(t *testing.T) {
	text := read(t, "CHANGELOG.md")
	assert.Contains(t, text, flavoso.Version)
	assert.Contains(t, text, "Outbox file format "+strconv.Itoa(bolt.FormatVersion))
	assert.Contains(t, read(t, "docs/outbox.md"), "## Format "+strconv.Itoa(bolt.FormatVersion))
}

// TestTheReadmeListsEveryDependency of the root module that it requires itself.
func TestTheReadmeListsEveryDependency(t *testing.T) {
	readme := read(t, "README.md")
	requires := regexp.MustCompile(`(?m)^\t(\S+) v\S+( // indirect)?$`)
	n := 0
	for _, m := range requires.FindAllStringSubmatch(read(t, "go.mod"), -1) {
		if m[2] == "" {
			n++
			assert.Contains(t, readme, "`"+strings.TrimPrefix(m[1], "github.com/")+"`")
		}
	}
	require.Greater(t, n, 5)
}

// TestTheMaintainersPageKnowsEveryDirectory of the house, and every module.
func TestTheMaintainersPageKnowsEveryDirectory(t *testing.T) {
	text := read(t, "CONTRIBUTING.md")
	mods, err := filepath.Glob(filepath.Join(root, "*", "go.mod"))
	require.NoError(t, err)
	require.Len(t, mods, 3)
	for _, mod := range append(mods, filepath.Join(root, "cmd/flavoso/go.mod")) {
		dir, err := filepath.Rel(root, filepath.Dir(mod))
		require.NoError(t, err)
		assert.Contains(t, text, "| `"+filepath.ToSlash(dir)+"` |")
	}
	for _, dir := range []string{"internal/dispatch", "internal/wire", "internal/inspect", "outbox", "outbox/bolt", "outbox/outboxtest", "idempotency", "mockserver"} {
		assert.Contains(t, text, "| `"+dir+"` | root |")
	}
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(text, -1) {
		found := false
		walk(t, "_test.go", func(_, src string) { found = found || strings.Contains(src, "func "+m[1]+"(") })
		assert.True(t, found, m[1])
	}
}

// TestItCompilesForTheSystemsThatArePromised in docs/compatibility.md, without cgo.
func TestItCompilesForTheSystemsThatArePromised(t *testing.T) {
	for _, system := range []string{"windows/amd64", "darwin/arm64"} {
		name, arch, _ := strings.Cut(system, "/")
		build := exec.Command("go", "build", "./...", "./cmd/flavoso")
		build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOOS="+name, "GOARCH="+arch)
		out, err := build.CombinedOutput()
		require.NoError(t, err, "%s: %s", system, out)
	}
}
