package bench

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBenchmarksRun runs what takes no PostgreSQL and no minutes, once.
func TestBenchmarksRun(t *testing.T) {
	benchtime := flag.Lookup("test.benchtime")
	was := benchtime.Value.String()
	require.NoError(t, benchtime.Value.Set("1x"))
	defer func() { _ = benchtime.Value.Set(was) }()
	for name, fn := range map[string]func(*testing.B){
		"P3": BenchmarkP3, "P10 goqite": BenchmarkP10Goqite, "P10 by hand": BenchmarkP10HandMade,
	} {
		t.Run(name, func(t *testing.T) {
			ran, failed := false, false
			testing.Benchmark(func(b *testing.B) {
				fn(b)
				ran, failed = true, b.Failed()
			})
			require.True(t, ran && !failed)
		})
	}
}
