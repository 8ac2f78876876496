package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
	"github.com/flavoso/flavoso-go/postgres/pgoutbox"
)

// lockTimeout is how long to wait for a till that is about to let go of its file.
const lockTimeout = 250 * time.Millisecond

// openHere opens an outbox file or a database to look into it.
func (f *outboxFlags) openHere(ctx context.Context, path string) (source, error) {
	engine, closeEngine, err := f.openEngine(ctx, path)
	if err != nil {
		return nil, err
	}
	src := &engineSource{engine: engine, close: closeEngine}
	if !isDatabase(path) {
		src.path = path
	}
	return src, nil
}

// openEngine opens an outbox file or a database, and unseals it.
func (f *outboxFlags) openEngine(ctx context.Context, where string) (engine outbox.Engine, closeAll func() error, err error) {
	name := where
	if isDatabase(where) {
		name = "the outbox in the database"
		var tables *pgoutbox.Engine
		if tables, closeAll, err = f.connect(ctx, where); err == nil {
			engine = tables
		}
	} else if file, ferr := f.openBolt(ctx, where); ferr != nil {
		err = ferr
	} else {
		engine, closeAll = file, file.Close
	}
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.unseal(ctx, engine, name)
	if err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return opened, closeAll, nil
}

// openBolt opens an outbox file. It makes none where there is none, and leaves a damaged or restored one
// alone unless --yes says otherwise: opening it changes it.
func (f *outboxFlags) openBolt(ctx context.Context, path string) (*bolt.Engine, error) {
	v, err := verifyQuick(ctx, path)
	if err != nil {
		return nil, err
	}
	if v.Size == 0 && len(v.Problems) == 0 {
		return nil, fmt.Errorf("%s is empty, and nothing was ever saved in it", path)
	}
	for _, p := range v.Problems {
		switch {
		case p.AtOpen == bolt.OpenRefuses:
			return nil, fmt.Errorf("%s cannot be opened, nothing was changed: %s", path, p.Text)
		case p.AtOpen != bolt.OpenIgnores && !f.yes:
			return nil, exitError{exitUnconfirmed, fmt.Errorf("%s: %s.\nOpening it changes it: %s. The till does so at its next start; this command does with --yes. Nothing was changed",
				path, p.Text, openDoes[p.AtOpen])}
		}
	}
	engine, err := bolt.Open(path, bolt.Options{LockTimeout: lockTimeout, AllowNetwork: f.allowNetwork})
	if err != nil {
		return nil, explain(path, err)
	}
	for _, r := range engine.Reports() {
		fmt.Fprintf(f.errOut, "%s: %s\n", path, describeReport(r))
	}
	return engine, nil
}

// verifyQuick looks at an outbox file before it is opened.
func verifyQuick(ctx context.Context, path string) (bolt.Verification, error) {
	return verifyFile(ctx, path, bolt.VerifyOptions{LockTimeout: lockTimeout, Quick: true})
}

// verifyFile is bolt.Verify with errors for people.
func verifyFile(ctx context.Context, path string, o bolt.VerifyOptions) (bolt.Verification, error) {
	if err := misnamed(path); err != nil {
		return bolt.Verification{}, err
	}
	v, err := bolt.Verify(ctx, path, o)
	return v, explain(path, err)
}

// beside is what the names of the files beside an outbox end in (docs/operator.md).
var beside = []string{".mark", ".lock", ".ballast", inspect.AddressSuffix}

// misnamed says when a path leads to something that stands near an outbox.
func misnamed(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		marks, _ := filepath.Glob(filepath.Join(escapeGlob(path), "*.mark")) // the pattern is a good one
		var found []string
		for _, m := range marks {
			found = append(found, strings.TrimSuffix(m, ".mark"))
		}
		if len(found) == 0 {
			return fmt.Errorf("%s is a directory, and no outbox is in it: give the till's outbox file (its Config.OutboxPath)", path)
		}
		return fmt.Errorf("%s is a directory; the outbox file in it is %s", path, strings.Join(found, ", or "))
	}
	for _, suffix := range beside {
		of, ok := strings.CutSuffix(path, suffix)
		if _, err := os.Stat(of); ok && err == nil {
			return fmt.Errorf("%s belongs to an outbox; the outbox file is %s", path, of)
		}
	}
	return nil
}

// escapeGlob makes a path stand for itself in a pattern.
func escapeGlob(path string) string {
	if runtime.GOOS == "windows" {
		return path // where patterns have no escape
	}
	return regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(path, `\$0`)
}

// explain says what to do about a file that cannot be opened.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no outbox at %s", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w. An outbox is for its till alone (mode 0600): run this as the user that the till runs as", err)
	}
	return err
}

// openDoes says for people what opening a file with a problem does.
var openDoes = map[bolt.AtOpen]string{
	bolt.OpenRefuses:  "it is refused and left as it is",
	bolt.OpenSalvages: "what can be read is saved into a new file, and the damaged one is kept aside",
	bolt.OpenSuspects: "every unfinished operation counts as sent since it was accepted",
	bolt.OpenIgnores:  "it works all the same",
}

// describeReport says for people what was found wrong and what became of it.
func describeReport(r outbox.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s read whole, %d count as sent from now on", r.Cause, plural(r.Salvaged, "operation"), r.Suspect)
	if r.Damaged > 0 {
		fmt.Fprintf(&b, ", %d are damaged", r.Damaged)
	}
	switch {
	case r.Lost < 0:
		b.WriteString(", and nobody can tell how many are lost")
	case r.Lost > 0:
		fmt.Fprintf(&b, ", %d are lost", r.Lost)
	}
	if r.Aside != "" {
		fmt.Fprintf(&b, "; the damaged file is kept as %s", r.Aside)
	}
	return b.String()
}
