// Report runs the benchmarks P1 to P10 and prints what they are judged by as one table:
//
//	go run ./dev/bench/report              # all of them; about half an hour
//	go run ./dev/bench/report -run P1,P3
//	go run ./dev/bench/report -short       # smaller backlogs; minutes
//	go run ./dev/bench/report -write       # into dev/bench/README.md as well
//
// Run it from anywhere in the repository, on a machine that does nothing else. PostgreSQL must be installed for P8 and
// for River in P10.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("run", "", "what to run, comma-separated, e.g. P1,P3; empty = everything")
	short := flag.Bool("short", false, "smaller backlogs")
	write := flag.Bool("write", false, "put the table into dev/bench/README.md")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *short, *write); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, short, write bool) error {
	root, err := repository()
	if err != nil {
		return err
	}
	wanted := func(id string) bool {
		return only == "" || slices.Contains(strings.Split(only, ","), id)
	}
	var rows []row
	var failed []error
	for _, s := range suites {
		if !slices.ContainsFunc(s.goals, func(g goal) bool { return wanted(g.id) }) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s %s %s\n", time.Now().Format(time.TimeOnly), s.dir, s.bench)
		out, err := s.run(ctx, root, short)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s %s: %w", s.dir, s.bench, err))
		}
		for _, g := range s.goals {
			if wanted(g.id) {
				rows = append(rows, g.judge(out))
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return number(a.id) - number(b.id) })
	text := render(rows, environment(ctx, root, short))
	fmt.Print(text)
	if write {
		failed = append(failed, replaceTable(filepath.Join(root, "dev", "bench", "README.md"), text))
	}
	return errors.Join(failed...)
}

// repository returns the directory that holds go.work.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("run it inside the repository")
		}
		dir = up
	}
}

func number(id string) (n int) {
	_, _ = fmt.Sscanf(id, "P%d", &n)
	return n
}
