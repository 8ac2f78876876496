package main

import (
	"context"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFuzzersAreFound(t *testing.T) {
	found, err := find(fstest.MapFS{
		"a_test.go":         {Data: []byte("package a\n\nfunc FuzzB(f *testing.F) {}\nfunc FuzzA(f *testing.F) {}\n// func FuzzNot(\nfunc Fuzzy() {}\n")},
		"deep/in/b_test.go": {Data: []byte("package in\n\nfunc FuzzC(f *testing.F) {}\n")},
		"c.go":              {Data: []byte("package a\n\nfunc FuzzOutside(f *testing.F) {}\n")},
		".git/d_test.go":    {Data: []byte("package d\n\nfunc FuzzHidden(f *testing.F) {}\n")},
	})
	require.NoError(t, err)
	assert.Equal(t, []fuzzer{{".", "FuzzA"}, {".", "FuzzB"}, {"deep/in", "FuzzC"}}, found)
}

func TestTheRepositorysFuzzersAreFound(t *testing.T) {
	found, err := find(os.DirFS("../.."))
	require.NoError(t, err)
	for _, f := range []fuzzer{{".", "FuzzReadBack"}, {"internal/wire", "FuzzJudge"}, {"outbox/bolt", "FuzzPages"}, {"postgres/pgoutbox", "FuzzText"}} {
		assert.Contains(t, found, f)
	}
}

func TestAFuzzerRuns(t *testing.T) {
	require.NoError(t, run(t.Context(), time.Second, 1, "^FuzzParseRetryAfter$"))
}

func TestWhatCannotRunIsAnError(t *testing.T) {
	assert.ErrorContains(t, run(t.Context(), time.Second, 1, "NoSuchFuzzer"), "NoSuchFuzzer")
	assert.Error(t, run(t.Context(), 0, 1, ""))
	assert.Error(t, run(t.Context(), time.Second, 1, "("))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Error(t, run(ctx, time.Second, 1, "^FuzzJudge$"))
}
