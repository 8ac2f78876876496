package mockserver_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/mockserver"
)

func mockDoc(t *testing.T) string {
	raw, err := os.ReadFile("../docs/mock.md")
	require.NoError(t, err)
	return string(raw)
}

// program is a server as flavoso mock runs it: over a port, and faults may stay unfired.
func program(t *testing.T) *client {
	srv, err := mockserver.New()
	require.NoError(t, err)
	c := newClient(t, srv)
	c.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	return c
}

// codeBlocks returns the lines of the blocks in a language.
func codeBlocks(doc, language string) [][]string {
	var out [][]string
	for _, part := range strings.Split(doc, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		out = append(out, strings.Split(block, "\n"))
	}
	return out
}

var (
	curlLine = regexp.MustCompile(`^curl -s (?:-X ([A-Z]+) )?localhost:4010(/\S*)(?: -d (?:'([^']*)'|@(\S+)))?(?: > (\S+))?(?:\s+#.*)?$`)
	nameCode = regexp.MustCompile("`([a-z_]+)`")
)

// TestEveryCurlLineOfTheDocsWorks runs them, block by block, and finds one for every fault.
func TestEveryCurlLineOfTheDocsWorks(t *testing.T) {
	armed := map[string]bool{}
	ran := 0
	for _, block := range codeBlocks(mockDoc(t), "sh") {
		c := program(t)
		files := map[string]string{}
		for _, line := range block {
			if !strings.HasPrefix(line, "curl") {
				continue
			}
			m := curlLine.FindStringSubmatch(line)
			require.NotNil(t, m, "this test does not read %s", line)
			method, path, body := m[1], m[2], m[3]+files[m[4]]
			if method == "" {
				method = "GET"
				if body != "" {
					method = "POST"
				}
			}
			a := c.do(method, path, body)
			require.NoError(t, a.err, line)
			assert.Less(t, a.status, 300, "%s: %s", line, a.body)
			if m[5] != "" {
				files[m[5]] = a.body
			}
			var f struct{ Fault string }
			if path == "/_mock/faults" && body != "" {
				require.NoError(t, json.Unmarshal([]byte(body), &f), line)
				armed[f.Fault] = true
			}
			ran++
		}
	}
	assert.Greater(t, ran, 20)
	for _, name := range mockserver.FaultNames {
		assert.True(t, armed[name], "docs/mock.md has no curl line for %s", name)
	}
}

// TestTheDocsHaveTheFieldsOfEveryFault compares the tables of docs/mock.md with what is accepted.
func TestTheDocsHaveTheFieldsOfEveryFault(t *testing.T) {
	names := func(cell string) []string {
		var out []string
		for _, m := range nameCode.FindAllStringSubmatch(cell, -1) {
			out = append(out, m[1])
		}
		return out
	}
	_, section, _ := strings.Cut(mockDoc(t), "\n### The fields of a fault\n")
	section, _, _ = strings.Cut(section, "\n## ")
	faults, explained := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		first := names(cells[0])
		switch {
		case len(first) != 1:
		case len(cells) == 3 && slices.Contains(mockserver.FaultNames, first[0]):
			needs, takes := mockserver.FaultFields(first[0])
			assert.Equal(t, needs, names(cells[1]), first[0])
			assert.Equal(t, takes, names(cells[2]), first[0])
			faults[first[0]] = true
		case len(cells) == 4:
			explained[first[0]] = true
		}
	}
	for _, name := range mockserver.FaultNames {
		assert.True(t, faults[name], "the fields of %s", name)
		needs, takes := mockserver.FaultFields(name)
		for _, field := range slices.Concat(needs, takes, mockserver.FaultLimits) {
			assert.True(t, explained[field], "the field %s", field)
		}
	}
}

// TestEveryCallOfTheAdminAPIIsInTheDocs, with bodies that are accepted as they are written.
func TestEveryCallOfTheAdminAPIIsInTheDocs(t *testing.T) {
	doc := mockDoc(t)
	c := program(t)
	row := regexp.MustCompile("(?m)^\\| (`[A-Z]+.*`) \\| (.*) \\|$")
	call := regexp.MustCompile("`(GET|POST|PATCH|DELETE)(?: (/_mock[^`?]*)[^`]*)?`")
	documented := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(doc, -1) {
		calls := call.FindAllStringSubmatch(m[1], -1)
		for _, one := range calls {
			path := one[2]
			if path == "" { // `GET`, `POST /_mock/clock`
				path = calls[len(calls)-1][2]
			}
			documented[one[1]+" "+path] = true
		}
		given, _, _ := strings.Cut(m[2], "→")
		for _, body := range regexp.MustCompile("`({[^`]*})`").FindAllStringSubmatch(given, -1) {
			if strings.Contains(body[1], "…") || strings.HasPrefix(m[2], "→") {
				continue
			}
			last := calls[len(calls)-1]
			a := c.do("POST", last[2], body[1])
			assert.Less(t, a.status, 300, "%s %s: %s", last[2], body[1], a.body)
		}
	}
	for _, entry := range c.do("GET", "/_mock", "").data(t) {
		assert.True(t, documented[entry["call"].(string)], "docs/mock.md does not have %s", entry["call"])
	}
}

// TestTheDocsDayOfflineIsTheTestedOne: what docs/mock.md shows is TestADayOffline, line by line.
func TestTheDocsDayOfflineIsTheTestedOne(t *testing.T) {
	tested, err := os.ReadFile("offline_test.go")
	require.NoError(t, err)
	found := false
	for _, block := range codeBlocks(mockDoc(t), "go") {
		if block[0] == "func TestADayOffline(t *testing.T) {" {
			found = true
			assert.Contains(t, string(tested), strings.Join(block, "\n"))
		}
	}
	assert.True(t, found)
}
