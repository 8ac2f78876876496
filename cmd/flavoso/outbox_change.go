package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go/internal/inspect"
	"github.com/flavoso/flavoso-go/outbox"
)

// change is a command that changes operations.
type change struct {
	verb string                                                       // "cancel"
	can  func(o *inspect.Operation) error                             // says why an operation does not allow it
	do   func(ctx context.Context, src source, id string) (err error) // does it
}

// change says what is to be done to the operations, asks, and does it. The outbox is not open while it asks.
func (f *outboxFlags) change(cmd *cobra.Command, args []string, c change) error {
	where, ids, err := f.args(args, "the operation's ID")
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	var plan strings.Builder
	err = f.with(ctx, where, func(src source) error {
		for _, id := range ids {
			o, err := src.Show(ctx, id, false)
			if err == nil {
				err = c.can(&o)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(&plan, "%s %s (%s of lane %s, %s)\n", c.verb, clean(o.ID), clean(o.Kind), clean(o.Lane), o.State)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.confirm(cmd, plan.String()); err != nil {
		return err
	}
	return f.with(ctx, where, func(src source) error {
		var errs []error
		for _, id := range ids {
			err := c.do(ctx, src, id)
			if err == nil {
				err = f.printChanged(ctx, cmd.OutOrStdout(), src, id)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// printChanged shows an operation after a change.
func (f *outboxFlags) printChanged(ctx context.Context, w io.Writer, src source, id string) error {
	o, err := src.Show(ctx, id, false)
	if err != nil {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(w).Encode(o)
	}
	_, err = fmt.Fprintf(w, "%s is %s now\n", clean(o.ID), o.State)
	return err
}

// refuse is the error for an operation that does not allow what was asked.
func refuse(o *inspect.Operation, format string, args ...any) error {
	return fmt.Errorf("operation %s is %s: %s", clean(o.ID), o.State, fmt.Sprintf(format, args...))
}

func (f *outboxFlags) newRetry() *cobra.Command {
	return &cobra.Command{
		Use:   "retry OUTBOX ID...",
		Short: "Make waiting operations due at once",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, args, change{
				verb: "retry at once",
				can: func(o *inspect.Operation) error {
					if !o.State.Waiting() {
						return refuse(o, "only what waits can be retried; resolve --send-again is for what is parked")
					}
					return nil
				},
				do: func(ctx context.Context, src source, id string) error { return src.Retry(ctx, id) },
			})
		},
	}
}

func (f *outboxFlags) newCancel() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel OUTBOX ID...",
		Short: "Withdraw operations that provably were never sent",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, args, change{
				verb: "cancel",
				can: func(o *inspect.Operation) error {
					if o.State != outbox.Queued && o.State != outbox.Blocked || !o.FirstSent.IsZero() || o.Suspect {
						return refuse(o, "only what provably was never sent can be cancelled; resolve --abandon gives up the rest")
					}
					return nil
				},
				do: func(ctx context.Context, src source, id string) error { return src.Cancel(ctx, id) },
			})
		},
	}
}

func (f *outboxFlags) newResolve() *cobra.Command {
	var (
		done, again, abandon bool
		bodyFile, note       string
	)
	cmd := &cobra.Command{
		Use:   "resolve OUTBOX ID... --done|--send-again|--abandon",
		Short: "Decide operations whose outcome nothing else can tell",
		Long: `Decide operations whose outcome nothing else can tell. Look at Flavoso first.

--done: it was done; --body-file has what the call would have answered, if the till needs it.
--send-again: it was not done, or doing it again is right. It is sent with the same key and the same bytes.
--abandon: it is given up. Nobody knows whether it was done, and it is not sent again.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := inspect.Resolution{Note: note}
			switch {
			case done:
				r.Decision = "done"
			case again:
				r.Decision = "send_again"
			default:
				r.Decision = "abandon"
			}
			if bodyFile != "" {
				if !done {
					return usagef("--body-file goes with --done: it is what the call would have answered")
				}
				b, err := os.ReadFile(bodyFile)
				if err != nil {
					return err
				}
				if !json.Valid(b) {
					return usagef("%s is not JSON", bodyFile)
				}
				r.Body = b
			}
			return f.change(cmd, args, change{
				verb: "resolve as " + strings.ReplaceAll(r.Decision, "_", " "),
				can:  func(o *inspect.Operation) error { return canResolve(o, r.Decision) },
				do:   func(ctx context.Context, src source, id string) error { return src.Resolve(ctx, id, r) },
			})
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&done, "done", false, "it was done")
	fl.BoolVar(&again, "send-again", false, "it was not done: send it again, with the same key and bytes")
	fl.BoolVar(&abandon, "abandon", false, "give it up")
	fl.StringVar(&bodyFile, "body-file", "", "with --done: a file with the JSON that the call would have answered")
	fl.StringVar(&note, "note", "", "who decided, and why; kept with the operation")
	cmd.MarkFlagsOneRequired("done", "send-again", "abandon")
	cmd.MarkFlagsMutuallyExclusive("done", "send-again", "abandon")
	return cmd
}

func canResolve(o *inspect.Operation, decision string) error {
	switch {
	case o.State.Final():
		return refuse(o, "it is over")
	case decision == "send_again" && o.State == outbox.Damaged:
		return refuse(o, "nobody knows its bytes any more, so it cannot be sent. Resolve it as done or abandon it, and do it again at the till")
	case decision == "send_again" && o.State.Waiting():
		return refuse(o, "it is sent by itself; retry makes it due at once")
	}
	return nil
}

func (f *outboxFlags) newResume() *cobra.Command {
	var connection string
	cmd := &cobra.Command{
		Use:   "resume OUTBOX LANE",
		Short: "Let a lane go on that a rejection has stopped",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			where, lanes, err := f.args(args, "the lane")
			if err != nil {
				return err
			}
			if len(lanes) > 1 {
				return usagef("one lane at a time")
			}
			ctx, r := cmd.Context(), inspect.Resume{Connection: connection, Lane: lanes[0]}
			var ids []string
			err = f.with(ctx, where, func(src source) error {
				ids, err = blockedOf(ctx, src, &r)
				return err
			})
			if err != nil {
				return err
			}
			what := fmt.Sprintf("resume lane %s of %s: %s to wait again\n", clean(r.Lane), clean(r.Connection), plural(len(ids), "blocked operation"))
			if err := f.confirm(cmd, what); err != nil {
				return err
			}
			return f.with(ctx, where, func(src source) error {
				if err := src.Resume(ctx, r); err != nil {
					return err
				}
				var errs []error
				for _, id := range ids {
					errs = append(errs, f.printChanged(ctx, cmd.OutOrStdout(), src, id))
				}
				return errors.Join(errs...)
			})
		},
	}
	cmd.Flags().StringVar(&connection, "connection", "", "the lane's connection; needed when several have a lane of that name")
	return cmd
}

// blockedOf returns the blocked operations of a lane, and fills in its connection when only one has it.
func blockedOf(ctx context.Context, src source, r *inspect.Resume) (ids []string, err error) {
	q := outbox.Query{Connection: r.Connection, Lane: r.Lane, States: []outbox.State{outbox.Blocked}}
	_, err = each(ctx, src, q, 0, func(o inspect.Operation) error {
		if r.Connection != "" && r.Connection != o.Connection {
			return usagef("several connections have a lane %s: say which with --connection", clean(r.Lane))
		}
		r.Connection = o.Connection
		ids = append(ids, o.ID)
		return nil
	})
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("lane %s has no blocked operations", clean(r.Lane))
	}
	return ids, err
}
