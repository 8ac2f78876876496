package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func render(rows []row, environment string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| # | what | goal | measured | |\n|---|---|---|---|---|\n", environment)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.id, r.what, r.goal, r.figure, r.verdict)
	}
	return b.String()
}

// environment says on what the figures were measured.
func environment(ctx context.Context, root string, short bool) string {
	first := func(name string, args ...string) string {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = filepath.Join(root, "dev")
		out, err := cmd.Output()
		if err != nil {
			return "unknown"
		}
		return strings.Join(strings.Fields(strings.TrimSpace(string(out))), " ")
	}
	cpu := "unknown"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(model)
				break
			}
		}
	}
	out := fmt.Sprintf("Measured %s at commit %s. %d CPUs (%s), %s, %s, %s.\n", time.Now().UTC().Format(time.DateOnly),
		first("git", "rev-parse", "--short", "HEAD"), runtime.NumCPU(), cpu, first("uname", "-sr"), runtime.Version(), first("psql", "--version"))
	out += "Modules: " + strings.ReplaceAll(first("go", "list", "-m", "go.etcd.io/bbolt", "maragu.dev/goqite", "github.com/mattn/go-sqlite3",
		"github.com/hashicorp/go-retryablehttp", "github.com/riverqueue/river", "github.com/jackc/pgx/v5"), " v", "@v") + "."
	if short {
		out += "\nMeasured with -short: smaller backlogs."
	}
	return out
}

const (
	tableBegin = "<!-- written by go run ./dev/bench/report -write -->\n"
	tableEnd   = "<!-- end -->\n"
)

// replaceTable puts the table between its marks in a file.
func replaceTable(path, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(text), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no marks around its table", path)
	}
	return os.WriteFile(path, []byte(before+tableBegin+"\n"+table+"\n"+tableEnd+after), 0o644)
}
