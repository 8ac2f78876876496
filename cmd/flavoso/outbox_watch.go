package main

import (
	"context"
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
			var last *inspect.Status
			var failing time.Time // since when; zero = the last look succeeded
			for {
				var s inspect.Status
				err := f.with(cmd.Context(), where, func(src source) (err error) {
					s, err = src.Status(cmd.Context(), connection)
					return err
				})
				if cmd.Context().Err() != nil {
					return nil
				}
				if err != nil {
					// A till that starts or stops has its file open for a moment without answering.
					if failing.IsZero() {
						failing = time.Now()
					}
					if last == nil || time.Since(failing) > watchPatience {
						return err
					}
					if !next(cmd.Context(), interval) {
						return nil
					}
					continue
				}
				failing = time.Time{}
				if last == nil || !sameStatus(*last, s) {
					if err := f.printWatched(cmd, &s); err != nil {
						return err
					}
				}
				if last = &s; drained && s.Waiting() == 0 {
					return nil
				}
				if !next(cmd.Context(), interval) {
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

// watchPatience is how long watch goes on although it cannot look.
const watchPatience = 5 * time.Second

// next waits from one look to the next, however long a look takes, so that a till finds its file free; false = it was
// interrupted.
func next(ctx context.Context, interval time.Duration) bool {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
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
