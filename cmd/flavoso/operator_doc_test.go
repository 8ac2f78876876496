package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// page runs the commands of a page of the documentation, in their order, in one directory.
type page struct {
	t   *testing.T
	dir string
	env []string
}

// set gives a variable of the page's commands its value.
func (p *page) set(name, value string) {
	require.NotEmpty(p.t, value, name)
	p.env = append(p.env, name+"="+value)
}

func (p *page) file(name string) string { return filepath.Join(p.dir, name) }

var exits = regexp.MustCompile(`# exits (\d+)$`)

// run runs one command line and requires the exit status that the page says.
func (p *page) run(line string) {
	status := 0
	if m := exits.FindStringSubmatch(line); m != nil {
		status, _ = strconv.Atoi(m[1])
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = p.dir, append(append(os.Environ(), "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH")), p.env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.t.Fatalf("%s: %v", line, err)
	}
	require.Equal(p.t, status, cmd.ProcessState.ExitCode(), "%s\n%s", line, out)
}

// TestEveryCommandForOperatorsRuns goes through docs/operator.md by its headings; what has happened in a shop
// when a chapter begins is told here.
func TestEveryCommandForOperatorsRuns(t *testing.T) {
	text, err := os.ReadFile("../../docs/operator.md")
	require.NoError(t, err)
	p := &page{t: t, dir: t.TempDir()}
	s := newShop(t)
	s.path = p.file("pos.outbox")
	s.fill()
	for variable, name := range map[string]string{"UNCERTAIN": "made", "ALSO_UNCERTAIN": "lost", "QUEUED": "first", "ALSO_QUEUED": "second"} {
		p.set(variable, s.ids[name])
	}
	p.set("LANE", operationOf(t, s, "behind").Lane)
	sealed := func(keys ...string) {
		s := newShop(t)
		s.path = p.file("sealed.outbox")
		for _, name := range keys {
			key, err := os.ReadFile(p.file(name))
			require.NoError(t, err)
			s.keys = append(s.keys, key)
		}
		s.close(s.open())
	}
	var till *child
	begins := map[string]func(){
		"### Damaged": func() {
			d := newShop(t)
			d.path = p.file("damaged.outbox")
			c := d.openAt(nowhere)
			d.book(c, "broken-booking")
			d.close(c)
			damage(t, d.path, `"external_id":"broken-booking"`)
			p.set("DAMAGED", d.ids["broken-booking"])
		},
		"## While the till runs": func() {
			fresh := newShop(t)
			fresh.path = s.path + ".next"
			fresh.fill()
			s.drain()
			for _, suffix := range []string{"", ".mark"} { // a day later
				require.NoError(t, os.Rename(fresh.path+suffix, s.path+suffix))
			}
			till = fresh.startAt(s.path, "offline", "listen", "changes")
			address := readAddress(t, s.path)
			p.set("URL", address.URL)
			p.set("FLAVOSO_INSPECT_TOKEN", address.Token)
			p.set("UNCERTAIN", fresh.ids["made"])
		},
		"## Backups, restoring, clones": func() { till.stop() },
		"### Putting a backup back": func() {
			c := s.openAt(nowhere)
			s.book(c, "after the backup")
			s.close(c)
		},
		"## Damage": func() {
			require.NoError(t, os.WriteFile(p.file("lost.outbox"), bytes.Repeat([]byte("lost"), 5000), 0o600))
		},
		"### Looking into a sealed file": func() { sealed("pos.key") },
		"### After the key was changed":  func() { sealed("new.key", "pos.key") },
		"## PostgreSQL": func() {
			dsn := database(t)
			add(t, migrated(t, dsn, pgoutbox.Options{}), "a", "lane")
			migrated(t, dsn, pgoutbox.Options{Schema: "pos"})
			p.set("DATABASE", dsn)
		},
	}
	block, ran := "", 0
	for _, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			if block != "" {
				block = ""
			} else {
				block = strings.TrimPrefix(line, "```")
			}
		case block == "sh":
			p.run(line)
			ran++
		case block == "" && strings.HasPrefix(line, "#"):
			if begin := begins[line]; begin != nil {
				begin()
				delete(begins, line)
			}
		}
	}
	require.Empty(t, begins, "headings that the page does not have")
	require.Greater(t, ran, 40)
}

// TestThePageKnowsEverything: states, fields and exit statuses are all explained.
func TestThePageKnowsEverything(t *testing.T) {
	b, err := os.ReadFile("../../docs/operator.md")
	require.NoError(t, err)
	text := string(b)
	for _, state := range outbox.States() {
		require.Contains(t, text, "\n| `"+string(state)+"` |")
	}
	golden, err := filepath.Glob("testdata/*.golden")
	require.NoError(t, err)
	for _, file := range golden {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`"([a-z_]+)":`).FindAllSubmatch(b, -1) {
			require.Contains(t, text, "`"+string(m[1])+"`", file)
		}
	}
	for status := exitDone; status <= exitSealed; status++ {
		require.Contains(t, text, "\n| "+strconv.Itoa(status)+" |")
	}
}
