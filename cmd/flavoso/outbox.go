package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/flavoso/flavoso-go/outbox"
)

// outboxFlags are what all commands on an outbox have in common.
type outboxFlags struct {
	inspect      string
	keyFile      string
	asJSON       bool
	yes          bool
	allowNetwork bool
	schema       string

	errOut io.Writer // where people are told what is not the answer
}

func newOutbox() *cobra.Command {
	f := &outboxFlags{}
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Look into an outbox, and decide what nothing else can decide",
		Long: `Look into an outbox, and decide what nothing else can decide.

OUTBOX is the till's outbox file, or how a PostgreSQL database is reached (postgres://… or "host=… dbname=…",
without the password: PGPASSWORD and ~/.pgpass are used). While a till has the file open, the command asks the till itself, if it
offers that (flavoso.ListenInspect); --inspect URL asks a till at another place, and OUTBOX is left out. The
token for it comes from the environment variable FLAVOSO_INSPECT_TOKEN.

Commands that only show change nothing. Those that change something say what they would do, and do it with
--yes, or when a person at a terminal agrees. Bodies of requests and answers hold guests' names: they are
left out unless --bodies asks for them.

The exit status is 0 when it is done, 1 when it failed, 2 when the command line makes no sense, 3 when a
running till holds the outbox, 4 when verify found something, 5 when nothing was changed because nobody
agreed, 6 when the outbox is sealed and no given key opens it.

docs/operator.md of the SDK explains the states and what to do about each.`,
		Args:             cobra.ArbitraryArgs,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) { f.errOut = cmd.ErrOrStderr() },
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return usagef("unknown command %q for %q\nSee %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
		},
	}
	p := cmd.PersistentFlags()
	p.StringVar(&f.inspect, "inspect", "", "URL where a running till lets its outbox be inspected; OUTBOX is left out then")
	p.StringVar(&f.keyFile, "key-file", "", "file with the keys of a sealed outbox, one a line in hex or base64")
	p.BoolVar(&f.asJSON, "json", false, "print JSON, one object a line")
	p.BoolVar(&f.yes, "yes", false, "do it, without asking")
	p.StringVar(&f.schema, "schema", "", "schema of the tables in a database; default: the first of the search path")
	p.BoolVar(&f.allowNetwork, "allow-network", false, "open a file on a network file system; make sure that no till uses it")
	cmd.AddCommand(f.newStatus(), f.newList(), f.newShow(), f.newRetry(), f.newCancel(), f.newResolve(), f.newResume(),
		f.newExport(), f.newVerify(), f.newAdopt(), f.newCompact(), f.newWatch())
	return cmd
}

// args checks a command line and takes the outbox off its front: there is none with --inspect. rest says how
// many more there must be.
func (f *outboxFlags) args(args []string, rest string) (where string, others []string, err error) {
	if f.inspect == "" {
		if len(args) == 0 {
			return "", nil, usagef("which outbox? Give its file, the URL of its database, or --inspect URL of a running till")
		}
		where, args = args[0], args[1:]
	}
	switch {
	case rest == "" && len(args) > 0:
		return "", nil, usagef("too many arguments: %s", strings.Join(args, " "))
	case rest != "" && len(args) == 0:
		return "", nil, usagef("%s is missing", rest)
	}
	return where, args, nil
}

// fileArgs is args for commands that work on a file alone.
func (f *outboxFlags) fileArgs(cmd *cobra.Command, args []string) (string, error) {
	if f.inspect != "" {
		return "", usagef("%s works on the file itself, while no till runs: leave --inspect out", cmd.Name())
	}
	where, _, err := f.args(args, "")
	return where, err
}

// notBeside says what to do when a running till has the file that a command works on itself.
func notBeside(cmd *cobra.Command, err error) error {
	var held *outbox.LockedError
	if !errors.As(err, &held) {
		return err
	}
	text := fmt.Sprintf("%s works on the file itself: stop the till first", cmd.Name())
	if a, err := addressOf(held); err == nil {
		text += fmt.Sprintf(". It answers at %s meanwhile: flavoso outbox status %s asks it", a.URL, held.Path)
	}
	return fmt.Errorf("%w. %s", held, text)
}

// confirm returns nil when what is to be done may be done: --yes was given, or a person at a terminal agrees.
func (f *outboxFlags) confirm(cmd *cobra.Command, what string) error {
	if f.yes {
		return nil
	}
	errOut := cmd.ErrOrStderr()
	fmt.Fprintf(errOut, "This would be done:\n%s", indent(what))
	in, terminal := cmd.InOrStdin().(*os.File)
	if !terminal || !term.IsTerminal(int(in.Fd())) {
		return exitError{exitUnconfirmed, errors.New("nothing was changed: repeat it with --yes")}
	}
	fmt.Fprint(errOut, "Go on? [y/N] ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return exitError{exitUnconfirmed, errors.New("nothing was changed")}
	}
	return nil
}

// indent puts every line of a text two columns to the right, and ends it.
func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n"
}
