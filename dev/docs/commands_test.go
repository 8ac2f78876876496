package docs

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// elsewhere names the pages whose commands another test runs, or whose commands take hours.
var elsewhere = map[string]string{
	"README.de.md":                       "TestTheReadmesSayTheSame: they are those of README.md",
	"docs/operator.md":                   "TestEveryCommandForOperatorsRuns in cmd/flavoso",
	"postgres/examples/server/README.md": "a test of postgres/examples/server",
	"dev/bench/README.md":                "they need a machine of their own; what they run is compiled and run by dev/bench's tests",
	"dev/torture/README.md":              "they go on for as long as they are told; dev/torture's tests run the short form",
}

// exempt are the commands that this test does not run, and why.
var exempt = map[string]string{
	"go test ./...":                        "CI runs it",
	"go get github.com/flavoso/flavoso-go": "needs the network and a published module",
	"go install github.com/flavoso/flavoso-go/cmd/flavoso@latest": "TestGoInstallGivesOneBinary in cmd/flavoso",
	"go run ./postgres/examples/fleet":                            "a test of postgres/examples/fleet tells the story",
	"go vet work":                                                 "CI runs it",
	"go test work":                                                "CI runs it",
	"GOWORK=off go test ./...":                                    "CI runs it",
	"go test ./docs -run Links":                                   "this very test",
	".ci/run":                                                     "this test is part of it",
	"go test ./outbox/bolt -run Golden -golden":                   "writes a golden file",
	"go test ./mockserver -run OpenAPIDocument -update":           "writes docs/openapi.json",
	"go test . -update":                                           "writes golden files",
}

var (
	exits    = regexp.MustCompile(`\s*# exits (\d+)$`)
	trailing = regexp.MustCompile(`\s{2,}# .*$`)
)

// desk is where a page's commands run: at the repository's root, except those of the tool, which run in a
// directory of their own.
type desk struct {
	t      *testing.T
	dir    string // holds the tool and a pos.outbox
	port   string
	server *exec.Cmd // a mock server that a page started
}

// TestEveryCommandOfTheDocsRuns: in the order of each page, but for those that are exempt by name.
func TestEveryCommandOfTheDocsRuns(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "tool"), "./cmd/flavoso")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	engine, err := bolt.Open(filepath.Join(dir, "pos.outbox"), bolt.Options{})
	require.NoError(t, err)
	require.NoError(t, engine.Close())

	used := map[string]bool{}
	walk(t, ".md", func(page, text string) {
		if elsewhere[page] != "" {
			return
		}
		t.Run(page, func(t *testing.T) {
			d := &desk{t: t, dir: dir}
			defer d.stop()
			for _, b := range blocks(page, text) {
				for _, line := range commands([]block{b}) {
					if line = trailing.ReplaceAllString(line, ""); exempt[line] != "" {
						used[line] = true
					}
				}
				switch b.language {
				case "console":
					d.console(b)
				case "sh":
					d.script(b)
				case "":
					for _, line := range b.lines {
						require.NotRegexp(t, `^(\$ |go |flavoso |curl )`, line, "%s:%d: a command in a block that names no language is not run", page, b.line)
					}
				}
			}
		})
	})
	for line := range exempt {
		require.True(t, used[line], "exempt, and on no page: %s", line)
	}
}

// console runs a block's commands one by one and compares what they print; a line of an ellipsis stands for any.
func (d *desk) console(b block) {
	for i := 0; i < len(b.lines); {
		line, is := strings.CutPrefix(b.lines[i], "$ ")
		require.True(d.t, is, "%s:%d: %s", b.page, b.line+1+i, b.lines[i])
		var want []string
		for i++; i < len(b.lines) && !strings.HasPrefix(b.lines[i], "$ "); i++ {
			want = append(want, b.lines[i])
		}
		status := 0
		if m := exits.FindStringSubmatch(line); m != nil {
			status, _ = strconv.Atoi(m[1])
		}
		var got string
		if strings.HasSuffix(line, "flavoso mock") {
			got = d.serve()
		} else {
			var code int
			code, got = d.run(line)
			require.Equal(d.t, status, code, "%s\n%s", line, got)
		}
		pattern := regexp.QuoteMeta(strings.Join(want, "\n"))
		pattern = strings.ReplaceAll(pattern, "\n…\n", `\n(?s:.*)\n`)
		require.Regexp(d.t, "^"+pattern+"$", strings.TrimSuffix(got, "\n"), "%s:%d: %s", b.page, b.line, line)
	}
}

// script runs a block of commands. A block that uses a mock server and starts none has one, as its job number 1.
func (d *desk) script(b block) {
	var lines []string
	text := strings.Join(b.lines, "\n")
	const start, ready = "flavoso mock &", "until curl -sf localhost:4010/_mock/status >/dev/null; do sleep 0.05; done"
	if strings.Contains(text, "localhost:4010") && b.lines[0] != start {
		lines = append(lines, start, ready)
	}
	alone := 0
	for _, line := range b.lines {
		bare := trailing.ReplaceAllString(line, "")
		switch {
		case exempt[bare] != "" || bare == "":
		case strings.HasSuffix(bare, "flavoso mock"):
			require.Contains(d.t, d.serve(), "listening on ")
		case bare == start:
			lines = append(lines, start, ready)
		default:
			lines = append(lines, line)
			alone++
		}
	}
	if alone == 0 {
		return
	}
	keep := d.port
	if len(lines) > alone {
		d.port = freePort(d.t)
	}
	code, out := d.run("set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + strings.Join(lines, "\n"))
	require.Equal(d.t, 0, code, "%s:%d:\n%s", b.page, b.line, out)
	d.port = keep
}

// run runs a command line and returns its exit status and what it printed.
func (d *desk) run(line string) (int, string) {
	cmd := exec.Command("bash", "-c", d.here(line))
	cmd.Dir, cmd.Env = root, d.env()
	if !strings.Contains(line, "go run") {
		cmd.Dir = d.dir
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		d.t.Fatalf("%s: %v", line, err)
	}
	return cmd.ProcessState.ExitCode(), d.there(string(out))
}

// here and there put this desk's port in the place of the documented one, and back.
func (d *desk) here(line string) string {
	return strings.ReplaceAll(line, ":4010", ":"+d.port)
}

func (d *desk) there(text string) string {
	if d.port == "" {
		return text
	}
	return strings.ReplaceAll(text, ":"+d.port, ":4010")
}

// env lets commands find the tool, which listens at this desk's port.
func (d *desk) env() []string {
	bin := filepath.Join(d.dir, "bin"+d.port)
	script := "#!/bin/sh\n[ \"$1\" = mock ] && exec \"" + d.dir + "/tool\" \"$@\" --addr 127.0.0.1:" + d.port + "\nexec \"" + d.dir + "/tool\" \"$@\"\n"
	require.NoError(d.t, os.MkdirAll(bin, 0o755))
	require.NoError(d.t, os.WriteFile(filepath.Join(bin, "flavoso"), []byte(script), 0o755))
	return append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// serve starts a mock server that goes on for the rest of the page, and returns what it said.
func (d *desk) serve() string {
	d.stop()
	d.port = freePort(d.t)
	cmd := exec.Command(filepath.Join(d.dir, "tool"), "mock", "--addr", "127.0.0.1:"+d.port)
	said, err := os.Create(filepath.Join(d.dir, "said"))
	require.NoError(d.t, err)
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	require.NoError(d.t, cmd.Start())
	d.server = cmd
	var out []byte
	require.Eventually(d.t, func() bool {
		out, _ = os.ReadFile(said.Name())
		return bytes.Count(out, []byte("\n")) >= 3
	}, 30*time.Second, 5*time.Millisecond)
	return d.there(string(out))
}

func (d *desk) stop() {
	if d.server != nil {
		_ = d.server.Process.Kill()
		_ = d.server.Wait()
		d.server = nil
	}
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}
