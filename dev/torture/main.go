// Command torture tries to make the client lose or double an operation: real processes, real files, a real
// mock server process, killed and failed in every way there is, judged by the server's own ledger. See
// README.md.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/dev/torture/mutants"
	"github.com/flavoso/flavoso-go/dev/torture/rig"
)

func main() {
	var (
		long  = flag.Duration("for", time.Minute, "how long to go on")
		kills = flag.Int("kills", 0, "go on until so many processes were killed, instead of for a time")
		seed  = flag.Uint64("seed", uint64(time.Now().UnixNano()), "what chance begins with; a failing run prints it")
		round = flag.Duration("round", 10*time.Second, "how long tills live and die before they are judged")
		modes = flag.String("modes", "", "only these, comma-separated: "+names())
		wrong = flag.Bool("mutants", false, "run clients that are wrong on purpose, all of which must be caught")
		only  = flag.String("only", "", "with -mutants: only those whose name has this in it")
		keep  = flag.Bool("keep", true, "leave the files of a failed round")
	)
	flag.Parse()
	o := rig.Options{Seed: *seed, For: *long, Kills: *kills, Round: *round, Keep: *keep, Log: os.Stderr}
	for _, name := range strings.Split(*modes, ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(rig.Modes(), rig.Mode(name)) {
			fmt.Fprintf(os.Stderr, "no mode %q; there are: %s\n", name, names())
			os.Exit(2)
		}
		o.Modes = append(o.Modes, rig.Mode(name))
	}
	if *wrong {
		if !mutate(*only) {
			os.Exit(1)
		}
		return
	}
	fmt.Printf("seed %d, %s, %s/%s\n", *seed, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	rep, err := rig.Run(o)
	if rep != nil {
		show(rep)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(rep.Violations) > 0 {
		os.Exit(1)
	}
}

// mutate runs every mutant whose name has only in it, and the right client in its place, and reports whether all
// the wrong ones were caught and no right one was.
func mutate(only string) bool {
	all := true
	for _, m := range mutants.All() {
		if only != "" && !strings.Contains(m.Name, only) {
			continue
		}
		right, err := m.Clean()
		if err != nil {
			fmt.Printf("FAILED  %s, without its mistake: %v\n", m.Name, err)
			all = false
			continue
		}
		for _, v := range right.Violations {
			fmt.Printf("WRONG   the right client is objected to: %s\n", v)
			all = false
		}
		began := time.Now()
		caught, rep, err := m.Caught()
		switch {
		case err != nil:
			fmt.Printf("FAILED  %s: %v\n", m.Name, err)
		case len(rep.Skipped) > 0 && len(rep.Rounds) == 0:
			fmt.Printf("skipped %s: %v\n", m.Name, rep.Skipped)
			continue
		case !caught:
			fmt.Printf("PASSED  %s: after %d processes killed\n", m.Name, rep.Killed())
		default:
			fmt.Printf("caught  %s: %s, after %d processes killed (%s)\n", m.Name, m.Rule, rep.Killed(), time.Since(began).Round(time.Second))
		}
		all = all && caught
	}
	return all
}

func names() string {
	var out []string
	for _, m := range rig.Modes() {
		if !slices.Contains(out, string(m)) {
			out = append(out, string(m))
		}
	}
	return strings.Join(out, ", ")
}

func show(r *rig.Report) {
	fmt.Printf("%s: %d processes killed (%d from outside, %d by themselves at named points), %d power losses, %d lives ended politely\n",
		r.Took.Round(time.Second), r.Killed(), r.Kills, sum(r.Deaths), sum(r.Images), r.Polite)
	fmt.Printf("%d mock server restarts, %d of PostgreSQL, %d tokens rotated, %d nights of 25 hours, %d lives with a clock that was set, %d on a failing storage, %d full disks\n",
		r.Restarts, r.Databases, r.Rotations, r.Nights, r.Jumps, r.Faulty, r.Full)
	c := r.Counts
	fmt.Printf("%d lives opened an outbox; %d operations begun, %d accepted; %d requests arrived, %d answered by a replay; %d effects\n",
		c.Lives, c.Begun, c.Accepted, c.Requests, c.Replays, c.Effects)
	table("accepted operations by state", c.States)
	table("rounds", r.Rounds)
	table("deaths at named points", r.Deaths)
	table("power losses", r.Images)
	table("excused by name", r.Excused)
	for mode, why := range r.Skipped {
		fmt.Printf("skipped: %s: %s\n", mode, why)
	}
	fmt.Printf("objections: %d\n", len(r.Violations))
	if r.Files != "" {
		fmt.Printf("files: %s\n", r.Files)
	}
	for i, v := range r.Violations {
		if i == 5 {
			fmt.Printf("and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Printf("\n%s (seed %d)\n", v, r.Seed)
	}
}

func sum(m map[string]int) int {
	n := 0
	for _, k := range m {
		n += k
	}
	return n
}

func table(title string, m map[string]int) {
	if len(m) == 0 {
		return
	}
	fmt.Println(title + ":")
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Printf("  %7d  %s\n", m[k], k)
	}
}
