package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
)

func (f *outboxFlags) newExport() *cobra.Command {
	var (
		x      filter
		output string
	)
	cmd := &cobra.Command{
		Use:   "export OUTBOX",
		Short: "Write operations as JSON, one a line, for support and audit",
		Example: `  flavoso outbox export pos.outbox -o operations.jsonl
  flavoso outbox export pos.outbox --state rejected --connection store-42`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			where, _, err := f.args(args, "")
			if err != nil {
				return err
			}
			q, err := x.query(nil)
			if err != nil {
				return err
			}
			n := 0
			write := func(w io.Writer) error {
				return f.with(cmd.Context(), where, func(src source) error {
					n, err = export(cmd, src, q, w)
					return err
				})
			}
			if output == "" {
				return write(cmd.OutOrStdout())
			}
			if err := writeWhole(output, write); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s written to %s\n", plural(n, "operation"), output)
			return err
		},
	}
	x.flags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "the file to write to (mode 0600, replaced as a whole); default: standard output")
	return cmd
}

// export writes what q selects and returns how many operations that were.
func export(cmd *cobra.Command, src source, q outbox.Query, w io.Writer) (n int, err error) {
	s, err := src.Status(cmd.Context(), q.Connection)
	if err != nil {
		return 0, err
	}
	total := 0
	for state, count := range s.States {
		if len(q.States) == 0 || slices.Contains(q.States, state) {
			total += count
		}
	}
	bar := newProgress(cmd.ErrOrStderr(), "exporting", int64(total), false)
	defer bar.end()
	buffered := bufio.NewWriter(w)
	enc := json.NewEncoder(buffered)
	_, err = each(cmd.Context(), src, q, 0, func(o inspect.Operation) error {
		n++
		bar.step()
		return enc.Encode(o)
	})
	return n, errors.Join(err, buffered.Flush())
}

// writeWhole puts a file into place when all of it was written, and leaves what was there otherwise.
func writeWhole(path string, write func(io.Writer) error) error {
	t, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	err = write(t)
	if err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		_ = os.Remove(t.Name())
	}
	return err
}
