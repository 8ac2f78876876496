package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFiguresAreParsedAndJudged(t *testing.T) {
	out := parse(strings.NewReader("goos: linux\nBenchmarkP1-2   \t 133\t 29101583 ns/op\t 1.597 x-of-bare-bbolt\t 683.5 µs/add\nBenchmarkP7/accept-2 3 1 ns/op 0.5 x-of-bare-rate\nPASS\n"))
	require.Equal(t, row{"P1", "enqueue", "≤ 1.15", "1.60 (684 µs/add)", "**missed**"},
		most("P1", "enqueue", "P1", "x-of-bare-bbolt", 1.15, "µs/add").judge(out))
	require.Equal(t, row{"P7", "post", "≥ 0.500", "0.500", "met"}, least("P7", "post", "P7/accept", "x-of-bare-rate", 0.5, "").judge(out))
	require.Equal(t, "not measured", least("P7", "post", "P7/other", "x-of-bare-rate", 0.5, "").judge(out).figure)
}

func TestTheTableTakesThePlaceOfTheOldOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+tableBegin+"old\n"+tableEnd+"after\n"), 0o600))
	require.NoError(t, replaceTable(path, render([]row{{"P1", "a", "b", "c", "met"}}, "machine")))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "| P1 | a | b | c | met |")
	require.NotContains(t, string(text), "old")
	require.True(t, strings.HasPrefix(string(text), "before\n") && strings.HasSuffix(string(text), "after\n"))
	require.Error(t, replaceTable(path+".none", ""))
}
