package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// verification is what verify prints as JSON.
type verification struct {
	Outbox     string    `json:"outbox"`
	Size       int64     `json:"size,omitempty"`   // bytes of the file
	Records    int       `json:"records"`          // operations kept
	Unfinished int       `json:"unfinished"`       // of them waiting or parked
	Sealed     bool      `json:"sealed,omitempty"` // and opened with the key that was given
	Problems   []problem `json:"problems"`
}

// problem is one thing that verify found.
type problem struct {
	Text   string      `json:"text"`
	AtOpen bolt.AtOpen `json:"at_open"` // what opening does about it: refuses, salvages, suspects, ignores
}

func (f *outboxFlags) newVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify OUTBOX",
		Short: "Look for damage without changing anything",
		Long: `Look for damage without changing anything: at every page, record, index and total of a file, and
whether it is the file that stood here last; in a database, at every record and the totals. With --key-file
also whether every record of a sealed outbox opens. The exit status is 4 when something was found.

No till may have the file open.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			where, err := f.fileArgs(cmd, args)
			if err != nil {
				return err
			}
			v := verification{Outbox: where, Problems: []problem{}}
			if isDatabase(where) {
				v.Outbox = "the database"
				err = f.verifyRecords(cmd, where, &v, true)
			} else {
				err = f.verifyFile(cmd, where, &v)
			}
			if err != nil {
				return err
			}
			if err := f.printVerification(cmd, &v); err != nil {
				return err
			}
			if len(v.Problems) > 0 {
				return exitError{status: exitFound}
			}
			return nil
		},
	}
}

func (f *outboxFlags) verifyFile(cmd *cobra.Command, path string, v *verification) error {
	var bar *progress
	got, err := verifyFile(cmd.Context(), path, bolt.VerifyOptions{LockTimeout: lockTimeout, Progress: func(read, size int64) {
		if bar == nil {
			bar = newProgress(cmd.ErrOrStderr(), "verifying", size, true)
		}
		bar.to(read)
	}})
	if bar != nil {
		bar.end()
	}
	if err != nil {
		return notBeside(cmd, err)
	}
	v.Size, v.Records, v.Unfinished = got.Size, got.Records, got.Unfinished
	for _, p := range got.Problems {
		v.Problems = append(v.Problems, problem{p.Text, p.AtOpen})
	}
	if f.keyFile == "" || len(v.Problems) > 0 {
		return nil // opening it would change it
	}
	return f.verifyRecords(cmd, path, v, false)
}

// verifyRecords reads every record through its engine. With check set it also looks whether each keeps the
// rules, and whether the totals are theirs.
func (f *outboxFlags) verifyRecords(cmd *cobra.Command, where string, v *verification, check bool) error {
	ctx := cmd.Context()
	engine, closeEngine, err := f.openEngine(ctx, where)
	if err != nil {
		return err
	}
	err = readAll(ctx, cmd, engine, v, check)
	v.Sealed = f.keyFile != ""
	return errors.Join(err, closeEngine())
}

func readAll(ctx context.Context, cmd *cobra.Command, engine outbox.Engine, v *verification, check bool) error {
	counts, err := engine.Counts(ctx, "")
	if err != nil {
		return err
	}
	v.Records = counts.Total()
	v.Unfinished = unfinishedOf(counts)
	bar := newProgress(cmd.ErrOrStderr(), "verifying", int64(v.Records), false)
	defer bar.end()
	found := map[outbox.State]int{}
	for q := (outbox.Query{Limit: inspect.MaxPage}); ; {
		page, err := engine.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Records {
			r := &page.Records[i]
			bar.step()
			found[r.State]++
			if r.Result != nil && r.Result.Reason == "sealed" { // the engine's word for what does not open
				v.Problems = append(v.Problems, problem{fmt.Sprintf("operation %s was sealed with another key, or changed", clean(r.ID)), bolt.OpenIgnores})
			} else if err := r.Check(); check && err != nil {
				v.Problems = append(v.Problems, problem{clean(err.Error()), bolt.OpenIgnores})
			}
		}
		if q.After = page.Next; page.Next == "" {
			break
		}
	}
	after, err := engine.Counts(ctx, "")
	if err != nil || !check {
		return err
	}
	for _, s := range outbox.States() {
		// In a database the work goes on meanwhile: only what did not change can be compared.
		if counts.States[s] == after.States[s] && counts.LastSeq == after.LastSeq && found[s] != counts.States[s] {
			v.Problems = append(v.Problems, problem{fmt.Sprintf("%d operations are %s, and the totals say %d", found[s], s, counts.States[s]), bolt.OpenIgnores})
		}
	}
	return nil
}

// unfinishedOf counts what is waiting or parked.
func unfinishedOf(c outbox.Counts) (n int) {
	for _, s := range unfinished {
		n += c.States[s]
	}
	return n
}

func (f *outboxFlags) printVerification(cmd *cobra.Command, v *verification) error {
	if f.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %d of them not over", v.Outbox, plural(v.Records, "operation"), v.Unfinished)
	if v.Size > 0 {
		fmt.Fprintf(&b, ", %d KiB", (v.Size+1023)/1024)
	}
	b.WriteByte('\n')
	for _, p := range v.Problems {
		fmt.Fprintf(&b, "problem: %s\n  when it is opened: %s\n", p.Text, openDoes[p.AtOpen])
	}
	if len(v.Problems) == 0 {
		b.WriteString("nothing is wrong\n")
	} else {
		fmt.Fprintf(&b, "%s\n", plural(len(v.Problems), "problem"))
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
	return err
}
