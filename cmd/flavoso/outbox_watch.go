package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go/internal/inspect"
)

func (f *outboxFlags) newWatch() *cobra.Command {
	var (
		interval   time.Duration
		drained    bool
		connection string
	)
	cmd := &cobra.Command{
		Use:   "watch OUTBOX",
		Short: "Say how the outbox stands whenever that changes, until interrupted",
		Long: `Say how the outbox stands whenever that changes, until interrupted. A file is opened for a moment at each
look only, so that a till can start meanwhile; from then on the till is asked.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			where, _, err := f.args(args, "")
			if err != nil {
				return err
			}
			if interval <= 0 {
				return usagef("--interval must be more than nothing")
			}
			tick := time.NewTicker(interval)
			defer tick.Stop()
			var last *inspect.Status
			for {
				var s inspect.Status
				err := f.with(cmd.Context(), where, func(src source) (err error) {
					s, err = src.Status(cmd.Context(), connection)
					return err
				})
				switch {
				case cmd.Context().Err() != nil:
					return nil
				case err != nil:
					return err
				}
				if last == nil || !sameStatus(*last, s) {
					if err := f.printWatched(cmd, &s); err != nil {
						return err
					}
				}
				if last = &s; drained && s.Waiting() == 0 {
					return nil
				}
				select {
				case <-tick.C:
				case <-cmd.Context().Done():
					return nil
				}
			}
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "how often to look")
	cmd.Flags().BoolVar(&drained, "until-drained", false, "end when nothing waits any more")
	cmd.Flags().StringVar(&connection, "connection", "", "only this connection's")
	return cmd
}

// sameStatus compares all but when it was looked.
func sameStatus(a, b inspect.Status) bool {
	a.AsOf, b.AsOf = time.Time{}, time.Time{}
	return reflect.DeepEqual(a, b)
}

func (f *outboxFlags) printWatched(cmd *cobra.Command, s *inspect.Status) error {
	if f.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", s.AsOf.Local().Format("15:04:05"), summary(s))
	return err
}
