package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go/internal/inspect"
)

func (f *outboxFlags) newShow() *cobra.Command {
	var bodies bool
	cmd := &cobra.Command{
		Use:   "show OUTBOX ID...",
		Short: "Show everything that is known of an operation, and what can be done about it",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			where, ids, err := f.args(args, "the operation's ID")
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), where, func(src source) error {
				for i, id := range ids {
					o, err := src.Show(cmd.Context(), id, bodies)
					if err != nil {
						return err
					}
					if f.asJSON {
						err = json.NewEncoder(cmd.OutOrStdout()).Encode(o)
					} else {
						_, err = fmt.Fprint(cmd.OutOrStdout(), strings.Repeat("\n", min(i, 1)), describe(&o, bodies))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&bodies, "bodies", false, "with the bodies of request and answer: they hold guests' names")
	return cmd
}

// describe shows an operation to people.
func describe(o *inspect.Operation, bodies bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, clean(value))
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			row(name, stamp(t))
		}
	}
	row("id", o.ID)
	row("state", string(o.State))
	row("kind", o.Kind)
	row("connection", o.Connection)
	row("lane", o.Lane)
	row("tag", o.Tag)
	row("resource", o.Resource)
	row("request", o.Method+" "+o.Target)
	row("key", o.Key)
	if o.WireKey != o.Key {
		row("key as sent", o.WireKey)
	}
	at("accepted", o.Created)
	if o.FirstSent.IsZero() && !o.State.Final() {
		row("first sent", "provably never")
	}
	at("first sent", o.FirstSent)
	row("attempts", fmt.Sprint(o.Attempts))
	if a := o.LastAttempt; a != nil {
		row("last attempt", fmt.Sprintf("number %d, %s: %s", a.N, stamp(a.Start), attemptText(a)))
		row("request id", a.RequestID)
	}
	at("next attempt", o.Next)
	at("expires", o.Expires)
	at("ended", o.Finished)
	if !o.State.Waiting() {
		row("why", why(o))
		row("decided by", o.RequestID)
	}
	row("replaced by", o.SupersededBy)
	row("note", o.Note)
	if o.Suspect {
		row("suspect", "from a restored or salvaged outbox: counts as sent since it was accepted")
	}
	if o.Acked {
		row("taken over", "by the till")
	}
	row("message", o.Message)
	if bodies {
		row("request body", string(o.RequestBody))
		row("answer body", string(o.Body))
	} else {
		row("bodies", "left out; --bodies shows them")
	}
	_ = w.Flush() // to memory
	if a := advice[o.State]; a != "" {
		b.WriteString(indent(a))
	}
	return trimLines(b.String())
}
