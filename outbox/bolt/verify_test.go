package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// requireForetold verifies an outbox and opens it: Verify changes nothing and says what Open does.
func requireForetold(t *testing.T, path, what string) bolt.Verification {
	t.Helper()
	before, err := os.ReadFile(path)
	require.True(t, err == nil || errors.Is(err, fs.ErrNotExist))
	v, err := bolt.Verify(ctx, path, bolt.VerifyOptions{})
	require.NoError(t, err, what)
	after, _ := os.ReadFile(path)
	require.Equal(t, before, after, "%s: Verify changes nothing", what)
	require.NoFileExists(t, path+".damaged-1")
	var at bolt.AtOpen
	for _, p := range v.Problems {
		require.NotEmpty(t, p.Text, what)
		if at == "" || at == bolt.OpenIgnores {
			at = p.AtOpen
		}
	}
	e, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		require.Equal(t, bolt.OpenRefuses, at, "%s: %v", what, err)
		return v
	}
	defer func() { require.NoError(t, e.Close()) }()
	reports := e.Reports()
	switch {
	case len(reports) == 0:
		require.Contains(t, []bolt.AtOpen{"", bolt.OpenIgnores}, at, "%s: %+v", what, v.Problems)
	case reports[0].Aside != "":
		require.Equal(t, bolt.OpenSalvages, at, "%s: %+v, %+v", what, v.Problems, reports)
	default:
		require.Equal(t, bolt.OpenSuspects, at, "%s: %+v, %+v", what, v.Problems, reports)
	}
	return v
}

// TestVerifySaysWhatOpenDoes holds them against each other for every kind of damage.
func TestVerifySaysWhatOpenDoes(t *testing.T) {
	s := makeSample(t, 60)
	dir := fastDir(t)
	path := filepath.Join(dir, "pos.outbox")
	put := func(file, mark []byte) {
		_ = os.Remove(path + ".damaged-1")
		require.NoError(t, os.WriteFile(path, file, 0o600))
		require.NoError(t, os.WriteFile(path+".mark", mark, 0o600))
	}
	put(s.file, s.mark)
	v := requireForetold(t, path, "a whole file")
	require.Empty(t, v.Problems)
	require.Equal(t, len(s.records), v.Records)
	require.Positive(t, v.Unfinished)
	require.Equal(t, int64(len(s.file)), v.Size)

	r := rand.New(rand.NewPCG(7, 8))
	found := 0
	for range 300 {
		file := bytes.Clone(s.file)
		at := r.IntN(len(file))
		file[at] ^= 1 << r.IntN(8)
		put(file, s.mark)
		found += len(requireForetold(t, path, fmt.Sprintf("byte %d flipped", at)).Problems)
	}
	require.Positive(t, found)
	for _, size := range []int{100, 4096, 8192, len(s.file) / 2, len(s.file) - 1} {
		put(s.file[:size], s.mark)
		requireForetold(t, path, fmt.Sprintf("cut to %d bytes", size))
	}
	for name, file := range map[string][]byte{"garbage": []byte("#!/bin/sh\n"), "zeros": make([]byte, 32768), "emptied": nil} {
		put(file, s.mark)
		require.NotEmpty(t, requireForetold(t, path, name).Problems, name)
	}
	require.NoError(t, os.Remove(path))
	require.NotEmpty(t, requireForetold(t, path, "missing").Problems)
	for name, mark := range map[string][]byte{"no mark": nil, "no readable mark": []byte("?")} {
		put(s.file, mark)
		require.Len(t, requireForetold(t, path, name).Problems, 1, name)
	}
}

func TestVerifySeesARestoredFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	e := open(t, path, bolt.Options{})
	add(t, e, "a")
	require.NoError(t, e.Close())
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	e = open(t, path, bolt.Options{})
	add(t, e, "b")
	_, err = bolt.Verify(ctx, path, bolt.VerifyOptions{LockTimeout: 1})
	var locked *outbox.LockedError
	require.ErrorAs(t, err, &locked, "somebody writes to it")
	require.Equal(t, os.Getpid(), locked.PID)
	require.NoError(t, e.Close())
	require.NoError(t, os.WriteFile(path, old, 0o600))
	v := requireForetold(t, path, "restored")
	require.Len(t, v.Problems, 1)
	require.Contains(t, v.Problems[0].Text, "restored")
	require.Empty(t, requireForetold(t, path, "opened since").Problems)
}

func TestVerifyOfNothingIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	_, err := bolt.Verify(ctx, path, bolt.VerifyOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoFileExists(t, path+".lock")
	require.NoError(t, open(t, path, bolt.Options{}).Close())
	require.Empty(t, requireForetold(t, path, "a new outbox").Problems)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = bolt.Verify(ended, path, bolt.VerifyOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestVerifyTellsHowFarItCame(t *testing.T) {
	s := makeSample(t, 60)
	path := filepath.Join(fastDir(t), "pos.outbox")
	require.NoError(t, os.WriteFile(path, s.file, 0o600))
	var last int64
	_, err := bolt.Verify(ctx, path, bolt.VerifyOptions{Progress: func(read, size int64) {
		require.Equal(t, int64(len(s.file)), size)
		require.GreaterOrEqual(t, read, last)
		last = read
	}})
	require.NoError(t, err)
	require.Equal(t, int64(len(s.file)), last)
}

func TestVerifyRefusesANewerFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pos.outbox")
	e := open(t, path, bolt.Options{})
	add(t, e, "a")
	require.NoError(t, e.Close())
	putFormat(t, path, bolt.FormatValue(bolt.FormatVersion+1, 1))
	v := requireForetold(t, path, "newer")
	require.Len(t, v.Problems, 1)
	require.Contains(t, v.Problems[0].Text, "newer version")
}

// ExampleVerify looks for damage before a backup is thrown away.
func ExampleVerify() {
	dir, err := os.MkdirTemp("", "verify")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "pos.outbox")
	engine, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		panic(err)
	}
	if err := engine.Close(); err != nil {
		panic(err)
	}
	v, err := bolt.Verify(context.Background(), path, bolt.VerifyOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(v.Records, "operations,", len(v.Problems), "problems")
	// Output: 0 operations, 0 problems
}

// What no outbox can be in is refused, by opening and by looking, and nothing is made beside it.
func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	place := filepath.Join(dir, "till")
	require.NoError(t, os.Mkdir(place, 0o700))
	_, err := bolt.Open(place, bolt.Options{})
	require.ErrorContains(t, err, "it is a directory; the outbox is a file, such as "+filepath.Join(place, "pos.outbox"))
	_, err = bolt.Verify(ctx, place, bolt.VerifyOptions{})
	require.ErrorContains(t, err, "it is a directory")

	strange := filepath.Join(dir, "menu.json")
	require.NoError(t, os.WriteFile(strange, []byte(`{"menu":[]}`), 0o600))
	v, err := bolt.Verify(ctx, strange, bolt.VerifyOptions{})
	require.NoError(t, err)
	require.Len(t, v.Problems, 1)
	require.Equal(t, bolt.OpenRefuses, v.Problems[0].AtOpen)
	require.Contains(t, v.Problems[0].Text, "this is no outbox file")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing was made")

	_, err = bolt.Open(strange, bolt.Options{})
	require.ErrorIs(t, err, outbox.ErrDamaged)
	require.ErrorContains(t, err, "this is no outbox file")
	b, err := os.ReadFile(strange)
	require.NoError(t, err)
	require.JSONEq(t, `{"menu":[]}`, string(b))
}
