package docs

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGoBlocksAreCompiledCode: every Go block of every page stands, token by token, in a Go file of the repository.
func TestGoBlocksAreCompiledCode(t *testing.T) {
	var sources []string
	walk(t, ".go", func(_, text string) { sources = append(sources, tokens(text)) })
	n := 0
	walk(t, ".md", func(page, text string) {
		for _, b := range blocks(page, text) {
			if b.language != "go" {
				continue
			}
			n++
			want := strings.TrimSuffix(tokens(strings.Join(b.lines, "\n")), ",\x00") // the comma before an end that is not shown
			found := false
			for _, src := range sources {
				found = found || strings.Contains(src, want)
			}
			assert.True(t, found, "%s:%d: no Go file has this:\n%s", b.page, b.line, strings.Join(b.lines, "\n"))
		}
	})
	require.Greater(t, n, 10)
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code    = regexp.MustCompile("`[^`]*`")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// TestLinksResolve: relative links lead to files, and to headings, that are there.
func TestLinksResolve(t *testing.T) {
	n := 0
	walk(t, ".md", func(page, text string) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(prose(text), ""), -1) {
			u, err := url.Parse(m[1])
			require.NoError(t, err, page)
			if u.IsAbs() {
				continue
			}
			n++
			target := page
			if u.Path != "" {
				target = path.Join(path.Dir(page), u.Path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); !assert.NoError(t, err, "%s: %s", page, m[1]) {
				continue
			}
			if u.Fragment != "" {
				assert.Contains(t, anchors(read(t, target)), u.Fragment, "%s: %s", page, m[1])
			}
		}
	})
	require.Greater(t, n, 40)
}

// anchors returns the names that headings have in links.
func anchors(text string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(prose(text), -1) {
		name := strings.ToLower(strings.ReplaceAll(m[1], "`", ""))
		name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(name, "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

// TestTheReadmesSayTheSame: the German README has the same chapters, code, commands, links and rows.
func TestTheReadmesSayTheSame(t *testing.T) {
	en, de := read(t, "README.md"), read(t, "README.de.md")
	level := regexp.MustCompile(`(?m)^#+ `)
	require.Equal(t, level.FindAllString(prose(en), -1), level.FindAllString(prose(de), -1))

	english, german := blocks("README.md", en), blocks("README.de.md", de)
	require.Len(t, german, len(english))
	for i, b := range english {
		require.Equal(t, b.language, german[i].language)
		text, other := strings.Join(b.lines, "\n"), strings.Join(german[i].lines, "\n")
		if b.language == "go" {
			text, other = tokens(text), tokens(other)
		}
		require.Equal(t, text, other, "README.de.md:%d", german[i].line)
	}

	links := func(text string) []string {
		var out []string
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(prose(text), ""), -1) {
			out = append(out, m[1])
		}
		return out
	}
	require.ElementsMatch(t, append(links(en), "README.md"), append(links(de), "README.de.md"))

	names := func(text string) map[string]bool {
		out := map[string]bool{}
		for _, name := range code.FindAllString(prose(text), -1) {
			out[name] = true
		}
		return out
	}
	require.Equal(t, names(en), names(de))
	rows := regexp.MustCompile(`(?m)^\|.*\|$`)
	require.Equal(t, len(rows.FindAllString(en, -1)), len(rows.FindAllString(de, -1)))
}

// TestTheReadmeHasTheCommandsThatCIRuns of its promise.
func TestTheReadmeHasTheCommandsThatCIRuns(t *testing.T) {
	_, after, found := strings.Cut(read(t, ".ci/run"), `step "the README's commands"`)
	require.True(t, found)
	n := 0
	for _, line := range strings.Split(after, "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "tests ")
		if strings.HasPrefix(line, "go ") {
			n++
			assert.Contains(t, commands(blocks("README.md", read(t, "README.md"))), line)
		}
	}
	require.GreaterOrEqual(t, n, 4)
}

// commands returns the command lines of blocks.
func commands(all []block) []string {
	var out []string
	for _, b := range all {
		for _, line := range b.lines {
			switch {
			case b.language == "sh" && strings.TrimSpace(line) != "":
				out = append(out, line)
			case b.language == "console" && strings.HasPrefix(line, "$ "):
				out = append(out, strings.TrimPrefix(line, "$ "))
			}
		}
	}
	return out
}
