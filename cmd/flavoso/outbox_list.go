package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
)

// filter is the selection of operations on a command line.
type filter struct {
	states                           []string
	connection, lane, kind, tag, key string
	unacked, bodies                  bool
}

func (x *filter) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&x.states, "state", nil, "only these states; waiting, parked and final stand for several")
	f.StringVar(&x.connection, "connection", "", "only this connection's")
	f.StringVar(&x.lane, "lane", "", "only this lane's")
	f.StringVar(&x.kind, "kind", "", "only this kind of call, such as orders.accept")
	f.StringVar(&x.tag, "tag", "", "only with this reference of the till's own")
	f.StringVar(&x.key, "key", "", "only with this logical key")
	f.BoolVar(&x.unacked, "unacked", false, "only outcomes that the till has not taken over, in the order they became known")
	f.BoolVar(&x.bodies, "bodies", false, "with the bodies of requests and answers: they hold guests' names")
	names := []string{"waiting", "parked", "final"}
	for _, s := range outbox.States() {
		names = append(names, string(s))
	}
	// It fails for a flag that does not exist only.
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// query returns the selection; without a choice of states, fallback.
func (x *filter) query(fallback []outbox.State) (outbox.Query, error) {
	states, err := inspect.ParseStates(x.states)
	if err != nil {
		return outbox.Query{}, exitError{exitUsage, fmt.Errorf("--state: %w", err)}
	}
	if states == nil && !x.unacked && x.key == "" && x.tag == "" {
		states = fallback
	}
	return outbox.Query{Connection: x.connection, States: states, Lane: x.lane, Kind: x.kind, Tag: x.tag, Key: x.key,
		Unacked: x.unacked, ByOutcome: x.unacked, Bodies: x.bodies}, nil
}

// unfinished are the states that list shows unless it is asked for others.
var unfinished = []outbox.State{outbox.Queued, outbox.Sent, outbox.Uncertain, outbox.Blocked, outbox.Damaged}

// tableRows is how many operations list shows to people unless it is asked for another number.
const tableRows = 100

func (f *outboxFlags) newList() *cobra.Command {
	var (
		x     filter
		all   bool
		limit int
	)
	cmd := &cobra.Command{
		Use:   "list OUTBOX",
		Short: "List operations: those that are not over, unless asked for others",
		Example: `  flavoso outbox list pos.outbox
  flavoso outbox list pos.outbox --state uncertain,blocked
  flavoso outbox list pos.outbox --all --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			where, _, err := f.args(args, "")
			if err != nil {
				return err
			}
			fallback := unfinished
			if all {
				fallback = nil
			}
			q, err := x.query(fallback)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("limit") && !f.asJSON {
				limit = tableRows
			}
			var ops []inspect.Operation
			var status inspect.Status
			var more bool
			err = f.with(cmd.Context(), where, func(src source) (err error) {
				if f.asJSON {
					enc := json.NewEncoder(cmd.OutOrStdout())
					_, err = each(cmd.Context(), src, q, limit, func(o inspect.Operation) error { return enc.Encode(o) })
					return err
				}
				if status, err = src.Status(cmd.Context(), x.connection); err != nil {
					return err
				}
				more, err = each(cmd.Context(), src, q, limit, func(o inspect.Operation) error {
					ops = append(ops, o)
					return nil
				})
				return err
			})
			if err != nil || f.asJSON {
				return err
			}
			return printList(cmd, ops, more, &status)
		},
	}
	x.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "also what is over")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many; 0 = all (default: 100 for people, all with --json)")
	return cmd
}

func printList(cmd *cobra.Command, ops []inspect.Operation, more bool, status *inspect.Status) error {
	var b strings.Builder
	if len(ops) > 0 {
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tCONNECTION\tKIND\tLANE\tSTATE\tTRIES\tAGE\tWHY")
		for i := range ops {
			o := &ops[i]
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", clean(o.ID), clean(o.Connection), clean(o.Kind), clean(o.Lane), o.State,
				o.Attempts, ago(time.Since(o.Created)), shortened(why(o)))
		}
		_ = w.Flush() // to memory
		if more {
			fmt.Fprintf(&b, "and more: --limit 0 shows all\n")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintln(&b, summary(status))
	_, err := fmt.Fprint(cmd.OutOrStdout(), trimLines(b.String()))
	return err
}

// shortened keeps a table's last column to the point; show has the whole text.
func shortened(s string) string {
	const width = 60
	if r := []rune(s); len(r) > width {
		return string(r[:width]) + "…"
	}
	return s
}

// trimLines removes what a table pads its last column with.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func (f *outboxFlags) newStatus() *cobra.Command {
	var connection string
	cmd := &cobra.Command{
		Use:   "status OUTBOX",
		Short: "Say how many operations there are in which state",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			where, _, err := f.args(args, "")
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), where, func(src source) error {
				s, err := src.Status(cmd.Context(), connection)
				if err != nil {
					return err
				}
				return f.printStatus(cmd, &s)
			})
		},
	}
	cmd.Flags().StringVar(&connection, "connection", "", "only this connection's")
	return cmd
}

func (f *outboxFlags) printStatus(cmd *cobra.Command, s *inspect.Status) error {
	if f.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
	}
	var b strings.Builder
	fmt.Fprintln(&b, summary(s))
	for _, state := range outbox.States() {
		if n := s.States[state]; n > 0 {
			fmt.Fprintf(&b, "%10d %s\n", n, state)
		}
	}
	for _, r := range s.Reports {
		fmt.Fprintf(&b, "found %s: %s\n", stamp(r.At), clean(describeReport(outbox.Report(r))))
	}
	for _, path := range s.Aside {
		if !slices.ContainsFunc(s.Reports, func(r inspect.Report) bool { return r.Aside == path }) {
			fmt.Fprintf(&b, "kept aside since a damage: %s\n", clean(path))
		}
	}
	if t := s.Till; t != nil {
		fmt.Fprintf(&b, "asked the running till: process %d, SDK %s, connection %s\n", t.PID, clean(t.Version), clean(t.Connection))
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
	return err
}
