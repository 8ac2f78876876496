// Command server is a small order service that does nothing twice, on PostgreSQL. The README walks through it.
//
// POST /orders is local work: effect and stored answer are one transaction (pgidem.NewHandler). POST /charges has
// an effect at a bank, which no transaction can contain: it is marked before it starts, and what nobody knows is
// reconciled.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flavoso/flavoso-go/postgres/internal/pgtest"
)

func main() {
	var c config
	flag.StringVar(&c.dsn, "dsn", "", "PostgreSQL connection string; empty = a throw-away server from the binaries installed here")
	flag.StringVar(&c.addr, "addr", "127.0.0.1:4020", "address to listen on")
	flag.DurationVar(&c.reconcileEvery, "reconcile-every", 0, "how often unknown charges are looked into; 0 = only on POST /reconcile")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	c.ready = func(addr string) { fmt.Printf("listening on http://%s\n", addr) }
	if err := run(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

type config struct {
	dsn, addr      string
	reconcileEvery time.Duration
	log            *slog.Logger
	ready          func(addr string)
}

// run serves until ctx ends, and returns when everything it started has ended.
func run(ctx context.Context, c config) (err error) {
	if c.dsn == "" {
		cluster, err := pgtest.StartCluster(true)
		if err != nil {
			return fmt.Errorf("no -dsn, and no throw-away server: %w", err)
		}
		defer func() { err = errors.Join(err, cluster.Stop()) }()
		c.dsn = cluster.DSN("postgres")
	}
	pool, err := pgxpool.New(ctx, c.dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	listener, err := net.Listen("tcp", c.addr)
	if err != nil {
		return err
	}
	base := "http://" + listener.Addr().String()
	s, err := newService(ctx, pool, base, c.log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	background := make(chan struct{})
	go func() {
		defer close(background)
		s.upkeep(ctx, c.reconcileEvery)
	}()
	server := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	c.ready(listener.Addr().String())
	select {
	case err = <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = server.Shutdown(grace)
	<-background
	return err
}
