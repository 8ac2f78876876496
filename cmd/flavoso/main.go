// Command flavoso is the toolbox of the Flavoso SDK: a mock server for POS software in any language, and
// a check of the documented contract against any server.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// exitError ends the program with a status of its own; the message was printed already.
type exitError struct{ status int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// run executes one command line and returns the exit status: 0 = done, 1 = failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.status
	default:
		fmt.Fprintf(stderr, "flavoso: %v\n", err)
		return 1
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "flavoso",
		Short:         "Tools for POS software that talks to Flavoso",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newMock(), newConformance())
	return root
}
