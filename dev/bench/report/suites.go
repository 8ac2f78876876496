package main

import (
	"fmt"
	"math"
)

// suite is one run of go test and what is judged by it.
type suite struct {
	dir     string // below the repository
	bench   string // -bench
	time    string // -benchtime
	env     []string
	timeout string
	goals   []goal
}

// goal judges one figure of a benchmark.
type goal struct {
	id, what string
	bench    string // the benchmark's name
	unit     string // of the figure
	most     float64
	least    float64 // one of the two is 0
	beside   string  // unit of a figure that is shown with it
}

func most(id, what, bench, unit string, bound float64, beside string) goal {
	return goal{id: id, what: what, bench: bench, unit: unit, most: bound, beside: beside}
}

func least(id, what, bench, unit string, bound float64, beside string) goal {
	return goal{id: id, what: what, bench: bench, unit: unit, least: bound, beside: beside}
}

// suites begin with what takes long; the table is in another order.
var suites = []suite{
	{dir: "outbox/bolt", bench: "^BenchmarkBacklog$", time: "20x", timeout: "2h", goals: []goal{
		most("P5", "open with 1 000 000 waiting, cold: ms to the first claim", "Backlog/P5", "ms-to-first-claim", 100, "ms-worst"),
		most("P5", "the same: MiB of private memory", "Backlog/P5", "MiB-private", 30, ""),
		most("P6", "after draining 1 000 000: time of a commit, of one in a fresh file", "Backlog/P6", "x-of-fresh-file", 2, ""),
		most("P6", "the same: MiB of the file", "Backlog/P6", "MiB-file", 32, ""),
	}},
	{dir: "internal/dispatch", bench: "^BenchmarkOutage$", time: "1x", goals: outages()},
	{dir: "dev/bench", bench: "^BenchmarkP10", time: "3s", timeout: "30m", env: []string{"FLAVOSO_TEST_POSTGRES_FSYNC=on"}, goals: peers()},
	{dir: "mockserver", bench: "^BenchmarkP7$", time: "3s", goals: []goal{
		least("P7", "mock server, bookings create: rate, of a bare handler's", "P7/bookings", "x-of-bare-rate", 0.5, "posts/s"),
		least("P7", "mock server, order accept", "P7/accept", "x-of-bare-rate", 0.5, "posts/s"),
		least("P7", "mock server, order acknowledge", "P7/acknowledge", "x-of-bare-rate", 0.5, "posts/s"),
	}},
	{dir: "idempotency", bench: "^BenchmarkMiddleware$", time: "2s", goals: []goal{
		most("P8", "middleware over memory: first execution, µs over the bare handler", "Middleware", "µs-first-over-bare", 5, "µs/bare"),
		most("P8", "middleware over memory: replay, µs", "Middleware", "µs/replay", 5, ""),
	}},
	{dir: "dev/bench", bench: "^BenchmarkP4$", time: "1x", timeout: "30m", goals: []goal{
		least("P4", "drain 100 000 over 1 000 lanes at 64: rate, of a bare net/http loop's", "P4", "x-of-bare-rate", 0.6, "ops/s"),
	}},
	{dir: "postgres/pgidem", bench: "^BenchmarkP8", time: "10s", env: []string{"FLAVOSO_TEST_POSTGRES_FSYNC=on", "FLAVOSO_REQUIRE_POSTGRES=1"}, goals: []goal{
		most("P8", "pgidem, new key: time, of INSERT + UPDATE in a table with the same indexes", "P8NewKey", "x-of-insert+update", 1.15, "µs/key"),
		most("P8", "the same, in a table with none but the primary key", "P8NewKey", "x-of-insert+update-without-indexes", 1.15, ""),
		most("P8", "pgidem, replay: time, of a plain SELECT of the same bytes (zero WAL is asserted)", "P8Replay", "x-of-select", 1.1, "µs/replay"),
	}},
	{dir: "dev/bench", bench: "^BenchmarkP3$", time: "5s", goals: []goal{
		most("P3", "`Do` on loopback: time, of a bare POST and two bbolt commits", "P3", "x-of-post+2-commits", 1.2, "µs/do"),
	}},
	{dir: "outbox/bolt", bench: "^(BenchmarkP1|BenchmarkP2)$", time: "5s", goals: []goal{
		most("P1", "durable enqueue, one producer: time, of bare `bbolt.Update`'s", "P1", "x-of-bare-bbolt", 1.15, "µs/add"),
		least("P2", "durable enqueue, 64 producers: rate, of serial `bbolt.Update`'s", "P2", "x-serial-bbolt", 20, "adds/s"),
		least("P2", "the same, of `bbolt.DB.Batch`'s", "P2", "x-bbolt-batch", 6, "syncs/add"),
		least("P2", "the same, of a bare group commit made by hand (no goal)", "P2", "x-hand-made-group-commit", 0, ""),
	}},
}

func outages() (out []goal) {
	for _, kind := range []string{"refused", "silent", "hanging", "503"} {
		out = append(out,
			most("P9", "10 000 devices, 10 minutes of outage ("+kind+"): probes per device", "Outage/"+kind, "probes/device", 20, "requests/device"),
			most("P9", "the same: busiest second after it, of the capacity", "Outage/"+kind, "peak/capacity", 1.5, ""))
	}
	return out
}

func peers() (out []goal) {
	for _, peer := range []struct {
		name, bench string
		kinds       []string
	}{
		{"goqite (SQLite, synchronous=FULL)", "P10Goqite", []string{"save", "life"}},
		{"bbolt and retryablehttp by hand", "P10HandMade", []string{"life"}},
		{"River (PostgreSQL, fsync on)", "P10River", []string{"save", "life"}},
	} {
		for _, kind := range peer.kinds {
			for _, producers := range []int{1, 64} {
				what := map[string]string{"save": "saving", "life": "saving, sending, settling"}[kind]
				out = append(out, least("P10", fmt.Sprintf("%s, %s, %d at once: its time, of ours", peer.name, what, producers),
					fmt.Sprintf("%s/%s/%d", peer.bench, kind, producers), "x-ahead", 1, ""))
			}
		}
	}
	return out
}

// row is a line of the table.
type row struct{ id, what, goal, figure, verdict string }

func (g goal) judge(out results) row {
	r := row{id: g.id, what: g.what, goal: "–", figure: "not measured", verdict: ""}
	met := func(float64) bool { return true }
	switch {
	case g.most > 0:
		r.goal, met = "≤ "+short(g.most), func(v float64) bool { return v <= g.most }
	case g.least > 0:
		r.goal, met = "≥ "+short(g.least), func(v float64) bool { return v >= g.least }
	}
	v, ok := out[g.bench][g.unit]
	if !ok {
		return r
	}
	r.figure = short(v)
	if beside, ok := out[g.bench][g.beside]; ok {
		r.figure += fmt.Sprintf(" (%s %s)", short(beside), g.beside)
	}
	switch {
	case g.most == 0 && g.least == 0:
	case met(v):
		r.verdict = "met"
	default:
		r.verdict = "**missed**"
	}
	return r
}

// short writes a figure with three digits.
func short(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", max(0, digits), v)
}
