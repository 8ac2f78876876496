package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go/mockserver/conformance"
)

func newConformance() *cobra.Command {
	var (
		target    conformance.Target
		asJSON    bool
		noControl bool
		template  string
	)
	cmd := &cobra.Command{
		Use:   "conformance --url URL --token TOKEN",
		Short: "Check a server against the documented contract, F1 to F17",
		Long: `Check a server against the documented contract, F1 to F17, by raw HTTP.

It makes bookings of its own, far ahead and named conformance-…, and cancels them at the end. At a mock
server it also lets orders arrive, makes requests crash and moves the server's clock (for every
connection of it); --no-control keeps it from that. Clauses that cannot be checked are skipped by name.

The exit status is 0 when no clause failed, 1 when one did, 2 when the server could not be checked.
Tokens can come from the environment: FLAVOSO_TOKEN and FLAVOSO_SECOND_TOKEN.`,
		Example: `  flavoso conformance --url http://127.0.0.1:4010/v1 --token mock_store-42 --second-token mock_store-43
  flavoso conformance --url https://sandbox.example/v1 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if target.BaseURL == "" {
				return usagef("--url is required: the API's base URL, such as http://127.0.0.1:4010/v1")
			}
			if target.Token == "" {
				target.Token = os.Getenv("FLAVOSO_TOKEN")
			}
			if target.SecondToken == "" {
				target.SecondToken = os.Getenv("FLAVOSO_SECOND_TOKEN")
			}
			if template != "" {
				var err error
				if target.Booking, err = bookingFrom(template); err != nil {
					return err
				}
			}
			if !noControl {
				// No mock server: then the clauses that need one are skipped, and say so.
				target.Control, _ = conformance.MockControl(cmd.Context(), target)
			}
			results, err := conformance.Check(cmd.Context(), target)
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "flavoso: %s\n", strings.TrimPrefix(err.Error(), "conformance: "))
				return exitError{status: 2}
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), results)
			} else {
				err = writeTable(cmd.OutOrStdout(), results)
			}
			if err == nil && count(results, conformance.Fail) > 0 {
				return exitError{status: exitFailed}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&target.BaseURL, "url", "", "the API's base URL, with its /v1 (required)")
	f.StringVar(&target.Token, "token", "", "an access token (or FLAVOSO_TOKEN)")
	f.StringVar(&target.SecondToken, "second-token", "", "a token of another connection, for F4 (or FLAVOSO_SECOND_TOKEN)")
	f.BoolVar(&asJSON, "json", false, "print the results as JSON")
	f.StringVar(&template, "booking-file", "", "the body of a booking, where the server wants another one; {ref} and {starts_at} are filled in")
	f.BoolVar(&noControl, "no-control", false, "do not use a mock server's admin API")
	return cmd
}

// bookingFrom makes bookings from a file: {ref} becomes the reference, {starts_at} an instant a month ahead.
func bookingFrom(file string) (func(ref string, now time.Time) []byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(string(text), "{ref}") {
		return nil, fmt.Errorf("%s has no {ref}: bookings of the check must differ", file)
	}
	return func(ref string, now time.Time) []byte {
		at := now.AddDate(0, 1, 0).UTC().Truncate(time.Hour).Format(time.RFC3339)
		return []byte(strings.NewReplacer("{ref}", ref, "{starts_at}", at).Replace(string(text)))
	}, nil
}

func count(results []conformance.Result, s conformance.Status) int {
	n := 0
	for _, r := range results {
		if r.Status == s {
			n++
		}
	}
	return n
}

func writeJSON(w io.Writer, results []conformance.Result) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{
		"results": results, "passed": count(results, conformance.Pass), "failed": count(results, conformance.Fail),
		"skipped": count(results, conformance.Skip),
	})
}

func writeTable(w io.Writer, results []conformance.Result) error {
	var errs []error
	say := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format, args...)
		errs = append(errs, err)
	}
	for _, r := range results {
		say("%-4s  %-4s %s\n", r.Status, r.Clause, r.Name)
		if r.Detail != "" {
			say("           %s\n", r.Detail)
		}
	}
	say("%d passed, %d failed, %d skipped\n", count(results, conformance.Pass), count(results, conformance.Fail), count(results, conformance.Skip))
	return errors.Join(errs...)
}
