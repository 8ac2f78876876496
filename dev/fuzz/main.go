// Fuzz runs every fuzzer of the repository, each for as long as it is told: the parsers of what comes from outside, which
// are Flavoso's answers, what is in an outbox's files and rows, what a request to the mock server says, and so on.
//
//	go run ./dev/fuzz                     # ten minutes each, two at once
//	go run ./dev/fuzz -for 30s -only Judge
//
// Run it from anywhere in the repository. It ends with an error when a fuzzer found something; go test has then
// written the input to testdata/fuzz beside the fuzzer, where it is a test case from now on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	each := flag.Duration("for", 10*time.Minute, "how long each fuzzer runs")
	atOnce := flag.Int("at-once", 2, "how many run at a time, each on one core")
	only := flag.String("only", "", "a regular expression; runs the fuzzers whose names match")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *each, *atOnce, *only); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, each time.Duration, atOnce int, only string) error {
	wanted, err := regexp.Compile(only)
	if err != nil || each <= 0 || atOnce < 1 {
		return errors.Join(err, errors.New("-for and -at-once must be more than 0, -only a regular expression"))
	}
	workspace, err := exec.CommandContext(ctx, "go", "env", "GOWORK").Output()
	if err != nil {
		return fmt.Errorf("no workspace is found from here: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(workspace)))
	all, err := find(os.DirFS(root))
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(f fuzzer) bool { return !wanted.MatchString(f.name) })
	if len(all) == 0 {
		return fmt.Errorf("no fuzzer matches %q", only)
	}
	var (
		running sync.WaitGroup
		turn    = make(chan struct{}, atOnce)
		results = make([]error, len(all))
	)
	for i, f := range all {
		running.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			if results[i] = ctx.Err(); results[i] == nil {
				results[i] = f.run(ctx, root, each)
			}
		})
	}
	running.Wait()
	return errors.Join(results...)
}

// fuzzer is one fuzz test.
type fuzzer struct {
	dir  string // of its package, from the root of the repository
	name string
}

var declared = regexp.MustCompile(`(?m)^func (Fuzz[A-Z]\w*)\(`)

// find returns all fuzzers, by package and name.
func find(repository fs.FS) (all []fuzzer, err error) {
	err = fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(repository, name)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			all = append(all, fuzzer{dir: filepath.Dir(name), name: string(m[1])})
		}
		return err
	})
	slices.SortFunc(all, func(a, b fuzzer) int { return strings.Compare(a.dir+" "+a.name, b.dir+" "+b.name) })
	return all, err
}

// run fuzzes for a while and prints one line, or what was found.
func (f fuzzer) run(ctx context.Context, root string, each time.Duration) error {
	// Making an input that reached something new as short as it can be may take a minute each time, and finds nothing.
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+f.name+"$", "-fuzztime", each.String(),
		"-fuzzminimizetime", "1s", "-parallel", "1", "-timeout", "0", ".")
	cmd.Dir = filepath.Join(root, f.dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %s was stopped: %w", f.dir, f.name, ctx.Err())
	case err != nil:
		return fmt.Errorf("%s: %s: %w\n%s", f.dir, f.name, err, out)
	}
	fmt.Printf("%s %s: clean, %s\n", f.dir, f.name, executions(string(out)))
	return nil
}

var progress = regexp.MustCompile(`execs: (\d+)`)

// executions says how many inputs were tried, by go test's last report.
func executions(out string) string {
	if all := progress.FindAllStringSubmatch(out, -1); len(all) > 0 {
		return all[len(all)-1][1] + " inputs"
	}
	return "no report"
}
