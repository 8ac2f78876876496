package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// adoption is what adopt prints as JSON.
type adoption struct {
	Outbox   string `json:"outbox"`
	Cause    string `json:"cause,omitempty"`
	Aside    string `json:"aside,omitempty"` // where a damaged file is kept
	Salvaged int    `json:"salvaged"`
	Damaged  int    `json:"damaged"`
	Lost     int    `json:"lost"` // -1 = nobody can tell
	Suspect  int    `json:"suspect"`
}

func (f *outboxFlags) newAdopt() *cobra.Command {
	var fresh bool
	cmd := &cobra.Command{
		Use:   "adopt OUTBOX",
		Short: "Say that an outbox was restored or copied: what is unfinished may have been sent",
		Long: `Make a restored or copied outbox this machine's own, before the till is started on it.

After a whole disk image was restored, or a till was cloned, nothing in the files shows that other copies of
the same operations may have been sent. adopt makes every unfinished operation count as sent since it was
accepted: what is not safe to repeat is read back from Flavoso before anything is sent.

A damaged file is salvaged, and kept aside. Where the file is missing or nothing of it can be read,
--start-fresh begins an empty one; what is left of the old one is kept aside.

A database that was restored from a backup, or a replica that was behind when it was promoted, is adopted before
the workers start on it.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := f.fileArgs(cmd, args)
			if err != nil {
				return err
			}
			if isDatabase(path) {
				if fresh {
					return usagef("--start-fresh is for outbox files")
				}
				return f.adoptDatabase(cmd, path)
			}
			v, err := verifyQuick(cmd.Context(), path)
			if err != nil {
				return notBeside(cmd, err)
			}
			what := fmt.Sprintf("%s: %s count as sent since they were accepted\n", path, plural(v.Unfinished, "unfinished operation"))
			for _, p := range v.Problems {
				if p.AtOpen != bolt.OpenRefuses {
					what += fmt.Sprintf("%s: %s\n", p.Text, openDoes[p.AtOpen])
					continue
				}
				if !fresh {
					return fmt.Errorf("%s cannot be opened, nothing was changed: %s.\nPut the file back, or begin an empty outbox with --start-fresh", path, p.Text)
				}
				what = fmt.Sprintf("%s: %s\nan empty outbox is begun, and what is left of the old one is kept aside\n", path, p.Text)
			}
			if err := f.confirm(cmd, what); err != nil {
				return err
			}
			r, err := bolt.Adopt(path, bolt.Options{LockTimeout: lockTimeout, AllowNetwork: f.allowNetwork, StartFresh: fresh})
			if err != nil {
				return err
			}
			return f.printAdoption(cmd, path, r)
		},
	}
	cmd.Flags().BoolVar(&fresh, "start-fresh", false, "begin an empty outbox where the file is missing or nothing of it can be read")
	return cmd
}

// adoptDatabase is adopt for a database.
func (f *outboxFlags) adoptDatabase(cmd *cobra.Command, url string) (err error) {
	ctx := cmd.Context()
	engine, closeEngine, err := f.connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeEngine()) }()
	counts, err := engine.Counts(ctx, "")
	if err != nil {
		return fmt.Errorf("the database: %w", err)
	}
	what := fmt.Sprintf("the database: %s count as sent since they were accepted\nno worker should run yet: what one of them has begun goes on as it is\n",
		plural(unfinishedOf(counts), "unfinished operation"))
	if err := f.confirm(cmd, what); err != nil {
		return err
	}
	n, err := engine.Adopt(ctx)
	if err != nil {
		return fmt.Errorf("the database: %d operations count as sent now, others do not yet, repeat it: %w", n, err)
	}
	r := outbox.Report{Suspect: n}
	if n > 0 {
		r.Cause, r.Salvaged = "adopted", counts.Total()
	}
	return f.printAdoption(cmd, "the database", r)
}

func (f *outboxFlags) printAdoption(cmd *cobra.Command, where string, r outbox.Report) error {
	if f.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(adoption{where, r.Cause, r.Aside, r.Salvaged, r.Damaged, r.Lost, r.Suspect})
	}
	text := "adopted: nothing was unfinished"
	if r.Cause != "" {
		text = describeReport(r)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
	return err
}

// compaction is what compact prints as JSON.
type compaction struct {
	Outbox string `json:"outbox"`
	Before int64  `json:"before"` // bytes of the file
	After  int64  `json:"after"`
}

func (f *outboxFlags) newCompact() *cobra.Command {
	return &cobra.Command{
		Use:   "compact OUTBOX",
		Short: "Give an outbox file's free space back to the disk",
		Long: `Give an outbox file's free space back to the disk. A running till does so by itself when most of a big
file is free. It needs as much free space as there is live data; killed at any moment, the name stands for a
whole file.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := f.fileArgs(cmd, args)
			if err != nil {
				return err
			}
			if isDatabase(path) {
				return usagef("compact is for outbox files: PostgreSQL looks after its own space (VACUUM)")
			}
			if err := misnamed(path); err != nil {
				return err
			}
			before, err := os.Stat(path)
			if err != nil {
				return explain(path, err)
			}
			if err := f.confirm(cmd, fmt.Sprintf("copy what %s holds into a new file, and put that in its place (%d KiB now)\n", path, before.Size()/1024)); err != nil {
				return err
			}
			c := compaction{Outbox: path, Before: before.Size()}
			if c.After, err = f.compact(cmd, path); err != nil {
				return notBeside(cmd, err)
			}
			if f.asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(c)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d KiB before, %d KiB now\n", path, c.Before/1024, c.After/1024)
			return err
		},
	}
}

// copySuffix is what the name of the copy ends in while it is written (docs/outbox.md).
const copySuffix = ".new"

func (f *outboxFlags) compact(cmd *cobra.Command, path string) (size int64, err error) {
	engine, err := f.openBolt(cmd.Context(), path)
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- engine.Compact(context.WithoutCancel(cmd.Context())) }() // half of it is of no use
	bar := newProgress(cmd.ErrOrStderr(), "compacting", -1, true)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case err = <-done:
			running = false
		case <-tick.C:
			if info, err := os.Stat(path + copySuffix); err == nil {
				bar.to(info.Size())
			}
		}
	}
	bar.end()
	if err = errors.Join(err, engine.Close()); err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
