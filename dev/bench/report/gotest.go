package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// results are the figures of benchmarks, by name (without "Benchmark" and the number of CPUs) and unit.
type results map[string]map[string]float64

func (s suite) run(ctx context.Context, root string, short bool) (results, error) {
	args := []string{"test", "-run", "^$", "-bench", s.bench, "-benchtime", s.time, "-benchmem"}
	if s.timeout != "" {
		args = append(args, "-timeout", s.timeout)
	}
	if short {
		args = append(args, "-short")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = filepath.Join(root, s.dir)
	cmd.Env = append(os.Environ(), s.env...)
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(&out, os.Stderr)
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	return parse(&out), err
}

var cpus = regexp.MustCompile(`-\d+$`)

// parse reads what go test prints of benchmarks.
func parse(out io.Reader) results {
	all := results{}
	for s := bufio.NewScanner(out); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := cpus.ReplaceAllString(strings.TrimPrefix(f[0], "Benchmark"), "")
		all[name] = map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				all[name][f[i+1]] = v
			}
		}
	}
	return all
}
