package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// lockTimeout is how long to wait for a till that is about to let go of its file.
const lockTimeout = 250 * time.Millisecond

// openHere opens an outbox file or a database to look into it.
func (f *outboxFlags) openHere(ctx context.Context, path string) (source, error) {
	engine, closeEngine, err := f.openEngine(ctx, path)
	if err != nil {
		return nil, err
	}
	return &engineSource{engine, closeEngine}, nil
}

// openEngine opens an outbox file or a database, and unseals it.
func (f *outboxFlags) openEngine(ctx context.Context, where string) (engine outbox.Engine, closeAll func() error, err error) {
	name := where
	if isDatabase(where) {
		name = "the outbox in the database"
		engine, closeAll, err = f.connect(ctx, where)
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
	v, err := bolt.Verify(ctx, path, bolt.VerifyOptions{LockTimeout: lockTimeout, Quick: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no outbox at %s", path)
	}
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
		return nil, err
	}
	for _, r := range engine.Reports() {
		fmt.Fprintf(f.errOut, "%s: %s\n", path, describeReport(r))
	}
	return engine, nil
}

// openDoes says for people what opening a file with a problem does.
var openDoes = map[bolt.AtOpen]string{
	bolt.OpenRefuses:  "it is refused and left as it is",
	bolt.OpenSalvages: "what can be read is saved into a new file, and the damaged one is kept aside",
	bolt.OpenSuspects: "every unfinished operation counts as sent since it was accepted",
	bolt.OpenIgnores:  "it works all the same",
}

// describeReport says for people what was found at opening and what became of it.
func describeReport(r bolt.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d operations read whole, %d count as sent from now on", r.Cause, r.Salvaged, r.Suspect)
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
