// Command flavoso is the toolbox of the Flavoso SDK: a look into a till's outbox and what an operator decides
// about it, a mock server for POS software in any language, and a check of the documented contract against
// any server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go/outbox"
)

// What the program's exit status says.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitHeld        = 3 // a running till has the outbox open
	exitFound       = 4 // verify found something
	exitUnconfirmed = 5 // nothing was changed: --yes is missing, or somebody said no
	exitSealed      = 6 // the outbox is sealed, and no given key opens it
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// exitError ends the program with a status of its own. Without an error the message was printed already.
type exitError struct {
	status int
	err    error
}

func (e exitError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("exit status %d", e.status)
}

func (e exitError) Unwrap() error { return e.err }

// usagef is the error for a command line that makes no sense.
func usagef(format string, args ...any) error {
	return exitError{exitUsage, fmt.Errorf(format, args...)}
}

// run executes one command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	began := notesBeginning(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var exit exitError
	switch {
	case errors.As(err, &exit):
	case !*began:
		exit = exitError{exitUsage, fmt.Errorf("%w\nSee %s --help", err, cmd.CommandPath())}
	case errors.Is(err, outbox.ErrLocked):
		exit = exitError{exitHeld, err}
	case errors.Is(err, outbox.ErrSealed):
		exit = exitError{exitSealed, err}
	default:
		exit = exitError{exitFailed, err}
	}
	if exit.err != nil {
		fmt.Fprintf(stderr, "flavoso: %v\n", exit.err)
	}
	return exit.status
}

// notesBeginning makes every command note that it began: an error before that is one of usage.
func notesBeginning(root *cobra.Command) *bool {
	began := new(bool)
	var wrap func(*cobra.Command)
	wrap = func(cmd *cobra.Command) {
		if do := cmd.RunE; do != nil {
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				*began = true
				return do(cmd, args)
			}
		}
		for _, c := range cmd.Commands() {
			wrap(c)
		}
	}
	wrap(root)
	return began
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "flavoso",
		Short:         "Tools for POS software that talks to Flavoso",
		Version:       buildVersion().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.AddCommand(newOutbox(), newMock(), newConformance(), newVersion())
	return root
}
