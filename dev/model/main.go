package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"
)

func main() {
	more := flag.Uint("more", 0, "how many more attempts may meet faults")
	deep := flag.Bool("deep", false, "the same as -more 1")
	only := flag.String("only", "", "only the scenario of this name")
	wrong := flag.String("mutant", "", "explore a client that is wrong in this way")
	ways := flag.Bool("ways", false, "show the shortest way to each hole")
	limit := flag.Int("limit", 20_000_000, "how many states to visit at most")
	flag.Parse()
	if m := mutant(*wrong); m != right && !slices.Contains(mutants, m) {
		fmt.Fprintf(os.Stderr, "there is no mutant %q; there are:\n", m)
		for _, m := range mutants {
			fmt.Fprintln(os.Stderr, "   ", m)
		}
		os.Exit(2)
	}
	if *deep {
		*more = max(*more, 1)
	}
	failed := false
	for _, sc := range scenarios(uint8(*more)) {
		if *only == "" || sc.name == *only {
			start := time.Now()
			r := explore(&sc, mutant(*wrong), *limit)
			show(os.Stdout, &sc, &r, time.Since(start), *ways)
			failed = failed || r.bad != ""
		}
	}
	if failed {
		os.Exit(1)
	}
}

// show prints a line of the table, and what is to be seen of it.
func show(w io.Writer, sc *scenario, r *result, took time.Duration, ways bool) {
	verdict := "holds"
	switch {
	case r.bad != "":
		verdict = "DOES NOT HOLD"
	case r.stopped:
		verdict = "holds as far as it was explored"
	}
	fmt.Fprintf(w, "%-28s %9d states %10d steps  depth %3d %6.1fs  %s\n", sc.name, r.states, r.edges, r.depth, took.Seconds(), verdict)
	for _, h := range slices.Sorted(maps.Keys(r.holes)) {
		fmt.Fprintf(w, "    %-48s %9d times\n", h, r.holes[h])
		if ways {
			tell(w, r.ways[h])
		}
	}
	if r.bad != "" {
		fmt.Fprintf(w, "    %s:\n", r.bad)
		tell(w, r.trace)
	}
}

func tell(w io.Writer, steps []string) {
	for i, step := range steps {
		fmt.Fprintf(w, "    %4d  %s\n", i+1, step)
	}
}
