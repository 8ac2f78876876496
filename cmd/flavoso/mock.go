package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/flavoso/flavoso-go/mockserver"
)

func newMock() *cobra.Command {
	var (
		addr     string
		open     bool
		seed     uint64
		useTLS   bool
		caFile   string
		switches []string
		orders   int
		connect  string
	)
	cmd := &cobra.Command{
		Use:   "mock",
		Short: "Run a mock Flavoso next to a POS",
		Long: `Run a mock Flavoso next to a POS.

The API is served under /v1, and an admin API for tests in any language under /_mock/: orders that
arrive, faults, the clock, and what really happened. The command runs until it is interrupted.`,
		Example: `  flavoso mock
  flavoso mock --addr 127.0.0.1:4010 --orders 3 --switch hold_from=receipt
  curl -H 'Authorization: Bearer mock_store-42' http://127.0.0.1:4010/v1/orders`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkAddr(addr); err != nil {
				return err
			}
			if !cmd.Flags().Changed("open") {
				open = isLoopback(addr)
			}
			opts := []mockserver.Option{
				mockserver.WithAddr(addr), mockserver.WithSeed(seed),
			}
			set := mockserver.DefaultSwitches()
			for _, s := range switches {
				name, value, _ := strings.Cut(s, "=")
				if err := set.Set(name, value); err != nil {
					return err
				}
			}
			opts = append(opts, mockserver.WithSwitches(func(s *mockserver.Switches) { *s = set }))
			if !open {
				opts = append(opts, mockserver.RequireKnownTokens())
			}
			if useTLS {
				opts = append(opts, mockserver.WithTLS())
			}
			srv, err := mockserver.New(opts...)
			if errors.Is(err, syscall.EADDRINUSE) {
				return fmt.Errorf("%s is in use by another program; choose another port with --addr (127.0.0.1:0 takes a free one)", addr)
			}
			if err != nil {
				return err
			}
			if useTLS {
				if err := os.WriteFile(caFile, srv.CertPEM(), 0o600); err != nil {
					return errors.Join(err, srv.Close())
				}
			}
			if orders > 0 {
				srv.AddOrders(connect, orders)
			}
			announce(cmd, srv, addr, open, caFile, useTLS)
			<-cmd.Context().Done()
			fmt.Fprintln(cmd.OutOrStdout(), "stopping")
			return srv.Close()
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "addr", "127.0.0.1:4010", "host:port to listen on; port 0 takes a free one")
	f.BoolVar(&open, "open", true, "accept mock_<connection> as that connection's token (default: only on loopback)")
	f.Uint64Var(&seed, "seed", 1, "where ids, orders and random faults come from; the same seed tells the same story")
	f.BoolVar(&useTLS, "tls", false, "serve https with a certificate made for this run")
	f.StringVar(&caFile, "ca-file", "flavoso-mock-ca.pem", "with --tls: where to write the certificate to trust")
	f.StringArrayVar(&switches, "switch", nil, "set a reading of the contract, such as hold_from=receipt (repeatable; docs/mock.md lists them)")
	f.IntVar(&orders, "orders", 0, "let so many realistic orders arrive at the start")
	f.StringVar(&connect, "connection", "store-42", "with --orders: the connection they arrive at")
	return cmd
}

func announce(cmd *cobra.Command, srv *mockserver.Server, addr string, open bool, caFile string, useTLS bool) {
	out := cmd.OutOrStdout()
	origin := strings.TrimSuffix(srv.BaseURL(), "/v1")
	fmt.Fprintf(out, "listening on %s\n", origin)
	fmt.Fprintf(out, "base URL for a POS: %s\n", srv.BaseURL())
	if everywhere(addr) {
		fmt.Fprintln(out, "other machines reach it too, at any address of this one")
	}
	if open {
		fmt.Fprintln(out, "token of a connection: mock_<connection>, for example mock_store-42")
	} else {
		fmt.Fprintf(out, "tokens: POST %s/_mock/connections {\"connection\":\"store-42\"}\n", origin)
	}
	if useTLS {
		fmt.Fprintf(out, "certificate to trust: %s\n", caFile)
	}
}

// checkAddr refuses an address that cannot be one, and says how it is written.
func checkAddr(addr string) error {
	if _, port, err := net.SplitHostPort(addr); err == nil && port != "" {
		return nil
	}
	example := "127.0.0.1:4010"
	if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
		example = "127.0.0.1:" + addr
	}
	return usagef("--addr takes host:port, such as %s, not %q", example, addr)
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// everywhere reports whether a listener on addr takes connections to every address of the machine.
func everywhere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && (host == "" || net.ParseIP(host).IsUnspecified())
}
