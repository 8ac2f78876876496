package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go"
	"github.com/flavoso/flavoso-go/outbox/bolt"
)

// version is what flavoso version prints.
type version struct {
	Version      string `json:"version"`            // of this command's module
	Commit       string `json:"commit,omitempty"`   // where it was built from a checkout
	Modified     bool   `json:"modified,omitempty"` // and the checkout had changes of its own
	SDK          string `json:"sdk"`
	Go           string `json:"go"`
	Platform     string `json:"platform"`
	OutboxFormat int    `json:"outbox_format"` // the newest layout of outbox files it reads
}

// buildVersion reads what the Go tool noted in the binary.
func buildVersion() version {
	v := version{Version: "(devel)", SDK: flavoso.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		OutboxFormat: bolt.FormatVersion}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what this program was built from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := buildVersion()
			out := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(v)
			}
			built := v.Version
			if v.Commit != "" {
				built += ", commit " + v.Commit
			}
			if v.Modified {
				built += " with changes"
			}
			_, err := fmt.Fprintf(out, "flavoso %s\nSDK %s\n%s %s\noutbox files up to format %d\n", built, v.SDK, v.Go, v.Platform, v.OutboxFormat)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}
